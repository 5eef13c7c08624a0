"""A look at one target, for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.budget import OKS
from scrapy_resiproxy.guard.circuit import State

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.answers import GivenUp
    from scrapy_resiproxy.guard.open_gate import OpenGate


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
    down: bool
    """Whether no answer of the last minute or so, the window of the budget, was good."""
    row: int
    """How many failures in a row opened the circuit; 0 where it was a share of all answers, or nothing has."""
    given_up: GivenUp | None


def view_of(gate: OpenGate, now: float) -> TargetView:
    """*gate* as it stands."""
    circuit = gate.circuit
    gone = circuit.gone_since if circuit is not None else None
    return TargetView(
        state=circuit.state.value if circuit is not None else State.CLOSED.value,
        since=circuit.since if circuit is not None else None,
        next_probe=circuit.until if circuit is not None and circuit.state is State.OPEN else None,
        gone_since=gone,
        give_up_at=gone + gate.terms.settings.target_give_up if gone is not None else None,
        hold_until=gate.hold_until if gate.hold_until > now else None,
        rate=gate.pacer.rate if gate.pacer is not None else None,
        failure_ratio=gate.failure_ratio(now),
        down=not gate.ring.at_most(OKS, now),
        row=circuit.row if circuit is not None else 0,
        given_up=gate.given_up,
    )
