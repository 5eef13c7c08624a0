"""A gate that nothing is wrong at: it lets everybody through, and counts.

Most targets never need more. There may be a hundred thousand of them, so this is all that is kept for each; the first
sign of trouble puts a :class:`~scrapy_resiproxy.guard.gate.Gate` in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.budget import FIRSTS, OKS
from scrapy_resiproxy.guard.outage import NEVER
from scrapy_resiproxy.guard.samples import Sample
from scrapy_resiproxy.guard.window import Ring

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.answers import GivenUp, Permit
    from scrapy_resiproxy.guard.circuit import Circuit
    from scrapy_resiproxy.guard.pacer import Pacer
    from scrapy_resiproxy.guard.terms import Terms


class OpenGate:
    """The guards' state of one target that has only ever been well."""

    __slots__ = ("_last_second", "_second", "_this_second", "ring", "seen", "terms")

    # What a gate with troubles has for itself.
    gated: bool = False
    """Whether anything of this may say no: the one look that a healthy target costs."""
    in_transit: int = 0
    hold_until: float = 0.0
    circuit: Circuit | None = None
    pacer: Pacer | None = None
    given_up: GivenUp | None = None

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.ring = Ring(terms.settings.budget_window, 2)
        """First attempts, good answers and retries over the budget's window."""
        self.seen = NEVER
        """When it gave an answer last; the :class:`~scrapy_resiproxy.guard.outage.OutageWatch` writes it."""
        self._second = self._this_second = self._last_second = 0

    def claim(self, permit: Permit, now: float) -> None:
        """One goes."""
        if not permit.retry:
            self.ring.add(FIRSTS, now)

    def unclaim(self, permit: Permit, generation: int, now: float) -> None:  # noqa: ARG002
        """It came to nothing: it has earned no budget."""
        if not permit.retry:
            self.ring.take_back(FIRSTS, self.ring.bucket(permit.sent_at), now)

    def judge(self, permit: Permit, generation: int, sample: Sample, now: float, *, fresh: bool) -> None:  # noqa: ARG002
        """Count one answer, which was no trouble."""
        if sample is Sample.OK:
            self.granted(now)

    def forgettable(self, now: float) -> bool:
        """Whether a new one would do as well."""
        return self.ring.is_over(now)

    # What was granted ---------------------------------------------------------------------------------------

    def granted(self, now: float) -> None:
        """There was a good answer."""
        self.ring.add(OKS, now)
        second = int(now)
        if second != self._second:
            self._last_second = self._this_second if second == self._second + 1 else 0
            self._second, self._this_second = self.terms.one_for_all(second), 0
        self._this_second += 1

    def granted_lately(self, now: float, seconds: float) -> float:
        """Good answers per second over about the last *seconds*: to the second up to 2 s, else to the bucket."""
        if seconds > 2.0:
            return self.ring.lately(OKS, now, seconds) / seconds
        gap = int(now) - self._second
        recent = (self._this_second, self._last_second) if gap == 0 else (self._this_second,) if gap == 1 else ()
        return float(max(recent, default=0))

    def usual_rate(self, now: float) -> float:
        """Good answers per second in the best part of the window; 0 when they are too few to tell."""
        most = self.ring.fullest(OKS, now)
        return most / self.ring.width if most >= self.terms.settings.circuit_min_requests else 0.0

    # Looking ------------------------------------------------------------------------------------------------

    def failure_ratio(self, now: float) -> float:  # noqa: ARG002
        """Failures per answer over the window."""
        return 0.0

    def sickness(self, now: float) -> float:  # noqa: ARG002
        """How many answers fail, as a share of what would open the circuit; 1 when it is not closed."""
        return 0.0
