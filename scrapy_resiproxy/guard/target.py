"""What is remembered of one target or endpoint: as little as possible while nothing is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.budget import FIRSTS
from scrapy_resiproxy.guard.circuit import State

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.circuit import Circuit
    from scrapy_resiproxy.guard.governor import GivenUp
    from scrapy_resiproxy.guard.pacer import Pacer
    from scrapy_resiproxy.guard.window import Ring

QUIET = 600.0
"""A target that was not seen for so many seconds may be forgotten."""


class Target:
    """The guards' state of one name. Circuit, pace and rings exist only once they are needed."""

    __slots__ = (
        "_last_second",
        "_second",
        "_this_second",
        "circuit",
        "denied",
        "gated",
        "given_up",
        "hold_until",
        "in_transit",
        "last_seen",
        "oks",
        "pacer",
        "refusals",
        "ring",
        "transit_until",
    )

    def __init__(self) -> None:
        self.ring: Ring | None = None
        self.circuit: Circuit | None = None
        self.pacer: Pacer | None = None
        self.given_up: GivenUp | None = None
        self.gated = False
        """Whether anything of this may say no: the one look that a healthy target costs."""
        self.hold_until = 0.0
        self.last_seen = 0.0
        self.transit_until = 0.0
        self.in_transit = 0
        self.refusals = 0
        self.oks = 0
        self.denied = False
        self._second = 0
        self._this_second = 0
        self._last_second = 0

    def granted(self, now: float) -> None:
        """The target gave a good answer."""
        second = int(now)
        if second != self._second:
            self._last_second = self._this_second if second == self._second + 1 else 0
            self._second, self._this_second = second, 0
        self._this_second += 1
        self.oks += 1

    def granted_lately(self, now: float, seconds: float) -> float:
        """Good answers per second over about the last *seconds*.

        Exact to the second up to 2 s; beyond, what was admitted in the budget's window stands in for it, so that no
        target needs a longer memory of its own.
        """
        if seconds <= 2.0 or self.ring is None:
            gap = int(now) - self._second
            recent = (self._this_second, self._last_second) if gap == 0 else (self._this_second,) if gap == 1 else ()
            return float(max(recent, default=0))
        return min(self.ring.lately(FIRSTS, now, seconds), self.oks) / seconds

    def hold(self, until: float) -> None:
        """Nothing goes before *until*; a hold only grows."""
        self.hold_until = max(self.hold_until, until)
        self.gated = True

    def regate(self, now: float) -> None:
        """See whether anything may still say no."""
        if self.pacer is not None and self.pacer.forgotten(now):
            self.pacer = None
        self.gated = (
            self.given_up is not None
            or now < self.hold_until
            or self.pacer is not None
            or (self.circuit is not None and self.circuit.state is not State.CLOSED)
        )

    def forgettable(self, now: float) -> bool:
        """Whether nothing would be lost: quiet for ten minutes, and not gated."""
        if now - self.last_seen < QUIET:
            return False
        self.regate(now)
        return not self.gated
