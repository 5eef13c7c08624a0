"""Counts over a sliding window of time, in buckets that are anchored to the clock.

A bucket is ``floor(now / width)``: buckets that were anchored at the last call instead would drift and make a window
of 60 s last 107. One array holds several series, so that a target costs one small object.
"""

from __future__ import annotations

from array import array

BUCKETS = 12


class Ring:
    """*series* counters over the last *window* seconds."""

    __slots__ = ("_counts", "_head", "_window")

    def __init__(self, window: float, series: int) -> None:
        self._window = window
        self._head = -1
        self._counts = array("I", bytes(4 * series * (BUCKETS + 1)))

    @property
    def width(self) -> float:
        """Seconds of one bucket."""
        return self._window / BUCKETS

    def widen(self, series: int) -> None:
        """Have at least *series* counters; the new ones begin at 0."""
        missing = series * (BUCKETS + 1) - len(self._counts)
        if missing > 0:
            self._counts.extend(array("I", bytes(4 * missing)))

    def bucket(self, at: float) -> int:
        """The bucket of a count that was added at *at*."""
        return int(at * BUCKETS / self._window)

    def _roll(self, now: float) -> int:
        """Empty what the time since has passed over, and return the bucket of *now*.

        A clock that stands still or goes back counts as the latest time seen: that never makes room for more.
        """
        bucket = int(now * BUCKETS / self._window)
        head = self._head
        if bucket > head:
            step = BUCKETS + 1
            for passed in range(max(head + 1, bucket - BUCKETS), bucket + 1):
                for place in range(passed % step, len(self._counts), step):
                    self._counts[place] = 0
            self._head = bucket
        return self._head

    def add(self, series: int, now: float, count: int = 1) -> int:
        """Count *count* now; returns the bucket, for :meth:`take_back`."""
        bucket = self._roll(now)
        self._counts[series * (BUCKETS + 1) + bucket % (BUCKETS + 1)] += count
        return bucket

    def take_back(self, series: int, bucket: int, now: float) -> None:
        """Undo one count of *bucket*, if that bucket is still remembered."""
        head = self._roll(now)
        place = series * (BUCKETS + 1) + bucket % (BUCKETS + 1)
        if head - BUCKETS <= bucket <= head and self._counts[place]:
            self._counts[place] -= 1

    def at_least(self, series: int, now: float) -> int:
        """The count over the last 11 to 12 buckets: never more than really fell into the window."""
        return self.at_most(series, now) - self._counts[series * (BUCKETS + 1) + (self._head + 1) % (BUCKETS + 1)]

    def at_most(self, series: int, now: float) -> int:
        """The count over the last 12 to 13 buckets: never less than really fell into the window."""
        self._roll(now)
        start = series * (BUCKETS + 1)
        return sum(self._counts[start : start + BUCKETS + 1])

    def lately(self, series: int, now: float, seconds: float) -> int:
        """The count over the last *seconds*, rounded up to whole buckets, at most the window."""
        head = self._roll(now)
        buckets = min(BUCKETS, int(seconds / self.width) + 1)
        start = series * (BUCKETS + 1)
        return sum(self._counts[start + (head - back) % (BUCKETS + 1)] for back in range(buckets))

    def fullest(self, series: int, now: float) -> int:
        """The greatest count of one bucket."""
        self._roll(now)
        start = series * (BUCKETS + 1)
        return max(self._counts[start : start + BUCKETS + 1])
