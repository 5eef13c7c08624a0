"""The download handler at work, one scenario after the other; prints what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import sys
import tempfile
import traceback
from pathlib import Path

from scrapy.utils.reactor import install_reactor

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

from live_servers import Proxy, Site
from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
    NotConfigured,
    NotSupported,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler
from tunnel_kit import CANARY, LOGIN
from twisted.internet import reactor, task
from twisted.logger import globalLogPublisher

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.tunnel_handler import TunnelDownloadHandler, tunnels_of
from scrapy_resiproxy.tunnel.errors import TunnelFailed
from scrapy_resiproxy.tunnel.ledger import read_rows

PATIENCE = 60.0
"""Seconds after which a scenario hangs."""


class Elsewhere(BaseDownloadHandler):
    """A fallback that remembers what it was given."""

    lazy = False

    def __init__(self, crawler):
        super().__init__(crawler)
        self.closed = 0

    async def download_request(self, request):
        return Response(request.url, body=b"elsewhere")

    async def close(self):
        self.closed += 1


class Lab:
    """One origin, one proxy, and handlers made to order."""

    def __init__(self, good, foreign):
        self.site = Site(good)
        self.foreign = Site(foreign)
        self.proxy = Proxy(self.site.port)
        self.handlers = []

    def handler(self, **settings):
        crawler = get_crawler(Spider, {"DOWNLOAD_TIMEOUT": 20, **settings})
        crawler.spider = crawler._create_spider("x")
        handler = build_from_crawler(TunnelDownloadHandler, crawler)
        self.handlers.append(handler)
        return handler

    def request(self, path="ok", *, host="localhost", login=LOGIN, session=None, proxy=None, headers=(), **kwargs):
        meta = {"proxy": proxy or f"http://127.0.0.1:{self.proxy.port}", **kwargs.pop("meta", {})}
        if session:
            meta["_resiproxy"] = {"session": session}
        headers = {**dict(headers), **({"Proxy-Authorization": login} if login else {})}
        return Request(f"https://{host}:{self.site.port}/{path}", meta=meta, headers=headers, **kwargs)

    async def get(self, handler, path="ok", **kwargs):
        return await handler.download_request(self.request(path, **kwargs))

    async def fails(self, handler, path="ok", **kwargs):
        try:
            await self.get(handler, path, **kwargs)
        except Exception as error:
            return error
        raise AssertionError("it did not fail")

    async def reset(self):
        for handler in self.handlers:
            await handler.close()
        self.handlers.clear()
        await until(lambda: not self.proxy.open)
        self.proxy.connects.clear()
        self.proxy.answer = None
        self.proxy.origin_port = self.site.port
        self.site.log.clear()


async def until(condition):
    """Let the reactor turn until *condition* holds; what never holds is left to the test's timeout."""
    while not condition():
        await maybe_deferred_to_future(task.deferLater(reactor, 0.01))


async def one_tunnel_for_many_requests(lab):
    handler = lab.handler()
    for _ in range(5):
        assert (await lab.get(handler)).body == b"hello"
    assert len(lab.proxy.connects) == 1
    assert lab.proxy.connects[0].startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % lab.site.port)
    assert LOGIN in lab.proxy.connects[0]


async def sessions_and_logins_do_not_share(lab):
    handler = lab.handler()
    for kwargs in ({"session": "a"}, {"session": "b"}, {"login": b"Basic b3RoZXI6bG9naW4="}, {"login": None}):
        for _ in range(2):
            await lab.get(handler, **kwargs)
    await lab.get(handler, session="a", login=b"Basic b3RoZXI6bG9naW4=")
    assert len(lab.proxy.connects) == 5


async def bind_addresses_do_not_share(lab):
    handler = lab.handler(DOWNLOAD_BIND_ADDRESS="127.0.0.1")
    await lab.get(handler)
    await lab.get(handler, meta={"bindaddress": "127.0.0.2"})
    await lab.get(handler, meta={"bindaddress": ("127.0.0.1", 0)})
    assert len(lab.proxy.connects) == 2


