"""What the governor hands out: permits, refusals and events."""

from __future__ import annotations

from dataclasses import dataclass

from scrapy_resiproxy.guard.circuit import Event, State


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
    generation: int = 0
    endpoint_generation: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class GuardEvent:
    """Something that happened to a target or endpoint; *until* is monotonic, where it has an end.

    The kinds are ``circuit_opened``, ``circuit_half_opened``, ``circuit_recovering``, ``circuit_closed`` (these tell
    every change of a circuit), ``paced``, ``budget_exhausted``, ``target_given_up``, ``endpoint_given_up`` (it was gone
    for too long, or told us to stay away) and ``endpoint_refused`` (the plan is dead).
    """

    kind: str
    target: str
    now: float
    until: float | None = None


EVENTS = {
    Event.TRIPPED: "circuit_opened",
    Event.PROBE_FAILED: "circuit_opened",
    Event.PROBE_LOST: "circuit_opened",
    Event.RELAPSED: "circuit_opened",
    Event.COOLED: "circuit_half_opened",
    Event.PROBE_OK: "circuit_recovering",
    Event.RECOVERED: "circuit_closed",
}
"""The kind of event that a change of a circuit is told as."""

REASONS = {State.OPEN: "circuit", State.HALF_OPEN: "probe", State.RECOVERING: "recovering"}
"""Why a circuit that is not closed holds."""
