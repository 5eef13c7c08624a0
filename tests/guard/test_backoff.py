from __future__ import annotations

from random import Random
from statistics import mean

import pytest
from guard_kit import examples
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.backoff import full_jitter, with_told

attempts = st.integers(1, 10**9)
seconds = st.floats(0.001, 10_000)


class Dice:
    """Always throws the same share of the range."""

    def __init__(self, share):
        self.share = share

    def uniform(self, low, high):
        return low + self.share * (high - low)


@examples(150)
@given(attempts, seconds, seconds, st.integers(0, 99))
def test_a_delay_lies_between_nothing_and_the_cap(attempt, base, cap, seed):
    delay = full_jitter(attempt, base, cap, Random(seed))
    assert 0.0 <= delay <= cap


@pytest.mark.parametrize(
    ("attempt", "most"),
    [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (30, 60.0), (1_100, 60.0), (10**9, 60.0), (0, 1.0)],
)
def test_the_ceiling_doubles_with_every_attempt_up_to_the_cap(attempt, most):
    assert full_jitter(attempt, 1.0, 60.0, Dice(1.0)) == most
    assert full_jitter(attempt, 1.0, 60.0, Dice(0.0)) == 0.0


def test_the_doubling_stops_before_the_number_overflows():
    assert full_jitter(10**9, 1.0, float("inf"), Dice(1.0)) == 2.0**30


@pytest.mark.parametrize("attempt", [1, 3, 9])
def test_the_mean_is_half_the_ceiling(attempt):
    rng = Random(7)
    ceiling = min(60.0, 2.0 ** (attempt - 1))
    assert mean(full_jitter(attempt, 1.0, 60.0, rng) for _ in range(4000)) == pytest.approx(ceiling / 2, rel=0.04)


def test_the_same_seed_gives_the_same_delays():
    one, other = Random(3), Random(3)
    assert [full_jitter(n, 1, 60, one) for n in range(9)] == [full_jitter(n, 1, 60, other) for n in range(9)]


@examples(150)
@given(st.floats(0, 100), st.floats(0, 100_000), st.integers(0, 99))
def test_nobody_comes_back_earlier_than_told(delay, told, seed):
    wait = with_told(delay, told, Random(seed))
    assert max(delay, told) <= wait <= max(delay, told) + min(0.1 * told, 30.0)


def test_without_a_word_of_the_server_the_delay_stays():
    assert with_told(1.5, None, Dice(1.0)) == 1.5


@pytest.mark.parametrize(("told", "spread"), [(10.0, 1.0), (300.0, 30.0), (3600.0, 30.0)])
def test_those_who_were_told_the_same_are_spread_upwards(told, spread):
    assert with_told(0.0, told, Dice(0.0)) == told
    assert with_told(0.0, told, Dice(1.0)) == told + spread


@examples(100)
@given(st.floats(0, 100), st.floats(0, 5_000), st.floats(0, 5_000), st.integers(0, 99))
def test_a_longer_told_wait_never_makes_a_shorter_one(delay, one, other, seed):
    shorter, longer = sorted((one, other))
    assert with_told(delay, shorter, Random(seed)) <= with_told(delay, longer, Random(seed))
