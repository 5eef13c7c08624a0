"""Whatever dies when: what has failed once is delivered, in a letter, or waiting on disk."""

from __future__ import annotations

import json
import random
import signal
from typing import Any

import pytest
from days import pages

PATIENT = {
    # Everything that fails waits, and nothing else stops it.
    "RESIPROXY_BACKOFF_BASE": 30,
    "RESIPROXY_BACKOFF_CAP": 30,
    "RESIPROXY_BUDGET_RATIO": 10,
    "RESIPROXY_BUDGET_GLOBAL_RATIO": 10,
    "RESIPROXY_CIRCUIT_CONSECUTIVE": 100_000,
    "RESIPROXY_CIRCUIT_MIN_REQUESTS": 100_000,
}
HASTY = {**PATIENT, "RESIPROXY_BACKOFF_BASE": 0.1}


def run_until(running: Any, today: Any, requests: int) -> None:
    """Let the crawl go on until the site has seen so many requests."""
    while today.lab.summary()["requests"] < requests:
        assert running.process.poll() is None, running.wait().log[-3000:]


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_loses_no_request_that_has_failed_once(day: Any, seed: int) -> None:
    with day(f"flaky:p=0.5,seed={seed}") as today:
        settings = {**PATIENT, "JOBDIR": "job", "RESIPROXY_BACKOFF_BASE": 1}
        running = today.start(pages(300), settings)
        run_until(running, today, random.Random(seed).randint(40, 280))
        running.send(signal.SIGKILL)
        first = running.wait()
        failed = today.failed_urls()
        second = today.crawl(pages(300), {**HASTY, "JOBDIR": "job"})
    assert failed
    assert failed <= {page["url"] for page in [*first.good, *second.good]}


def test_a_stopped_job_goes_on_where_it_was(day: Any) -> None:
    with day("flaky:p=0.5") as today:
        running = today.start(pages(300), {**PATIENT, "JOBDIR": "job", "RESIPROXY_BACKOFF_BASE": 3})
        run_until(running, today, 200)
        running.send(signal.SIGTERM)
        first = running.wait()
        second = today.crawl(pages(300), {**HASTY, "JOBDIR": "job"})
        sent = today.lab.summary()["requests"]
        failed = today.failed_urls()
    assert first.stats["finish_reason"] == "shutdown"
    assert first.letters == []
    assert {page["url"] for page in second.notes} == set(pages(300))
    assert sent == 300 + len(failed), "nothing may be fetched twice after a clean stop"


def test_a_job_keeps_the_due_times(day: Any) -> None:
    with day("flaky:p=0.5") as today:
        running = today.start(pages(60), {**PATIENT, "JOBDIR": "job"})
        run_until(running, today, 60)
        running.send(signal.SIGTERM)
        running.wait()
        before = today.lab.summary()["requests"]
        running = today.start([], {**PATIENT, "JOBDIR": "job", "CLOSESPIDER_TIMEOUT": 2})
        crawled = running.wait()
        assert today.lab.summary()["requests"] - before < 20, "30 s have not passed"
    assert "taken up again" in crawled.log


AT_ONCE = """
class AtOnceSpider(ProbeSpider):
    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/item/0"):
            for number in range(1, 600):
                yield self.request(response.urljoin(f"/item/{number}"))
"""


def test_without_a_job_everything_sent_once_is_a_letter(day: Any) -> None:
    with day("flaky:p=0.5,seed=1") as today:
        running = today.start(pages(1), {**PATIENT, "RESIPROXY_BACKOFF_BASE": 3}, spider=AT_ONCE, name="AtOnceSpider")
        run_until(running, today, 120)
        running.send(signal.SIGTERM)
        crawled = running.wait()
        failed = today.failed_urls()
    delivered = {page["url"] for page in crawled.good}
    letters = {letter["request"]["url"]: letter for letter in crawled.letters}
    assert failed - delivered <= set(letters)
    assert {letter["reason"] for letter in letters.values()} == {"shutdown"}
    assert "never sent and are not kept" in crawled.log


def test_retries_that_fall_due_during_a_slow_shutdown_are_letters(day: Any) -> None:
    with day({"shop.example": "flaky:p=1", "slow.example": "ok:latency=3"}) as today:
        running = today.start(
            [*pages(1, "slow.example"), *pages(40)],
            {**PATIENT, "RESIPROXY_BACKOFF_BASE": 1, "RESIPROXY_BACKOFF_CAP": 1},
        )
        run_until(running, today, 30)
        running.send(signal.SIGTERM)
        crawled = running.wait()
        failed = today.failed_urls()
    delivered = {page["url"] for page in crawled.good}
    assert failed - delivered == {letter["request"]["url"] for letter in crawled.letters}


RAISES = """
class RaisingSpider(ProbeSpider):
    name = "probe"
    broken = True

    def parse(self, response):
        if self.broken and int(response.url.rsplit("/", 1)[1]) < 10:
            raise RuntimeError("the parser does not know this page")
        yield from super().parse(response)
"""


def test_a_callback_that_raises_leaves_the_page_in_a_letter(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(30), spider=RAISES, name="RaisingSpider")
    assert len(crawled.good) == 20
    assert [letter["reason"] for letter in crawled.letters] == ["parse_error"] * 10
    assert all(letter["response"]["status"] == 200 for letter in crawled.letters)
    assert all(json.dumps(letter["error"]).count("RuntimeError") for letter in crawled.letters)


def test_a_request_that_cannot_be_stored_still_waits(day: Any) -> None:
    source = """
class LambdaSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={"handle": lambda: None}, **kwargs)
"""
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(3), {**HASTY, "JOBDIR": "job"}, spider=source, name="LambdaSpider")
    assert len(crawled.good) == 3
    assert "cannot be kept in JOBDIR" in crawled.log
