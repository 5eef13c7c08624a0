"""Who may go, and what every answer means for those who come after: the guards of one crawl.

Admission is one step: given up? held? circuit? pace? then claim. A denial changes nothing and says when to ask again.
A permit ends exactly once: by a report, by a cancellation or when its lease expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_resiproxy.guard import budget
from scrapy_resiproxy.guard.answers import GivenUp, GuardEvent, Hold, Permit
from scrapy_resiproxy.guard.budget import Reservation, Rule
from scrapy_resiproxy.guard.decide import Charge
from scrapy_resiproxy.guard.gate import Gate
from scrapy_resiproxy.guard.gates import SWEPT_AT_ONCE, Gates
from scrapy_resiproxy.guard.open_gate import OpenGate
from scrapy_resiproxy.guard.outage import OutageWatch
from scrapy_resiproxy.guard.samples import (
    OVERLOADED,
    Sample,
    endpoint_sample_of,
    is_unreachable,
    refuses_plan,
    sample_of,
)
from scrapy_resiproxy.guard.view import TargetView, view_of
from scrapy_resiproxy.guard.window import Ring
from scrapy_resiproxy.outcome import Blame, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.settings import GuardSettings

__all__ = ["GivenUp", "Governor", "GuardEvent", "Hold", "Permit", "Reservation", "TargetView"]

TRANSIT_TURN = 0.02
"""Seconds until the queue looks again at a target that lets no more out before the last one has asked."""

HEALTHY = 0.5
"""A target is well while fewer answers fail than this share of what would open its circuit."""

REFUSALS_IN_ROW = 3
"""So many refusals of us by a proxy endpoint, with no good answer in between, mean that the plan is dead."""


class Governor:
    """The guards of every target and endpoint of one crawl."""

    def __init__(
        self, settings: GuardSettings, rng: Random, overrides: Mapping[str, GuardSettings] | None = None
    ) -> None:
        self.events: list[GuardEvent] = []
        """What has happened and nobody has taken yet."""
        self._gates = Gates(settings, rng, overrides or {}, self.events)
        self._targets, self._endpoints = self._gates.targets, self._gates.endpoints
        self._outage = OutageWatch(settings.target_give_up)
        self._all = Ring(settings.budget_window, 3)
        self._all_rule = Rule.of(settings.budget_global_ratio, settings.budget_global_min_retries)

    def settings_of(self, target: str) -> GuardSettings:
        """The settings of *target*, its overrides included."""
        return self._gates.terms_of(target).settings

    def __len__(self) -> int:
        return len(self._targets)

    # Admission ----------------------------------------------------------------------------------------------

    def peek(self, target: str, now: float, endpoint: str | None = None) -> Hold | GivenUp | None:
        """What :meth:`admit` would say, with those counted that have left the queue and not asked yet."""
        gate = self._targets.get(target)
        if endpoint is None and (gate is None or not gate.gated) and not self._outage.ours:
            return None  # As nearly always: every pop of the queue asks this.
        refusal = self._refusal(gate, endpoint, now)
        if refusal is None and isinstance(gate, Gate) and gate.gated and gate.is_full(now):
            return Hold(min(gate.transit_until, now + TRANSIT_TURN), "transit")
        return refusal

    def popped(self, target: str, now: float) -> None:
        """The scheduler's queue let one request of *target* out: it will ask :meth:`admit` soon."""
        gate = self._targets.get(target)
        if gate is not None and gate.gated and isinstance(gate, Gate):
            gate.popped(now)

    def admit(
        self,
        target: str,
        now: float,
        *,
        endpoint: str | None = None,
        retry: bool = False,
        lease: float = 210.0,
    ) -> Permit | Hold | GivenUp:
        """A permit, or why not. A first attempt earns budget when it is admitted."""
        gate = self._targets.get(target)
        if gate is None:
            self._gates.forget(now, SWEPT_AT_ONCE)
            gate = self._gates.target(target)
        elif gate.in_transit and isinstance(gate, Gate):
            gate.in_transit -= 1
        via = None if endpoint is None else self._endpoints.get(endpoint) or self._gates.endpoint(endpoint)
        ours = self._outage.ours
        if gate.gated or ours or (via is not None and via.gated):
            refusal = self._refusal(gate, endpoint, now)
            if refusal is not None:
                return refusal
        permit = Permit(target, endpoint, retry, now, now + lease)
        if gate.circuit is not None:
            permit.generation = gate.circuit.generation
        gate.claim(permit, now)
        if via is not None:
            if via.circuit is not None:
                permit.endpoint_generation = via.circuit.generation
            via.claim(permit, now)
        if ours:
            self._outage.claim(now)
        if not retry:
            self._all.add(budget.FIRSTS, now)
        return permit

    def _refusal(self, gate: OpenGate | None, endpoint: str | None, now: float) -> Hold | GivenUp | None:
        if endpoint is not None:
            via = self._endpoints.get(endpoint)
            if via is not None and via.gated and (refusal := via.refusal(now)) is not None:
                return refusal
        if gate is not None and gate.gated and isinstance(gate, Gate) and (refusal := gate.refusal(now)) is not None:
            return refusal
        until = self._outage.held_until(now) if self._outage.ours else None
        return None if until is None else Hold(until, "outage")

    # Reports ------------------------------------------------------------------------------------------------

    def report(self, permit: Permit, outcome: Outcome, now: float, *, fresh: bool = False) -> None:
        """What the attempt of *permit* came to. *fresh*: its session had never had a good answer."""
        if permit.ended:
            return
        permit.ended = True
        unreachable = not outcome.ok and is_unreachable(outcome)
        gate = self._targets.get(permit.target) or self._gates.target(permit.target)
        self._outage.note(permit.target, gate, now, unreachable=unreachable)
        ours = unreachable and self._outage.ours
        sample = Sample.OK if outcome.ok else Sample.NOTHING if ours else sample_of(outcome, fresh=fresh)
        if sample is Sample.OK or sample is Sample.NOTHING:
            gate.judge(permit, permit.generation, sample, now, fresh=fresh)
        else:
            self._report_trouble(permit, outcome, sample, now, fresh=fresh)
        endpoint = permit.endpoint
        via = None if endpoint is None else self._endpoints.get(endpoint) or self._gates.endpoint(endpoint)
        if via is not None:
            self._report_endpoint(via, permit, outcome, now)
        if outcome.class_ is OutcomeClass.RATE:
            at_fault = via if via is not None and outcome.blame is Blame.PROXY else self._gates.troubled(permit.target)
            self._slow_down(at_fault, permit, outcome, now)

    def _report_trouble(self, permit: Permit, outcome: Outcome, sample: Sample, now: float, *, fresh: bool) -> None:
        gate = self._gates.troubled(permit.target)
        gate.judge(permit, permit.generation, sample, now, fresh=fresh)
        if sample is Sample.FAILED and outcome.reason in OVERLOADED and gate.is_closed:
            gate.relieve(permit.sent_at, gate.sickness(now), now)

    def _report_endpoint(self, via: Gate, permit: Permit, outcome: Outcome, now: float) -> None:
        sample = endpoint_sample_of(outcome)
        via.judge(permit, permit.endpoint_generation, sample, now, fresh=False)
        if sample is Sample.OK:
            via.refusals = 0
        elif refuses_plan(outcome):
            via.refusals += 1
            if via.refusals >= REFUSALS_IN_ROW:
                via.give_up("proxy_refused", now)

    @staticmethod
    def _slow_down(gate: Gate, permit: Permit, outcome: Outcome, now: float) -> None:
        told = outcome.wait or 0.0
        if outcome.blame is Blame.SESSION:
            # The others go on, a little slower.
            gate.slow_down(permit.sent_at, 0.0, now)
        elif told > gate.terms.settings.retry_after_cap:
            gate.give_up("retry_after_too_long", now, now + told)
        elif wait := gate.slow_down(permit.sent_at, told, now):
            gate.hold(now + wait)

    def cancel(self, permit: Permit, now: float) -> None:
        """The attempt of *permit* told nothing, or was never sent: it has earned no budget."""
        if permit.ended:
            return
        permit.ended = True
        gate = self._targets.get(permit.target)
        if gate is not None:
            gate.unclaim(permit, permit.generation, now)
        if permit.endpoint is not None:
            self._gates.endpoint(permit.endpoint).unclaim(permit, permit.endpoint_generation, now)
        if not permit.retry:
            self._all.take_back(budget.FIRSTS, self._all.bucket(permit.sent_at), now)

    # Budget -------------------------------------------------------------------------------------------------

    def reserve(
        self, target: str, charge: Charge | str, now: float, *, endpoint: str | None = None
    ) -> Reservation | None:
        """Charge one retry to the budget, or None when there is none left.

        A retry that waits as it was told to is free, and so is every one while our own network is down.
        """
        if charge == Charge.PACED or self._outage.ours:
            return Reservation()
        at_endpoint = charge == Charge.PROXY and endpoint is not None
        gate = self._gates.endpoint(endpoint) if at_endpoint and endpoint is not None else self._gates.troubled(target)
        gate.last_seen = now
        granted = budget.reserve(self._wanted(gate, charge, at_endpoint=at_endpoint), now)
        if granted is None and not gate.denied:
            self.events.append(GuardEvent("budget_exhausted", gate.name, now))
        gate.denied = granted is None
        return granted

    def _wanted(self, gate: Gate, charge: Charge | str, *, at_endpoint: bool) -> tuple[tuple[Rule, Ring, int], ...]:
        """What must grant a retry. Only what adds to a target's own load counts for the whole crawl."""
        if charge == Charge.IDENTITY:
            return ((gate.terms.identity, gate.ring, budget.IDENTITY),)
        own = (gate.terms.transient, gate.ring, budget.TRANSIENT)
        return (own,) if at_endpoint else (own, (self._all_rule, self._all, budget.TRANSIENT))

    @staticmethod
    def refund(reservation: Reservation, now: float) -> None:
        """The retry was never sent."""
        reservation.refund(now)

    def tail_open(self, target: str, now: float, endpoint: str | None = None) -> bool:
        """Whether a retry may go without budget, once no first attempt of *target* waits.

        All must be well on its way; or a probe is wanted there, and nothing else is left to be one.
        """
        if self._outage.ours:
            return False
        return all(gate.takes_unfunded(now) for gate in self._on_the_way(target, endpoint))

    def still(self, target: str, now: float, endpoint: str | None = None) -> bool:
        """Whether the clock of those who wait for budget stands still: nothing may go there for now."""
        return self._outage.ours or any(gate.is_still(now) for gate in self._on_the_way(target, endpoint))

    def _on_the_way(self, target: str, endpoint: str | None) -> list[Gate]:
        """The gates on the way to *target* that may have something to say."""
        via = self._endpoints.get(endpoint) if endpoint is not None else None
        return [gate for gate in (via, self._targets.get(target)) if isinstance(gate, Gate)]

    # Giving up, and looking ---------------------------------------------------------------------------------

    @property
    def own_outage(self) -> bool:
        """Whether so many targets are out of reach that it must be our own network."""
        return self._outage.ours

    def give_up(
        self, name: str, reason: str, now: float, not_before: float | None = None, *, endpoint: bool = False
    ) -> None:
        """Nothing more is admitted to the target or, with *endpoint*, the endpoint *name*; the first reason stands."""
        gate = self._gates.endpoint(name) if endpoint else self._gates.troubled(name)
        gate.give_up(reason, now, not_before)

    def hold(self, target: str, until: float) -> None:
        """Hold *target* at least until then."""
        self._gates.troubled(target).hold(until)

    def given_up(self, target: str, now: float, endpoint: str | None = None) -> GivenUp | None:
        """Whether *target*, or *endpoint*, was given up, or is now."""
        for gate in self._on_the_way(target, endpoint):
            gate.tick(now)
            if gate.given_up is not None:
                return gate.given_up
        return None

    def healthy(self, target: str, now: float) -> bool:
        """Whether other requests of *target* succeed: of late some did, its circuit is closed and few of them fail."""
        gate = self._targets.get(target)
        return gate is not None and gate.ring.at_most(budget.OKS, now) > 0 and gate.sickness(now) < HEALTHY

    def pace(self, target: str) -> float | None:
        """The present pace per second; None when *target* is not paced."""
        gate = self._targets.get(target)
        return gate.pacer.rate if gate is not None and gate.pacer is not None else None

    def view(self, target: str, now: float) -> TargetView:
        """*target*, or the endpoint of that name, as it stands."""
        gate = self._targets.get(target) or self._endpoints.get(target) or OpenGate(self._gates.terms_of(target))
        return view_of(gate, now)

    def take_events(self) -> list[GuardEvent]:
        """What has happened since the last call: all of :attr:`events`."""
        events = self.events.copy()
        self.events.clear()
        return events

    def evict(self, now: float, most: int = 10_000) -> int:
        """Look at *most* targets and forget those of which nothing that matters would be lost; returns how many. A few
        are looked at whenever a new target comes.
        """
        return self._gates.forget(now, most)
