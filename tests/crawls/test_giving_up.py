"""Targets that are given up for a run, and what stays for the next one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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
