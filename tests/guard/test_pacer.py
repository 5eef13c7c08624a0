from __future__ import annotations

from itertools import pairwise

import pytest
from guard_kit import examples
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.pacer import BRISK, CUT, FORGOTTEN_AFTER, NEAR, PROBE_TIME, RETURN_TIME, SLOWEST, Pacer

rates = st.floats(0.05, 200)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("use"), st.integers(1, 200)),
        st.tuples(st.just("idle"), st.floats(0, 100)),
        st.tuples(st.just("refuse"), st.sampled_from([0.0, 0.5, 1.0, 5.0, 60.0])),
    ),
    min_size=1,
    max_size=12,
)


def used(pacer, now, count, granted=True, wait=0.0):
    """*count* requests as fast as it allows, each answered at once; the time of the last one."""
    for _ in range(count):
        now = max(now, pacer.free_at()) + wait
        pacer.claim(now)
        if granted:
            pacer.granted()
    return now


def used_for(pacer, now, seconds):
    end = now + seconds
    while max(now, pacer.free_at()) <= end:
        now = used(pacer, now, 1)
    return now


def settled(limit, now=1000.0):
    """A pacer that remembers *limit* per second as what it measured, just after its cut."""
    pacer = Pacer(limit, 0.0, now - 100.0, sure=True)
    pacer.refused(now - 1.0, limit, 10.0, now)
    pacer._limit = limit
    pacer._begin(0.0, now)
    return pacer


class Walk:
    """A pacer under random use, and what it did."""

    def __init__(self, guess):
        self.now = 1000.0
        self.pacer = Pacer(guess, 0.0, self.now, sure=True)
        self.claims: list[tuple[float, float]] = []

    def go(self, moves, check=lambda walk: None):
        for kind, amount in moves:
            if kind == "use":
                for _ in range(amount):
                    self.now = max(self.now, self.pacer.free_at())
                    self.claims.append((self.now, self.pacer.rate))
                    self.pacer.claim(self.now)
                    self.pacer.granted()
                    check(self)
            elif kind == "idle":
                self.now += amount
            else:
                self.now += 0.01
                self.pacer.refused(self.now - 0.001, self.pacer.rate, amount, self.now)
                self.now += amount
            check(self)
        return self


@examples(60)
@given(rates, moves)
def test_between_two_requests_lies_the_interval_of_the_pace(guess, moves):
    claims = Walk(guess).go(moves).claims
    for (at, rate), (after, _) in pairwise(claims):
        assert after - at >= 1.0 / rate - 1e-6


@examples(60)
@given(rates, moves)
def test_the_pace_never_falls_below_the_slowest(guess, moves):
    def check(walk):
        assert walk.pacer.rate >= SLOWEST

    Walk(guess).go(moves, check)
    assert Pacer(0.0, 0.0, 0.0, sure=True).rate == SLOWEST


@examples(60)
@given(rates, moves, st.sampled_from([0.0, 1.0, 60.0]), st.floats(0, 300))
def test_a_cut_always_slows_down(guess, moves, wait, lately):
    walk = Walk(guess).go(moves)
    before = walk.pacer.rate
    assert walk.pacer.refused(walk.now + 0.1, lately, wait, walk.now + 0.2)
    assert walk.pacer.rate == SLOWEST or walk.pacer.rate <= CUT * before * (1 + 1e-9)


@examples(60)
@given(rates, moves, st.lists(st.floats(0, 20), min_size=1, max_size=20))
def test_the_refusals_of_one_flight_cut_once(guess, moves, flight):
    walk = Walk(guess).go(moves)
    sent = walk.now + 0.1
    first = sent + 0.5
    assert walk.pacer.refused(sent, 1.0, 0.0, first)
    rate = walk.pacer.rate
    for later in flight:
        assert not walk.pacer.refused(min(first, sent + later), 1.0, 0.0, first + later)
    assert walk.pacer.rate == rate
    assert walk.pacer.refused(first + 0.001, 1.0, 0.0, first + 0.1)


