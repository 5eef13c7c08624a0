"""One gate: whether one more may go to one target, or through one proxy endpoint, and what the answers change there.

A target has one from its first trouble on; until then an :class:`~scrapy_resiproxy.guard.open_gate.OpenGate` will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.answers import EVENTS, REASONS, GivenUp, Hold
from scrapy_resiproxy.guard.budget import OKS
from scrapy_resiproxy.guard.circuit import Circuit, Event, State
from scrapy_resiproxy.guard.open_gate import OpenGate
from scrapy_resiproxy.guard.pacing import Paced
from scrapy_resiproxy.guard.samples import Sample

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.answers import Permit
    from scrapy_resiproxy.guard.terms import Terms

QUIET = 600.0
"""A target that was not seen for so many seconds may be forgotten."""

TRANSIT_TIME = 1.0
"""Seconds after which a request that left the queue and never asked is forgotten."""


class Gate(Paced):
    """The guards' state of one name. Circuit and pace exist only once they are needed."""

    __slots__ = (
        "circuit",
        "denied",
        "given_up",
        "hold_until",
        "in_transit",
        "last_seen",
        "refusals",
        "transit_until",
    )

    def __init__(self, name: str, terms: Terms) -> None:
        super().__init__(name, terms)
        self.circuit: Circuit | None = None
        self.given_up: GivenUp | None = None
        self.hold_until = 0.0
        self.last_seen = 0.0
        self.in_transit = 0
        self.transit_until = 0.0
        self.refusals = 0
        """Refusals of us with no good answer in between."""
        self.denied = False
        """Whether the last retry found no budget."""

    @classmethod
    def instead_of(cls, gate: OpenGate, name: str) -> Gate:
        """What the *gate* of *name* becomes at the first sign of trouble: it goes on where that one was."""
        own = cls(name, gate.terms)
        for slot in OpenGate.__slots__:
            setattr(own, slot, getattr(gate, slot))
        return own

    # May one go? --------------------------------------------------------------------------------------------

    def refusal(self, now: float) -> Hold | GivenUp | None:
        """Why not now: given up, held, circuit, pace, in this order. None when one may go."""
        self.tick(now)
        if self.given_up is not None:
            return self.given_up
        if now < self.hold_until:
            return Hold(self.hold_until, "told")
        if self.circuit is not None and self.circuit.places(now) == 0:
            return Hold(self._circuit_until(self.circuit, now), REASONS[self.circuit.state])
        self.regate(now)
        if self.pacer is not None and now < self.pacer.free_at():
            return Hold(self.pacer.free_at(), "pace")
        return None

    def _circuit_until(self, circuit: Circuit, now: float) -> float:
        until = circuit.ask_again_at(now)
        give_up_at = self._give_up_at(circuit)
        return until if give_up_at is None else min(until, give_up_at)

    def is_full(self, now: float) -> bool:
        """Whether those in transit take every place that is free at this instant."""
        if not self.in_transit or now >= self.transit_until:
            return False
        places = self.circuit.places(now) if self.circuit is not None else None
        if self.pacer is not None:
            places = 1 if places is None else min(1, places)
        return places is not None and self.in_transit >= places

    def popped(self, now: float) -> None:
        """One has left the queue and will ask soon."""
        if now >= self.transit_until:
            self.in_transit = 0
        self.in_transit += 1
        self.transit_until = now + TRANSIT_TIME

    def tick(self, now: float) -> None:
        """What time alone changes."""
        circuit = self.circuit
        if circuit is None:
            return
        event = circuit.tick(now)
        if event is not None:
            self._happened(circuit, event, now)
        self._check_gone(circuit, now)

    def _give_up_at(self, circuit: Circuit) -> float | None:
        """When one that is open is given up. One whose open time is over has a probe first."""
        if circuit.state is not State.OPEN or circuit.gone_since is None:
            return None
        return circuit.gone_since + self.terms.settings.target_give_up

    def _check_gone(self, circuit: Circuit, now: float) -> None:
        give_up_at = self._give_up_at(circuit)
        if give_up_at is not None and now >= give_up_at:
            self.give_up("circuit_open", now)

    def regate(self, now: float) -> None:
        """See whether anything may still say no."""
        if self.pacer is not None and self.pacer.forgotten(now):
            self.pacer = None
        self.gated = self.given_up is not None or now < self.hold_until or self.pacer is not None or not self.is_closed

    @property
    def is_closed(self) -> bool:
        return self.circuit is None or self.circuit.state is State.CLOSED

    def is_still(self, now: float) -> bool:
        """Whether nothing is to be had here for now: held, or the circuit is not closed."""
        self.tick(now)
        return not self.is_closed or now < self.hold_until

    def takes_unfunded(self, now: float) -> bool:
        """Whether a retry may go that no budget pays for: all is well here, or one is wanted as a probe, or as the next
        of those that may go while it recovers.
        """
        return self.refusal(now) is None if self.is_still(now) else self.sickness(now) < 1.0

    def claim(self, permit: Permit, now: float) -> None:
        """One goes."""
        super().claim(permit, now)
        self.last_seen = now
        if self.circuit is not None:
            self.circuit.claim(permit, permit.lease_until, now)
        if self.pacer is not None:
            self.pacer.claim(now)

    def unclaim(self, permit: Permit, generation: int, now: float) -> None:
        """It came to nothing: it has earned no budget, and a probe's place is free again."""
        super().unclaim(permit, generation, now)
        if self.circuit is not None:
            self.judge(permit, generation, Sample.NOTHING, now, fresh=False)

    # What came of it ----------------------------------------------------------------------------------------

    def judge(self, permit: Permit, generation: int, sample: Sample, now: float, *, fresh: bool) -> None:
        """Count one answer."""
        self.last_seen = now
        if sample is Sample.OK:
            self.granted(now)
        if self.circuit is None:
            if sample is not Sample.FAILED and sample is not Sample.REFUSED:
                return
            self.circuit = self._new_circuit(now)
        self.tick(now)
        event = self.circuit.report(permit, generation, sample, now, fresh=fresh)
        if event is not None:
            self._happened(self.circuit, event, now)
            self._check_gone(self.circuit, now)
        self.regate(now)

    def _new_circuit(self, now: float) -> Circuit:
        settings = self.terms.settings
        earlier = self.ring.lately(OKS, now, settings.circuit_window)
        return Circuit(settings, self.terms.rng, now, earlier)

    def _happened(self, circuit: Circuit, event: Event, now: float) -> None:
        is_open = circuit.state is State.OPEN
        if event in {Event.TRIPPED, Event.RELAPSED}:
            circuit.usual_rate = self.usual_rate(now) or circuit.usual_rate
        if event is Event.RECOVERED:
            self.ease_in(now)
        kind = EVENTS.get(event)
        if kind is not None:
            self.say(kind, now, circuit.until if is_open else None)

    def hold(self, until: float) -> None:
        """Nothing goes before *until*; a hold only grows."""
        self.hold_until = max(self.hold_until, until)
        self.gated = True

    def give_up(self, reason: str, now: float, not_before: float | None = None) -> None:
        """Nothing goes any more; the first reason stands."""
        if self.given_up is not None:
            return
        self.given_up = GivenUp(reason, not_before)
        self.gated = True
        kind = "endpoint_refused" if reason == "proxy_refused" else f"{self.terms.kind}_given_up"
        self.say(kind, now, not_before)

    # Looking ------------------------------------------------------------------------------------------------

    def failure_ratio(self, now: float) -> float:
        return self.circuit.failure_ratio(now) if self.circuit is not None else 0.0

    def sickness(self, now: float) -> float:
        """How many answers fail, as a share of what would open the circuit; 1 when it is not closed."""
        return self.failure_ratio(now) / self.terms.settings.circuit_failure_ratio if self.is_closed else 1.0

    def forgettable(self, now: float) -> bool:
        """Whether nothing would be lost: quiet for ten minutes, nothing counts any more, and nothing of it says no."""
        if now - self.last_seen < QUIET or not super().forgettable(now):
            return False
        self.tick(now)
        self.regate(now)
        return not self.gated
