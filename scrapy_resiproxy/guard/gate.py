"""One gate: whether one more may go to one target, or through one proxy endpoint, and what the answers change there.

As little as possible is remembered while nothing is wrong: there may be a hundred thousand targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.answers import GivenUp, GuardEvent, Hold, TargetView
from scrapy_resiproxy.guard.budget import FIRSTS, OKS
from scrapy_resiproxy.guard.circuit import Circuit, Event, State
from scrapy_resiproxy.guard.pacer import Pacer
from scrapy_resiproxy.guard.samples import Sample
from scrapy_resiproxy.guard.window import Ring

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.answers import Permit
    from scrapy_resiproxy.guard.terms import Terms

QUIET = 600.0
"""A target that was not seen for so many seconds may be forgotten."""

TRANSIT_TIME = 1.0
"""Seconds after which a request that left the queue and never asked is forgotten."""

EVENTS = {
    Event.TRIPPED: "circuit_opened",
    Event.PROBE_FAILED: "circuit_opened",
    Event.PROBE_LOST: "circuit_opened",
    Event.RELAPSED: "circuit_opened",
    Event.COOLED: "circuit_half_opened",
    Event.RECOVERED: "circuit_closed",
}

REASONS = {State.OPEN: "circuit", State.HALF_OPEN: "probe", State.RECOVERING: "recovering"}
"""Why a circuit that is not closed holds."""


class Gate:
    """The guards' state of one name. Circuit, pace and ring exist only once they are needed."""

    __slots__ = (
        "_last_second",
        "_ring",
        "_second",
        "_this_second",
        "circuit",
        "denied",
        "gated",
        "given_up",
        "hold_until",
        "in_transit",
        "last_seen",
        "name",
        "pacer",
        "refusals",
        "terms",
        "transit_until",
    )

    def __init__(self, name: str, terms: Terms) -> None:
        self.name = name
        self.terms = terms
        self.circuit: Circuit | None = None
        self.pacer: Pacer | None = None
        self.given_up: GivenUp | None = None
        self.gated = False
        """Whether anything of this may say no: the one look that a healthy target costs."""
        self.hold_until = 0.0
        self.last_seen = 0.0
        self.in_transit = 0
        self.transit_until = 0.0
        self.refusals = 0
        """Terminal refusals with no other answer in between."""
        self.denied = False
        """Whether the last retry found no budget."""
        self._ring: Ring | None = None
        self._second = self._this_second = self._last_second = 0

    @property
    def ring(self) -> Ring:
        """First attempts, good answers and retries over the budget's window."""
        if self._ring is None:
            self._ring = Ring(self.terms.settings.budget_window, 2)
        return self._ring

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
        if not self.in_transit or not self.gated or now >= self.transit_until:
            return False
        places = self.circuit.places(now) if self.circuit is not None else None
        if self.pacer is not None:
            places = 1 if places is None else min(1, places)
        return places is not None and self.in_transit >= places

    def popped(self, now: float) -> None:
        """One has left the queue and will ask soon."""
        if not self.gated:
            return
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

    def claim(self, permit: Permit, now: float) -> None:
        """One goes."""
        self.last_seen = now
        if self.circuit is not None:
            self.circuit.claim(permit, permit.lease_until, now)
        if self.pacer is not None:
            self.pacer.claim(now)
        if not permit.retry:
            self.ring.add(FIRSTS, now)

    def unclaim(self, permit: Permit, generation: int, now: float) -> None:
        """It came to nothing: it has earned no budget, and a probe's place is free again."""
        if not permit.retry:
            self.ring.take_back(FIRSTS, self.ring.bucket(permit.sent_at), now)
        if self.circuit is not None:
            self.judge(permit, generation, Sample.NOTHING, now, fresh=False)

    # What came of it ----------------------------------------------------------------------------------------

    def judge(self, permit: Permit, generation: int, sample: Sample, now: float, *, fresh: bool) -> None:
        """Count one answer."""
        if sample is Sample.OK:
            self._granted(now)
        if self.circuit is None:
            if sample not in {Sample.FAILED, Sample.REFUSED}:
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
            circuit.usual_rate = self._usual_rate(now) or circuit.usual_rate
        kind = EVENTS.get(event)
        if kind is not None:
            self._say(kind, now, circuit.until if is_open else None)

    def _usual_rate(self, now: float) -> float:
        most = self.ring.fullest(OKS, now)
        return most / self.ring.width if most >= self.terms.settings.circuit_min_requests else 0.0

    def _say(self, kind: str, now: float, until: float | None = None) -> None:
        self.terms.events.append(GuardEvent(kind, self.name, now, until))

    def _granted(self, now: float) -> None:
        self.ring.add(OKS, now)
        if self.pacer is not None:
            self.pacer.granted()
        second = int(now)
        if second != self._second:
            self._last_second = self._this_second if second == self._second + 1 else 0
            self._second, self._this_second = second, 0
        self._this_second += 1

    def granted_lately(self, now: float, seconds: float) -> float:
        """Good answers per second over about the last *seconds*: to the second up to 2 s, else to the bucket."""
        if seconds > 2.0:
            return self.ring.lately(OKS, now, seconds) / seconds
        gap = int(now) - self._second
        recent = (self._this_second, self._last_second) if gap == 0 else (self._this_second,) if gap == 1 else ()
        return float(max(recent, default=0))

    def slow_down(self, sent_at: float, told: float, now: float) -> float:
        """A refusal for being too fast: cut the pace. Returns how long nothing should go, 0 when it was cut already.

        *told* is how long the target told us to wait, 0 when it did not.
        """
        if not self.terms.settings.pacing_enabled:
            return told or self.terms.settings.rate_backoff_base
        lately = self.granted_lately(now, max(1.0, told))
        if self.pacer is None:
            # With nothing granted yet, all that is known is that one in the time told may be too many.
            self.pacer = Pacer(lately or 1.0 / max(1.0, told), told, now)
            self.gated = True
            self._say("paced", now)
        elif not self.pacer.refused(sent_at, lately, told, now):
            return told
        return told or 1.0 / self.pacer.rate

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
        self._say(kind, now, not_before)

    # Looking ------------------------------------------------------------------------------------------------

    def failure_ratio(self, now: float) -> float:
        return self.circuit.failure_ratio(now) if self.circuit is not None else 0.0

    def forgettable(self, now: float) -> bool:
        """Whether nothing would be lost: quiet for ten minutes, and nothing of it says no."""
        if now - self.last_seen < QUIET:
            return False
        self.tick(now)
        self.regate(now)
        return not self.gated

    def view(self, now: float) -> TargetView:
        circuit = self.circuit
        gone = circuit.gone_since if circuit is not None else None
        return TargetView(
            state=circuit.state.value if circuit is not None else State.CLOSED.value,
            since=circuit.since if circuit is not None else None,
            next_probe=circuit.until if circuit is not None and circuit.state is State.OPEN else None,
            gone_since=gone,
            give_up_at=gone + self.terms.settings.target_give_up if gone is not None else None,
            hold_until=self.hold_until if self.hold_until > now else None,
            rate=self.pacer.rate if self.pacer is not None else None,
            failure_ratio=self.failure_ratio(now),
            given_up=self.given_up,
        )
