"""What is left at the end of a crawl that keeps nothing: letters of what was sent before, and a count of the others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components import turns, unqueued
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.schedule.waiting import HOLD

if TYPE_CHECKING:
    from pathlib import Path

QUEUES = {
    "ours": "scrapy_resiproxy.GuardedPriorityQueue",
    "the plain queue": "scrapy.pqueues.ScrapyPriorityQueue",
    "the stock queue": "scrapy.pqueues.DownloaderAwarePriorityQueue",
}
FACTS = {"outcome": "rate", "reason": "too_many_requests", "status": 429}


@pytest.fixture(autouse=True)
def no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (turns, unqueued):
        monkeypatch.setattr(module, "call_later", lambda *_: SimpleNamespace(cancel=lambda: None))


class Left:
    """A crawl that is about to close, and what is left in it."""

    def __init__(self, directory: Path, engine: str = "scheduler", **settings: Any) -> None:
        self.feed = directory / "letters.jsonl"
        more = {"RESIPROXY_DEADLETTER_FILE": str(self.feed), "LOG_ENABLED": False, **settings}
        self.crawler = get_crawler(Spider, more)
        spider = self.crawler.spider = Spider.from_crawler(self.crawler, name="shop")
        downloader = SimpleNamespace(slots={}, get_slot_key=lambda request: request.url.split("/")[2])
        self.crawler.engine = SimpleNamespace(  # type: ignore[assignment]
            running=True, needs_backout=lambda: False, crawl=self.crawl, downloader=downloader
        )
        self.parts = Crawl.of(self.crawler)
        scheduler_class = settings.get("SCHEDULER", Scheduler)
        self.scheduler: Any = scheduler_class.from_crawler(self.crawler)
        if isinstance(self.scheduler, Scheduler) and scheduler_class is Scheduler:
            self.scheduler.open(spider)
        there = self.scheduler if engine == "scheduler" else SimpleNamespace(scheduler=self.scheduler)
        setattr(self.crawler.engine, engine, there)

    def crawl(self, request: Request) -> None:
        self.parts.entrance.request_scheduled(request)
        self.scheduler.enqueue_request(request)

    def close(self) -> None:
        self.parts.closing.close()

    @property
    def letters(self) -> dict[str, str]:
        lines = self.feed.read_bytes().splitlines() if self.feed.exists() else []
        return {letter["request"]["url"]: letter["reason"] for letter in map(json.loads, lines)}


def ours(url: str, **state: Any) -> Request:
    return Request(url, dont_filter=True, meta={"_resiproxy": {"id": url, "filter": False, **state}})


def redirect(url: str, source: str) -> Request:
    request = ours(url)
    request.meta.update(redirect_urls=[source], redirect_reasons=[302], redirect_times=1)
    return request


@pytest.mark.parametrize("engine", ["scheduler", "_slot"], ids=["since 2.19", "before 2.19"])
@pytest.mark.parametrize("queue", QUEUES)
def test_what_was_sent_once_and_is_in_scrapys_queue_has_a_letter(tmp_path: Path, queue: str, engine: str) -> None:
    left = Left(tmp_path, engine, SCHEDULER_PRIORITY_QUEUE=QUEUES[queue])
    left.crawl(Request("http://a.example/new"))
    left.crawl(ours("http://a.example/given-back", back=True))
    left.crawl(redirect("http://b.example/page", "http://a.example/redirected"))
    left.crawl(ours("http://a.example/failed", sent=1, log=[[1.0, FACTS]]))
    left.close()
    assert left.letters == {"http://a.example/redirected": "shutdown", "http://a.example/failed": "shutdown"}
    assert left.parts.closing.unsent == 2


@pytest.mark.parametrize("queue", QUEUES)
def test_a_redirect_that_waits_for_its_held_target_was_sent_before(tmp_path: Path, queue: str) -> None:
    left = Left(tmp_path, SCHEDULER_PRIORITY_QUEUE=QUEUES[queue])
    hop = redirect("http://b.example/page", "http://a.example/redirected")
    hop.meta["_resiproxy"]["hop"] = True
    first = ours("http://b.example/first")
    due = left.parts.runtime.now() + 100
    for request in (hop, first):
        left.parts.rescheduler.park(request, target="b.example", due=due, reason=HOLD)
    left.close()
    assert left.letters == {"http://a.example/redirected": "shutdown"}
    assert left.parts.closing.unsent == 1


@pytest.mark.parametrize("queue", QUEUES)
def test_what_was_given_back_and_is_in_the_queue_too_counts_once(tmp_path: Path, queue: str) -> None:
    left = Left(tmp_path, SCHEDULER_PRIORITY_QUEUE=QUEUES[queue])
    for request in (ours("http://a.example/failed", sent=1, log=[[1.0, FACTS]]), ours("http://a.example/held")):
        reason = "told" if request.meta["_resiproxy"].get("sent") else HOLD
        left.parts.rescheduler.park(request, target="a.example", due=0.0, reason=reason)
        left.parts.rescheduler.release(left.parts.runtime.room.get(request.url))
    assert len(left.scheduler) == 2
    left.close()
    assert left.letters == {"http://a.example/failed": "shutdown"}
    assert left.parts.closing.unsent == 1


def test_observing_leaves_everything_where_it_is(tmp_path: Path) -> None:
    left = Left(tmp_path, SCHEDULER_PRIORITY_QUEUE=QUEUES["the plain queue"], RESIPROXY_MODE="observe")
    left.crawl(Request("http://a.example/new"))
    left.close()
    assert len(left.scheduler) == 1
    assert (left.letters, left.parts.closing.unsent) == ({}, 0)


class Elsewhere(BaseScheduler):
    """Stands for a scheduler whose queue outlives the process."""

    def __init__(self) -> None:
        self.held: list[Request] = []

    @classmethod
    def from_crawler(cls, crawler: Any) -> Elsewhere:  # type: ignore[override]
        return cls()

    def __len__(self) -> int:
        return len(self.held)

    def has_pending_requests(self) -> bool:
        return bool(self.held)

    def enqueue_request(self, request: Request) -> bool:
        self.held.append(request)
        return True

    def next_request(self) -> Request | None:
        raise AssertionError("what is there is not ours to take")


def test_a_scheduler_that_is_not_scrapys_keeps_what_it_has_and_gets_back_what_was_never_sent(tmp_path: Path) -> None:
    left = Left(tmp_path, SCHEDULER=Elsewhere)
    first, failed = ours("http://a.example/held"), ours("http://a.example/failed", sent=1, log=[[1.0, FACTS]])
    for request in (first, failed):
        left.parts.rescheduler.park(request, target="a.example", due=1e9, reason="session")
    left.close()
    assert [request.url for request in left.scheduler.held] == [first.url]
    assert left.letters == {failed.url: "shutdown"}
    assert left.parts.closing.unsent == 0


def test_a_queue_that_cannot_be_read_costs_nobody_a_letter(tmp_path: Path) -> None:
    left = Left(tmp_path, SCHEDULER_PRIORITY_QUEUE=QUEUES["the plain queue"])
    left.crawl(Request("http://a.example/new"))
    left.scheduler.mqs = SimpleNamespace(pop=lambda: 1 / 0)
    failed = ours("http://a.example/failed", sent=1, log=[[1.0, FACTS]])
    left.parts.rescheduler.park(failed, target="a.example", due=1e9, reason="backoff")
    left.close()
    assert left.letters == {failed.url: "shutdown"}


def test_one_letter_that_cannot_be_written_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left(tmp_path, SCHEDULER_PRIORITY_QUEUE=QUEUES["ours"])
    bury = left.parts.office.bury

    def bury_all_but_one(request: Request, *args: Any, **known: Any) -> bool:
        if request.url.endswith("/2"):
            raise TypeError("it cannot be described")
        return bury(request, *args, **known)

    monkeypatch.setattr(left.parts.office, "bury", bury_all_but_one)
    refused = [ours(f"http://a.example/{number}", sent=1, log=[[1.0, FACTS]]) for number in range(4)]
    for request in refused:
        # Announced to the handlers, and never put into a queue.
        left.parts.entrance.request_scheduled(request)
    left.parts.unqueued.look()
    assert left.letters == {request.url: "terminal" for request in refused if not request.url.endswith("/2")}
    assert left.parts.office.unwritten == 1
    assert left.parts.unqueued._announced == {}
