"""How a retry is named in Scrapy's stats, and which retries there would have been."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import HtmlResponse
from scrapy.utils.response import response_status_message
from scrapy.utils.test import get_crawler
from twisted.internet.error import ConnectionLost

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.flow import Flight, attempt_of, story_of
from scrapy_resiproxy.components.middleware import ResiproxyMiddleware
from scrapy_resiproxy.components.retries import scrapys_reason
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

UNAVAILABLE = Outcome(OutcomeClass.TRANSIENT, "unavailable")


class Named(Spider):
    name = "shop"


class Odd:
    class Error(Exception):
        """One that is defined in another class."""


def scrapys_own(reason: Any) -> str:
    """What get_retry_request writes for *reason*."""
    crawler = get_crawler(Spider)
    spider = Spider.from_crawler(crawler, name="shop")
    assert get_retry_request(Request("http://a.example/"), spider=spider, reason=reason) is not None
    assert crawler.stats is not None
    (key,) = [key for key in crawler.stats.get_stats() if key.startswith("retry/reason_count/")]
    return key.removeprefix("retry/reason_count/")


def reason_of(status: int | None = None, exception: Exception | None = None) -> str:
    flight = Flight({"id": "x"}, "a.example", "a.example", scheduled=True, status=status)
    return scrapys_reason(attempt_of(flight, UNAVAILABLE, exception, 1.0)[1])


@pytest.mark.parametrize("status", [429, 503, 403, 307, 599])
def test_a_retry_after_an_answer_is_named_as_scrapy_names_it(status: int) -> None:
    assert reason_of(status) == scrapys_own(response_status_message(status))


@pytest.mark.parametrize(
    "error", [TimeoutError(), ConnectionLost(), Odd.Error()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("status", [None, 200])
def test_a_retry_after_an_exception_is_named_as_scrapy_names_it(error: Exception, status: int | None) -> None:
    assert reason_of(status, error) == scrapys_own(error)


@pytest.mark.parametrize("status", [200, 204, None])
def test_what_scrapy_would_not_have_retried_has_our_words(status: int | None) -> None:
    assert reason_of(status) == "transient/unavailable"


def test_the_story_names_an_exception_by_its_class_alone() -> None:
    flight = Flight({"id": "x"}, "a.example", "a.example", scheduled=True)
    outcome = Outcome(OutcomeClass.TRANSIENT, "timeout", Blame.LOCAL)
    (told,) = story_of([attempt_of(flight, outcome, Odd.Error(), 1.0)])
    assert told["error"] == "Error"
    assert "blame" not in told


def observed(status: int, *, times: int = 0, flags: tuple[str, ...] = (), **meta: Any) -> Any:
    """What a crawl that observes has counted of one answer."""
    proxy = {"RESIPROXY_PROXY": "http://u-{session}:p@127.0.0.1:1"}
    crawl = Crawl.of(get_crawler(Named, {"RESIPROXY_MODE": "observe", "LOG_ENABLED": False, **proxy}))
    middleware = ResiproxyMiddleware(crawl)
    request = Request("http://a.example/", meta={"_resiproxy_scheduled": True, "retry_times": times, **meta})
    assert middleware.process_request(request) is None
    response = HtmlResponse(request.url, status=status, flags=list(flags), body=b"<html></html>")
    assert middleware.process_response(request, response) is response
    return crawl.runtime.tally.targets["a.example"]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (1, {"status": 503}),
        (1, {"status": 503, "times": 2}),
        (0, {"status": 503, "times": 3}),
        (1, {"status": 403}),
        (1, {"status": 429}),
        (0, {"status": 404}),
        (0, {"status": 200}),
        (0, {"status": 503, "dont_retry": True}),
        (0, {"status": 503, "flags": ("cached",)}),
        (1, {"status": 503, "times": "often"}),
    ],
    ids=lambda value: value if isinstance(value, int) else " ".join(f"{name}={each}" for name, each in value.items()),
)
def test_observing_counts_the_retries_that_there_would_have_been(asked: int, answer: dict[str, Any]) -> None:
    counts = observed(**answer)
    assert (counts.asked, counts.denied) == (asked, 0)


def test_observing_remembers_no_redirects() -> None:
    crawl = Crawl.of(get_crawler(Named, {"RESIPROXY_MODE": "observe", "LOG_ENABLED": False}))
    request = Request("http://a.example/", meta={"_resiproxy_scheduled": True})
    ResiproxyMiddleware(crawl).process_request(request)
    crawl.wire.response_downloaded(HtmlResponse(request.url, status=302), request)
    assert crawl.wire.origins == {}


STATIC, WITH_SESSION, LIST = (
    "http://u:p@127.0.0.1:1",
    "http://u-{session}:p@127.0.0.1:1",
    ["127.0.0.1:1", "127.0.0.1:2"],
)


@pytest.mark.parametrize(
    ("url", "proxy", "tunnels", "meta", "rotates"),
    [
        pytest.param("https://a.example/", STATIC, True, {}, True, id="a tunnel of its own"),
        pytest.param("https://a.example/", STATIC, False, {}, False, id="a connection that is used again"),
        pytest.param("https://a.example/", STATIC, False, {"playwright": True}, True, id="a browser's own context"),
        pytest.param("http://a.example/", STATIC, False, {}, True, id="plain http is the gateway's business"),
        pytest.param("https://a.example/", WITH_SESSION, False, {}, True, id="another session"),
        pytest.param("https://a.example/", LIST, False, {}, True, id="another endpoint"),
    ],
)
def test_rotating_by_connection_needs_a_connection_of_its_own(
    url: str, proxy: Any, tunnels: bool, meta: dict[str, Any], rotates: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"RESIPROXY_PROXY": proxy, "RESIPROXY_SESSION_MODE": "rotate", "LOG_ENABLED": False}
    crawl = Crawl.of(get_crawler(Named, settings))
    crawl.verdicts.own_tunnels = tunnels
    assert crawl.verdicts._can_rotate(Request(url, meta=meta)) is rotates
    crawl.spider_opened()
    assert ("another exit needs another connection" in caplog.text) is (proxy is STATIC and not tunnels)


def test_observing_nothing_is_said_of_a_rotation_that_is_not_done(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"RESIPROXY_PROXY": STATIC, "RESIPROXY_SESSION_MODE": "rotate", "RESIPROXY_MODE": "observe"}
    Crawl.of(get_crawler(Named, {**settings, "LOG_ENABLED": False})).spider_opened()
    assert "another exit needs another connection" not in caplog.text
    assert "RESIPROXY_PROXY is not used in observe mode" in caplog.text
