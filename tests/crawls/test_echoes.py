"""A proxy that repeats our user name and password in whatever it answers."""

from __future__ import annotations

import base64
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import scrapy
from crawl_kit import crawl
from days import SECONDS, pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "canaryCustomer7", "canary-pa55+word"

HTTPX = "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler"
AIOHTTP = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
HANDLERS: dict[str, dict[str, Any]] = {
    "our tunnels": {},
    "scrapy's": {"RESIPROXY_TUNNEL_ENABLED": False},
    "httpx": {"DOWNLOAD_HANDLERS": {"http": HTTPX, "https": HTTPX}},
    "aiohttp": {"TWISTED_REACTOR_ENABLED": False, "DOWNLOAD_HANDLERS": {"http": AIOHTTP, "https": AIOHTTP}},
}
if scrapy.version_info < (2, 16):
    del HANDLERS["httpx"]  # It ignores proxies.
if scrapy.version_info < (2, 19):
    del HANDLERS["aiohttp"]


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 407

    def answer(self) -> None:
        token = self.headers.get("Proxy-Authorization", "").partition(" ")[2]
        login = base64.b64decode(token).decode()
        user = login.partition(":")[0]
        said = f"{login} {token} {quote(login, safe='')} {user} {USER}"
        body = f"<h1>{said}</h1>".encode()
        self.send_response(self.status, f"Unknown user {said}")
        self.send_header("Proxy-Authenticate", f'Basic realm="{said}"')
        self.send_header("X-Error-Description", f"no such user: {said}")
        self.send_header("X-Brd-Error", said)
        self.send_header("Location", f"http://{login}@help.example/?user={quote(login)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_CONNECT = answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def echoing(status: int) -> Iterator[str]:
    """The address of a proxy that answers everything with *status*."""
    handler = type("Echo", (Echo,), {"status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("status", [407, 403, 502])
def test_what_a_proxy_repeats_of_our_login_is_written_nowhere(
    tmp_path: Path, handler: str, scheme: str, status: int
) -> None:
    with echoing(status) as address:
        proxy = f"http://{USER}-session-{{session}}:{quote(PASSWORD, safe='')}@{address}"
        settings = {**SECONDS, "RESIPROXY_MAX_ATTEMPTS": 2, "RESIPROXY_PROXY": proxy, **HANDLERS[handler]}
        crawled = crawl(tmp_path / "crawl", pages(3, scheme=scheme), settings)
    assert len(crawled.letters) == 3
    if status == 502:
        # An exception that is no refusal goes on to the errback as it is.
        (crawled.directory / "notes.jsonl").unlink()
    else:
        assert {error["error"] for error in crawled.errors} <= {"ProxyRefused"}
    written = crawled.text_of_all_files()
    encoded = [base64.b64encode(f"{' ' * shift}{USER}".encode()).decode()[4:16] for shift in range(3)]
    for secret in (PASSWORD, quote(PASSWORD, safe=""), USER, *encoded):
        assert [line for line in written.splitlines() if secret in line] == []
