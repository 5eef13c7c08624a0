"""What a job's next run takes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.job import Job
from scrapy_resiproxy.guard.answers import Hold
from scrapy_resiproxy.names import META_STATE
from scrapy_resiproxy.runtime import Runtime
from scrapy_resiproxy.schedule.waiting import Waiting

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "shop.example"


def started(jobdir: Path) -> Runtime:
    crawler = get_crawler(Spider, {"JOBDIR": str(jobdir)})
    crawler.spider = Spider.from_crawler(crawler, name="shop")
    return Crawl.of(crawler).runtime


def next_run(jobdir: Path, reason: str, why: str, *, wait: float) -> tuple[Runtime, list[Waiting[Request]]]:
    """A run that ends while one request waits for *wait* seconds more, and the run after it."""
    runtime = started(jobdir)
    request = Request(f"http://{TARGET}/item/1", meta={META_STATE: {"id": "x", "slot": None, "filter": False}})
    job = Job(runtime)
    job.keep(Waiting("x", request, TARGET, runtime.now() + wait, reason, 0, extra=why))
    job.close()
    runtime = started(jobdir)
    assert runtime.crawler.spider is not None
    return runtime, list(Job(runtime).take_up(runtime.crawler.spider))


@pytest.mark.parametrize("why", ["circuit", "probe", "recovering", "pace", "outage", "transit"])
def test_what_a_guard_held_that_is_gone_asks_the_new_one(tmp_path: Path, why: str) -> None:
    runtime, (entry,) = next_run(tmp_path, "hold", why, wait=200.0)
    assert entry.due <= runtime.now()
    assert runtime.governor.peek(TARGET, runtime.now()) is None


def test_what_the_server_told_us_to_wait_is_waited_in_the_next_run(tmp_path: Path) -> None:
    runtime, (entry,) = next_run(tmp_path, "hold", "told", wait=200.0)
    assert entry.due <= runtime.now()
    hold = runtime.governor.peek(TARGET, runtime.now())
    assert isinstance(hold, Hold)
    assert (hold.reason, hold.until) == ("told", pytest.approx(runtime.now() + 200.0, abs=60.0))


def test_a_retry_that_was_told_to_wait_holds_all_of_its_target(tmp_path: Path) -> None:
    runtime, (entry,) = next_run(tmp_path, "told", "rate/rate_limited", wait=200.0)
    hold = runtime.governor.peek(TARGET, runtime.now())
    assert isinstance(hold, Hold)
    assert hold.until == entry.due == pytest.approx(runtime.now() + 200.0, abs=60.0)


def test_a_retry_keeps_its_time(tmp_path: Path) -> None:
    runtime, (entry,) = next_run(tmp_path, "backoff", "transient/timeout", wait=200.0)
    assert entry.due == pytest.approx(runtime.now() + 200.0, abs=60.0)
    assert runtime.governor.peek(TARGET, runtime.now()) is None


def test_what_a_kill_caught_on_its_way_is_taken_up_until_it_is_done(tmp_path: Path) -> None:
    killed = started(tmp_path)
    request = Request(f"http://{TARGET}/item/1")
    Job(killed).journal(request, {"id": "x", "slot": None, "filter": False, "sent": 1}, TARGET)
    assert killed.store is not None
    killed.store.commit()
    for _ in range(2):
        runtime = started(tmp_path)
        assert runtime.crawler.spider is not None
        job = Job(runtime)
        assert [entry.id for entry in job.take_up(runtime.crawler.spider)] == ["x"]
        job.close()
