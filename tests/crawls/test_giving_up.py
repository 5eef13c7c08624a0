"""Targets that are given up for a run, and what stays for the next one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from days import pages


def test_with_a_job_a_given_up_target_stays_in_the_job(day: Any) -> None:
    with day({"shop.example": "ok", "down.example": "down"}) as today:
        urls = pages(20) + pages(100, "down.example")
        first = today.crawl(urls, {"JOBDIR": "job"})
        today.lab.set_behaviour("down.example", "ok")
        second = today.crawl(urls, {"JOBDIR": "job"})
    assert first.stats["finish_reason"] == "resiproxy_target_given_up"
    assert len(first.good) == 20
    assert first.letters == second.letters == []
    assert {page["url"] for page in second.good} == set(urls)
    assert second.stats["finish_reason"] == "finished"


@pytest.mark.parametrize(
    "scheduler",
    [
        pytest.param({"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}, id="the plain queue"),
        pytest.param({"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}, id="the stock queue"),
        pytest.param({"SCHEDULER": "spider_under_test.ListScheduler"}, id="a foreign scheduler"),
    ],
)
def test_a_job_keeps_what_another_queue_hands_out_of_a_given_up_target(day: Any, scheduler: dict[str, str]) -> None:
    source = """
from scrapy.core.scheduler import BaseScheduler

class ListScheduler(BaseScheduler):
    def __init__(self):
        self.held = []

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    def has_pending_requests(self):
        return bool(self.held)

    def enqueue_request(self, request):
        self.held.append(request)
        return True

    def next_request(self):
        return self.held.pop(0) if self.held else None
