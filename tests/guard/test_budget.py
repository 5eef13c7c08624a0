"""The budget's promises, checked against the times of what was really counted, bucket by bucket."""

from __future__ import annotations

from copy import deepcopy

import pytest
from guard_kit import examples
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.budget import FIRSTS, IDENTITY, TRANSIENT, Reservation, Rule, reserve
from scrapy_resiproxy.guard.window import BUCKETS, Ring

WINDOW = 60.0
WIDTH = WINDOW / BUCKETS

lives = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 90)),
        st.sampled_from(["firsts", "retry", "retry", "refund"]),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=60,
)
rules = st.tuples(st.sampled_from([0.0, 0.05, 0.1, 0.15, 0.2, 0.7, 1.0]), st.integers(0, 6))


class Life:
    """One budget, and the times of everything that happened to it."""

    def __init__(self, ratio, floor):
        self.rule = Rule.of(ratio, floor)
        self.ring = Ring(WINDOW, 2)
        self.now = 1000.0
        self.firsts: list[float] = []
        self.retries: list[tuple[float, Reservation]] = []
        self.denied = 0

    def live(self, steps, check=lambda life: None):
        for wait, kind, count in steps:
            self.now += wait
            if kind == "firsts":
                for _ in range(count):
                    self.ring.add(FIRSTS, self.now)
                    self.firsts.append(self.now)
            elif kind == "refund":
                if self.retries:
                    self.retries.pop()[1].refund(self.now)
            else:
                for _ in range(count):
                    self.ask(check)
        return self

    def ask(self, check=lambda life: None):
        got = reserve(((self.rule, self.ring, TRANSIENT),), self.now)
        if got is None:
            self.denied += 1
            return False
        self.retries.append((self.now, got))
        check(self)
        return True

    def bound(self, begin, end):
        firsts = sum(begin < at <= end for at in self.firsts)
        return max(self.rule.floor, self.rule.basis_points * firsts // 10_000)

    def retried(self, begin, end):
        return sum(begin < at <= end for at, _ in self.retries)


def at_every_grant(life):
    assert life.retried(life.now - WINDOW, life.now) <= life.bound(life.now - WINDOW, life.now)


@examples(150)
@given(rules, lives)
def test_at_every_grant_the_window_before_it_has_earned_it(rule, steps):
    Life(*rule).live(steps, at_every_grant)


@examples(100)
@given(rules, lives, st.lists(st.floats(0, 60), max_size=5))
def test_no_window_holds_more_than_twice_its_length_has_earned(rule, steps, offsets):
    life = Life(*rule).live(steps)
    for at, _ in life.retries:
        for end in [at, *(at + offset for offset in offsets)]:
            assert life.retried(end - WINDOW, end) <= life.bound(end - 2 * WINDOW, end)


@examples(100)
@given(rules, lives)
def test_in_the_long_run_retries_are_the_ratio_and_one_floor_for_each_window(rule, steps):
    life = Life(*rule).live(steps)
    windows = int((life.now - 1000.0) / WINDOW) + 1
    earned = life.rule.basis_points * len(life.firsts) / 10_000
    assert len(life.retries) <= earned + life.rule.floor * windows


@examples(50)
@given(rules, lives)
def test_after_an_idle_window_only_the_floor_is_left(rule, steps):
    life = Life(*rule).live(steps)
    life.now += WINDOW + WIDTH
    assert sum(life.ask() for _ in range(life.rule.floor + 5)) == life.rule.floor


@examples(50)
@given(rules, lives)
def test_a_denial_changes_nothing(rule, steps):
    life = Life(*rule).live(steps)
    while life.ask():
        pass
    before = [life.ring.at_most(series, life.now) for series in range(TRANSIENT + 1)]
    assert not life.ask()
    assert [life.ring.at_most(series, life.now) for series in range(TRANSIENT + 1)] == before


@examples(50)
@given(rules, lives)
def test_what_is_refunded_may_be_had_again_at_once_and_only_once(rule, steps):
    life = Life(*rule).live([*steps, (0.0, "firsts", 40)])
    if not life.ask():
        return
    while life.ask():
        pass
    _, last = life.retries.pop()
    last.refund(life.now)
    last.refund(life.now)
    assert life.ask()
    assert not life.ask()


def test_a_refund_goes_into_the_bucket_that_was_charged():
    life = Life(0.0, 1)
    assert life.ask()
    life.now += WINDOW / 2
    life.retries[0][1].refund(life.now)
    assert life.ask()
    life.now += WINDOW / 2 + WIDTH
    assert not life.ask(), "the second is charged to its own time"


@examples(50)
@given(rules, lives, st.floats(0, 500))
def test_a_clock_that_goes_back_makes_no_credit(rule, steps, back):
    life = Life(*rule).live([*steps, (0.0, "firsts", 30)])
    there, here = deepcopy(life), life
    there.now -= back
    granted = [sum(each.ask() for _ in range(60)) for each in (there, here)]
    assert granted[0] == granted[1]


@examples(150)
@given(st.integers(0, 100_000), st.integers(0, 3000), st.integers(0, 5))
def test_the_ratio_is_exact_to_the_basis_point(basis_points, firsts, floor):
    ring = Ring(WINDOW, 2)
    ring.add(FIRSTS, 1000.0, firsts)
    rule = Rule.of(basis_points / 10_000, floor)
    most = max(floor, basis_points * firsts // 10_000)
    ring.widen(TRANSIENT + 1)
    ring.add(TRANSIENT, 1000.0, max(0, most - 1))
    granted = sum(reserve(((rule, ring, TRANSIENT),), 1000.0) is not None for _ in range(3))
    assert granted == min(1, most)


@pytest.mark.parametrize("ratio", [0.15, 0.3, 0.4, 0.6, 0.7])
def test_a_ratio_that_is_no_round_number_is_not_cut_to_one(ratio):
    ring = Ring(WINDOW, 2)
    ring.add(FIRSTS, 1000.0, 1000)
    granted = 0
    while reserve(((Rule.of(ratio, 0), ring, TRANSIENT),), 1000.0):
        granted += 1
    assert granted == 1000 * ratio


def test_a_first_attempt_earns_for_no_longer_than_the_window():
    life = Life(1.0, 0)
    life.now = 1004.9
    life.live([(0.0, "firsts", 30)])
    life.now += WINDOW - 5.0
    assert life.ask()
    life.now += 5.05
    assert not life.ask()


def test_a_retry_is_charged_for_no_less_than_the_window():
    life = Life(0.0, 1)
    life.now = 1000.1
    assert life.ask()
    life.now = 1060.0
    assert not life.ask()
    life.now = 1065.0
    assert life.ask()


def test_the_floor_is_no_bonus_on_top_of_the_ratio():
    life = Life(0.1, 10).live([(0.0, "firsts", 40), (0.0, "firsts", 40), (0.0, "firsts", 40)])
    assert sum(life.ask() for _ in range(50)) == 12


def test_two_budgets_are_charged_together_or_not_at_all():
    own, shared = Ring(WINDOW, 2), Ring(WINDOW, 3)
    wanted = ((Rule.of(1.0, 5), own, IDENTITY), (Rule.of(0.0, 2), shared, TRANSIENT))
    granted = [reserve(wanted, 1000.0) for _ in range(4)]
    assert [bool(each) for each in granted] == [True, True, False, False]
    assert own.at_most(IDENTITY, 1000.0) == shared.at_most(TRANSIENT, 1000.0) == 2
    granted[0].refund(1000.0)
    assert own.at_most(IDENTITY, 1000.0) == shared.at_most(TRANSIENT, 1000.0) == 1
