"""The pace of one target: what it allows, learned from its refusals.

A virtual-scheduling rate limiter (GCRA) with a burst of one, whose rate is cut at a refusal, comes back quickly to just
under the limit it remembers and probes beyond it slowly. The shape is CUBIC's (RFC 9438), on a rate instead of a
window; halving and adding would waste a quarter of what a site allows.
"""

from __future__ import annotations

CUT = 0.7
"""The rate after a refusal, of the limit (CUBIC's beta)."""

NEAR = 0.95
"""How close to the remembered limit the quick return ends."""

RETURN_TIME = 3.0
"""Seconds of use in which it gets there."""

PROBE_GROWTH = 0.01
"""Growth per second of use beyond, of the remembered limit."""

SLOWEST = 1 / 60
FORGOTTEN_AFTER = 600.0


class Pacer:
    """One pace. Times are monotonic seconds, rates per second."""

    __slots__ = ("_cut_at", "_free_at", "_grown", "_limit", "last_used")

    def __init__(self, granted: float, now: float) -> None:
        self._limit = max(SLOWEST, granted)
        self._cut_at = now
        self._grown = 0.0
        self._free_at = now
        self.last_used = now

    @property
    def rate(self) -> float:
        """The present rate."""
        share = min(1.0, self._grown / RETURN_TIME)
        back = CUT + (NEAR - CUT) * (1.0 - (1.0 - share) ** 3)
        beyond = PROBE_GROWTH * max(0.0, self._grown - RETURN_TIME)
        return max(SLOWEST, self._limit * (back + beyond))

    def refused(self, sent_at: float, granted: float, now: float) -> bool:
        """A refusal of a request that was sent at *sent_at*: cut, unless it belongs to the flight of the last cut.

        *granted* is what the target granted of late, per second.
        """
        self.last_used = now
        if sent_at <= self._cut_at:
            return False
        self._limit = max(SLOWEST, min(granted, self.rate) if granted else self.rate * CUT)
        self._cut_at = now
        self._grown = 0.0
        return True

    def free_at(self) -> float:
        """When the next one may go."""
        return self._free_at

    def claim(self, now: float) -> None:
        """One goes now. The pace grows only while it is used: while at least half of it is."""
        interval = 1.0 / self.rate
        since = now - self.last_used
        if since <= 2.0 * interval:
            self._grown += since
        self._free_at = max(self._free_at, now) + interval
        self.last_used = now

    def forgotten(self, now: float) -> bool:
        return now - self.last_used > FORGOTTEN_AFTER
