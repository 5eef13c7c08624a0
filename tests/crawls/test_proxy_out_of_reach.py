"""A proxy that cannot be reached: its address and the reason are said, and no credential."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from crawl_kit import crawl
from days import SECONDS, pages
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from scrapy_resiproxy.components.unreachable import LINES_AT_MOST, Unreachable, in_words
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.tunnel.errors import TunnelFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANARY = "canary-pa55"
UNREACHABLE = Outcome(OutcomeClass.TRANSIENT, "proxy_unreachable", Blame.PROXY)
TLS = Outcome(OutcomeClass.TRANSIENT, "tls_error", Blame.TARGET)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on and that nobody else gets."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_closed_port_is_named_once_and_again_where_the_circuit_opens(
    scheme: str, closed_port: int, tmp_path: Path
) -> None:
    settings = {**SECONDS, "RESIPROXY_PROXY": f"http://u-{{session}}:{CANARY}@127.0.0.1:{closed_port}"}
    crawled = crawl(tmp_path / "crawl", pages(8, scheme=scheme), settings)
    gateway = f"http://127.0.0.1:{closed_port}"
    said = [line for line in crawled.lines("ERROR") if "cannot be reached" in line]
    assert len(said) == 1
    assert f"The proxy {gateway} cannot be reached: connection refused. The first request that met this: <" in said[0]
    assert any(
        f"The proxy {gateway} is down (connection refused): its circuit is open, nothing is sent through it for" in line
        for line in crawled.lines("WARNING")
    )
    assert any(
        f"The proxy {gateway} is given up for this run (circuit_open; connection refused)" in line
        for line in crawled.lines("ERROR")
    )
    assert CANARY not in crawled.text_of_all_files()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_does_not_resolve_is_said_so(scheme: str, tmp_path: Path) -> None:
    settings = {**SECONDS, "RESIPROXY_PROXY": f"http://u:{CANARY}@no-such-gateway.invalid:7000"}
    crawled = crawl(tmp_path / "crawl", pages(1, scheme=scheme), settings)
    (said,) = [line for line in crawled.lines("ERROR") if "cannot be reached" in line]
    assert "The proxy http://no-such-gateway.invalid:7000 cannot be reached: its name does not resolve." in said
    assert CANARY not in crawled.log


def test_a_site_that_goes_down_is_said_with_what_it_answered(day: Any) -> None:
    with day("down") as today:
        crawled = today.crawl(pages(8))
    assert any("shop.example is down (transient/unavailable): its circuit" in line for line in crawled.lines("WARNING"))


def test_a_site_that_refuses_every_session_is_not_called_down(day: Any) -> None:
    with day("block403:pages=0") as today:
        crawled = today.crawl(pages(60), {"RESIPROXY_CIRCUIT_IDENTITY_RATIO": 0.5, "RESIPROXY_MAX_ATTEMPTS": 2})
    opened = [line for line in crawled.lines("WARNING") if "its circuit is open" in line]
    assert opened
    assert all("shop.example refuses us (identity/" in line for line in opened[:1])


@pytest.mark.parametrize(
    ("exception", "said"),
    [
        (DownloadConnectionRefusedError("x"), "connection refused"),
        (CannotResolveHostError("x"), "its name does not resolve"),
        (DownloadTimeoutError("x"), "no answer in time"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "no name server answers"),
        (ConnectionResetError("x"), "it closes the connection"),
        (TunnelFailed("x", phase="connect", reason="refused"), "connection refused"),
        (TunnelFailed("x", phase="answer", reason="reset"), "it closes the connection"),
        (DownloadFailedError("it is\nodd"), "DownloadFailedError: it is"),
        (DownloadFailedError(f"http://u:{CANARY}@h:1 is odd"), "DownloadFailedError: http://***@h:1 is odd"),
    ],
    ids=[
        "refused",
        "no name",
        "timeout",
        "no name server",
        "reset",
        "tunnel refused",
        "tunnel reset",
        "unknown",
        "unknown, with a credential",
    ],
)
def test_the_reason_is_told_in_words(exception: Exception, said: str) -> None:
    assert in_words(exception) == said


@pytest.mark.parametrize(
    ("proxy", "url", "outcome", "lines"),
    [
        ("http://h:1", "http://shop.example/", UNREACHABLE, 1),
        ("https://h:1", "http://shop.example/", TLS, 1),
        ("https://h:1", "https://shop.example/", TLS, 0),
        ("http://h:1", "https://shop.example/", TLS, 0),
        ("http://h:1", "http://shop.example/", Outcome(OutcomeClass.TRANSIENT, "network_down", Blame.LOCAL), 1),
        ("http://h:1", "http://shop.example/", Outcome(OutcomeClass.TRANSIENT, "timeout"), 0),
    ],
    ids=["unreachable", "TLS of the proxy", "TLS of anybody", "TLS of the site", "no route", "a slow site"],
)
def test_only_what_is_the_proxys_is_said_of_it(
    proxy: str, url: str, outcome: Outcome, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Unreachable()
    for _ in range(2):
        seen.note(proxy, Request(url), outcome, DownloadFailedError("x"))
    assert len(caplog.records) == lines


def test_of_a_long_list_that_is_gone_only_the_first_are_said(caplog: pytest.LogCaptureFixture) -> None:
    seen = Unreachable()
    for port in range(1, 100):
        seen.note(f"http://h:{port}", Request("http://shop.example/"), UNREACHABLE, DownloadFailedError("x"))
    assert len(caplog.records) == LINES_AT_MOST