@examples(60)
@given(rates, moves, st.integers(1, 50), st.floats(2.01, 50))
def test_the_pace_does_not_grow_while_less_than_half_of_it_is_used(guess, moves, count, times):
    walk = Walk(guess).go(moves)
    pacer = walk.pacer
    walk.now = max(walk.now, pacer.free_at(), pacer.last_used)
    pacer.claim(walk.now)
    rate = pacer.rate
    for _ in range(count):
        walk.now = max(walk.now, pacer.last_used) + times / rate
        pacer.claim(walk.now)
    assert pacer.rate == rate


def test_the_pace_grows_while_half_of_it_is_used():
    pacer = settled(10.0)
    rate = pacer.rate
    used(pacer, 1000.0, 5, wait=0.9 / rate)
    assert pacer.rate > rate


def test_it_comes_back_quickly_to_just_under_the_limit():
    pacer = settled(10.0)
    assert pacer.rate == pytest.approx(CUT * 10.0)
    now = used_for(pacer, 1000.0, RETURN_TIME / 2)
    assert pacer.rate > 10.0 * (CUT + NEAR) / 2
    used_for(pacer, now, RETURN_TIME / 2)
    assert pacer.rate == pytest.approx(NEAR * 10.0, rel=0.01)


def test_it_probes_beyond_the_limit_slowly_at_first_and_faster_the_longer_it_goes_well():
    pacer = settled(10.0)
    now = used_for(pacer, 1000.0, RETURN_TIME + PROBE_TIME / 4)
    assert NEAR * 10.0 < pacer.rate < 1.0 * 10.0
    now = used_for(pacer, now, PROBE_TIME / 4)
    assert 10.0 < pacer.rate < 11.0
    used_for(pacer, now, PROBE_TIME / 2)
    assert pacer.rate == pytest.approx(19.5, rel=0.02)


def test_a_slow_target_has_no_more_probes_for_its_requests_than_a_brisk_one():
    requests = {}
    for limit in (BRISK, BRISK / 10):
        pacer, now, count = settled(limit), 1000.0, 0
        while pacer.rate < limit:
            now = used(pacer, now, 1)
            count += 1
        requests[limit] = count
    assert requests[BRISK / 10] == pytest.approx(requests[BRISK], rel=0.05)
    assert requests[BRISK] > 60


def test_a_guess_is_doubled_from_below_it():
    pacer = Pacer(10.0, 0.0, 1000.0, sure=True)
    assert pacer.rate == pytest.approx(7.0)
    now = used_for(pacer, 1000.0, 2.0)
    assert pacer.rate == pytest.approx(14.0, rel=0.05)
    used_for(pacer, now, 2.0)
    assert pacer.rate == pytest.approx(28.0, rel=0.05)


def test_one_request_at_most_doubles_a_guess():
    pacer = Pacer(SLOWEST, 0.0, 1000.0, sure=True)
    now = 1000.0
    for _ in range(20):
        before = pacer.rate
        now = used(pacer, now, 1)
        assert pacer.rate <= 2.0 * before


@pytest.mark.parametrize(
    ("lately", "wait", "limit"),
    [
        pytest.param(20.0, 1.0, 20.0, id="all of the pace was granted"),
        pytest.param(10.0, 1.0, 14.0, id="a burst hid the limit: between the two"),
        pytest.param(10.0, 0.0, 14.0, id="no word of a wait"),
        pytest.param(10.0, 2.0, 14.0, id="a short wait"),
        pytest.param(1.7, 50.0, 1.7, id="a window was used up: what it granted"),
        pytest.param(30.0, 50.0, 20.0, id="never more than the pace"),
        pytest.param(0.0, 1.0, 8.0, id="nothing granted of late"),
        pytest.param(0.0, 50.0, 8.0, id="nothing granted, a long wait"),
    ],
)
def test_what_a_guess_becomes_at_the_second_refusal(lately, wait, limit):
    pacer = Pacer(20.0 / CUT, 0.0, 1000.0, sure=True)
    assert pacer.rate == pytest.approx(20.0)
    assert pacer.refused(1000.5, lately, wait, 1001.0)
    assert pacer.rate == pytest.approx(CUT * limit)


