"""Counts over a sliding window of time, in buckets that are anchored to the clock.

A bucket is ``floor(now / width)``: buckets that were anchored at the last call instead would drift and make a window
of 60 s last 107. A bucket in which nothing was counted takes no room, because most targets are asked rarely, and
there may be a hundred thousand of them.
"""

from __future__ import annotations

from array import array

BUCKETS = 12


class Ring:
    """*series* counters over the last *window* seconds."""

    __slots__ = ("_rows", "_size", "_window")

    def __init__(self, window: float, series: int) -> None:
        self._window = window
        self._size = 1 + series
        self._rows = array("I")
        """Rows of that size, the oldest first: a bucket, and what each series counted in it."""

    @property
    def width(self) -> float:
        """Seconds of one bucket."""
        return self._window / BUCKETS

    def widen(self, series: int) -> None:
        """Have at least *series* counters; the new ones begin at 0."""
        missing = 1 + series - self._size
        if missing > 0:
            for end in range(len(self._rows), 0, -self._size):
                self._rows[end:end] = array("I", bytes(4 * missing))
            self._size += missing

    def bucket(self, at: float) -> int:
        """The bucket of a count that was added at *at*."""
        return int(at * BUCKETS / self._window)

    def _roll(self, now: float) -> int:
        """Have a row for *now*, drop those that the time since has passed over, and return its bucket.

        A clock that stands still or goes back counts as the latest time seen: that never makes room for more.
        """
        bucket, rows, size = int(now * BUCKETS / self._window), self._rows, self._size
        if rows:
            head = rows[-size]
            if bucket <= head:
                return head
            passed = 0
            while passed < len(rows) and rows[passed] < bucket - BUCKETS:
                passed += size
            del rows[:passed]
        rows.append(bucket)
        rows.frombytes(bytes(4 * (size - 1)))
        return bucket

    def add(self, series: int, now: float, count: int = 1) -> int:
        """Count *count* now; returns the bucket, for :meth:`take_back`."""
        rows, size = self._rows, self._size
        # Nearly always the newest row is that of *now*, and this is done three times for every request.
        bucket = rows[-size] if rows else -1
        if bucket != int(now * BUCKETS / self._window):
            bucket = self._roll(now)
        rows[1 + series - size] += count
        return bucket

    def take_back(self, series: int, bucket: int, now: float) -> None:
        """Undo one count of *bucket*, if that bucket is still remembered."""
        self._roll(now)
        rows, place = self._rows, 1 + series
        for start in range(0, len(rows), self._size):
            if rows[start] == bucket and rows[start + place]:
                rows[start + place] -= 1

    def at_least(self, series: int, now: float) -> int:
        """The count over the last 11 to 12 buckets: never more than really fell into the window."""
        count, rows = self.at_most(series, now), self._rows
        return count - rows[1 + series] if rows[0] == rows[-self._size] - BUCKETS else count

    def at_most(self, series: int, now: float) -> int:
        """The count over the last 12 to 13 buckets: never less than really fell into the window."""
        self._roll(now)
        return sum(self._rows[1 + series :: self._size])

    def lately(self, series: int, now: float, seconds: float) -> int:
        """The count over the last *seconds*, rounded up to whole buckets, at most the window."""
        before = self._roll(now) - min(BUCKETS, int(seconds / self.width) + 1)
        rows = self._rows
        starts = range(0, len(rows), self._size)
        return sum(rows[start + 1 + series] for start in starts if rows[start] > before)

    def fullest(self, series: int, now: float) -> int:
        """The greatest count of one bucket."""
        self._roll(now)
        return max(self._rows[1 + series :: self._size])

    def is_over(self, now: float) -> bool:
        """Whether nothing of it counts any more: a new one would say the same from now on."""
        return not self._rows or self._rows[-self._size] < self.bucket(now) - BUCKETS