async def parallel_requests_have_a_tunnel_each(lab):
    handler = lab.handler()
    await asyncio.gather(*(lab.get(handler) for _ in range(6)))
    assert len(lab.proxy.connects) == 6
    await asyncio.gather(*(lab.get(handler) for _ in range(6)))
    assert len(lab.proxy.connects) == 6


async def the_cap_makes_requests_wait(lab):
    handler = lab.handler(RESIPROXY_TUNNEL_MAX=2)
    await asyncio.gather(*(lab.get(handler, session=f"s{n % 4}") for n in range(12)))
    assert tunnels_of(handler.crawler).stats()["active_max"] == 2


async def what_is_not_https_through_http_goes_elsewhere(lab):
    handler = lab.handler(RESIPROXY_TUNNEL_FALLBACK_HANDLER=Elsewhere)
    for url, proxy in (
        ("http://localhost/", "http://127.0.0.1:1"),
        ("https://localhost/", None),
        ("https://localhost/", "https://127.0.0.1:1"),
        ("https://localhost/", "socks5://127.0.0.1:1"),
    ):
        response = await handler.download_request(Request(url, meta={"proxy": proxy}))
        assert response.body == b"elsewhere", (url, proxy)
    assert lab.proxy.connects == []
    await handler.close()
    assert handler._fallback.closed == 1


async def a_proxy_without_a_scheme_is_an_http_proxy(lab):
    handler = lab.handler()
    assert (await lab.get(handler, proxy=f"127.0.0.1:{lab.proxy.port}")).status == 200
    assert len(lab.proxy.connects) == 1


async def socks_is_refused_and_never_sent_a_connect(lab):
    handler = lab.handler()
    for scheme in ("socks5", "socks5h", "SOCKS4"):
        error = await lab.fails(handler, proxy=f"{scheme}://127.0.0.1:{lab.proxy.port}")
        assert isinstance(error, NotSupported)
        assert "HttpxDownloadHandler" in str(error)
        assert scheme.lower() in str(error)
    assert lab.proxy.connects == []
    assert not lab.proxy.open


async def https_through_an_https_proxy_is_refused_and_never_dialled(lab):
    handler = lab.handler()
    for scheme in ("https", "HTTPS"):
        error = await lab.fails(handler, proxy=f"{scheme}://127.0.0.1:{lab.proxy.port}")
        assert isinstance(error, NotSupported)
        assert "https proxy" in str(error)
    assert lab.proxy.connects == []
    assert not lab.proxy.open


async def a_refusal_keeps_status_headers_and_phase(lab):
    handler = lab.handler()
    lab.proxy.answer = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\n\r\nbody"
    error = await lab.fails(handler)
    assert isinstance(error, TunnelFailed)
    assert isinstance(error, TunnelError)
    assert (error.phase, error.status, error.reason) == ("answer", 429, "Slow down")
    assert error.headers == [(b"Retry-After", b"7")]
    await until(lambda: not lab.proxy.open)


async def ipv6_targets_are_bracketed(lab):
    handler = lab.handler()
    assert (await lab.get(handler, "host", host="[::1]")).body == b"[::1]:%d" % lab.site.port
    assert lab.proxy.connects[0].startswith(b"CONNECT [::1]:%d HTTP/1.1\r\n" % lab.site.port)


async def a_tunnel_that_dies_under_a_get_is_replaced(lab):
    handler = lab.handler()
    for _ in range(10):
        assert (await lab.get(handler, "once")).body == b"first"
    assert len(lab.proxy.connects) == 10
    assert tunnels_of(handler.crawler).stats()["replaced_count"] == 9


async def a_post_is_never_sent_twice(lab):
    handler = lab.handler()
    await lab.get(handler, "once")
    error = await lab.fails(handler, "once", method="POST", body=b"x")
    assert isinstance(error, DownloadFailedError), error
    assert [m for m, _ in lab.site.log] == ["GET", "POST"]


