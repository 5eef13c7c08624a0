"""Where a validator can be said, and what its answers do."""

from __future__ import annotations

from typing import Any

import pytest
import scrapy
from days import pages

ON_CALLBACK = """
from scrapy_resiproxy import min_length, validated_by

class OnCallbackSpider(ProbeSpider):
    @validated_by(min_length(10), good_page)
    def parse(self, response):
        return super().parse(response)
"""
ON_SPIDER = """
class OnSpiderSpider(ProbeSpider):
    def validate_response(self, response):
        return bool(response.css('meta[name=lab-page][content=good]'))
"""
ASYNCHRONOUS = """
import asyncio

class AsynchronousSpider(ProbeSpider):
    async def validate_response(self, response):
        await asyncio.sleep(0)
        return "no good page" if not response.css('meta[name=lab-page][content=good]') else None
"""
ON_REQUEST = """
class OnRequestSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={"resiproxy_validator": "spider_under_test.good_page"}, **kwargs)
"""


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (ON_CALLBACK, "OnCallbackSpider"),
        (ON_SPIDER, "OnSpiderSpider"),
        (ASYNCHRONOUS, "AsynchronousSpider"),
        (ON_REQUEST, "OnRequestSpider"),
    ],
    ids=["callback", "spider", "async", "request"],
)
def test_every_place_keeps_fake_pages_out(day: Any, source: str, name: str) -> None:
    with day("softblock:pages=4") as today:
        crawled = today.crawl(pages(60), spider=source, name=name)
        assert today.lab.summary()["outcomes"]["challenge"] > 0
    assert len(crawled.good) == len(crawled.pages) == 60


def test_a_validator_that_raises_costs_no_session_and_keeps_the_page(day: Any) -> None:
    source = """
class BrokenSpider(ProbeSpider):
    def validate_response(self, response):
        return response.nonsense
"""
    with day("ok") as today:
        crawled = today.crawl(pages(5), spider=source, name="BrokenSpider")
        assert today.lab.summary()["requests"] == 5
    assert [letter["reason"] for letter in crawled.letters] == ["validator_error"] * 5
    assert all("page" in letter["response"] for letter in crawled.letters)
    assert crawled.log.count("Traceback") == 1
    assert crawled.stats["resiproxy/session/retired_count"] == 0
    assert {error["error"] for error in crawled.errors} == {"SoftBlock"}


STUBBORN = """
import asyncio
from twisted.internet.defer import Deferred

class StubbornSpider(ProbeSpider):
    async def validate_response(self, response):
        ending = response.url.rsplit("/", 1)[1]
        if ending == "0":
            raise asyncio.CancelledError
        if ending == "1":
            raise GeneratorExit
        if ending == "2":
            await self.never()
        if ending == "3":
            try:
                await self.never()
            except BaseException:
                await self.never()
"""
NEVER = {
    "asyncio": """
    async def never(self):
        await asyncio.sleep(10**6)
""",
    "none": """
    async def never(self):
        await asyncio.Event().wait()
""",
    "epoll": """
    async def never(self):
        await Deferred()
""",
}


