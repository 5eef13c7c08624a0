"""When a target is paced, and by which of its answers: as it says itself, or on trial where it only fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.answers import GuardEvent
from scrapy_resiproxy.guard.open_gate import OpenGate
from scrapy_resiproxy.guard.pacer import Pacer

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.terms import Terms

TRIAL_BEGINS = 0.5
TRIAL_CUTS = 0.1
"""The share of what would open the circuit that must fail until a trial begins, and until its pace is cut again."""


class Paced(OpenGate):
    """The part of a gate that has a pace once that is needed."""

    __slots__ = ("gated", "name", "no_trial_before", "pacer")

    def __init__(self, name: str, terms: Terms) -> None:
        super().__init__(terms)
        self.name = name
        self.gated = False
        self.pacer: Pacer | None = None
        self.no_trial_before = 0.0

    def say(self, kind: str, now: float, until: float | None = None) -> None:
        self.terms.events.append(GuardEvent(kind, self.name, now, until))

    def granted(self, now: float) -> None:
        super().granted(now)
        if self.pacer is not None:
            self.pacer.granted()

    # Its pace -----------------------------------------------------------------------------------------------

    def _begin(self, guess: float, wait: float, now: float, *, sure: bool) -> Pacer:
        self.pacer = Pacer(guess, wait, now, sure=sure)
        self.gated = True
        self.say("paced", now)
        return self.pacer

    def slow_down(self, sent_at: float, told: float, now: float) -> float:
        """It says that it was asked too fast: cut the pace. Returns how long nothing should go, 0 if it was cut before.

        *told* is how long it told us to wait, 0 when it did not.
        """
        if not self.terms.paces:
            return told or self.terms.settings.rate_backoff_base
        lately = self.granted_lately(now, max(1.0, told))
        if self.pacer is None:
            # With nothing granted yet, all that is known is that one in the time told may be too many.
            pacer = self._begin(lately or 1.0 / max(1.0, told), told, now, sure=True)
            return told or 1.0 / pacer.rate
        self.pacer.is_sure = True
        return told or 1.0 / self.pacer.rate if self.pacer.refused(sent_at, lately, told, now) else told

    def relieve(self, sent_at: float, sickness: float, now: float) -> None:
        """A failure that may mean "too fast": try whether fewer fail at a slower pace, and let it be if not.

        *sickness* is how many answers fail, as a share of what would open the circuit.
        """
        lately = self.granted_lately(now, 1.0)
        if self.pacer is None:
            if self.terms.paces and sickness >= TRIAL_BEGINS and now >= self.no_trial_before:
                self._begin(lately or 1.0, 0.0, now, sure=False)
        elif sickness >= TRIAL_CUTS:
            self.pacer.failed(sent_at, lately, now)
            if self.pacer.is_vain:
                self.pacer = None
                self.no_trial_before = now + self.terms.settings.circuit_window

    def ease_in(self, now: float) -> None:
        """It has recovered: what went well at the pace of its recovery would be overloaded again by all at once."""
        usual = self.usual_rate(now)
        if self.terms.paces and self.pacer is None and usual:
            self._begin(usual, 0.0, now, sure=False)
