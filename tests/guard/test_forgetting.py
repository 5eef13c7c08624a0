"""A target that was forgotten, and made anew when it is asked for again, is like one that never was."""

from __future__ import annotations

from random import Random

import pytest
from guard_kit import FORBIDDEN, NO_NAME, NOT_FOUND, PROXY_DOWN, REFUSED, SESSION_RATE, TIMEOUT, UNAVAILABLE, slowed
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.guard import gate
from scrapy_resiproxy.guard.decide import Charge
from scrapy_resiproxy.guard.governor import Governor, Permit
from scrapy_resiproxy.outcome import OK
from scrapy_resiproxy.settings import GuardSettings

WINDOW = 48.0
TARGETS = [f"t{number}" for number in range(12)]
OUTCOMES = [
    *[OK] * 12,
    *(
        FORBIDDEN,
        NO_NAME,
        NOT_FOUND,
        PROXY_DOWN,
        REFUSED,
        SESSION_RATE,
        TIMEOUT,
        UNAVAILABLE,
        slowed(None),
        slowed(3.0),
    ),
]

waits = st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0, 4.0, 20.0, 31.0, 36.0, 44.0, 53.0, 70.0])
targets = st.sampled_from(["t0", "t1"])
steps = st.one_of(
    st.tuples(st.just("ask"), waits, targets, st.sampled_from([None, "gw"]), st.booleans()),
    st.tuples(st.just("answer"), waits, st.integers(0, 20), st.sampled_from(OUTCOMES), st.booleans()),
    st.tuples(st.just("well"), waits, targets, st.integers(1, 6), st.none()),
    st.tuples(st.just("cancel"), waits, st.integers(0, 20), st.none(), st.none()),
    st.tuples(st.just("reserve"), waits, targets, st.sampled_from(list(Charge)), st.none()),
    st.tuples(st.just("refund"), waits, st.integers(0, 20), st.none(), st.none()),
    st.tuples(st.just("all"), waits, st.sampled_from(OUTCOMES), st.booleans(), st.none()),
)


class Elephant(Governor):
    """It never forgets."""

    def evict(self, now, most=1000):
        return 0


class Sieve(Governor):
    """It forgets all it may, at every turn."""

    forgotten = 0

    def admit(self, target, now, **how):
        self.forgotten += self.evict(now)
        return super().admit(target, now, **how)

    def report(self, permit, outcome, now, **how):
        self.forgotten += self.evict(now)
        super().report(permit, outcome, now, **how)

    def reserve(self, target, charge, now, **how):
        self.forgotten += self.evict(now)
        return super().reserve(target, charge, now, **how)


class Both:
    """Two governors in the same world: whatever they are asked, they say the same."""

    def __init__(self, **own):
        rules = GuardSettings(budget_window=WINDOW, circuit_window=20.0, **own)
        self.sieve = Sieve(rules, Random(1))
        self.two = Elephant(rules, Random(1)), self.sieve
        self.now = 1000.0
        self.permits = []
        self.reservations = []

    def live(self, steps):
        for kind, wait, *words in steps:
            self.now += wait
            getattr(self, f"_{kind}")(*words)
            self.compare()

    def _ask(self, target, endpoint, retry):
        answers = [
            governor.admit(target, self.now, endpoint=endpoint, retry=retry, lease=60.0) for governor in self.two
        ]
        permits = [isinstance(answer, Permit) for answer in answers]
        assert all(permits) or answers[0] == answers[1]
        if all(permits):
            assert answers[0].generation == answers[1].generation
            self.permits.append(answers)

    def _answer(self, index, outcome, fresh):
        if self.permits:
            pair = self.permits.pop(index % len(self.permits))
            for governor, permit in zip(self.two, pair, strict=True):
                governor.report(permit, outcome, self.now, fresh=fresh)

    def _well(self, target, count, _):
        for _ in range(count):
            self._ask(target, None, False)
            self._answer(-1, OK, True)

    def _all(self, outcome, fresh, _):
        for target in TARGETS:
            self._ask(target, None, False)
            self._answer(-1, outcome, fresh)

    def _cancel(self, index, *_):
        if self.permits:
            for governor, permit in zip(self.two, self.permits.pop(index % len(self.permits)), strict=True):
                governor.cancel(permit, self.now)

    def _reserve(self, target, charge, _):
        pair = [governor.reserve(target, charge, self.now, endpoint="gw") for governor in self.two]
        assert (pair[0] is None) == (pair[1] is None)
        if pair[0] is not None:
            self.reservations.append(pair)

    def _refund(self, index, *_):
        if self.reservations:
            for governor, reservation in zip(
                self.two, self.reservations.pop(index % len(self.reservations)), strict=True
            ):
                governor.refund(reservation, self.now)

    def compare(self):
        for target in TARGETS:
            told = [
                (
                    governor.peek(target, self.now),
                    governor.pace(target),
                    governor.healthy(target, self.now),
                    governor.tail_open(target, self.now),
                    governor.still(target, self.now),
                    governor.view(target, self.now),
                    governor.own_outage,
                )
                for governor in self.two
            ]
            assert told[0] == told[1]
        events = [governor.take_events() for governor in self.two]
        assert events[0] == events[1]


@pytest.fixture(scope="module", autouse=True)
def no_target_is_old_news():
    """What had trouble is forgotten after ten quiet minutes whatever it remembers: not looked at here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "QUIET", float("inf"))
        yield


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, min_size=3, max_size=40), st.integers(0, 2), st.booleans())
def test_nobody_can_tell_whether_a_target_was_forgotten(steps, floor, pacing):
    Both(
        budget_ratio=0.5,
        budget_min_retries=floor,
        budget_global_ratio=0.5,
        budget_global_min_retries=2 * floor,
        circuit_min_requests=4,
        circuit_consecutive=3,
        circuit_cooldown=2.0,
        pacing_enabled=pacing,
    ).live(steps)


def test_the_one_that_forgets_does_forget():
    both = Both()
    both.live([("all", 100.0, OK, True, None)] * 3)
    assert both.sieve.forgotten == 2 * len(TARGETS)
    assert [len(governor) for governor in both.two] == [len(TARGETS)] * 2
