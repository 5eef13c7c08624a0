"""Who may go, and what every answer means for those who come after: the guards of one crawl.

Admission is one step: given up? held? circuit? pace? then claim. A denial changes nothing and says when to ask again.
A permit ends exactly once: by a report, by a cancellation or when its lease expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.guard import budget
from scrapy_resiproxy.guard.budget import Reservation, Rule
from scrapy_resiproxy.guard.circuit import Circuit, Event, Sample, State
from scrapy_resiproxy.guard.decide import Charge
from scrapy_resiproxy.guard.outage import OutageWatch
from scrapy_resiproxy.guard.pacer import Pacer
from scrapy_resiproxy.guard.target import Target
from scrapy_resiproxy.guard.window import Ring
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from scrapy_resiproxy.settings import GuardSettings

UNREACHABLE = frozenset({"connect_failed", "connect_refused", "dns_not_found", "dns_failed", "network_down"})
"""Reasons that lie below HTTP, so that they may be our own network's."""

REFUSALS_IN_ROW = 3
"""So many terminal refusals of a proxy endpoint with no other answer in between mean that the plan is dead."""

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


@dataclass(frozen=True, slots=True)
class Hold:
    """Not now: ask again at *until* (monotonic), or when something has happened at the target."""

    until: float
    reason: str
    """``told``, ``pace``, ``circuit``, ``probe``, ``recovering``, ``outage``, or ``transit``."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Not in this run."""

    reason: str
    """``circuit_open``, ``retry_after_too_long`` or ``proxy_refused``."""
    not_before: float | None = None
    """Monotonic seconds; None when nothing is known."""


@dataclass(slots=True, eq=False)
class Permit:
    """One request may go."""

    target: str
    endpoint: str | None
    retry: bool
    sent_at: float
    lease_until: float
    generation: int
    endpoint_generation: int
    ended: bool = False