async def meta_may_allow_and_forbid_resending(lab):
    handler = lab.handler()
    await lab.get(handler, "once")
    meta = {"resiproxy_idempotent": True}
    assert (await lab.get(handler, "once", method="POST", body=b"x", meta=meta)).body == b"first"
    error = await lab.fails(handler, "once", meta={"resiproxy_idempotent": False})
    assert isinstance(error, DownloadFailedError)


async def a_timeout_closes_the_tunnel(lab):
    handler = lab.handler()
    for path in ("silent", "slowbody"):
        error = await lab.fails(handler, path, meta={"download_timeout": 0.2})
        assert isinstance(error, DownloadTimeoutError), error
        assert "took longer than 0.2 seconds" in str(error)
    await until(lambda: not lab.proxy.open)


async def a_proxy_that_never_answers_fails_within_the_connect_timeout(lab):
    handler = lab.handler(RESIPROXY_TUNNEL_CONNECT_TIMEOUT=0.3)
    lab.proxy.answer = b"HTTP/1.1 2"
    error = await lab.fails(handler)
    assert (error.phase, error.reason) == ("answer", "timeout")
    assert isinstance(error, DownloadTimeoutError)
    await until(lambda: not lab.proxy.open)


async def a_shorter_download_timeout_wins(lab):
    handler = lab.handler()
    lab.proxy.answer = b"HTTP/1.1 2"
    error = await lab.fails(handler, meta={"download_timeout": 0.2})
    assert isinstance(error, DownloadTimeoutError)
    await until(lambda: not lab.proxy.open)


async def certificates_are_verified_when_asked(lab):
    handler = lab.handler(DOWNLOAD_VERIFY_CERTIFICATES=True)
    assert (await lab.get(handler)).status == 200
    lab.proxy.origin_port = lab.foreign.port
    error = await lab.fails(handler, session="other")
    assert (error.phase, error.reason) == ("tls", "certificate")
    lax = lab.handler()
    assert (await lab.get(lax, session="other")).status == 200


async def a_retired_session_loses_its_tunnels(lab):
    handler = lab.handler()
    tunnels = tunnels_of(handler.crawler)
    await lab.get(handler, session="a")
    await lab.get(handler, session="b")
    assert len(lab.proxy.open) == 2
    tunnels.close_session("a")
    await until(lambda: len(lab.proxy.open) == 1)
    await lab.get(handler, session="b")
    assert len(lab.proxy.connects) == 2
    await lab.get(handler, session="a")
    assert len(lab.proxy.connects) == 3


async def rotating_opens_a_tunnel_for_every_request(lab):
    handler = lab.handler(RESIPROXY_SESSION_MODE="rotate", RESIPROXY_TUNNEL_IDLE_TIMEOUT=10)
    for _ in range(3):
        await lab.get(handler)
    assert len(lab.proxy.connects) == 3
    await until(lambda: not lab.proxy.open)


async def idle_tunnels_are_pinged_unless_held(lab):
    handler = lab.handler(RESIPROXY_TUNNEL_IDLE_TIMEOUT=3, RESIPROXY_TUNNEL_PING_INTERVAL=0.3)
    tunnels = tunnels_of(handler.crawler)
    asked = []
    tunnels.is_held = lambda route: bool(asked.append(route.target))
    await lab.get(handler, headers={"User-Agent": "a"})
    await until(lambda: lab.site.log.count(("HEAD", "/")) >= 3)
    assert len(lab.proxy.connects) == 1
    assert set(asked) == {"localhost"}
    tunnels.is_held = lambda route: True
    await until(lambda: not lab.proxy.open)
    assert tunnels.stats()["close_reason_count/idle"] == 1


