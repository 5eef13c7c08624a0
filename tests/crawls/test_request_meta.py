"""What a request can ask for, and what its response tells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from days import VALIDATED, pages

from scrapy_resiproxy.components.wishes import WISHES

FREE_RETRIES = {
    "RESIPROXY_BUDGET_MIN_RETRIES": 1000,
    "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
    "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
}
STOCK_QUEUE = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}


def spider(meta: str = "{}", more: str = "") -> dict[str, str]:
    source = f"""
class MetaSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={meta}, **kwargs)
{more}
"""
    return {"spider": source, "name": "MetaSpider"}


def test_the_story_of_a_page_tells_every_attempt(day: Any) -> None:
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(3))
    for page in crawled.good:
        story = page["story"]
        assert [attempt["class"] for attempt in story["attempts"]] == ["transient", "ok"]
        assert story["attempts"][0]["reason"] == "unavailable"
        assert len(story["session"]) == 8
    assert len({page["story"]["key"] for page in crawled.good}) == 3


@pytest.mark.parametrize("behaviour", ["flaky:p=0.5", "softblock:pages=2", "redirect:pages=2"])
def test_nothing_of_ours_is_left_in_the_meta(day: Any, behaviour: str) -> None:
    more = """
    def parse(self, response):
        yield from super().parse(response)
        ours = ("proxy", "cookiejar", "dont_cache")
        left = [key for key in response.meta if key.startswith("_resiproxy") or key in ours]
        self.note("left", keys=left, errback=response.request.errback.__name__, filtered=response.request.dont_filter)
"""
    with day(behaviour) as today:
        crawled = today.crawl(pages(20), {**FREE_RETRIES, **VALIDATED}, **spider(more=more))
        assert today.lab.summary()["requests"] > 20
    left = [note for note in crawled.notes if note["kind"] == "left"]
    assert len(left) == 20
    assert {(tuple(note["keys"]), note["errback"], note["filtered"]) for note in left} == {((), "failed", False)}


def test_dont_retry_and_max_retry_times_are_kept(day: Any) -> None:
    quiet = {"RESIPROXY_CIRCUIT_CONSECUTIVE": 1000, "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000}
    with day("down") as today:
        crawled = today.crawl(pages(4), quiet, **spider('{"dont_retry": True}'))
        assert today.lab.summary()["requests"] == 4
        assert {letter["reason"] for letter in crawled.letters} == {"dont_retry"}
        today.lab.reset()
        today.crawl(pages(4), quiet, **spider('{"max_retry_times": 1}'))
        assert today.lab.summary()["requests"] == 8


def test_a_request_that_may_not_be_sent_twice_is_not(day: Any) -> None:
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(4), **spider('{"resiproxy_idempotent": False}'))
        assert today.lab.summary()["requests"] == 4
    assert {letter["reason"] for letter in crawled.letters} == {"dont_retry"}


def test_a_target_of_ones_own_shares_one_guard(day: Any) -> None:
    with day({"a.example": "down", "b.example": "down"}) as today:
        crawled = today.crawl(
            [*pages(30, "a.example"), *pages(30, "b.example")],
            {"CONCURRENT_REQUESTS": 4},
            **spider('{"resiproxy_target": "both"}'),
        )
        sent = today.lab.summary()["requests"]
    assert sent <= 20
    assert {letter["target"] for letter in crawled.letters} == {"both"}
    assert crawled.stats["resiproxy/circuit/state/both"] in {"open", "half_open"}


def test_hosts_of_a_group_share_one_guard(day: Any) -> None:
    targets = {"a.example": {"group": "shop"}, "b.example": {"group": "shop"}}
    with day({"a.example": "down", "b.example": "down"}) as today:
        crawled = today.crawl(
            [*pages(30, "a.example"), *pages(30, "b.example")], {"CONCURRENT_REQUESTS": 4, "RESIPROXY_TARGETS": targets}
        )
        sent = today.lab.summary()["requests"]
    assert sent <= 24
    assert {letter["target"] for letter in crawled.letters} == {"shop"}


def test_a_key_of_ones_own_names_the_page(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(1), **spider('{"resiproxy_key": "the page"}'))
    assert crawled.good[0]["story"]["key"] == "the page"


def test_a_direct_target_goes_without_a_proxy(day: Any) -> None:
    with day("ok") as today:
        url = today.lab.site + "/shop.example/item/1"
        crawled = today.crawl([url], {"RESIPROXY_TARGETS": {"127.0.0.1": {"proxy": None}}})
        sessions = today.lab.summary()["gateway"]["sessions"]
    assert len(crawled.good) == 1
    assert sessions == {}


def test_cookies_belong_to_the_session(day: Any) -> None:
    more = """
    def parse(self, response):
        yield from super().parse(response)
        self.note("cookie", sent=response.request.headers.get("Cookie", b"").decode())
