"""The words an outcome's reason may be, and short ways to make an outcome.

A reason is a stat key and a filter of dead letters: it is never taken from an answer, only from this table.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from scrapy_resiproxy.outcome import Outcome, OutcomeClass

REASONS: Final[dict[OutcomeClass, tuple[str, ...]]] = {
    OutcomeClass.OK: ("ok",),
    OutcomeClass.TRANSIENT: (
        "bad_encoding",
        "connect_failed",
        "connect_refused",
        "connection_lost",
        "data_loss",
        "dns_failed",
        "dns_not_found",
        "download_failed",
        "held",
        "listed_exception",
        "listed_status",
        "local_limit",
        "misdirected",
        "network_down",
        "origin_unreachable",
        "protocol_error",
        "proxy_error",
        "proxy_protocol",
        "proxy_timeout",
        "proxy_unreachable",
        "request_timeout",
        "server_error",
        "status_class",
        "timeout",
        "tls_error",
        "too_early",
        "unavailable",
        "validator_transient",
    ),
    OutcomeClass.RATE: (
        "paced",
        "proxy_concurrency",
        "proxy_rate",
        "rate_limit_page",
        "retry_after",
        "status_class",
        "too_many_requests",
        "validator_rate",
    ),
    OutcomeClass.IDENTITY: (
        "block_page",
        "block_url",
        "challenge",
        "forbidden",
        "marker",
        "no_session",
        "odd_status",
        "proxy_banned",
        "proxy_session_lost",
        "soft_block",
        "status_class",
        "unauthorized",
    ),
    OutcomeClass.TERMINAL: (
        "auth_required",
        "bad_request",
        "bad_url",
        "cancelled",
        "client_error",
        "error",
        "gone",
        "ignored",
        "layout_changed",
        "legal_reasons",
        "method_not_allowed",
        "not_found",
        "not_supported",
        "permission_denied",
        "proxy_auth",
        "proxy_config",
        "proxy_policy",
        "proxy_quota",
        "proxy_refused",
        "status_class",
        "too_large",
        "too_many_redirects",
        "validator_error",
        "validator_terminal",
    ),
}
"""Every reason, by class. A user's own words go to the evidence. Those of requests that were never sent are ``held``,
``paced``, ``no_session`` and ``proxy_refused``.
"""

transient = partial(Outcome, OutcomeClass.TRANSIENT)
rate = partial(Outcome, OutcomeClass.RATE)
identity = partial(Outcome, OutcomeClass.IDENTITY)
terminal = partial(Outcome, OutcomeClass.TERMINAL)


def one_line(text: str, limit: int) -> str:
    """*text* on one line of printable characters, at most *limit* of them."""
    return "".join(c if c.isprintable() else " " for c in text[: 4 * limit]).strip()[:limit]
