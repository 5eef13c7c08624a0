from __future__ import annotations

from random import Random

import pytest

from scrapy_resiproxy.guard.open_gate import OpenGate
from scrapy_resiproxy.guard.outage import OutageWatch
from scrapy_resiproxy.guard.terms import Terms
from scrapy_resiproxy.settings import GuardSettings

TERMS = Terms(GuardSettings(), Random(1), [])


class Watch(OutageWatch):
    """With targets that are known by name."""

    def __init__(self):
        super().__init__(longest=900.0)
        self.gates = {}

    def note(self, target, now, *, unreachable):
        super().note(target, self.gates.setdefault(target, OpenGate(TERMS)), now, unreachable=unreachable)


def watched(targets, failing, now=1000.0, step=0.1):
    """A watch that has seen *targets* answer or, the last ones of them, fail; and the time."""
    watch = Watch()
    for number in range(targets):
        now += step
        watch.note(f"t{number}", now, unreachable=number >= targets - failing)
    return watch, now


@pytest.mark.parametrize(
    ("targets", "failing", "ours"),
    [
        (10, 5, True),
        (10, 4, False),
        (10, 10, True),
        (9, 9, False),
        (12, 6, True),
        (13, 6, False),
        (40, 20, True),
        (40, 19, False),
        (1, 1, False),
        (12, 0, False),
    ],
)
def test_half_of_ten_targets_out_of_reach_means_our_own_network(targets, failing, ours):
    assert watched(targets, failing)[0].ours is ours


def test_many_failures_of_one_target_are_its_own():
    watch, now = watched(10, 1)
    for _ in range(50):
        watch.note("t9", now, unreachable=True)
    assert not watch.ours


def test_a_target_that_answers_again_no_longer_counts_as_failing():
    watch, now = watched(10, 4)
    watch.note("t9", now, unreachable=False)
    watch.note("t0", now, unreachable=True)
    assert not watch.ours
    watch.note("t1", now, unreachable=True)
    assert watch.ours


@pytest.mark.parametrize(("age", "ours"), [(30.0, True), (30.5, False)])
def test_only_what_was_seen_of_late_counts(age, ours):
    watch, now = watched(9, 9, step=0.0)
    watch.note("another", now + age, unreachable=True)
    assert watch.ours is ours


def test_a_target_seen_again_does_not_keep_the_others_in_mind():
    watch, now = watched(9, 9, step=0.0)
    watch.note("t0", now + 29.0, unreachable=True)
    watch.note("another", now + 31.0, unreachable=True)
    assert not watch.ours


def test_a_target_that_fails_again_does_not_keep_the_failures_of_others_in_mind():
    watch, now = watched(9, 9, step=0.0)
    watch.note("t0", now + 29.0, unreachable=True)
    for number in range(9):
        watch.note(f"n{number}", now + 31.0, unreachable=False)
    watch.note("t0", now + 31.0, unreachable=True)
    assert not watch.ours


def test_one_canary_a_second_goes_to_find_out():
    watch, now = watched(12, 12)
    assert watch.held_until(now) is None
    watch.claim(now)
    assert watch.held_until(now) == now + 1.0
    assert watch.held_until(now + 1.0) is None


def test_an_outage_outlasts_the_memory_of_what_was_active():
    watch, now = watched(12, 12)
    for second in range(100):
        watch.claim(now + second)
        watch.note("t0", now + second, unreachable=True)
        assert watch.ours


def test_the_first_answer_ends_it_and_a_single_failure_does_not_bring_it_back():
    watch, now = watched(12, 12)
    watch.claim(now)
    watch.note("t3", now + 0.5, unreachable=False)
    assert not watch.ours
    watch.note("t4", now + 0.6, unreachable=True)
    assert not watch.ours


def test_an_outage_is_believed_for_so_long_and_then_not_again_before_an_answer():
    watch, now = watched(12, 12)
    for second in range(1, 900):
        watch.note(f"t{second % 12}", now + second, unreachable=True)
        assert watch.ours
    for second in range(900, 1000):
        watch.note(f"t{second % 12}", now + second, unreachable=True)
        assert not watch.ours
    watch.note("t0", now + 1000, unreachable=False)
    for number in range(12):
        watch.note(f"t{number}", now + 1000, unreachable=True)
    assert watch.ours
