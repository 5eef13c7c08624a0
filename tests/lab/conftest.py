"""One running lab for all tests, and plain clients for it: http.client for answers, sockets for what is none."""

from __future__ import annotations

import base64
import socket
import ssl
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from scrapy_resiproxy.lab import (
    Block403,
    Down,
    Drip,
    EmptyList,
    Flaky,
    Missing,
    Ok,
    Outage,
    RateLimit,
    RedirectBlock,
    RunningLab,
    ShortList,
    SoftBlock,
    Truncated,
    Unauthorized,
    running_lab,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
"""Seconds after which what should come will not come any more."""
BEHAVIOURS = {
    "ok.example": Ok(),
    "padded.example": Ok(padding=5000),
    "slow.example": Ok(latency=0.01),
    "down.example": Down(),
    "busy.example": Down(how="503", retry_after=7),
    "reset.example": Down(how="reset"),
    "close.example": Down(how="close"),
    "hang.example": Down(how="hang"),
    "refuse.example": Down(how="refuse"),
    "outage.example": Outage(duration=600),
    "flaky.example": Flaky(p=1),
    "ratelimit.example": RateLimit(rate=0.001, burst=2),
    "generic.example": SoftBlock(pages=2),
    "cloudflare.example": SoftBlock(pages=0, look="cloudflare"),
    "lookalike.example": SoftBlock(pages=0, look="validator-only"),
    "block403.example": Block403(pages=2),
    "redirect.example": RedirectBlock(pages=1),
    "empty.example": EmptyList(p=1),
    "short.example": ShortList(p=1, once=False),
    "truncated.example": Truncated(),
    "chunked.example": Truncated(chunked=True),
    "drip.example": Drip(seconds=0.05),
    "login.example": Unauthorized(),
    "wall.example": Unauthorized(challenge=False),
    "missing.example": Missing(),
    "changing.example": Down(),
}


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def marker(self) -> str:
        return self.text.partition('<meta name="lab-page" content="')[2].partition('"')[0]


def _authorization(proxy: str) -> dict[str, str]:
    url = urlsplit(proxy)
    if url.username is None:
        return {}
    credentials = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(credentials.encode()).decode()}


def _got(answer: HTTPResponse) -> Got:
    text = answer.read().decode()
    return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)


class Clients:
    """Asks one lab, over http through the gateway, https through a tunnel, or directly."""

    def __init__(self, lab: RunningLab) -> None:
        self.lab = lab

    def get(self, url: str, session: str = "a1", *, method: str = "GET", body: bytes | None = None) -> Got:
        proxy = self.lab.proxy(session)
        connection = HTTPConnection(urlsplit(self.lab.gateway).netloc, timeout=PATIENCE)
        try:
            connection.request(method, url, body, headers=_authorization(proxy))
            return _got(connection.getresponse())
        finally:
            connection.close()

    def tunnel(self, host: str, session: str = "a1") -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.lab.ca))
        connection = HTTPSConnection(urlsplit(self.lab.gateway).netloc, timeout=PATIENCE, context=context)
        connection.set_tunnel(host, 443, _authorization(self.lab.proxy(session)))
        return connection

    def get_https(self, host: str, path: str, session: str = "a1") -> Got:
        connection = self.tunnel(host, session)
        try:
            connection.request("GET", path)
            return _got(connection.getresponse())
        finally:
            connection.close()

    def get_direct(self, path: str, headers: dict[str, str] | None = None) -> Got:
        connection = HTTPConnection(urlsplit(self.lab.site).netloc, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=headers or {})
            return _got(connection.getresponse())
        finally:
            connection.close()

    def connect(self, target: str, session: str = "a1") -> Got:
        """Send a CONNECT and return what the gateway says to it."""
        with self.raw() as sock:
            lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
            lines += [f"{name}: {value}" for name, value in _authorization(self.lab.proxy(session)).items()]
            sock.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = HTTPResponse(sock, method="CONNECT")
            answer.begin()
            return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, "")

    def raw(self) -> socket.socket:
        """Return a connection to the gateway."""
        url = urlsplit(self.lab.gateway)
        return socket.create_connection((url.hostname, url.port), timeout=PATIENCE)

    def request_bytes(self, url: str, session: str = "a1", *, rest: str = "") -> bytes:
        """Return a GET in absolute form with credentials, as bytes."""
        header = _authorization(self.lab.proxy(session))["Proxy-Authorization"]
        host = urlsplit(url).netloc
        return f"GET {url} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: {header}\r\n{rest}\r\n".encode()

    def rows(self, host: str, event: str = "request") -> list[dict[str, object]]:
        return [row for row in self.lab.ledger() if row["event"] == event and row.get("host") == host]

    def eventually(self, true: Callable[[], object]) -> None:
        """Ask until `true` says so: for what the lab learns a moment after its client does."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.005)


@pytest.fixture(scope="session")
def lab() -> Iterator[RunningLab]:
    with running_lab(BEHAVIOURS, items=50) as running:
        yield running


@pytest.fixture
def clients(lab: RunningLab) -> Clients:
    return Clients(lab)


@pytest.fixture
def make_clients() -> type[Clients]:
    return Clients
