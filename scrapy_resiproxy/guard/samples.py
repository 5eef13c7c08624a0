"""What an outcome says about the target, and about the proxy endpoint that it came through."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from scrapy_resiproxy.outcome import Blame, OutcomeClass

if TYPE_CHECKING:
    from scrapy_resiproxy.outcome import Outcome


class Sample(StrEnum):
    """What one answer means for a circuit."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    """A fresh session was refused at its first answer."""
    SLOWED = "slowed"
    """A rate signal: the pacer's business, but no proof of health for a probe."""
    NOTHING = "nothing"
    """Says nothing about it: cancelled, somebody else's fault."""


UNREACHABLE = frozenset({
    "connect_failed", "connect_refused", "dns_failed", "dns_not_found", "network_down",
})  # fmt: skip
"""Reasons that lie below HTTP, so that they may be our own network's."""

UNANSWERED = UNREACHABLE | {
    "connection_lost", "download_failed", "listed_exception", "protocol_error", "timeout", "tls_error",
}  # fmt: skip
"""Reasons of the target that do not prove that an answer came through the proxy."""

ANSWERED = frozenset({"layout_changed", "validator_error"})
"""Faults of our own that show that the page arrived. As "no news" they would never let a circuit close."""

OVERLOADED = frozenset({"unavailable"})
"""Reasons that may be an unnamed rate limit: nginx's, for one, says a bare 503 unless told otherwise."""


PLAN_REFUSED = frozenset({"proxy_auth", "proxy_quota"})
"""Reasons of the proxy that hold for whatever it is asked. Others are about one target, or about how it was asked."""


def refuses_plan(outcome: Outcome) -> bool:
    """Whether the proxy refuses us ourselves. Inside TLS anybody could have written that: then it is weak."""
    return outcome.blame is Blame.PROXY and outcome.reason in PLAN_REFUSED and not outcome.weak


def is_unreachable(outcome: Outcome) -> bool:
    """Whether it may be our own network that failed. Not where somebody refused the connection, who is there and so is
    the way to him; nor where a proxy said that there is no such name.
    """
    if outcome.class_ is not OutcomeClass.TRANSIENT:
        return False
    if outcome.blame is Blame.TARGET:
        by_proxy = outcome.reason == "dns_not_found" and not outcome.weak
        return outcome.reason in UNREACHABLE and outcome.reason != "connect_refused" and not by_proxy
    return outcome.blame is Blame.LOCAL


def sample_of(outcome: Outcome, *, fresh: bool) -> Sample:
    """What *outcome* says about the target. *fresh*: its session had never had a good answer."""
    if outcome.ok or outcome.reason in ANSWERED:
        return Sample.OK
    if outcome.blame in {Blame.PROXY, Blame.LOCAL}:
        return Sample.NOTHING
    if outcome.class_ is OutcomeClass.RATE:
        return Sample.SLOWED
    if outcome.class_ is OutcomeClass.IDENTITY:
        return Sample.REFUSED if fresh else Sample.NOTHING
    # A page that does not exist is an answer like any other.
    return Sample.OK if outcome.class_ is OutcomeClass.TERMINAL else Sample.FAILED


def endpoint_sample_of(outcome: Outcome) -> Sample:
    """What *outcome* says about the proxy endpoint that it came through."""
    if outcome.blame is Blame.PROXY:
        by_class = {OutcomeClass.TRANSIENT: Sample.FAILED, OutcomeClass.RATE: Sample.SLOWED}
        return by_class.get(outcome.class_, Sample.NOTHING)
    unproved = outcome.blame is Blame.LOCAL and outcome.reason not in ANSWERED
    return Sample.NOTHING if unproved or outcome.reason in UNANSWERED else Sample.OK
