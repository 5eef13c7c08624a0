"""What the log calls a target whose circuit opens: down, or failing, or up and refusing us."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.signalmanager import SignalManager

from scrapy_resiproxy.components.events import Events
from scrapy_resiproxy.guard.answers import Permit
from scrapy_resiproxy.guard.governor import Governor
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.settings import GuardSettings

A = "a.example"
GATEWAY = "http://gateway.example:7000"
DOWN = Outcome(OutcomeClass.TRANSIENT, "unavailable", Blame.TARGET)
REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)
UNREACHED = Outcome(OutcomeClass.TRANSIENT, "proxy_timeout", Blame.PROXY)
LIMITED = Outcome(OutcomeClass.RATE, "too_many_requests", Blame.TARGET)


class Crawl:
    """A governor and its events on a virtual clock."""

    def __init__(self, overrides: dict[str, GuardSettings] | None = None, endpoint: str | None = None) -> None:
        self.time = 1000.0
        self.governor = Governor(GuardSettings(), random.Random(0), overrides)
        self.endpoint = endpoint
        runtime: Any = SimpleNamespace(
            governor=self.governor,
            config=SimpleNamespace(guard=GuardSettings()),
            endpoint=endpoint,
            queues=[],
            room=SimpleNamespace(holds=False),
            now=lambda: self.time,
            wall_at=lambda moment: moment,
            crawler=SimpleNamespace(signals=SignalManager(self), spider=None),
        )
        rescheduler: Any = SimpleNamespace(
            wake_at=lambda when: None, look_again=lambda target: None, look_everywhere=lambda: None
        )
        self.events = Events(runtime, rescheduler)

    def answers(self, *outcomes: Outcome) -> None:
        """One after the other, a second apart."""
        for outcome in outcomes:
            self.time += 1.0
            permit = self.governor.admit(A, self.time, endpoint=self.endpoint)
            assert isinstance(permit, Permit)
            self.governor.report(permit, outcome, self.time, fresh=True)
            self.events.take(A, outcome)

    def probe(self, outcome: Outcome) -> None:
        """When the circuit lets one through."""
        self.time = (self.governor.view(A, self.time).next_probe or self.time) + 1.0
        self.answers(outcome)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([DOWN] * 5, "a.example is down (transient/unavailable): its circuit is open, nothing is sent there for "),
        (
            [OK] * 10 + [DOWN] * 5,
            "a.example fails (5 answers in a row, the last one transient/unavailable): its circuit is open",
        ),
        (
            [OK, DOWN] * 10,
            "a.example fails (50% of its answers in the last 60 s, the last one transient/unavailable): its circuit",
        ),
        ([REFUSED] * 20, "a.example refuses us (identity/forbidden): its circuit is open"),
    ],
    ids=["nothing is good", "a row after good ones", "a share", "refused"],
)
def test_only_a_target_without_a_good_answer_is_called_down(
    outcomes: list[Outcome], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    Crawl().answers(*outcomes)
    assert caplog.messages[-1].startswith(said)


@pytest.mark.parametrize(
    ("before", "probe", "said"),
    [
        ([DOWN] * 5, DOWN, "a.example is still down (transient/unavailable): "),
        ([OK, DOWN] * 10, DOWN, "a.example still fails (transient/unavailable): "),
        ([DOWN] * 5, LIMITED, "a.example still limits us (rate/too_many_requests): "),
        ([REFUSED] * 20, REFUSED, "a.example still refuses us (identity/forbidden): "),
    ],
    ids=["down", "flaky", "limited", "refused"],
)
def test_a_probe_that_fails_is_said_in_the_same_words(
    before: list[Outcome], probe: Outcome, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    crawl = Crawl()
    crawl.answers(*before)
    crawl.probe(probe)
    assert caplog.messages[-1].startswith(said)


def test_who_fails_for_longer_than_the_window_is_down(caplog: pytest.LogCaptureFixture) -> None:
    crawl = Crawl()
    crawl.answers(*[OK, DOWN] * 10)
    crawl.time += 120.0
    crawl.probe(DOWN)
    assert caplog.messages[-1].startswith("a.example is still down")


@pytest.mark.parametrize(("endpoint", "span"), [(None, "5 min"), (GATEWAY, "60 s")], ids=["target", "proxy"])
def test_the_window_that_is_named_is_the_one_that_was_looked_at(
    endpoint: str | None, span: str, caplog: pytest.LogCaptureFixture
) -> None:
    failed = DOWN if endpoint is None else UNREACHED
    Crawl({"*": GuardSettings(circuit_window=300.0)}, endpoint).answers(*[OK, failed] * 10)
    assert f"fails (50% of its answers in the last {span}, the last one " in caplog.messages[-1]
