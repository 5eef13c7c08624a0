"""The lines about targets that are not well, and the warning of retries: each of one span, which it names."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_resiproxy.components.alarms import LINES_AT_MOST, TELLING_FIRSTS, Alarms
from scrapy_resiproxy.guard.answers import GivenUp
from scrapy_resiproxy.guard.view import TargetView
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.tally import Tally

DOWN = Outcome(OutcomeClass.TRANSIENT, "unavailable", Blame.TARGET)
REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)
WELL: dict[str, Any] = {
    "state": "closed",
    "since": None,
    "next_probe": None,
    "gone_since": None,
    "give_up_at": None,
    "hold_until": None,
    "rate": None,
    "failure_ratio": 0.0,
    "given_up": None,
    "down": False,
    "row": 0,
}


class Crawl:
    """A crawl on a virtual clock, as far as the alarms look at it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, pool: object = None, most: int = 100) -> None:
        caplog.set_level(logging.INFO)
        self.caplog = caplog
        self.time = 1000.0
        self.views: dict[str, dict[str, Any]] = {}
        self.tally = Tally()
        runtime: Any = SimpleNamespace(
            config=SimpleNamespace(report=SimpleNamespace(stats_max_targets=most, retry_demand_warn=0.2)),
            now=lambda: self.time,
            tally=self.tally,
            pool=pool,
            is_direct=lambda target: target == "cdn.example",
            room=SimpleNamespace(count=lambda target: 2),
            pending=lambda target: None,
            governor=SimpleNamespace(view=lambda target, now: TargetView(**{**WELL, **self.views.get(target, {})})),
            crawler=SimpleNamespace(spider=None),
        )
        self.alarms = Alarms(runtime)

    def answers(self, outcome: Outcome, count: int, target: str = "a.example") -> None:
        for _ in range(count):
            self.tally.departed(target, self.time, retry=False)
            self.tally.judged(target, outcome, 0, fresh=True)

    def turn(self, seconds: float = 60.0) -> list[str]:
        """What is said *seconds* later."""
        self.time += seconds
        self.caplog.clear()
        self.alarms.say()
        return [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def crawl(caplog: pytest.LogCaptureFixture) -> Crawl:
    return Crawl(caplog)


def test_a_line_speaks_of_one_span_alone_and_names_it(crawl: Crawl) -> None:
    crawl.answers(DOWN, 50)
    assert "in the last 60 s 50 of 50 answers failed, mostly transient/unavailable" in crawl.turn()[0]
    crawl.answers(OK, 6)
    crawl.answers(REFUSED, 4)
    assert "in the last 30 s 4 of 10 answers failed, mostly identity/forbidden" in crawl.turn(30)[0]


def test_who_is_well_again_has_no_line_however_bad_the_crawl_was(crawl: Crawl) -> None:
    crawl.answers(DOWN, 50)
    crawl.turn()
    crawl.answers(OK, 5)
    assert crawl.turn() == []


def test_who_never_failed_hides_nobody_who_did(crawl: Crawl) -> None:
    for target in ("0.example", "z.example"):
        crawl.answers(OK, 50, target)
        crawl.tally.of(target).bytes_bad = 10**9
    crawl.answers(DOWN, 1)
    (line,) = crawl.turn()
    assert line.startswith("a.example: failing")


def test_while_nothing_is_sent_the_last_reason_is_said(crawl: Crawl) -> None:
    crawl.answers(DOWN, 5)
    crawl.views["a.example"] = {"state": "open", "gone_since": 1000.0, "give_up_at": 1900.0, "next_probe": 1130.0}
    crawl.turn()
    crawl.turn()
    (line,) = crawl.turn(5)
    assert line == (
        "a.example: circuit open for 2 min; no answer in the last 5 s, before that mostly transient/unavailable (fault "
        "of the target); 2 waiting, next probe in 5 s, given up in 775 s; the site fails: nothing to do but wait, "
        "it is probed"
    )


def test_one_that_was_not_among_the_worst_is_told_of_the_whole_time(caplog: pytest.LogCaptureFixture) -> None:
    crawl = Crawl(caplog, most=0)
    for number in range(LINES_AT_MOST):
        crawl.answers(DOWN, 9, f"worse{number}.example")
    crawl.answers(DOWN, 8)
    assert len(crawl.turn()) == LINES_AT_MOST
    crawl.answers(DOWN, 8)
    assert any("a.example: failing; in the last 2 min 16 of 16 answers failed" in line for line in crawl.turn())


@pytest.mark.parametrize(
    ("view", "head"),
    [
        ({"state": "half_open"}, "a.example: circuit half open; "),
        ({"state": "recovering"}, "a.example: recovering; "),
        ({"hold_until": 1065.0}, "a.example: slowed down; in the last 60 s 1 of 10 answers failed"),
        ({"state": "open", "given_up": GivenUp("circuit_open"), "next_probe": 1.0, "give_up_at": 1.0}, "given up; "),
    ],
)
def test_a_target_is_called_what_it_is(crawl: Crawl, view: dict[str, Any], head: str) -> None:
    crawl.answers(OK, 9)
    crawl.answers(DOWN, 1)
    crawl.views["a.example"] = view
    (line,) = crawl.turn()
    assert head in line
    assert ("given up in" in line, "next probe" in line) == (False, False)


@pytest.mark.parametrize(
    ("pool", "target", "said"),
    [
        (object(), "a.example", "fault of the session"),
        (object(), "cdn.example", "fault of our address"),
        (None, "a.example", "fault of our address"),
    ],
)
def test_sessions_are_spoken_of_where_there_are_some(
    caplog: pytest.LogCaptureFixture, pool: object, target: str, said: str
) -> None:
    crawl = Crawl(caplog, pool=pool)
    crawl.answers(REFUSED, 3, target)
    (line,) = crawl.turn()
    assert said in line
    assert ("of fresh sessions" in line) is ("session" in said)
    assert ("RESIPROXY_COUNTRY" in line) is ("session" in said)


def demand(crawl: Crawl, firsts: int, wanted: int) -> None:
    crawl.answers(OK, firsts)
    for _ in range(wanted):
        crawl.tally.wanted("a.example")


def test_the_warning_of_retries_looks_at_the_last_span(crawl: Crawl) -> None:
    demand(crawl, 1000, 0)
    assert crawl.turn() == []
    demand(crawl, 20, 10)
    assert crawl.turn() == [
        "Retries wanted per request in the last 60 s: 0.50 (RESIPROXY_RETRY_DEMAND_WARN is 0.2); 0.00 were sent."
    ]
    demand(crawl, 100, 10)
    assert crawl.turn() == []


def test_few_first_attempts_say_nothing_until_there_are_more(crawl: Crawl) -> None:
    demand(crawl, TELLING_FIRSTS - 1, 5)
    assert crawl.turn() == []
    demand(crawl, 1, 0)
    (line,) = crawl.turn()
    assert "in the last 2 min: 0.50 " in line


def test_a_warning_that_is_switched_off_is_not_given(crawl: Crawl) -> None:
    crawl.alarms.settings.retry_demand_warn = 0
    demand(crawl, 20, 20)
    assert crawl.turn() == []
