from __future__ import annotations

from collections import Counter

import pytest
from guard_kit import examples
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.window import BUCKETS, Ring

WINDOW = 60.0
WIDTH = WINDOW / BUCKETS

steps = st.lists(st.tuples(st.floats(0, 40), st.integers(0, 1)), min_size=1, max_size=60)


def counted(events, series, begin, end):
    """Counts that really fell into (begin, end]."""
    return sum(begin < at <= end for at, of in events if of == series)


@examples(150)
@given(steps, st.floats(0, 100))
def test_the_two_counts_enclose_what_really_fell_into_the_window(steps, wait):
    ring, now, events = Ring(WINDOW, 2), 1000.0, []
    for step, series in steps:
        now += step
        ring.add(series, now)
        events.append((now, series))
    now += wait
    for series in (0, 1):
        assert ring.at_least(series, now) <= counted(events, series, now - WINDOW, now) <= ring.at_most(series, now)
        assert ring.at_least(series, now) >= counted(events, series, now - WINDOW + WIDTH, now)
        assert ring.at_most(series, now) <= counted(events, series, now - WINDOW - WIDTH - 1e-6, now)


@pytest.mark.parametrize("step", [0.0, 1.9 * WIDTH, 1.99 * WIDTH, 0.999 * WIDTH, 3.7 * WIDTH])
def test_the_window_does_not_drift_however_the_calls_fall(step):
    ring, now = Ring(WINDOW, 1), 1000.0
    ring.add(0, now)
    while now < 1000.0 + WINDOW:
        assert ring.at_most(0, now) == 1
        now += step or 1.0
    assert ring.at_most(0, 1000.0 + WINDOW + WIDTH) == 0
    assert ring.at_least(0, 1000.0 + WINDOW) == 0


def test_a_ring_that_is_widened_keeps_its_counts_and_begins_the_new_ones_at_zero():
    ring = Ring(WINDOW, 1)
    ring.add(0, 1000.0, 7)
    ring.widen(3)
    ring.widen(2)
    ring.add(2, 1000.0)
    assert [ring.at_most(series, 1000.0) for series in range(3)] == [7, 0, 1]


def test_series_forget_together():
    ring = Ring(WINDOW, 3)
    for series in range(3):
        ring.add(series, 1000.0)
    assert [ring.at_most(series, 1000.0 + 2 * WINDOW) for series in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("bucket", "left"),
    [
        pytest.param(0, 1, id="of now"),
        pytest.param(-BUCKETS, 1, id="the oldest that is remembered"),
        pytest.param(-BUCKETS - 1, 2, id="forgotten: its place is used again"),
        pytest.param(1, 2, id="not yet: its place is the oldest one's"),
        pytest.param(-1, 2, id="with nothing in it"),
    ],
)
def test_only_a_remembered_count_is_taken_back(bucket, left):
    ring = Ring(WINDOW, 1)
    ring.add(0, 1000.0)
    now = 1000.0 + WINDOW
    head = ring.add(0, now)
    ring.take_back(0, head + bucket, now)
    assert ring.at_most(0, now) == left


def test_the_bucket_of_a_time_is_the_one_it_was_counted_in():
    ring = Ring(WINDOW, 1)
    for now in (1000.0, 1004.999, 1005.0, 1333.3):
        assert ring.add(0, now) == ring.bucket(now)


@examples(100)
@given(steps, st.floats(0, 500))
def test_a_clock_that_goes_back_counts_as_the_latest_time_seen(steps, back):
    ring, now = Ring(WINDOW, 2), 1000.0
    for step, series in steps:
        now += step
        ring.add(series, now)
    before = [(ring.at_least(series, now), ring.at_most(series, now)) for series in (0, 1)]
    assert [(ring.at_least(series, now - back), ring.at_most(series, now - back)) for series in (0, 1)] == before
    ring.add(0, now - back)
    assert ring.at_least(0, now) == before[0][0] + 1


@pytest.mark.parametrize(
    ("seconds", "count"),
    [(0.0, 1), (4.9, 1), (5.0, 11), (9.9, 11), (10.0, 111), (60.0, 111), (1000.0, 111)],
)
def test_lately_counts_whole_buckets(seconds, count):
    ring = Ring(WINDOW, 1)
    for at, many in ((1000.0, 100), (1005.0, 10), (1010.0, 1)):
        ring.add(0, at, many)
    assert ring.lately(0, 1010.0, seconds) == count


def test_lately_reaches_no_further_than_the_window():
    ring = Ring(WINDOW, 1)
    ring.add(0, 1000.0)
    assert ring.lately(0, 1059.9, 10_000.0) == 1
    assert ring.lately(0, 1060.0, 10_000.0) == 0


@examples(100)
@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 2)), min_size=1, max_size=60), st.floats(0, 70))
def test_the_fullest_bucket_is_that_of_its_own_series(steps, wait):
    ring, now, counts = Ring(WINDOW, 3), 1000.0, Counter()
    for step, series in steps:
        now += step
        counts[series, ring.add(series, now)] += 1
    now += wait
    oldest = ring.bucket(now) - BUCKETS
    for series in range(3):
        remembered = [count for (of, bucket), count in counts.items() if of == series and bucket >= oldest]
        assert ring.fullest(series, now) == max(remembered, default=0)


def test_a_bucket_is_a_twelfth_of_the_window():
    assert Ring(WINDOW, 1).width == 5.0