async def the_numbers_are_published_when_the_spider_closes(lab):
    handler = lab.handler(LOGSTATS_INTERVAL=0.05)
    crawler = handler.crawler
    await lab.get(handler)
    await lab.get(handler)
    await crawler.signals.send_catch_log_async(signals.spider_opened, spider=crawler.spider)
    await until(lambda: crawler.stats.get_value("resiproxy/tunnel/opened_count") == 1)
    await crawler.signals.send_catch_log_async(signals.spider_closed, spider=crawler.spider, reason="finished")
    await until(lambda: not lab.proxy.open)
    stats = crawler.stats.get_stats()
    assert stats["resiproxy/tunnel/reused_count"] == 1
    assert stats["resiproxy/tunnel/close_reason_count/shutdown"] == 1
    assert 0 < stats["resiproxy/tunnel/overhead_ratio"] < 1
    assert stats["resiproxy/tunnel/bytes_per_tunnel"] > 1000
    assert stats["resiproxy/tunnel/per_hour"] > 0
    assert not reactor.getDelayedCalls() or all("_publish" not in str(c) for c in reactor.getDelayedCalls())


async def without_an_interval_numbers_come_at_the_end_only(lab):
    handler = lab.handler(LOGSTATS_INTERVAL=0)
    crawler = handler.crawler
    await crawler.signals.send_catch_log_async(signals.spider_opened, spider=crawler.spider)
    await crawler.signals.send_catch_log_async(signals.spider_closed, spider=crawler.spider, reason="finished")
    assert crawler.stats.get_value("resiproxy/tunnel/opened_count") == 0


