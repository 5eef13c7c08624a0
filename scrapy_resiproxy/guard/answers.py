"""What the governor hands out: permits, refusals, events, and a look at one target."""

from __future__ import annotations

from dataclasses import dataclass


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
    """Something that happened to a target or endpoint; *until* is monotonic, where it has an end.

    The kinds are ``circuit_opened``, ``circuit_half_opened``, ``circuit_closed``, ``paced``, ``budget_exhausted``,
    ``target_given_up``, ``endpoint_given_up`` (it was gone for too long, or told us to stay away) and
    ``endpoint_refused`` (the plan is dead).
    """

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