"""
    with day("ok") as today:
        crawled = today.crawl(pages(30), {"COOKIES_DEBUG": True}, **spider(more=more))
    assert len(crawled.good) == 30


def test_signals_tell_what_happens(day: Any) -> None:
    more = """
    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        from scrapy_resiproxy import signals
        spider = super().from_crawler(crawler, *args, **kwargs)
        for name in ("outcome_classified", "retry_scheduled", "session_retired", "circuit_opened",
                     "circuit_half_opened", "circuit_closed", "request_dead_lettered"):
            crawler.signals.connect(spider.listener(name), getattr(signals, name), weak=False)
        return spider

    def listener(self, name):
        def heard(**kwargs):
            self.note("signal", name=name, arguments=sorted(set(kwargs) - {"signal", "sender"}))
        return heard
"""
    with day(
        {"shop.example": "outage:duration=1", "wall.example": "block403:pages=5", "gone.example": "down"}
    ) as today:
        crawled = today.crawl(
            [*pages(30), *pages(20, "wall.example"), *pages(5, "gone.example")],
            # Only one of them is to be given up, however slow the machine is.
            {"RESIPROXY_TARGET_GIVE_UP": 60, "RESIPROXY_TARGETS": {"gone.example": {"target_give_up": 2}}},
            **spider(more=more),
        )
    heard = Counter(note["name"] for note in crawled.notes if note["kind"] == "signal")
    assert set(heard) == {
        "outcome_classified",
        "retry_scheduled",
        "session_retired",
        "circuit_opened",
        "circuit_half_opened",
        "circuit_closed",
        "request_dead_lettered",
    }
    assert heard["request_dead_lettered"] == len(crawled.letters)


def test_another_priority_queue_is_lived_with(day: Any) -> None:
    with day("outage:duration=1") as today:
        crawled = today.crawl(pages(60), {**STOCK_QUEUE, "RESIPROXY_TARGET_GIVE_UP": 60})
        sent = today.lab.summary()["requests"]
    assert len(crawled.good) == 60
    assert sent <= 1.3 * 60
    assert crawled.letters == []


def test_what_other_middlewares_raise_on_the_way_back_is_not_lost(day: Any) -> None:
    more = """
class Spoiler:
    seen = set()

    def process_response(self, request, response, spider=None):
        if request.url not in self.seen:
            self.seen.add(request.url)
            raise OSError("not a gzip file")
        return response
"""
    settings = {"DOWNLOADER_MIDDLEWARES": {"spider_under_test.Spoiler": 595}, "RESIPROXY_CIRCUIT_CONSECUTIVE": 100}
    with day("ok") as today:
        crawled = today.crawl(pages(10), settings, **spider(more=more))
        sent = today.lab.summary()["requests"]
    assert len(crawled.good) == 10
    assert sent == 20
    assert crawled.errors == crawled.letters == []


WRONG = """
class WrongSpider(ProbeSpider):
    name = "wrong"

    async def start(self):
        with open(os.environ["CRAWL_URLS"]) as file:
            metas = json.load(file)
        for number, meta in enumerate(metas):
            yield self.request(f"http://shop.example/item/{number}", meta=meta)