"""
    with day({"shop.example": "ok", "down.example": "down"}) as today:
        urls = pages(20) + pages(100, "down.example")
        first = today.crawl(urls, {"JOBDIR": "job", **scheduler}, spider=source)
        today.lab.set_behaviour("down.example", "ok")
        second = today.crawl([], {"JOBDIR": "job", **scheduler}, spider=source)
    assert first.stats["finish_reason"] == "resiproxy_target_given_up"
    assert first.letters == second.letters == []
    assert {page["url"] for page in first.good + second.good} == set(urls)
    assert second.stats["finish_reason"] == "finished"


def test_what_the_job_may_not_keep_of_a_given_up_target_becomes_letters(day: Any) -> None:
    settings = {
        "JOBDIR": "job",
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "RESIPROXY_WAITING_MAX": 30,
    }
    with day("down") as today:
        first = today.crawl(pages(100), settings)
        today.lab.set_behaviour("shop.example", "ok")
        second = today.crawl([], settings)
    kept = {page["url"] for page in second.good}
    assert len(kept) == 30
    assert kept | {letter["request"]["url"] for letter in first.letters} == set(pages(100))


def test_with_a_job_a_dead_plan_keeps_everything(day: Any) -> None:
    with day("ok") as today:
        wrong = today.lab.proxy("{session}").replace(":lab@", ":wrong-pass@")
        first = today.crawl(pages(40), {"JOBDIR": "job", "RESIPROXY_PROXY": wrong})
        second = today.crawl(pages(40), {"JOBDIR": "job"})
    assert first.stats["finish_reason"] == "resiproxy_proxy_refused"
    delivered = {page["url"] for page in second.good}
    written = {letter["request"]["url"] for letter in first.letters}
    assert delivered | written == set(pages(40))
    assert len(written) <= 16


def test_told_to_wait_too_long_means_not_in_this_run(day: Any) -> None:
    with day("down:how=503,retry_after=4000") as today:
        crawled = today.crawl(pages(50), {"RESIPROXY_RETRY_AFTER_CAP": 300})
        sent = today.lab.summary()["requests"]
    assert sent <= 16
    assert {letter["reason"] for letter in crawled.letters} == {"retry_after_too_long"}
    assert len(crawled.letters) == 50
    now = datetime.now(UTC)
    waits = [(datetime.fromisoformat(letter["not_before"]) - now).total_seconds() for letter in crawled.letters]
    assert all(3900 < wait < 4100 for wait in waits)


def test_a_retry_without_budget_becomes_a_letter_when_it_has_waited_long_enough(day: Any) -> None:
    with day("flaky:p=0.4,once=false") as today:
        crawled = today.crawl(
            pages(60),
            {
                "RESIPROXY_BUDGET_RATIO": 0,
                "RESIPROXY_BUDGET_MIN_RETRIES": 0,
                "RESIPROXY_BUDGET_WAIT": 0,
                "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
                "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
            },
        )
        sent = today.lab.summary()["requests"]
    assert sent == 60
    assert len(crawled.letters) == 60 - len(crawled.good) > 10
    assert {letter["reason"] for letter in crawled.letters} == {"budget_exhausted"}
    assert {error["error"] for error in crawled.errors} == {"BudgetExhausted"}


def test_what_is_used_up_surfaces_as_it_came(day: Any) -> None:
    settings = {"RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000, "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000, "RETRY_TIMES": 1}
    with day({"shop.example": "down:how=503", "reset.example": "down:how=reset"}) as today:
        crawled = today.crawl([*pages(2), *pages(2, "reset.example")], settings)
        hosts = today.lab.summary()["hosts"]
    assert hosts["shop.example"]["requests"] == 4
    assert sorted(error["error"] for error in crawled.errors)[2:] == ["HttpError", "HttpError"]
    assert {letter["reason"] for letter in crawled.letters} == {"attempts_exhausted"}
    assert len(crawled.letters) == 4
    assert crawled.stats["retry/max_reached"] == 4
    assert "Adopted from Scrapy's settings: RETRY_TIMES=1" in crawled.log


def test_pages_that_are_gone_make_no_letter(day: Any) -> None:
    with day({"shop.example": "missing", "auth.example": "unauthorized:challenge=true"}) as today:
        crawled = today.crawl([*pages(3), *pages(3, "auth.example")])
        assert today.lab.summary()["requests"] == 6
    assert [letter["target"] for letter in crawled.letters] == ["auth.example"] * 3
    assert {letter["reason"] for letter in crawled.letters} == {"terminal"}


def test_what_waits_is_told_by_the_wall_clock_when_its_target_takes_it_again(day: Any) -> None:
    group = {host: {"group": "shop"} for host in ("a.example", "b.example")}
    settings = {"RESIPROXY_TARGETS": group, "RESIPROXY_BACKOFF_BASE": 1000, "RESIPROXY_BACKOFF_CAP": 1000}
    with day({"a.example": "down:how=503", "b.example": "down:how=503,retry_after=4000"}) as today:
        crawled = today.crawl(pages(3, "a.example") + pages(1, "b.example"), {**settings, "CONCURRENT_REQUESTS": 1})
        assert 2 <= today.lab.summary()["hosts"]["a.example"]["requests"] <= 3
    now = datetime.now(UTC)
    assert {letter["reason"] for letter in crawled.letters} == {"retry_after_too_long"}
    assert len(crawled.letters) == 4
    waits = [(datetime.fromisoformat(letter["not_before"]) - now).total_seconds() for letter in crawled.letters]
    assert all(3900 < wait < 4100 for wait in waits)


def gateway_is_away(today: Any, **more: Any) -> dict[str, Any]:
    """Settings of a crawl whose gateway does not answer; cdn.example needs none."""
    direct = {"cdn.example": {"proxy": None}, "127.0.0.1": {"proxy": None}}
    return {"RESIPROXY_PROXY": "http://user-{session}:pass@127.0.0.1:9", "RESIPROXY_TARGETS": direct, **more}


def direct_pages(today: Any, count: int) -> list[str]:
    return [f"{today.lab.site}/item/{number}" for number in range(count)]


def test_a_gateway_that_is_gone_is_given_up_and_what_goes_direct_is_not(day: Any) -> None:
    with day("ok") as today:
        # No retry has budget in this hour: what waited for it after the end would hold up the crawl.
        no_budget = {"RESIPROXY_BUDGET_MIN_RETRIES": 0, "RESIPROXY_BUDGET_WINDOW": 3600}
        crawled = today.crawl(pages(30) + direct_pages(today, 30), gateway_is_away(today, **no_budget))
    # The lab's site knows no such host, and says so: the requests went there.
    reached = {error["url"] for error in crawled.errors if error["status"] == 404}
    assert reached == set(direct_pages(today, 30))
    assert {letter["request"]["url"] for letter in crawled.letters} == set(pages(30))
    assert {letter["reason"] for letter in crawled.letters} <= {"circuit_open", "attempts_exhausted"}
    assert len([line for line in crawled.lines("ERROR") if "The proxy http://127.0.0.1:9 is given up" in line]) == 1


def test_with_a_job_what_would_go_through_a_gateway_that_is_gone_stays_in_the_job(day: Any) -> None:
    with day("ok") as today:
        first = today.crawl(pages(30) + direct_pages(today, 30), gateway_is_away(today, JOBDIR="job"))
        second = today.crawl([], {"JOBDIR": "job"})
    assert first.stats["finish_reason"] == "resiproxy_target_given_up"
    written = {letter["request"]["url"] for letter in first.letters}
    assert {page["url"] for page in second.good} | written >= set(pages(30))
    assert len(written) <= 5


def test_what_goes_direct_because_nothing_else_is_said_does_not_wait_for_a_gateway_that_is_gone(day: Any) -> None:
    entries = {"*": {"proxy": None}, "shop.example": {}}
    with day("ok") as today:
        away = gateway_is_away(today, JOBDIR="job", RESIPROXY_TARGETS=entries)
        crawled = today.crawl(pages(10) + direct_pages(today, 100), away)
    assert {error["url"] for error in crawled.errors if error["status"] == 404} == set(direct_pages(today, 100))
    assert crawled.stats["finish_reason"] == "resiproxy_target_given_up"


DEAD_LIST = [f"http://user:pass@127.0.0.{number}:9" for number in range(1, 4)]


def test_a_group_that_goes_direct_does_not_end_with_the_proxies(day: Any) -> None:
    spider = """