@dataclass(frozen=True, slots=True)
class GuardEvent:
    """Something that happened to a target or endpoint; *until* is monotonic, where it has an end."""

    kind: str
    target: str
    now: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target as the report shows it; times are monotonic."""

    state: str
    since: float | None
    next_probe: float | None
    gone_since: float | None
    give_up_at: float | None
    hold_until: float | None
    rate: float | None
    failure_ratio: float
    given_up: GivenUp | None


class Governor:
    """The guards of every target and endpoint of one crawl."""

    def __init__(
        self, settings: GuardSettings, rng: Random, overrides: Mapping[str, GuardSettings] | None = None
    ) -> None:
        self._settings = settings
        self._overrides = dict(overrides or {})
        self._rng = rng
        self._targets: dict[str, Target] = {}
        self._endpoints: dict[str, Target] = {}
        self._outage = OutageWatch()
        self._events: list[GuardEvent] = []
        self._all = Ring(settings.budget_window, 2)
        self._all_rule = Rule.of(settings.budget_global_ratio, settings.budget_global_min_retries)
        self._rules: dict[str, tuple[Rule, Rule]] = {}
        self._default_rules = _rules(settings)
        self._evict_from: list[str] = []

    def settings_of(self, target: str) -> GuardSettings:
        """The settings of *target*, its overrides included."""
        return self._overrides.get(target, self._settings)

    def __len__(self) -> int:
        return len(self._targets)

    def _target(self, name: str) -> Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = Target()
        return target

    def _endpoint(self, name: str) -> Target:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            endpoint = self._endpoints[name] = Target()
        return endpoint

    # Admission ----------------------------------------------------------------------------------------------

    def peek(self, target: str, now: float, endpoint: str | None = None) -> Hold | GivenUp | None:
        """What :meth:`admit` would say, with those counted that have left the queue and not asked yet."""
        known = self._targets.get(target)
        if known is None:
            refusal = self._refusal_at_endpoint(endpoint, now) if endpoint else None
            return refusal or self._outage_hold(now)
        refusal = self._refusal(target, known, endpoint, now)
        if refusal is None and known.in_transit and known.gated and now < known.transit_until:
            places = self._places(known, now)
            if places is not None and known.in_transit >= places:
                return Hold(known.transit_until, "transit")
        return refusal

    def popped(self, target: str, now: float) -> None:
        """The scheduler's queue let one request of *target* out: it will ask :meth:`admit` soon."""
        known = self._targets.get(target)
        if known is not None and known.gated:
            if now >= known.transit_until:
                known.in_transit = 0
            known.in_transit += 1
            known.transit_until = now + TRANSIT_TIME

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
        known = self._target(target)
        if known.in_transit:
            known.in_transit -= 1
        refusal = self._refusal(target, known, endpoint, now)
        if refusal is not None:
            return refusal
        return self._claim(target, known, endpoint, now, retry=retry, lease=lease)

    def _claim(
        self, name: str, known: Target, endpoint: str | None, now: float, *, retry: bool, lease: float
    ) -> Permit:
        via = self._endpoint(endpoint) if endpoint is not None else None
        permit = Permit(
            name,
            endpoint,
            retry,
            now,
            now + lease,
            known.circuit.generation if known.circuit is not None else 0,
            via.circuit.generation if via is not None and via.circuit is not None else 0,
        )
        for gate in (known, via):
            if gate is not None and gate.circuit is not None:
                gate.circuit.claim(permit, permit.lease_until)
        if known.pacer is not None:
            known.pacer.claim(now)
        if self._outage.is_ours():
            self._outage.canary(now)
        known.last_seen = now
        if not retry:
            self._earn(known, now)
            if via is not None:
                self._earn(via, now)
            self._all.add(budget.FIRSTS, now)
        return permit

    def _earn(self, gate: Target, now: float) -> None:
        if gate.ring is None:
            gate.ring = Ring(self._settings.budget_window, 1)
        gate.ring.add(budget.FIRSTS, now)

    def _refusal(self, name: str, known: Target, endpoint: str | None, now: float) -> Hold | GivenUp | None:
        if endpoint is not None and (at_endpoint := self._refusal_at_endpoint(endpoint, now)) is not None:
            return at_endpoint
        if not known.gated:
            return self._outage_hold(now)
        if known.given_up is not None or self._gone_too_long(name, known, now):
            return known.given_up
        return self._outage_hold(now) or self._gate(name, known, now)

    def _refusal_at_endpoint(self, endpoint: str, now: float) -> Hold | GivenUp | None:
        via = self._endpoints.get(endpoint)
        if via is None or not via.gated:
            return None
        return via.given_up or self._gate(endpoint, via, now)

    def _outage_hold(self, now: float) -> Hold | None:
        if self._outage.is_ours() and now < self._outage.next_canary():
            return Hold(self._outage.next_canary(), "outage")
        return None

    def _gate(self, name: str, known: Target, now: float) -> Hold | None:
        """Hold, circuit, pace: in this order."""
        if now < known.hold_until:
            return Hold(known.hold_until, "told")
        if known.circuit is not None:
            self._tick(name, known.circuit, now)
            if known.circuit.places(now) == 0:
                reason = {State.OPEN: "circuit", State.HALF_OPEN: "probe"}.get(known.circuit.state, "recovering")
                return Hold(known.circuit.ask_again_at(now), reason)
        if known.pacer is not None and now < known.pacer.free_at():
            return Hold(known.pacer.free_at(), "pace")
        return None

    @staticmethod
    def _places(known: Target, now: float) -> int | None:
        """How many would be admitted at this instant; None for any number."""
        places = known.circuit.places(now) if known.circuit is not None else None
        if known.pacer is not None:
            paced = int(now >= known.pacer.free_at())
            return paced if places is None else min(paced, places)
        return places

    def _gone_too_long(self, name: str, known: Target, now: float) -> bool:
        circuit = known.circuit
        if circuit is None or circuit.gone_since is None or circuit.state in {State.CLOSED, State.RECOVERING}:
            return False
        if now - circuit.gone_since < self.settings_of(name).target_give_up:
            return False
        self.give_up(name, "circuit_open", now)
        return True

    def _tick(self, name: str, circuit: Circuit, now: float) -> None:
        event = circuit.tick(now)
        if event is not None:
            self._happened(name, circuit, event, now)

    # Reports ------------------------------------------------------------------------------------------------

    def report(self, permit: Permit, outcome: Outcome, now: float, *, fresh: bool = False) -> None:
        """What the attempt of *permit* came to. *fresh*: its session had never had a good answer."""
        if permit.ended:
            return
        permit.ended = True
        known = self._target(permit.target)
        known.last_seen = now
        unreachable = outcome.class_ is OutcomeClass.TRANSIENT and (
            outcome.blame is Blame.LOCAL or outcome.reason in UNREACHABLE
        )
        self._outage.note(permit.target, now, unreachable=unreachable)
        if outcome.ok:
            known.granted(now)
        ours = unreachable and self._outage.is_ours()
        sample = Sample.NOTHING if ours else _sample(outcome, fresh=fresh)
        self._judge(permit.target, known, permit, permit.generation, sample, now, fresh=fresh)
        if permit.endpoint is not None:
            via = self._endpoint(permit.endpoint)
            self._judge(
                permit.endpoint,
                via,
                permit,
                permit.endpoint_generation,
                _endpoint_sample(outcome),
                now,
                fresh=False,
            )
            self._count_refusals(permit.endpoint, via, outcome, now)
        if outcome.class_ is OutcomeClass.RATE:
            self._slow_down(permit, known, outcome, now)

    def cancel(self, permit: Permit, now: float) -> None:
        """The attempt of *permit* told nothing."""
        if permit.ended:
            return
        permit.ended = True
        for name, gates, generation in (
            (permit.target, self._targets, permit.generation),
            (permit.endpoint, self._endpoints, permit.endpoint_generation),
        ):
            gate = gates.get(name) if name is not None else None
            if gate is not None and gate.circuit is not None:
                assert name is not None
                self._judge(name, gate, permit, generation, Sample.NOTHING, now, fresh=False)

    def _judge(
        self,
        name: str,
        gate: Target,
        permit: Permit,
        generation: int,
        sample: Sample,
        now: float,
        *,
        fresh: bool,
    ) -> None:
        if gate.circuit is None:
            if sample not in {Sample.FAILED, Sample.REFUSED}:
                return
            earlier = gate.ring.at_least(budget.FIRSTS, now) - 1 if gate.ring is not None else 0
            gate.circuit = Circuit(self.settings_of(name), now, max(0, min(earlier, gate.oks)))
        self._tick(name, gate.circuit, now)
        event = gate.circuit.report(permit, generation, sample, now, fresh=fresh)
        if event is not None:
            self._happened(name, gate.circuit, event, now)
        gate.regate(now)

    def _happened(self, name: str, circuit: Circuit, event: Event, now: float) -> None:
        if circuit.state is State.OPEN:
            gate = self._targets.get(name) or self._endpoints.get(name)
            circuit.open_until(self._rng, gate.hold_until if gate is not None else now)
        kind = EVENTS.get(event)
        if kind is not None:
            until = circuit.until if circuit.state is State.OPEN else None
            self._events.append(GuardEvent(kind, name, now, until))

    def _count_refusals(self, name: str, via: Target, outcome: Outcome, now: float) -> None:
        if outcome.blame is not Blame.PROXY or outcome.class_ is not OutcomeClass.TERMINAL:
            via.refusals = 0
            return
        via.refusals += 1
        if via.refusals >= REFUSALS_IN_ROW and via.given_up is None:
            via.given_up = GivenUp("proxy_refused")
            via.gated = True
            self._events.append(GuardEvent("endpoint_refused", name, now))

    def _slow_down(self, permit: Permit, known: Target, outcome: Outcome, now: float) -> None:
        settings = self.settings_of(permit.target)
        told = outcome.wait
        if told is not None and told > settings.retry_after_cap:
            self.give_up(permit.target, "retry_after_too_long", now, now + told)
            return
        if outcome.blame is Blame.PROXY and permit.endpoint is not None:
            via = self._endpoint(permit.endpoint)
            via.hold(now + (told if told is not None else settings.rate_backoff_base))
            return
        cut = self._cut(permit, known, told or 0.0, now) if settings.pacing_enabled else True
        if outcome.blame is Blame.SESSION:
            return
        if told:
            known.hold(now + told)
        elif cut:
            known.hold(now + (1.0 / known.pacer.rate if known.pacer is not None else settings.rate_backoff_base))

    def _cut(self, permit: Permit, known: Target, told: float, now: float) -> bool:
        granted = known.granted_lately(now, max(1.0, told))
        if known.pacer is None:
            known.pacer = Pacer(granted, now)
            known.gated = True
            self._events.append(GuardEvent("paced", permit.target, now))
            return True
        return known.pacer.refused(permit.sent_at, granted, now)

    # Budget -------------------------------------------------------------------------------------------------

    def reserve(
        self, target: str, charge: Charge | str, now: float, *, endpoint: str | None = None
    ) -> Reservation | None:
        """Charge one retry to the budget, or None when there is none left."""
        if charge == Charge.PACED:
            return Reservation()
        transient, identity = self._rules.get(target) or self._rules_of(target)
        known = self._target(target)
        if charge == Charge.PROXY and endpoint is not None:
            known = self._endpoint(endpoint)
        if known.ring is None:
            known.ring = Ring(self._settings.budget_window, 1)
        if charge == Charge.IDENTITY:
            granted = budget.reserve(((identity, known.ring, budget.IDENTITY),), now)
        elif charge == Charge.PROXY and endpoint is not None:
            granted = budget.reserve(((transient, known.ring, budget.TRANSIENT),), now)
        else:
            granted = budget.reserve(
                ((transient, known.ring, budget.TRANSIENT), (self._all_rule, self._all, budget.TRANSIENT)),
                now,
            )
        if granted is None and not known.denied:
            self._events.append(GuardEvent("budget_exhausted", target, now))
        known.denied = granted is None
        return granted

    def _rules_of(self, target: str) -> tuple[Rule, Rule]:
        settings = self._overrides.get(target)
        if settings is None:
            return self._default_rules
        rules = self._rules[target] = _rules(settings)
        return rules

    @staticmethod
    def refund(reservation: Reservation, now: float) -> None:
        """The retry was never sent."""
        reservation.refund(now)

    def tail_open(self, target: str, now: float) -> bool:
        """Whether a retry may go without budget, once no first attempt of *target* waits: the target must be well."""
        known = self._targets.get(target)
        if known is None:
            return True
        if self.still(target, now) or self._outage_hold(now) is not None:
            return False
        circuit = known.circuit
        return circuit is None or circuit.failure_ratio(now) < self.settings_of(target).circuit_failure_ratio

    def still(self, target: str, now: float) -> bool:
        """Whether the clock of those who wait for budget stands still: the target is held or not closed."""
        known = self._targets.get(target)
        if known is None:
            return False
        closed = known.circuit is None or known.circuit.state is State.CLOSED
        return not closed or now < known.hold_until

    # Giving up, and looking ---------------------------------------------------------------------------------

    def give_up(self, target: str, reason: str, now: float, not_before: float | None = None) -> None:
        """Nothing more is admitted to *target*; the first reason stands."""
        known = self._target(target)
        if known.given_up is None:
            known.given_up = GivenUp(reason, not_before)
            known.gated = True
            self._events.append(GuardEvent("target_given_up", target, now, not_before))

    def hold(self, target: str, until: float) -> None:
        """Hold *target* at least until then."""
        self._target(target).hold(until)

    def given_up(self, target: str, now: float) -> GivenUp | None:
        """Whether *target* was given up, or is now."""
        known = self._targets.get(target)
        if known is None:
            return None
        self._gone_too_long(target, known, now)
        return known.given_up

    def healthy(self, target: str, now: float) -> bool:
        """Whether other requests of *target* succeed: its circuit is closed and few of them fail."""
        known = self._targets.get(target)
        if known is None or known.circuit is None:
            return True
        circuit = known.circuit
        return circuit.state is State.CLOSED and (
            circuit.failure_ratio(now) < self.settings_of(target).circuit_failure_ratio / 2
        )

    def pace(self, target: str) -> float | None:
        """The present pace per second; None when *target* is not paced."""
        known = self._targets.get(target)
        return known.pacer.rate if known is not None and known.pacer is not None else None

    def view(self, target: str, now: float) -> TargetView:
        """*target* as it stands."""
        known = self._targets.get(target) or Target()
        circuit = known.circuit
        gone = circuit.gone_since if circuit is not None and circuit.state is not State.CLOSED else None
        return TargetView(
            state=circuit.state.value if circuit is not None else State.CLOSED.value,
            since=circuit.since if circuit is not None else None,
            next_probe=circuit.until if circuit is not None and circuit.state is State.OPEN else None,
            gone_since=gone,
            give_up_at=gone + self.settings_of(target).target_give_up if gone is not None else None,
            hold_until=known.hold_until if known.hold_until > now else None,
            rate=self.pace(target),
            failure_ratio=circuit.failure_ratio(now) if circuit is not None else 0.0,
            given_up=known.given_up,
        )

    def take_events(self) -> list[GuardEvent]:
        """What has happened since the last call."""
        events, self._events = self._events, []
        return events

    def evict(self, now: float, most: int = 1000) -> int:
        """Forget up to *most* targets that are quiet for ten minutes and have nothing to remember."""
        if not self._evict_from:
            self._evict_from = list(self._targets)
        forgotten = 0
        for _ in range(min(most, len(self._evict_from))):
            name = self._evict_from.pop()
            known = self._targets.get(name)
            if known is not None and known.forgettable(now):
                del self._targets[name]
                forgotten += 1
        return forgotten