"""

WRONG_METAS: list[dict[str, Any]] = [
    {"resiproxy_session": {"a": 1}},
    {"resiproxy_session": ""},
    {"resiproxy_country": 7},
    {"resiproxy_country": "de"},
    {"resiproxy_target": {"a": 1}},
    {"resiproxy_key": ["a"]},
    {"resiproxy_idempotent": "no"},
    {"max_retry_times": "many"},
    {"priority_adjust": "up"},
    {"download_timeout": "long"},
    {"give_up_log_level": "LOUD"},
]


def test_a_mistake_in_the_meta_is_one_line_and_costs_nobody_else_anything(day: Any) -> None:
    rights: list[dict[str, Any]] = [{}, {"resiproxy_session": 5}, {"resiproxy_target": 5}, dict.fromkeys(WISHES)]
    with day("flaky:p=1") as today:
        crawled = today.crawl([*WRONG_METAS, *rights], FREE_RETRIES, spider=WRONG, name="WrongSpider")
        sent = {row["path"] for row in today.lab.ledger() if row.get("path")}
    assert sent == {f"/item/{number}" for number in range(len(WRONG_METAS), len(WRONG_METAS) + len(rights))}
    assert len(crawled.good) == len(rights)
    assert "Traceback" not in crawled.log
    assert len(crawled.letters) == len(WRONG_METAS)
    said = {error["url"]: error["text"] for error in crawled.errors}
    for number, meta in enumerate(WRONG_METAS):
        url = f"http://shop.example/item/{number}"
        (key,) = meta
        assert f"meta[{key!r}]" in said[url]
        assert len([line for line in crawled.lines("ERROR") if f"<GET {url}>" in line and key in line]) == 1


FORGED: list[dict[str, Any]] = [
    {"_resiproxy": "text"},
    {"_resiproxy": ["id"]},
    {"_resiproxy": {"sent": 1}},
    {"_resiproxy": {"id": 5}},
    {"_resiproxy": {"id": "a", "sent": "2", "log": "abc"}},
    {"_resiproxy": {"id": "b", "log": [[0, {"outcome": "no such"}]]}},
    {"_resiproxy": {"id": "c", "verdict": ["x"]}},
    {"_resiproxy": {"id": "d", "uncounted": True}},
    {"_resiproxy_replay": "text"},
    {"_resiproxy_replay": {"count": "many"}},
    {"_resiproxy_scheduled": "text"},
    {"resiproxy": "text"},
    {"retry_times": "many"},
]


@pytest.mark.parametrize(("behaviour", "good"), [("flaky:p=1", len(FORGED)), ("down", 0)])
def test_what_others_write_under_our_names_is_as_if_it_were_not_there(day: Any, behaviour: str, good: int) -> None:
    with day(behaviour) as today:
        crawled = today.crawl(FORGED, {**FREE_RETRIES, "RESIPROXY_MAX_ATTEMPTS": 2}, spider=WRONG, name="WrongSpider")
        assert today.lab.summary()["requests"] == 2 * len(FORGED)
    assert len(crawled.good) == good
    assert len(crawled.letters) == len(crawled.errors) == len(FORGED) - good
    assert "Traceback" not in crawled.log


def test_what_another_middleware_ignored_carries_no_session_of_ours(day: Any) -> None:
    source = """
class Ignores:
    def process_request(self, request, spider=None):
        from scrapy.exceptions import IgnoreRequest
        raise IgnoreRequest("not today")

class IgnoredSpider(ProbeSpider):
    def failed(self, failure):
        request = failure.request
        ours = ("proxy", "_auth_proxy", "cookiejar", "_resiproxy")
        self.note("left", keys=[key for key in request.meta if key in ours], headers=str(request.headers))
"""
    settings = {"DOWNLOADER_MIDDLEWARES": {"spider_under_test.Ignores": 900}}
    with day("ok") as today:
        crawled = today.crawl(pages(3), settings, spider=source, name="IgnoredSpider")
    left = [note for note in crawled.notes if note["kind"] == "left"]
    assert len(left) == 3
    assert all(note["keys"] == [] and "Proxy-Authorization" not in note["headers"] for note in left)


def test_what_cannot_wait_in_place_is_refused_at_once_and_kept(day: Any) -> None:
    source = """
class InlineSpider(ProbeSpider):
    async def parse(self, response):
        for number in range(2):
            try:
                await self.crawler.engine.download_async(Request(f"http://busy.example/item/{number}"))
            except Exception as error:
                self.note("refused", error=type(error).__name__)
        yield {}
"""
    # Whoever waited in place for these would outlast this test.
    settings = {"RESIPROXY_INLINE_WAIT_MAX": 200}
    with day({"shop.example": "ok", "busy.example": "down:how=429,retry_after=250"}) as today:
        crawled = today.crawl(pages(1), settings, spider=source, name="InlineSpider")
        assert today.lab.summary()["hosts"]["busy.example"]["requests"] == 1
    refused = [note["error"] for note in crawled.notes if note["kind"] == "refused"]
    assert refused == ["ResiproxyError"]
    assert [letter["request"]["url"][-6:] for letter in crawled.letters] == ["item/0", "item/1"]
    assert [letter["reason"] for letter in crawled.letters] == ["attempts_exhausted", "retry_after_too_long"]
    assert crawled.letters[1]["not_before"] > crawled.letters[1]["time"]
