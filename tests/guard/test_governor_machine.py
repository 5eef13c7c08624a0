"""Everything that may happen to a governor, in any order, against promises that are kept outside of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from guard_kit import (
    FORBIDDEN,
    NO_NAME,
    NOT_FOUND,
    PROXY_AUTH,
    PROXY_DOWN,
    PROXY_RATE,
    REFUSED,
    SESSION_RATE,
    SLOWED,
    TIMEOUT,
    UNAVAILABLE,
    slowed,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrapy_resiproxy.guard.circuit import OPEN_JITTER, TRANSITIONS, Circuit, State
from scrapy_resiproxy.guard.decide import Charge
from scrapy_resiproxy.guard.gate import Gate
from scrapy_resiproxy.guard.governor import GivenUp, Governor, Hold, Permit
from scrapy_resiproxy.guard.window import BUCKETS
from scrapy_resiproxy.outcome import OK
from scrapy_resiproxy.settings import GuardSettings

PATHS = {"a": "gw", "b": "gw", "c": None}
"""Three targets, two of them behind one proxy endpoint."""

WINDOW = 12.0
SLACK = WINDOW / BUCKETS
LEASE = 6.0
COOLDOWN_MAX = 8.0

BAD = [UNAVAILABLE, UNAVAILABLE, TIMEOUT, PROXY_DOWN]
OUTCOMES = [
    *BAD,
    OK,
    OK,
    OK,
    NOT_FOUND,
    SLOWED,
    slowed(3.0),
    REFUSED,
    FORBIDDEN,
    PROXY_RATE,
    SESSION_RATE,
    PROXY_AUTH,
    NO_NAME,
]

hosts = st.sampled_from(sorted(PATHS))
steps = st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.5, 6.0, 15.0])


@dataclass
class Seen:
    """What a circuit looked like."""

    state: State
    generation: int


def inside(circuit, now):
    if circuit is None:
        return ()
    plain = (name for name in Circuit.__slots__ if name not in {"_ring", "_leases"})
    counts = [circuit._ring.at_most(series, now) for series in range(4)]
    return (*(getattr(circuit, name) for name in plain), dict(circuit._leases), counts)


def look(gate):
    circuit = gate.circuit
    return Seen(State.CLOSED, 0) if circuit is None else Seen(circuit.state, circuit.generation)


def reachable(state, changes):
    """The states that so many changes may lead to."""
    now = {state}
    for _ in range(changes):
        now = {to for (origin, _), to in TRANSITIONS.items() if origin in now}
    return now


class GovernorMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 1000.0
        self.permits: list[Permit] = []
        self.ended: list[Permit] = []
        self.held: dict[str, float] = {}
        self.gone: dict[str, GivenUp] = {}
        self.firsts: dict[str, list[float]] = {name: [] for name in (*PATHS, "gw", "*")}
        self.retries: dict[tuple[str, str], list[tuple[float, object]]] = {}
        self.seen: dict[str, Seen] = {}

    @initialize(
        probes=st.integers(1, 4),
        give_up=st.sampled_from([5.0, 40.0, math.inf]),
        pacing=st.booleans(),
        floor=st.integers(0, 2),
        seed=st.integers(0, 99),
    )
    def begin(self, probes, give_up, pacing, floor, seed):
        self.settings = GuardSettings(
            circuit_min_requests=4,
            circuit_consecutive=3,
            circuit_cooldown=1.0,
            circuit_cooldown_max=COOLDOWN_MAX,
            circuit_window=WINDOW,
            circuit_recovery=4.0,
            circuit_probes=probes,
            target_give_up=give_up,
            pacing_enabled=pacing,
            budget_window=WINDOW,
            budget_ratio=0.5,
            budget_min_retries=floor,
            budget_global_ratio=0.6,
            budget_global_min_retries=2 * floor,
            retry_after_cap=5.0,
        )
        self.governor = Governor(self.settings, Random(seed))

    # Helpers --------------------------------------------------------------------------------------------------

    def gates(self):
        return {**self.governor._targets, **self.governor._endpoints}

    def circuit(self, name):
        gate = self.gates().get(name)
        return gate.circuit if gate is not None else None

    def settle_time(self):
        """Let time alone do its work, so that what follows is the doing of what follows."""
        for name, endpoint in PATHS.items():
            self.governor.peek(name, self.now, endpoint)
            self.governor.peek(name, self.now)
        for gate in self.gates().values():
            if isinstance(gate, Gate):
                gate.tick(self.now)
        self.watch()

    def watch(self):
        """Every change since the last look is one that the table knows."""
        for name, gate in self.gates().items():
            before, after = self.seen.get(name, Seen(State.CLOSED, 0)), look(gate)
            if before.generation > after.generation:
                assert before.state is State.CLOSED, f"{name} was forgotten while it was {before.state}"
                before = Seen(State.CLOSED, 0)
            changes = after.generation - before.generation
            assert after.state in reachable(before.state, changes), (name, before.state, after.state, changes)
            self.seen[name] = after

    def ask(self, target, **how):
        endpoint = PATHS[target]
        told = self.governor.peek(target, self.now, endpoint)
        before = {name: inside(gate.circuit, self.now) for name, gate in self.gates().items()}
        pace = {name: gate.pacer and gate.pacer.free_at() for name, gate in self.gates().items()}
        answer = self.governor.admit(target, self.now, endpoint=endpoint, lease=LEASE, **how)
        if told is None:
            assert isinstance(answer, Permit), f"peek said yes, admit said {answer}"
        elif getattr(told, "reason", None) != "transit":
            assert answer == told
        if isinstance(answer, Permit):
            self.admitted(answer)
        else:
            gates = self.gates()
            assert {name: inside(gates[name].circuit, self.now) for name in before} == before, (
                "a denial changes nothing"
            )
            assert {name: gates[name].pacer and gates[name].pacer.free_at() for name in pace} == pace
        if isinstance(answer, Hold):
            assert answer.until > self.now
        if isinstance(answer, GivenUp):
            assert self.gone.setdefault(f"{target} via {endpoint}", answer) == answer
        return answer

    def admitted(self, permit):
        for name in (permit.target, permit.endpoint):
            if name is None:
                continue
            assert self.now >= self.held.get(name, 0.0), "nothing goes to what is held"
            gate = self.gates()[name]
            assert gate.given_up is None
            assert gate.circuit is None or gate.circuit.state is not State.OPEN
        assert f"{permit.target} via {permit.endpoint}" not in self.gone
        self.permits.append(permit)
        if not permit.retry:
            self.earned(permit, list.append)

    def earned(self, permit, change):
        for name in (permit.target, permit.endpoint, "*"):
            if name is not None:
                change(self.firsts[name], permit.sent_at)

    def take(self, index):
        permit = self.permits.pop(index % len(self.permits))
        self.ended.append(permit)
        return permit

    # What may happen ------------------------------------------------------------------------------------------

    @rule(step=steps)
    def time_passes(self, step):
        self.now += step

    @rule(host=hosts)
    def time_passes_as_told(self, host):
        hold = self.governor.peek(host, self.now, PATHS[host])
        if isinstance(hold, Hold) and hold.reason != "transit":
            self.now = hold.until
            again = self.governor.peek(host, self.now, PATHS[host])
            assert again != hold

    @rule(host=hosts, retry=st.booleans())
    def one_asks(self, host, retry):
        self.ask(host, retry=retry)

    @rule(host=hosts, count=st.integers(2, 6))
    def several_ask(self, host, count):
        for _ in range(count):
            self.ask(host)

    @rule(host=hosts, asks=st.booleans())
    def one_leaves_the_queue(self, host, asks):
        if self.governor.peek(host, self.now, PATHS[host]) is None:
            self.governor.popped(host, self.now)
            if asks:
                self.ask(host)

    @rule(host=hosts, outcomes=st.lists(st.sampled_from([OK, OK, OK, UNAVAILABLE, REFUSED]), min_size=1, max_size=8))
    def one_after_the_other(self, host, outcomes):
        """What lets a target recover, or relapse: each waits as told, and is answered at once."""
        for outcome in outcomes:
            answer = self.ask(host)
            for _ in range(6):
                if isinstance(answer, Hold):
                    self.now = answer.until
                    answer = self.ask(host)
            if isinstance(answer, Permit):
                self.answer(answer, outcome, fresh=True)

    def answer(self, permit, outcome, *, fresh):
        self.settle_time()
        self.permits.remove(permit)
        self.ended.append(permit)
        self.governor.report(permit, outcome, self.now, fresh=fresh)
        self.note_hold(permit, outcome)
        self.watch()

    @rule(index=st.integers(0, 50), outcome=st.sampled_from(OUTCOMES), fresh=st.booleans())
    def one_answers(self, index, outcome, fresh):
        if not self.permits:
            return
        self.settle_time()
        permit = self.take(index)
        names = [name for name in (permit.target, permit.endpoint) if name is not None]
        stale = [
            name
            for name, generation in zip(names, (permit.generation, permit.endpoint_generation), strict=False)
            if self.circuit(name) is not None and self.circuit(name).generation != generation
        ]
        before = {name: inside(self.circuit(name), self.now) for name in stale}
        for name in before:
            assert permit not in self.circuit(name)._leases, "a lease does not outlive its generation"
        self.governor.report(permit, outcome, self.now, fresh=fresh)
        for name in stale:
            assert inside(self.circuit(name), self.now) == before[name], (
                "an answer of an earlier generation changes nothing"
            )
        self.note_hold(permit, outcome)
        self.watch()

    @rule(count=st.integers(2, 8), outcome=st.sampled_from(BAD), host=hosts)
    def a_flight_fails(self, count, outcome, host):
        """What opens circuits."""
        for _ in range(count):
            answer = self.ask(host)
            if isinstance(answer, Permit):
                self.answer(answer, outcome, fresh=True)

    def note_hold(self, permit, outcome):
        told = outcome.wait
        if outcome.class_ != "rate" or not told or told > self.settings.retry_after_cap:
            return
        name = permit.endpoint if outcome.blame == "proxy" and permit.endpoint else permit.target
        if outcome.blame != "session":
            self.held[name] = max(self.held.get(name, 0.0), self.now + told)

    @rule(index=st.integers(0, 50), outcome=st.sampled_from(OUTCOMES))
    def one_answers_twice(self, index, outcome):
        if not self.ended:
            return
        permit = self.ended[index % len(self.ended)]
        self.settle_time()
        before = {name: (inside(gate.circuit, self.now), gate.hold_until) for name, gate in self.gates().items()}
        self.governor.report(permit, outcome, self.now)
        self.governor.cancel(permit, self.now)
        assert {
            name: (inside(gate.circuit, self.now), gate.hold_until) for name, gate in self.gates().items()
        } == before

    @rule(index=st.integers(0, 50))
    def one_is_cancelled(self, index):
        if not self.permits:
            return
        self.settle_time()
        permit = self.take(index)
        states = {name: look(gate).state for name, gate in self.gates().items()}
        self.governor.cancel(permit, self.now)
        if not permit.retry:
            self.earned(permit, list.remove)
        for name, gate in self.gates().items():
            if look(gate).state is not states[name]:
                assert (states[name], look(gate).state) == (State.HALF_OPEN, State.OPEN)
        self.watch()

    @rule(index=st.integers(0, 50))
    def one_is_lost(self, index):
        if self.permits:
            self.permits.pop(index % len(self.permits))

    @rule(host=hosts, seconds=st.floats(0, 8))
    def it_is_held(self, host, seconds):
        self.governor.hold(host, self.now + seconds)
        self.held[host] = max(self.held.get(host, 0.0), self.now + seconds)

    @rule(host=hosts, charge=st.sampled_from([Charge.TRANSIENT, Charge.IDENTITY, Charge.PROXY]))
    def a_retry_wants_budget(self, host, charge):
        at_endpoint = charge is Charge.PROXY and PATHS[host] is not None
        name = PATHS[host] if at_endpoint else host
        series = "identity" if charge is Charge.IDENTITY else "transient"
        rules = [(name, series, 1.0 if charge is Charge.IDENTITY else 0.5, self.settings.budget_min_retries)]
        if series == "transient" and not at_endpoint:
            rules.append(("*", series, 0.6, self.settings.budget_global_min_retries))
        granted = self.governor.reserve(host, charge, self.now, endpoint=PATHS[host])
        if granted is None:
            assert any(not self.fits(*each, -SLACK) for each in rules), "what the window has earned is granted"
            return
        for each in rules:
            assert self.fits(*each, 0.0), "no more is granted than the window has earned"
            self.retries.setdefault(each[:2], []).append((self.now, granted))

    def fits(self, name, series, ratio, floor, slack):
        """Whether one more retry is within the bound over the true window, or over one that is harder by *slack*."""
        begin = self.now - WINDOW
        firsts = sum(at > begin - slack for at in self.firsts[name])
        retried = sum(at > begin + slack for at, _ in self.retries.get((name, series), []))
        return retried + 1 <= max(floor, math.floor(ratio * firsts + 1e-9))

    @rule(index=st.integers(0, 50))
    def a_retry_is_never_sent(self, index):
        given = [entry for entries in self.retries.values() for entry in entries]
        if not given:
            return
        reservation = given[index % len(given)][1]
        self.governor.refund(reservation, self.now)
        self.governor.refund(reservation, self.now)
        for entries in self.retries.values():
            entries[:] = [entry for entry in entries if entry[1] is not reservation]

    @rule(host=hosts)
    def somebody_looks(self, host):
        governor = self.governor
        governor.still(host, self.now, PATHS[host])
        if governor.tail_open(host, self.now, PATHS[host]):
            assert not isinstance(governor.peek(host, self.now, PATHS[host]), Hold) or (
                governor.peek(host, self.now, PATHS[host]).reason in {"pace", "transit"}
            )
        view = governor.view(host, self.now)
        assert view.hold_until is None or view.hold_until > self.now
        assert view.rate is None or view.rate > 0.0

    @rule()
    def quiet_ones_are_forgotten(self):
        self.settle_time()
        self.governor.evict(self.now)
        for name in PATHS:
            if name not in self.governor._targets:
                self.seen.pop(name, None)
                assert self.held.get(name, 0.0) <= self.now

    # What always holds ----------------------------------------------------------------------------------------

    @invariant()
    def promises_are_kept(self):
        if not hasattr(self, "governor"):
            return
        self.watch()
        for name, gate in self.gates().items():
            circuit = gate.circuit
            assert gate.hold_until >= self.held.get(name, 0.0) or self.now >= self.held[name]
            if gate.given_up is not None or gate.hold_until > self.now or gate.pacer is not None:
                assert gate.gated
            if circuit is None:
                continue
            assert circuit.state is State.CLOSED or gate.gated
            if circuit.state is State.HALF_OPEN:
                assert len(circuit._leases) <= self.settings.circuit_probes
            if circuit.state is State.OPEN:
                wait = circuit.until - circuit.since
                assert 1.0 - 1e-6 <= wait <= COOLDOWN_MAX * (1.0 + OPEN_JITTER) + 1e-6
            if circuit.state in {State.OPEN, State.CLOSED}:
                assert not circuit._leases
            assert (circuit.gone_since is not None) == (circuit.state in {State.OPEN, State.HALF_OPEN})

    def teardown(self):
        """From wherever it was left, and with no answer ever again, a permit is to be had in time."""
        if not hasattr(self, "governor"):
            return
        for target in PATHS:
            deadline = max([self.now, *self.held.values()]) + 2 * 3 * (1.25 * COOLDOWN_MAX + LEASE + 1.0) + 61.0
            answer = self.ask(target)
            while isinstance(answer, Hold):
                self.now = answer.until
                assert self.now <= deadline, f"{target} is wedged: {answer}"
                answer = self.ask(target)


GovernorMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
TestGovernorMachine = GovernorMachine.TestCase