class GroupSpider(ProbeSpider):
    async def start(self):
        with open(os.environ["CRAWL_URLS"]) as file:
            for url in json.load(file):
                yield self.request(url, meta={"resiproxy_target": "basket"} if "127.0.0.1" in url else {})
"""
    with day("flaky:p=0.5") as today:
        direct = [f"http://127.0.0.1:{urlsplit(today.lab.site).port}/shop.example/item/{n}" for n in range(30)]
        late = {"RESIPROXY_BACKOFF_BASE": 5, "RESIPROXY_BACKOFF_CAP": 5, "RESIPROXY_CIRCUIT_CONSECUTIVE": 100}
        plenty = {"RESIPROXY_BUDGET_MIN_RETRIES": 100, "RESIPROXY_BUDGET_GLOBAL_MIN_RETRIES": 100}
        away = {**list_is_dead(today), **late, **plenty, "RESIPROXY_CIRCUIT_MIN_REQUESTS": 100}
        crawled = today.crawl(pages(3) + direct, away, spider=spider, name="GroupSpider")
    assert {page["url"] for page in crawled.good} == set(direct)
    assert {letter["request"]["url"] for letter in crawled.letters} == set(pages(3))


def list_is_dead(today: Any, *living: str, **more: Any) -> dict[str, Any]:
    """Settings of a crawl with a list of proxies: nobody listens at three of them."""
    dead = {"RESIPROXY_PROXY": [*DEAD_LIST, *living], "RESIPROXY_TARGET_GIVE_UP": 2}
    return {**gateway_is_away(today), **dead, **more}


def test_a_list_whose_endpoints_are_all_gone_is_given_up_and_what_goes_direct_is_not(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(60) + direct_pages(today, 30), list_is_dead(today))
    reached = {error["url"] for error in crawled.errors if error["status"] == 404}
    assert reached == set(direct_pages(today, 30))
    assert {letter["request"]["url"] for letter in crawled.letters} == set(pages(60))
    reasons = [letter["reason"] for letter in crawled.letters]
    assert set(reasons) <= {"circuit_open", "attempts_exhausted"}
    assert reasons.count("circuit_open") > 50
    assert len([line for line in crawled.lines("ERROR") if "The proxy list is given up for this run" in line]) == 1
    assert crawled.stats["finish_reason"] == "finished"


def test_with_a_job_what_would_go_through_a_list_that_is_gone_stays_in_the_job(day: Any) -> None:
    with day("ok") as today:
        first = today.crawl(pages(60) + direct_pages(today, 30), list_is_dead(today, JOBDIR="job"))
        second = today.crawl([], {"JOBDIR": "job"})
    assert first.stats["finish_reason"] == "resiproxy_target_given_up"
    assert {error["url"] for error in first.errors if error["status"] == 404} == set(direct_pages(today, 30))
    written = {letter["request"]["url"] for letter in first.letters}
    assert {page["url"] for page in second.good} | written >= set(pages(60))
    assert len(written) <= 5


def test_a_list_that_refuses_us_everywhere_is_given_up_as_a_dead_plan(day: Any) -> None:
    with day("ok") as today:
        wrong = [today.lab.proxy(f"wrong{number}").replace(":lab@", ":wrong-pass@") for number in range(3)]
        settings = {"RESIPROXY_PROXY": wrong, "RESIPROXY_TARGET_GIVE_UP": 2, "JOBDIR": "job"}
        crawled = today.crawl(pages(200), settings)
    assert crawled.stats["finish_reason"] == "resiproxy_proxy_refused"
    assert {letter["reason"] for letter in crawled.letters} == {"proxy_refused"}
    assert len(crawled.letters) <= 50


def test_a_list_with_one_endpoint_left_is_not_given_up(day: Any) -> None:
    with day("ok:latency=0.05") as today:
        settings = list_is_dead(today, today.lab.proxy("living"), RESIPROXY_TARGET_GIVE_UP=0)
        crawled = today.crawl(pages(30), {**settings, "RESIPROXY_SESSION_QUARANTINE": 0.2})
    assert {page["url"] for page in crawled.good} == set(pages(30))
    assert crawled.letters == []


ANSWERS = """
from scrapy.http import HtmlResponse

