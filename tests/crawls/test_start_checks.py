"""What stops a crawl at its start, or is said there: the order of middlewares, handlers that cannot use the proxy."""

from __future__ import annotations

import gzip
import logging
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import scrapy
from crawl_kit import crawl
from scrapy import Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.utils.test import get_crawler

from scrapy_resiproxy import ResiproxyMiddleware
from scrapy_resiproxy.components.checks import check_components
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROXY = "http://u-{session}:canary-pa55@gateway.example:7000"
OURS = "scrapy_resiproxy.ResiproxyMiddleware"
HTTPX = "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler"
STOCK = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
TUNNEL = "scrapy_resiproxy.TunnelDownloadHandler"


class OwnMetaRefresh(MetaRefreshMiddleware):
    pass


class OwnCompression(HttpCompressionMiddleware):
    pass


class OwnProxy(HttpProxyMiddleware):
    pass


class OwnResiproxy(ResiproxyMiddleware):
    pass


def check(order: dict[Any, int | None], *, proxy: str | None = PROXY, **settings: Any) -> None:
    """Look at a crawl with *order* over Scrapy's own; RetryMiddleware is off, its usual handlers are on."""
    proxied = {} if proxy is None else {"RESIPROXY_PROXY": proxy}
    settings["DOWNLOAD_HANDLERS"] = {"http": STOCK, "https": STOCK, **settings.get("DOWNLOAD_HANDLERS", {})}
    middlewares = {RetryMiddleware: None, **order}
    crawler = get_crawler(Spider, {"DOWNLOADER_MIDDLEWARES": middlewares, **proxied, **settings})
    crawler.spider = Spider.from_crawler(crawler, name="shop")
    check_components(Crawl.of(crawler).runtime)


def test_a_country_of_a_target_that_cannot_be_had_is_refused() -> None:
    said = r"^RESIPROXY_TARGETS\['shop\.example'\]\['country'\]: .*RESIPROXY_PROXY has no place for it"
    with pytest.raises(SettingError, match=said):
        check({OURS: 585}, RESIPROXY_TARGETS={"shop.example": {"country": "de"}})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"RESIPROXY_PROVIDER": "nobody"}, "RESIPROXY_PROVIDER 'nobody': it must be one of "),
        ({"RESIPROXY_PROVIDER": "oxylabs"}, "RESIPROXY_PROVIDER 'oxylabs' writes the session itself; "),
        ({"RESIPROXY_COUNTRY": "de"}, "RESIPROXY_COUNTRY: country 'de': RESIPROXY_PROXY has no place for it; "),
        (
            {"RESIPROXY_COUNTRY": "germany", "RESIPROXY_PROVIDER": "decodo", "proxy": "http://user:pass@gw.example:1"},
            "RESIPROXY_COUNTRY: country 'germany' is not a two-letter code",
        ),
        (
            {"RESIPROXY_COUNTRY": "de", "proxy": ["http://a.example:1", "http://b.example:1"]},
            "RESIPROXY_COUNTRY: country 'de': a list of endpoints has no place for a country",
        ),
        ({"proxy": "http://u-{country}:p@gw.example:1"}, "RESIPROXY_PROXY holds {country}: RESIPROXY_COUNTRY must "),
        ({"proxy": "ftp://gw.example:1"}, "RESIPROXY_PROXY: proxy '***': the scheme must be one of "),
        (
            {"RESIPROXY_PROVIDER": "decodo", "proxy": "http://gw.example:1"},
            "RESIPROXY_PROVIDER 'decodo' with 'http://gw.example:1': it needs the user name and the password",
        ),
    ],
)
def test_a_mistake_is_told_under_the_name_of_the_setting_that_is_wrong(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=f"^{re.escape(named)}") as caught:
        check({OURS: 585}, **settings)
    assert "\n" not in str(caught.value)


