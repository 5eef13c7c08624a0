"""What to do after one judged attempt: a value, and nothing else happens here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.backoff import full_jitter, with_told
from scrapy_resiproxy.guard.samples import is_unreachable
from scrapy_resiproxy.outcome import Blame, OutcomeClass

if TYPE_CHECKING:
    from random import Random

    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.settings import GuardSettings


class Charge(StrEnum):
    """Whose budget pays for a retry."""

    TRANSIENT = "transient"
    IDENTITY = "identity"
    """A retry on a fresh session takes another road: its own, wider ratio."""
    PROXY = "proxy"
    """The endpoint's, not the target's."""
    PACED = "paced"
    """Nobody's: it waits as the server told it to, or for our own network."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand the answer on."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send it again, *delay* seconds from now at the earliest; with *rotate* on another session."""

    delay: float
    rotate: bool
    charge: Charge


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Surface it, with a dead letter for this reason; not to be replayed for *not_before* seconds from now."""

    reason: str
    not_before: float | None = None


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """What an earlier attempt of the same request came to."""

    class_: OutcomeClass
    reason: str
    fresh: bool
    weak: bool


@dataclass(frozen=True, slots=True)
class History:
    """What is known of a request when one of its attempts was judged."""

    sent: int
    """Attempts sent, this one included."""
    max_attempts: int
    past: tuple[PastAttempt, ...] = ()
    """The earlier ones, oldest first."""
    fresh: bool = True
    """Whether this attempt's session had never had a good answer."""
    can_rotate: bool = True
    named: bool = False
    """Whether it must stay on a session that the user named."""
    resendable: bool = True
    """False when it may not be sent twice and perhaps was received."""
    retry_allowed: bool = True
    healthy: bool = True
    """Whether other requests of its target succeed."""
    own_outage: bool = False
    """Whether our own network is down: what it did to the request proves nothing, and costs it nothing."""


DNS_REASON = "dns_not_found"
"""Terminal after one retry: a resolver may fail once for a name that exists."""

BARE_REFUSALS = 2
"""So many fresh sessions that get the same bare 403 or 401 of a healthy target mean it: that page is forbidden."""


def decide(outcome: Outcome, history: History, settings: GuardSettings, rng: Random) -> Deliver | Retry | GiveUp:
    """What to do about *outcome*. The reasons of :class:`GiveUp` are those of dead letters."""
    if outcome.ok:
        return Deliver()
    if outcome.class_ is OutcomeClass.TERMINAL:
        return GiveUp(_terminal_reason(outcome))
    if not history.retry_allowed or not history.resendable:
        return GiveUp("dont_retry")
    if outcome.wait is not None and outcome.wait > settings.retry_after_cap:
        return GiveUp("retry_after_too_long", outcome.wait)
    if outcome.class_ is OutcomeClass.RATE:
        return _after_rate(outcome, history, settings, rng)
    if outcome.class_ is OutcomeClass.IDENTITY:
        return _after_identity(outcome, history, settings, rng)
    return _after_transient(outcome, history, settings, rng)


def _terminal_reason(outcome: Outcome) -> str:
    if outcome.reason == "validator_error":
        return "validator_error"
    return "proxy_refused" if outcome.blame is Blame.PROXY else "terminal"


def _after_rate(outcome: Outcome, history: History, settings: GuardSettings, rng: Random) -> Retry | GiveUp:
    if history.sent >= history.max_attempts:
        return GiveUp("attempts_exhausted")
    delay = full_jitter(history.sent, settings.rate_backoff_base, settings.backoff_cap, rng)
    return Retry(with_told(delay, outcome.wait, rng), rotate=False, charge=Charge.PACED)


def _after_identity(outcome: Outcome, history: History, settings: GuardSettings, rng: Random) -> Retry | GiveUp:
    if history.named:
        return GiveUp("session_lost")
    if outcome.weak and history.fresh and history.healthy:
        bare = 1 + sum(past.weak and past.fresh and past.class_ is OutcomeClass.IDENTITY for past in history.past)
        if bare >= BARE_REFUSALS:
            return GiveUp("forbidden")
    if not history.can_rotate or history.sent >= history.max_attempts:
        return GiveUp("identity_exhausted")
    delay = full_jitter(history.sent, settings.identity_backoff_base, settings.backoff_cap, rng)
    return Retry(with_told(delay, outcome.wait, rng), rotate=True, charge=Charge.IDENTITY)


def _after_transient(outcome: Outcome, history: History, settings: GuardSettings, rng: Random) -> Retry | GiveUp:
    delay = with_told(full_jitter(history.sent, settings.backoff_base, settings.backoff_cap, rng), outcome.wait, rng)
    if history.own_outage and is_unreachable(outcome):
        return Retry(delay, rotate=False, charge=Charge.PACED)
    if outcome.reason == DNS_REASON and any(past.reason == DNS_REASON for past in history.past):
        return GiveUp("terminal")
    if history.sent >= history.max_attempts:
        return GiveUp("attempts_exhausted")
    charge = Charge.PROXY if outcome.blame is Blame.PROXY else Charge.TRANSIENT
    rotate = outcome.blame is Blame.SESSION and history.can_rotate and not history.named
    return Retry(delay, rotate=rotate, charge=charge)
