"""The pace of one target: what it allows, learned from its refusals.

A virtual-scheduling rate limiter (GCRA) with a burst of one. The first refusal gives a first guess of the limit, and
the pace doubles from below it until the second: a guess from a burst may be far off either way. From then on the pace
is cut at a refusal, comes back quickly to just under the limit it remembers, stays there, and probes beyond it, slowly
at first. The shape is CUBIC's (RFC 9438), on a rate instead of a window; halving and adding would waste a quarter of
what a site allows.

The remembered limit lies between two measures, and no refusal tells how near it is to which. What was granted per
second since the last refusal is the limit where a burst or a long window was used up, and too little where there is
none. The pace at the refusal is the limit where there is no burst, and too much where there is one.
"""

from __future__ import annotations

CUT = 0.7
"""The pace after a refusal, of the limit (CUBIC's beta)."""

NEAR = 0.95
"""Where the quick return ends, of the limit."""

RETURN_TIME = 3.0
"""Seconds of use until it gets there."""

PROBE_TIME = 40.0
"""Seconds of use beyond, after which the pace is about twice the limit."""

DOUBLING_TIME = 2.0
"""Seconds of use in which the pace doubles while the limit is a guess."""

BRISK = 5.0
"""Below so many a second time runs slower, so that a refusal costs a slow target no greater share of its requests."""

TOWARDS_PACE = 0.4
"""How far from what was granted to the pace at the refusal the limit is put."""

LONG_WAIT = 2.0
"""Whoever tells us to wait for longer counts by a window that is used up: what was granted is the limit."""

HELPED = 20
"""So many good answers between two cuts show that the first one helped."""

CUTS_IN_VAIN = 3

SLOWEST = 1 / 60
FORGOTTEN_AFTER = 600.0


class Pacer:
    """One pace. Times are monotonic seconds, rates per second."""

    __slots__ = (
        "_cut_at",
        "_elapsed",
        "_free_at",
        "_granted",
        "_grown",
        "_in_vain",
        "_is_guess",
        "_limit",
        "is_sure",
        "last_used",
    )

    def __init__(self, guess: float, wait: float, now: float, *, sure: bool) -> None:
        self._limit = max(SLOWEST, guess)
        self._is_guess = True
        self.is_sure = sure
        """Whether the target itself has ever said that it was asked too fast."""
        self._in_vain = 0
        self._free_at = now
        self._begin(wait, now)

    def _begin(self, wait: float, now: float) -> None:
        self._cut_at = now
        self._grown = 0.0
        self._granted = 0
        self._elapsed = wait
        self.last_used = now + wait

    @property
    def rate(self) -> float:
        """The present pace."""
        if self._is_guess:
            share = CUT * float(2.0 ** (self._grown / DOUBLING_TIME))
        else:
            back = min(1.0, self._grown / RETURN_TIME) - 1.0
            beyond = max(0.0, self._grown - RETURN_TIME) / PROBE_TIME
            share = NEAR + (NEAR - CUT) * back**3 + beyond**3
        return max(SLOWEST, self._limit * share)

    def refused(self, sent_at: float, lately: float, wait: float, now: float) -> bool:
        """A refusal of a request that was sent at *sent_at*: cut, unless it belongs to the flight of the last cut.

        *lately* is what the target granted of late, per second, and *wait* how long it told us to wait. Returns
        whether it was cut.
        """
        if sent_at <= self._cut_at:
            return False
        rate = self.rate
        granted = min(rate, lately if self._is_guess else self._granted / max(self._elapsed, 1.0 / rate))
        if not granted or wait <= LONG_WAIT:
            granted += TOWARDS_PACE * (rate - granted)
        self._limit = max(SLOWEST, granted)
        self._is_guess = False
        self._begin(wait, now)
        return True

    def failed(self, sent_at: float, lately: float, now: float) -> None:
        """A failure that may be a refusal by another name: cut, and see whether that helps."""
        granted = self._granted
        if not self.is_sure and self.refused(sent_at, lately, 0.0, now):
            self._in_vain = 0 if granted >= HELPED else self._in_vain + 1

    @property
    def is_vain(self) -> bool:
        """Whether as many failed however slowly it went: then they did not come of the pace."""
        return self._in_vain >= CUTS_IN_VAIN

    def granted(self) -> None:
        """The target gave an answer."""
        self._granted += 1

    def free_at(self) -> float:
        """When the next one may go."""
        return self._free_at

    def claim(self, now: float) -> None:
        """One goes now. The pace grows only while it is used: while at least half of it is."""
        interval = 1.0 / self.rate
        since = max(0.0, now - self.last_used)
        self._elapsed += min(since, 2.0 * interval)
        if since <= 2.0 * interval:
            slowness = min(1.0, self._limit / BRISK)
            self._grown += min(since, DOUBLING_TIME) if self._is_guess else since * slowness
        self._free_at = max(self._free_at, now) + interval
        self.last_used = max(self.last_used, now)

    def forgotten(self, now: float) -> bool:
        return now - self.last_used > FORGOTTEN_AFTER