RIGHT: dict[str, tuple[dict[Any, int | float | None], dict[str, Any]]] = {
    "ours as documented": ({OURS: 585}, {}),
    "ours just above": ({OURS: 580.5}, {}),
    "ours just below": ({OURS: 589}, {}),
    "not there": ({}, {}),
    "nothing compressed": ({OURS: 610, HttpCompressionMiddleware: None}, {}),
    "compression off": ({OURS: 610}, {"COMPRESSION_ENABLED": False}),
    "no meta refresh": ({OURS: 550, MetaRefreshMiddleware: None}, {}),
    "meta refresh off": ({OURS: 550}, {"METAREFRESH_ENABLED": False}),
    "all moved": (
        {OURS: 400, MetaRefreshMiddleware: 399, HttpCompressionMiddleware: 401, HttpProxyMiddleware: 402},
        {},
    ),
    "subclasses instead": (
        {
            OURS: 300,
            MetaRefreshMiddleware: None,
            HttpCompressionMiddleware: None,
            HttpProxyMiddleware: None,
            OwnMetaRefresh: 200,
            OwnCompression: 400,
            OwnProxy: 400,
        },
        {},
    ),
    "a subclass of ours": ({OwnResiproxy: 585}, {}),
    "HttpProxyMiddleware anywhere without a pool": ({OURS: 585, HttpProxyMiddleware: 300}, {"proxy": None}),
    "HttpProxyMiddleware off without a pool": ({OURS: 585, HttpProxyMiddleware: None}, {"proxy": None}),
    "HttpProxyMiddleware anywhere where we only look on": (
        {OURS: 585, HttpProxyMiddleware: 300},
        {"RESIPROXY_MODE": "observe"},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_order_that_works_is_taken(name: str) -> None:
    order, settings = RIGHT[name]
    check(order, **settings)


WRONG: dict[str, tuple[dict[Any, int | float | None], dict[str, Any], str, str]] = {
    "after decompression": ({OURS: 610}, {}, "at 610", "httpcompression.HttpCompressionMiddleware at 590"),
    "beside the wire": ({OURS: 950}, {}, "at 950", "httpcompression.HttpCompressionMiddleware at 590"),
    "beside the wire, nothing compressed": (
        {OURS: 950},
        {"COMPRESSION_ENABLED": False},
        "at 950",
        "httpproxy.HttpProxyMiddleware at 750",
    ),
    "meta refresh sees it first": ({OURS: 550}, {}, "at 550", "redirect.MetaRefreshMiddleware at 580"),
    "HttpProxyMiddleware is early": (
        {OURS: 585, HttpProxyMiddleware: 300},
        {},
        "at 585",
        "httpproxy.HttpProxyMiddleware at 300",
    ),
    "a subclass of HttpProxyMiddleware is early": (
        {OURS: 585, HttpProxyMiddleware: None, OwnProxy: 300},
        {},
        "at 585",
        "OwnProxy at 300",
    ),
    "a subclass of decompression is early": ({OURS: 585, OwnCompression: 100}, {}, "at 585", "OwnCompression at 100"),
    "a subclass of meta refresh is late": ({OURS: 585, OwnMetaRefresh: 800}, {}, "at 585", "OwnMetaRefresh at 800"),
    "a subclass of ours": ({OwnResiproxy: 610}, {}, "OwnResiproxy at 610", "HttpCompressionMiddleware at 590"),
    "without a pool": ({OURS: 610}, {"proxy": None}, "at 610", "HttpCompressionMiddleware at 590"),
    "where we only look on": ({OURS: 610}, {"RESIPROXY_MODE": "observe"}, "at 610", "HttpCompressionMiddleware at 590"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_order_is_one_line_with_both_their_numbers_and_what_is_allowed(name: str) -> None:
    order, settings, ours, other = WRONG[name]
    with pytest.raises(SettingError) as caught:
        check(order, **settings)
    line = str(caught.value)
    assert line.startswith("DOWNLOADER_MIDDLEWARES has ")
    assert f"{ours} and " in line
    assert f"{other}: " in line
    assert " must be " in line
    assert "\n" not in line
    assert "canary-pa55" not in line


def test_what_is_allowed_names_every_neighbour_with_its_number() -> None:
    with pytest.raises(SettingError) as caught:
        check({OURS: 610})
    assert str(caught.value).endswith(
        "ResiproxyMiddleware must be above MetaRefreshMiddleware (580), below HttpCompressionMiddleware (590), "
        "below HttpProxyMiddleware (750)."
    )


def test_where_no_number_is_allowed_the_others_must_move() -> None:
    for other, number in ((OwnMetaRefresh, 590), (OwnProxy, 580)):
        with pytest.raises(SettingError, match=r"; no number is all of that, so move the others\.$"):
            check({OURS: 585, other: number})
    with pytest.raises(SettingError, match=r"must be below HttpCompressionMiddleware \(590\)\.$"):
        check({OURS: 610}, METAREFRESH_ENABLED=False, proxy=None)


def test_of_equal_numbers_the_order_decides_that_comes_of_them() -> None:
    """Scrapy's base comes first, so at its number we are nearer to the wire."""
    check({OURS: 580})
    with pytest.raises(SettingError, match="HttpCompressionMiddleware at 590"):
        check({OURS: 590})


def test_credentials_that_nobody_makes_a_header_of_are_refused() -> None:
    with pytest.raises(SettingError, match="HTTPPROXY_ENABLED"):
        check({OURS: 585}, HTTPPROXY_ENABLED=False)
    with pytest.raises(SettingError, match="DOWNLOADER_MIDDLEWARES switches off"):
        check({OURS: 585, HttpProxyMiddleware: None})


class Interstitial(BaseHTTPRequestHandler):
    """A proxy that answers everything with a challenge page, gzipped."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = gzip.compress(b"<html><head><title>Just a moment...</title></head><body></body></html>")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[ThreadingHTTPServer]:
    Interstitial.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Interstitial) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    "order",
    [
        {OURS: 610},
        {OURS: 950},
        {"scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": 300},
    ],
    ids=["decompression", "the wire", "HttpProxyMiddleware"],
)
def test_a_wrong_order_sends_nothing_and_shows_no_credential(
    order: dict[str, int], gateway: ThreadingHTTPServer, tmp_path: Path
) -> None:
    proxy = f"http://u-{{session}}:canary-pa55@127.0.0.1:{gateway.server_address[1]}"
    settings = {"RESIPROXY_PROXY": proxy, "DOWNLOADER_MIDDLEWARES": order}
    crawled = crawl(tmp_path / "crawl", ["http://shop.example/item/1"], settings)
    said = crawled.lines("ERROR")
    assert len(said) == 1
    assert "DOWNLOADER_MIDDLEWARES has " in said[0]
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.pages
    assert not Interstitial.asked
    assert "canary-pa55" not in crawled.text_of_all_files()


# Handlers that cannot use the proxy

AS_HTTPS = PROXY.replace("http:", "https:")


@pytest.mark.parametrize(
    ("proxy", "settings"),
    [
        (AS_HTTPS, {}),
        (AS_HTTPS.upper().replace("{SESSION}", "{session}"), {}),
        ([PROXY.replace("-{session}", ""), AS_HTTPS.replace("-{session}", "")], {}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"https": HTTP11DownloadHandler}}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"https": TUNNEL}}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"https": TUNNEL}, "RESIPROXY_TUNNEL_FALLBACK_HANDLER": STOCK}),
    ],
    ids=["alone", "in capitals", "in a list", "by class", "ours", "ours, with its fallback named"],
)
def test_https_pages_through_an_https_proxy_get_a_line_at_the_start(
    proxy: Any, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "scrapy_resiproxy"):
        check({OURS: 585}, proxy=proxy, **settings)
    (line,) = (record.getMessage() for record in caplog.records if "https proxy" in record.getMessage())
    assert line.startswith("RESIPROXY_PROXY is an https proxy")
    assert "http://" in line
    assert HTTPX in line
    assert "canary-pa55" not in line.lower()


@pytest.mark.parametrize(
    ("proxy", "settings"),
    [
        (PROXY, {}),
        (None, {}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"http": HTTPX, "https": HTTPX}}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"https": TUNNEL}, "RESIPROXY_TUNNEL_FALLBACK_HANDLER": HTTPX}),
        (AS_HTTPS, {"DOWNLOAD_HANDLERS": {"https": "spider_that.is.not.There"}}),
    ],
    ids=["an http proxy", "no proxy", "httpx", "ours over httpx", "an unknown handler"],
)
def test_nothing_is_said_of_proxies_that_work(
    proxy: str | None, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    if scrapy.version_info[:2] < (2, 16) and HTTPX in settings.get("DOWNLOAD_HANDLERS", {}).values():
        pytest.skip("this Scrapy's httpx handler knows no proxies")
    with caplog.at_level(logging.WARNING, "scrapy_resiproxy"):
        check({OURS: 585}, proxy=proxy, **settings)
    assert "https proxy" not in caplog.text


def test_a_socks_proxy_is_refused_for_the_handler_that_would_get_it() -> None:
    socks = PROXY.replace("http:", "SOCKS5:")
    with pytest.raises(SettingError, match="RESIPROXY_PROXY is a SOCKS proxy, which the http download handler HTTP11"):
        check({OURS: 585}, proxy=socks)
    with pytest.raises(SettingError, match="the https download handler HTTP11DownloadHandler cannot use"):
        check({OURS: 585}, proxy=socks, DOWNLOAD_HANDLERS={"http": "not.there.Handler", "https": TUNNEL})


# The dead-letter feed


def test_a_feed_of_ones_own_that_cannot_be_made_stops_the_crawl_for_every_user(tmp_path: Path) -> None:
    """Root may do everything, on paper."""
    settings = {"RESIPROXY_DEADLETTER_FILE": "/proc/letters/%(name)s.jsonl"}
    crawled = crawl(tmp_path / "crawl", ["http://127.0.0.1:9/item/1"], settings)
    said = crawled.lines("ERROR")
    assert len(said) == 1
    assert "RESIPROXY_DEADLETTER_FILE is '/proc/letters/%(name)s.jsonl': /proc/letters" in said[0]
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.errors


# What the add-on itself reads


@pytest.mark.parametrize("value", ["maybe", None])
@pytest.mark.parametrize("name", ["RESIPROXY_ENABLED", "RESIPROXY_TUNNEL_ENABLED"])
def test_a_switch_that_is_neither_on_nor_off_is_one_line_and_sends_nothing(
    name: str, value: str | None, tmp_path: Path
) -> None:
    crawled = crawl(tmp_path / "crawl", ["http://127.0.0.1:9/item/1"], {name: value})
    (said,) = crawled.lines("ERROR")
    assert said.endswith(f"{name} is {value!r}; it must be True or False.")
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.errors
    assert "Traceback" not in crawled.log