@pytest.mark.parametrize(
    ("wait", "long"),
    [(1.0, False), (30.0, True)],
)
def test_later_on_the_limit_is_what_was_granted_since_the_last_refusal(wait, long):
    pacer = settled(10.0)
    pacer._begin(wait, 1000.0)
    now = used(pacer, 1000.0 + wait, 100)
    rate = pacer.rate
    measured = 100 / (now - 1000.0)
    assert pacer.refused(now - 0.01, 77.0, wait, now)
    limit = measured if long else measured + 0.4 * (rate - measured)
    assert pacer.rate == pytest.approx(CUT * limit, rel=0.02)


def test_time_in_which_nothing_was_wanted_is_no_time_in_which_little_was_granted():
    pacer = settled(10.0)
    now = used(pacer, 1000.0, 50)
    now = used(pacer, now + 300.0, 50)
    rate = pacer.rate
    pacer.refused(now - 0.01, 0.0, 30.0, now)
    assert pacer.rate > 0.8 * CUT * rate


def test_a_wait_is_time_in_which_nothing_was_granted():
    pacer = settled(10.0)
    pacer._begin(100.0, 1000.0)
    now = used(pacer, 1100.0, 100)
    pacer.refused(now - 0.01, 0.0, 100.0, now)
    assert pacer.rate == pytest.approx(CUT * 100 / (now - 1000.0), rel=0.02)


def test_the_wait_itself_is_no_use_of_the_pace():
    pacer = settled(1.0)
    pacer._begin(1.9, 1000.0)
    rate = pacer.rate
    pacer.claim(1001.9)
    assert pacer.rate == rate


# On trial -----------------------------------------------------------------------------------------------------


def on_trial(rate=10.0, now=1000.0):
    return Pacer(rate / CUT, 0.0, now, sure=False)


def test_a_failure_cuts_the_pace_of_one_on_trial_once_for_each_flight():
    pacer = on_trial()
    now = used(pacer, 1000.0, 30)
    pacer.failed(now - 0.1, 10.0, now)
    rate = pacer.rate
    assert rate < 10.0
    for sent in (now - 0.2, now - 0.1, now):
        pacer.failed(sent, 10.0, now + 0.3)
    assert pacer.rate == rate
    assert not pacer.is_vain


def test_three_cuts_that_did_not_help_are_enough():
    pacer, now = on_trial(), 1000.0
    for cuts in (1, 2, 3):
        assert not pacer.is_vain
        now = used(pacer, now + 1.0, 19)
        pacer.failed(now - 0.001, 10.0, now)
        assert pacer.is_vain is (cuts == 3)


def test_one_that_helped_begins_the_count_anew():
    pacer, now = on_trial(), 1000.0
    for answers in (19, 19, 20, 19, 19, 20):
        now = used(pacer, now + 1.0, answers)
        pacer.failed(now - 0.001, 10.0, now)
        assert not pacer.is_vain


def test_failures_of_one_flight_are_one_cut_in_vain():
    pacer, now = on_trial(), used(on_trial(), 1000.0, 1)
    for _ in range(10):
        pacer.failed(now + 0.1, 10.0, now + 0.5)
    assert not pacer.is_vain


def test_where_the_target_named_its_limit_failures_are_no_refusals():
    pacer = settled(10.0)
    now = used(pacer, 1000.0, 100)
    rate = pacer.rate
    for _ in range(5):
        pacer.failed(now + 1.0, 10.0, now + 2.0)
    assert pacer.rate == rate
    assert not pacer.is_vain


@pytest.mark.parametrize(("quiet", "forgotten"), [(FORGOTTEN_AFTER - 1, False), (FORGOTTEN_AFTER + 1, True)])
def test_a_pace_is_forgotten_after_ten_quiet_minutes(quiet, forgotten):
    pacer = settled(10.0)
    now = used(pacer, 1000.0, 3)
    assert pacer.forgotten(now + quiet) is forgotten
    pacer.refused(now + 1.0, 1.0, 0.0, now + 2.0)
    assert not pacer.forgotten(now + quiet)