def _rules(settings: GuardSettings) -> tuple[Rule, Rule]:
    return (
        Rule.of(settings.budget_ratio, settings.budget_min_retries),
        Rule.of(settings.budget_identity_ratio, settings.budget_min_retries),
    )


def _sample(outcome: Outcome, *, fresh: bool) -> Sample:
    """What *outcome* says about the target."""
    kind: Any = outcome.class_
    if kind is OutcomeClass.OK:
        return Sample.OK
    if kind is OutcomeClass.RATE:
        return Sample.SLOWED
    if outcome.blame in {Blame.PROXY, Blame.LOCAL}:
        return Sample.NOTHING
    if kind is OutcomeClass.TERMINAL:
        return Sample.OK
    if kind is OutcomeClass.IDENTITY:
        return Sample.REFUSED if fresh else Sample.NOTHING
    return Sample.FAILED if outcome.blame is Blame.TARGET else Sample.NOTHING


def _endpoint_sample(outcome: Outcome) -> Sample:
    """What *outcome* says about the proxy endpoint it came through."""
    if outcome.blame is Blame.PROXY:
        if outcome.class_ is OutcomeClass.TRANSIENT:
            return Sample.FAILED
        return Sample.SLOWED if outcome.class_ is OutcomeClass.RATE else Sample.NOTHING
    return Sample.NOTHING if outcome.blame is Blame.LOCAL else Sample.OK