class Site(Handler):
    # /item/N answers as the N-th of these, always.
    answers = [
        (200, {"cf-mitigated": "challenge"}, {"handle_httpstatus_all": True}),
        (407, {}, {"handle_httpstatus_list": [407]}),
        (502, {"x-brd-err-code": "peer_30040"}, {"handle_httpstatus_list": [502]}),
        (503, {"X-Squid-Error": "ERR_DNS_FAIL 0"}, {"handle_httpstatus_list": [503]}),
        (404, {"cf-mitigated": "challenge"}, {}),
        (500, {}, {"handle_httpstatus_list": [500]}),
        (404, {}, {}),
    ]

    async def download_request(self, request):
        status, headers, _ = self.answers[int(request.url[-1])]
        return HtmlResponse(request.url, status=status, headers=headers, body=b"<html></html>", request=request)

class AnswersSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta=dict(Site.answers[int(url[-1])][2]), **kwargs)
"""


def test_only_what_the_spider_gets_to_handle_makes_no_letter(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(
            pages(7),
            {
                "DOWNLOAD_HANDLERS": {"http": "spider_under_test.Site"},
                "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
                "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
                "RETRY_TIMES": 1,
            },
            spider=ANSWERS,
            name="AnswersSpider",
        )
    number = {url: n for n, url in enumerate(pages(7))}
    assert [number[page["url"]] for page in crawled.pages] == [5]
    assert sorted(number[letter["request"]["url"]] for letter in crawled.letters) == [0, 1, 2, 3, 4]
    said = {number[error["url"]]: error["error"] for error in crawled.errors}
    assert said == {
        0: "SoftBlock",
        **dict.fromkeys((1, 2, 3), "ProxyRefused"),
        **dict.fromkeys((4, 6), "HttpError"),
    }
