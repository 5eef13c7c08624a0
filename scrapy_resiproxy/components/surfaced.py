"""What an errback gets from us, and what whoever awaits a request in place: an exception, and the outcome in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.components.flow import story_of
from scrapy_resiproxy.exceptions import (
    BudgetExhausted,
    CircuitOpen,
    ProxyRefused,
    ResiproxyError,
    SessionLost,
    SoftBlock,
)
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.guard.answers import Hold

ALWAYS_RAISED: Final = frozenset({"budget_exhausted", "proxy_refused", "session_lost"})
"""Reasons of dead letters that are an exception of ours, whatever came last."""

ERRORS: Final[dict[str, type[ResiproxyError]]] = {
    "budget_exhausted": BudgetExhausted,
    "circuit_open": CircuitOpen,
    "retry_after_too_long": CircuitOpen,
    "session_lost": SessionLost,
    "proxy_refused": ProxyRefused,
}
"""What is raised by the reason of the dead letter, where that says it."""

NEVER_SENT: Final = {
    "circuit_open": Outcome(OutcomeClass.TRANSIENT, "held"),
    "identity_exhausted": Outcome(OutcomeClass.IDENTITY, "no_session", Blame.SESSION),
    "proxy_refused": Outcome(OutcomeClass.TERMINAL, "proxy_refused", Blame.PROXY),
    "retry_after_too_long": Outcome(OutcomeClass.RATE, "paced"),
    "session_lost": Outcome(OutcomeClass.IDENTITY, "no_session", Blame.SESSION),
    "shutdown": Outcome(OutcomeClass.TRANSIENT, "held", Blame.LOCAL),
}
"""The outcome of a request that never had an attempt, by the reason of its dead letter."""

HELD: Final = {"told": "retry_after_too_long", "pace": "retry_after_too_long", "session": "identity_exhausted"}
"""The dead letter's reason where one could not wait in place, by that of the hold; ``circuit_open`` for the others."""


def error_of(
    request: Request, reason: str, state: State, outcome: Outcome, response: Response | None = None
) -> ResiproxyError:
    """What is raised for *request*, which ends as a dead letter for *reason* after *outcome*."""
    return _kind(reason, state, outcome, response)(
        f"{reason} ({outcome.class_.value}/{outcome.reason}): {request}",
        outcome=outcome,
        attempts=story_of(state.get("log", ())),
        response=response,
    )


def error_of_hold(request: Request, reason: str, state: State, outcome: Outcome, hold: Hold) -> ResiproxyError:
    """What is raised for *request*, which could not wait in place until *hold* ends."""
    # Only a circuit says that the target is gone; what is paced or lacks a session may go a moment later.
    kind = CircuitOpen if reason == "circuit_open" else ResiproxyError
    return kind(
        f"held ({hold.reason}) for too long to wait in place: {request}",
        outcome=outcome,
        attempts=story_of(state.get("log", ())),
    )


def _kind(reason: str, state: State, outcome: Outcome, response: Response | None) -> type[ResiproxyError]:
    if reason in ERRORS:
        return ERRORS[reason]
    answered = response is not None or _last_status(state) is not None
    # That a name does not resolve is said by a proxy's answer, or by our own resolver.
    if said_by_proxy(outcome) and (answered or outcome.reason != "dns_not_found"):
        return ProxyRefused
    if outcome.class_ is OutcomeClass.IDENTITY or response is not None or 200 <= (_last_status(state) or 0) < 300:
        return SoftBlock
    return ResiproxyError


def _last_status(state: State) -> int | None:
    """The status of the last answer, which may be no longer at hand; None where there was none."""
    log = state.get("log")
    return log[-1][1].get("status") if log else None


def said_by_proxy(outcome: Outcome) -> bool:
    """Whether an answer so judged is the proxy's own, whosever fault it was: a site that answers has a name."""
    return outcome.blame is Blame.PROXY or outcome.reason.startswith("proxy_") or outcome.reason == "dns_not_found"


def last_outcome(state: State) -> Outcome | None:
    """What its last attempt came to; None when it has had none."""
    log = state.get("log")
    if not log:
        return None
    _, facts = log[-1]
    return Outcome(
        OutcomeClass(facts["outcome"]),
        facts["reason"],
        Blame(facts.get("blame", Blame.TARGET)),
        facts.get("evidence", ""),
        facts.get("wait"),
        bool(facts.get("weak")),
    )


def outcome_of(state: State, reason: str, *, blame: Blame | None = None, wait: float | None = None) -> Outcome:
    """What *state*'s request came to: its last attempt, or why it never had one. *wait* is seconds from now."""
    last = last_outcome(state)
    if last is not None:
        return last
    unsent = NEVER_SENT.get(reason, Outcome(OutcomeClass.TERMINAL, "error", Blame.LOCAL))
    return replace(unsent, blame=blame or unsent.blame, wait=wait)