async def what_was_learned_of_idle_tunnels_is_said_at_the_end(lab):
    for settings, said in (({}, True), ({"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 100}, False)):
        handler = lab.handler(**settings)
        tunnels = tunnels_of(handler.crawler)
        for _ in range(3):
            tunnels.idle_times.seen(("proxy", "origin"), 9.96)
        lines = []
        catch = logging.Handler(level=1)
        catch.emit = lambda record, lines=lines: lines.append(record.getMessage())
        logger = logging.getLogger("scrapy_resiproxy.components.tunnel_handler")
        logger.addHandler(catch)
        logger.setLevel(logging.INFO)
        await handler.crawler.signals.send_catch_log_async(signals.spider_closed, spider=None, reason="finished")
        logger.removeHandler(catch)
        assert any("RESIPROXY_TUNNEL_IDLE_TIMEOUT = 10.0" in line for line in lines) == said, lines


async def no_log_line_holds_the_password(lab):
    lines = []

    class Catch(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage() + str(record.exc_info))

    catch = Catch(level=1)
    logging.getLogger().addHandler(catch)
    logging.getLogger().setLevel(1)
    try:
        handler = lab.handler(DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING=True)
        await lab.get(handler)
        lab.proxy.answer = b"HTTP/1.1 407 no customer-7:" + CANARY.encode() + b"\r\n\r\n"
        error = await lab.fails(handler, session="x")
        lines.append("".join(traceback.format_exception(error)) + repr(vars(error)))
        lines.append(repr(tunnels_of(handler.crawler).stats()))
    finally:
        logging.getLogger().removeHandler(catch)
        logging.getLogger().setLevel(logging.WARNING)
    assert any("using protocol TLSv1.3" in line for line in lines)
    assert any("SSL connection certificate" in line for line in lines)
    assert not any(CANARY in line or LOGIN.decode() in line for line in lines)


async def switched_off_it_only_delegates(lab):
    for settings in (
        {"RESIPROXY_TUNNEL_ENABLED": False},
        {"DOWNLOADER_CLIENTCONTEXTFACTORY": "some.Factory"},
    ):
        handler = lab.handler(RESIPROXY_TUNNEL_FALLBACK_HANDLER=Elsewhere, **settings)
        assert (await lab.get(handler)).body == b"elsewhere"


async def a_crawl_knows_whether_its_requests_have_tunnels_of_their_own(lab):
    named, by_class = "scrapy_resiproxy.TunnelDownloadHandler", TunnelDownloadHandler
    for settings, own in (
        ({}, True),
        ({"DOWNLOAD_HANDLERS": {"https": by_class}}, True),
        ({"RESIPROXY_PROXY": "127.0.0.1:1"}, True),
        ({"RESIPROXY_PROXY": "HTTP://u:p@{country}.proxy.example:1", "RESIPROXY_COUNTRY": "de"}, True),
        ({"RESIPROXY_PROXY": None}, False),
        ({"RESIPROXY_TUNNEL_ENABLED": False}, False),
        ({"DOWNLOADER_CLIENTCONTEXTFACTORY": "some.Factory"}, False),
        ({"RESIPROXY_PROXY": "https://u:p@127.0.0.1:1"}, False),
        ({"DOWNLOAD_HANDLERS": {"https": Elsewhere}}, False),
    ):
        proxied = {"RESIPROXY_PROXY": "http://u:p@127.0.0.1:1", "RESIPROXY_SESSION_MODE": "rotate"}
        placed = {"DOWNLOAD_HANDLERS": {"https": named}, "RESIPROXY_TUNNEL_FALLBACK_HANDLER": Elsewhere}
        handler = lab.handler(**{**placed, **proxied, **settings})
        crawl = Crawl.of(handler.crawler)
        crawl._join_tunnels()
        assert crawl.verdicts.own_tunnels is own, settings


async def every_tunnel_leaves_a_line_in_the_ledger(lab):
    with tempfile.TemporaryDirectory() as folder:
        handler = lab.handler(RESIPROXY_TUNNEL_LEDGER=f"{folder}/%(name)s-%(time)s.tsv")
        await lab.get(handler, session="a")
        await lab.get(handler, session="a")
        await lab.get(handler, session="b")
        await handler.close()
        [path] = Path(folder).iterdir()
        assert path.name.startswith("default_spider_name-20") or path.name.startswith("x-20"), path.name
        first, second = read_rows(path)
        assert (first.session, first.requests, first.reason) == ("a", 2, "shutdown")
        assert (second.session, second.origin) == ("b", f"localhost:{lab.site.port}")
        assert CANARY not in path.read_text()


async def a_ledger_that_cannot_be_written_any_more_is_given_up(lab):
    with tempfile.TemporaryDirectory() as folder:
        handler = lab.handler(RESIPROXY_TUNNEL_LEDGER=f"{folder}/l.tsv")
        handler._ledger._file.close()
        handler._ledger._file = open("/dev/full", "w")  # noqa: SIM115
        await lab.get(handler)
        await handler.close()
        assert handler._ledger is None


async def a_wrong_setting_stops_it_with_one_line(lab):
    for name, value in (
        ("RESIPROXY_TUNNEL_MAX", 0),
        ("DOWNLOAD_TLS_MIN_VERSION", "TLSv9"),
        ("RESIPROXY_TUNNEL_LEDGER", "/proc/nowhere/l.tsv"),
        ("RESIPROXY_TUNNEL_LEDGER", "l-%(spider)s.tsv"),
    ):
        try:
            lab.handler(**{name: value})
        except NotConfigured as error:
            assert str(value) in str(error), error
            assert "\n" not in str(error)
        else:
            raise AssertionError(name)


async def it_needs_a_reactor(lab):
    crawler = get_crawler(Spider)
    crawler.settings.frozen = False
    crawler.settings.set("TWISTED_REACTOR_ENABLED", False)
    try:
        TunnelDownloadHandler(crawler)
    except NotConfigured as error:
        assert "reactor" in str(error)
    else:
        raise AssertionError("built without a reactor")


async def tls_versions_are_taken_from_the_settings(lab):
    for settings, version in (
        ({}, "TLSv1.3"),
        ({"DOWNLOAD_TLS_MAX_VERSION": "TLSv1.2"}, "TLSv1.2"),
        ({"DOWNLOADER_CLIENT_TLS_METHOD": "TLSv1.2"}, "TLSv1.2"),
    ):
        handler = lab.handler(**settings)
        await lab.get(handler)
        [tunnel] = tunnels_of(handler.crawler)._pool.open_tunnels()
        assert tunnel.transport.getHandle().get_protocol_version_name() == version, settings


async def there_are_no_tunnels_without_the_handler(lab):
    assert tunnels_of(get_crawler(Spider)) is None


async def a_url_or_proxy_without_host_is_said_so(lab):
    handler = lab.handler()
    for kwargs in ({"proxy": "http://:8080"},):
        error = await lab.fails(handler, **kwargs)
        assert isinstance(error, ValueError)
        assert "without a host name" in str(error)


async def closing_with_a_request_under_way_ends_it(lab):
    handler = lab.handler()
    await lab.get(handler)
    running = asyncio.ensure_future(lab.get(handler, "silent"))
    await until(lambda: ("GET", "/silent") in lab.site.log)
    await handler.close()
    try:
        await running
    except DownloadFailedError:
        pass
    else:
        raise AssertionError("it went on")


async def a_bad_hour_leaves_nothing_behind(lab):
    rng, errors = random.Random(7), []
    globalLogPublisher.addObserver(lambda e: errors.append(e["log_failure"]) if e.get("log_failure") else None)
    handler = lab.handler(RESIPROXY_TUNNEL_MAX=6, RESIPROXY_TUNNEL_IDLE_TIMEOUT=0.5, RESIPROXY_TUNNEL_CONNECT_TIMEOUT=1)
    tunnels = tunnels_of(handler.crawler)
    paths = ("ok", "ok", "chunked", "cutchunk", "nolength", "truncated", "silent", "close", "drop", "halfhead", "once")

    async def worker():
        for _ in range(25):
            if rng.random() < 0.05:
                tunnels.close_session(f"s{rng.randrange(3)}")
            lab.proxy.answer = b"HTTP/1.1 502 x\r\n\r\n" if rng.random() < 0.05 else None
            if rng.random() < 0.1 and lab.proxy.open:
                rng.choice(list(lab.proxy.open)).transport.abortConnection()
            with contextlib.suppress(OSError, DownloadFailedError, DownloadTimeoutError, ResponseDataLossError):
                await lab.get(
                    handler,
                    rng.choice(paths),
                    session=f"s{rng.randrange(3)}",
                    method=rng.choice(("GET", "POST", "HEAD")),
                    meta={"download_timeout": rng.choice((0.05, 0.2, 3))},
                )

    await asyncio.gather(*(worker() for _ in range(8)))
    await handler.close()
    await until(lambda: not lab.proxy.open)
    pool = tunnels._pool
    assert not any((pool._closing, pool._waiting, pool._warden._timers, pool._warden._demand))
    assert not any((pool._tunnels._shelves, pool._tunnels._sessions, pool._tunnels._cold))
    assert errors == []


async def an_underscore_in_a_host_name_does_not_hang(lab):
    for verify in (False, True):
        handler = lab.handler(DOWNLOAD_VERIFY_CERTIFICATES=verify)
        outcome = (
            await lab.fails(handler, host="bad_host.test") if verify else await lab.get(handler, host="bad_host.test")
        )
        assert getattr(outcome, "reason", "certificate") == "certificate"


SCENARIOS = {
    name: function
    for name, function in list(globals().items())
    if asyncio.iscoroutinefunction(function) and name not in {"until", "main"} and function.__module__ == __name__
}


async def main(good, foreign):
    lab = Lab(good, foreign)
    report = {}
    for name, scenario in SCENARIOS.items():
        try:
            try:
                await asyncio.wait_for(scenario(lab), PATIENCE)
            finally:
                await asyncio.wait_for(lab.reset(), PATIENCE)
            report[name] = "as claimed"
        except Exception:
            report[name] = traceback.format_exc()
    return report


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(SCENARIOS))
        sys.exit()
    result = []
    d = deferred_from_coro(main(sys.argv[1], sys.argv[2]))
    d.addBoth(result.append)
    d.addBoth(lambda _: reactor.stop())
    reactor.run()
    if not isinstance(result[0], dict):
        result[0].printTraceback()
        sys.exit(1)
    print(json.dumps(result[0]))
