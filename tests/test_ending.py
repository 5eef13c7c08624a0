"""How what waits is surfaced when its target has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components import turns as module
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.flow import state_of
from scrapy_resiproxy.components.rescheduler import RELEASED_AT_ONCE, Rescheduler
from scrapy_resiproxy.schedule.waiting import HOLD

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 3 * RELEASED_AT_ONCE + 7


class Timers:
    """What was asked for by ``call_later``, and is called by hand."""

    def __init__(self) -> None:
        self.pending: list[Callable[[], None]] = []

    def call_later(self, _: float, called: Callable[[], None]) -> Any:
        self.pending.append(called)
        return SimpleNamespace(cancel=lambda: self.pending.remove(called))

    def turn(self) -> None:
        self.pending.pop(0)()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    monkeypatch.setattr(module, "call_later", timers.call_later)
    return timers


@pytest.fixture
def given_back() -> list[Request]:
    return []


@pytest.fixture
def waiting(timers: Timers, given_back: list[Request]) -> Rescheduler:
    """A crawl in which many requests of two targets wait for an hour, for one reason and another."""
    crawler = get_crawler(Spider)
    crawler.spider = Spider.from_crawler(crawler, name="shop")
    rescheduler = Crawl.of(crawler).rescheduler
    crawler.engine = SimpleNamespace(running=True, needs_backout=lambda: False, crawl=given_back.append)  # type: ignore[assignment]
    for number in range(MANY):
        for target in ("a.example", "b.example"):
            request = Request(f"http://{target}/{number}", meta={"_resiproxy": {"id": f"{target}{number}"}})
            due, reason = rescheduler.runtime.now() + 3600, (HOLD, "backoff")[number % 2]
            rescheduler.park(request, target=target, due=due, reason=reason)
    return rescheduler


@pytest.mark.parametrize("ended", [{"a.example"}, {"a.example", "b.example"}], ids=["a target", "the gateway"])
def test_a_turn_surfaces_no_more_than_it_gives_back_otherwise(
    waiting: Rescheduler, timers: Timers, given_back: list[Request], ended: set[str]
) -> None:
    waiting.end_targets(ended, "circuit_open", 5.0)
    assert not given_back
    sizes = []
    while len(given_back) < len(ended) * MANY:
        before = len(given_back)
        timers.turn()
        sizes.append(len(given_back) - before)
    assert max(sizes) == RELEASED_AT_ONCE
    assert len(sizes) == -(-len(ended) * MANY // RELEASED_AT_ONCE)
    states = [state_of(request) or {} for request in given_back]
    assert {(state.get("verdict"), state.get("not_before")) for state in states} == {("circuit_open", 5.0)}
    assert len(waiting.room) == (2 - len(ended)) * MANY


def test_what_has_gone_meanwhile_is_surfaced_once(
    waiting: Rescheduler, timers: Timers, given_back: list[Request]
) -> None:
    waiting.end_targets({"a.example"}, "circuit_open", None)
    first = next(iter(waiting.room))
    waiting.release(first)
    while waiting.room.count("a.example"):
        timers.turn()
    assert len({request.url for request in given_back}) == len(given_back) == MANY