@pytest.mark.parametrize("reactor", NEVER)
def test_a_validator_that_never_ends_or_is_cancelled_costs_its_own_page_alone(day: Any, reactor: str) -> None:
    settings = {
        "asyncio": {},
        "none": {"TWISTED_REACTOR_ENABLED": False},
        "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    }[reactor]
    if reactor == "none" and scrapy.version_info < (2, 16):
        pytest.skip("no handler for it in this Scrapy")
    with day("ok") as today:
        crawled = today.crawl(
            pages(8), {"DOWNLOAD_TIMEOUT": 1, **settings}, spider=STUBBORN + NEVER[reactor], name="StubbornSpider"
        )
        assert today.lab.summary()["requests"] == 8
    assert len(crawled.good) == 4
    assert [letter["reason"] for letter in crawled.letters] == ["validator_error"] * 4
    said = [line.rpartition(": ")[2] for line in crawled.lines("ERROR") if "The validator " in line]
    never = "TimeoutError('no answer within 1 s')"
    assert sorted(said) == ["CancelledError()", "GeneratorExit()", never, never]
    assert crawled.stats["finish_reason"] == "finished"
    assert crawled.stats["resiproxy/session/retired_count"] == 0


def test_a_validator_that_cannot_be_found_is_said_in_one_line(day: Any) -> None:
    source = """
class LostSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={"resiproxy_validator": "no.such.thing"}, **kwargs)
"""
    with day({"shop.example": "ok", "wall.example": "softblock:pages=0,look=cloudflare"}) as today:
        crawled = today.crawl([*pages(2), *pages(1, "wall.example")], spider=source, name="LostSpider")
    reasons = {letter["target"]: letter["reason"] for letter in crawled.letters}
    assert reasons == {"shop.example": "validator_error", "wall.example": "identity_exhausted"}
    assert len([line for line in crawled.lines("ERROR") if "no.such.thing" in line]) == 2


def test_when_everything_is_refused_the_layout_has_changed(day: Any) -> None:
    source = """
from scrapy_resiproxy import has_css, validated_by

class OldSpider(ProbeSpider):
    @validated_by(has_css("p.price-of-last-year"))
    def parse(self, response):
        return super().parse(response)
"""
    with day("ok") as today:
        crawled = today.crawl(pages(80), {"RESIPROXY_CIRCUIT_IDENTITY_RATIO": 1}, spider=source, name="OldSpider")
        sent = today.lab.summary()["requests"]
    assert len([line for line in crawled.lines("ERROR") if "Layout changed?" in line]) == 1
    assert sent < 3 * 80, "sessions must not be rotated for ever"
    assert len(crawled.letters) == 80


def test_verdicts_say_what_to_do(day: Any) -> None:
    source = """
from scrapy_resiproxy import Verdict

class VerdictSpider(ProbeSpider):
    asked = {}

    def validate_response(self, response):
        number = int(response.url.rsplit("/", 1)[1])
        first = self.asked.setdefault(number, 0) == 0
        self.asked[number] += 1
        if number == 1 and first:
            return Verdict.transient("half a list")
        if number == 2 and first:
            return Verdict.rate(wait=0.2)
        if number == 3:
            return Verdict.terminal("sold out")
        return True
"""
    with day("ok") as today:
        crawled = today.crawl(pages(4), spider=source, name="VerdictSpider")
        assert today.lab.summary()["requests"] == 6
    assert len(crawled.good) == 3
    assert [letter["reason"] for letter in crawled.letters] == ["terminal"]
    told = {page["url"][-1]: [attempt["class"] for attempt in page["story"]["attempts"]] for page in crawled.good}
    assert told == {"0": ["ok"], "1": ["transient", "ok"], "2": ["rate", "ok"]}


def test_sick_targets_get_a_line_and_the_end_a_table(day: Any) -> None:
    settings = {
        "LOGSTATS_INTERVAL": 0.5,
        "RESIPROXY_PRICE_PER_GB": 4,
        "RESIPROXY_STATS_MAX_TARGETS": 1,
        "RESIPROXY_RETRY_DEMAND_WARN": 0.01,
        "LOG_LEVEL": "INFO",
    }
    with day({"shop.example": "ok:latency=0.1", "down.example": "down"}) as today:
        crawled = today.crawl([*pages(100), *pages(20, "down.example")], settings)
    lines = [line for line in crawled.lines("WARNING") if "down.example: " in line]
    assert any("mostly transient/unavailable (fault of the target)" in line for line in lines)
    assert "Retries wanted per request" in crawled.log
    assert "target        requests  good" in crawled.log
    assert "per 1,000 good pages" in crawled.log
    assert "To send them again: set RESIPROXY_REPLAY = 'deadletter/probe/" in crawled.log
    assert crawled.stats["resiproxy/targets/down.example/deadletter/written_count"] == 20
    assert crawled.stats["resiproxy/targets/other/valid_count"] == 100
    assert crawled.stats["resiproxy/incomplete_count"] == 20


def test_who_awaits_a_page_may_give_it_up_while_its_validator_is_asked(day: Any) -> None:
    source = """
import asyncio
from scrapy import signals
from scrapy_resiproxy.components.crawl import Crawl

async def never(response):
    await asyncio.Event().wait()

class ImpatientSpider(ProbeSpider):
    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.downloaded, signals.response_downloaded)
        return spider

    def downloaded(self, request):
        self.permit = Crawl.of(self.crawler).wire.flight_of(request).permit

    async def parse(self, response):
        request = Request("http://shop.example/item/7", meta={"resiproxy_validator": never})
        try:
            await asyncio.wait_for(self.crawler.engine.download_async(request), 1)
        except TimeoutError:
            yield {}

    def closed(self, reason):
        self.note("given up", ended=self.permit.ended)
"""
    with day("ok") as today:
        crawled = today.crawl(pages(1), spider=source, name="ImpatientSpider")
        assert today.lab.summary()["requests"] == 2
    assert crawled.notes == [{"kind": "given up", "ended": True}]
    assert crawled.letters == []
    assert "Traceback" not in crawled.log
    assert crawled.stats["finish_reason"] == "finished"


def test_the_entry_for_every_host_is_for_hosts_without_one(day: Any) -> None:
    targets = {
        "*": {"validator": "spider_under_test.never_good", "circuit_consecutive": 1},
        "shop.example": {"country": None},
    }
    with day({"shop.example": "flaky:p=0.5", "other.example": "ok", "down.example": "down"}) as today:
        crawled = today.crawl(
            [*pages(20), *pages(4, "other.example"), *pages(4, "down.example")],
            {"RESIPROXY_TARGETS": targets, "RESIPROXY_CIRCUIT_CONSECUTIVE": 100, "RESIPROXY_CIRCUIT_MIN_REQUESTS": 100},
            spider="def never_good(response):\n    return False\n",
        )
    assert {page["url"] for page in crawled.good} == set(pages(20))
    assert crawled.stats["resiproxy/targets/other.example/outcome_count/identity"] >= 4
    opened = [line for line in crawled.lines("WARNING") if "its circuit is open" in line]
    assert "down.example is down (transient/unavailable): its circuit is open" in opened[0]
    assert not any("shop.example" in line for line in opened)
