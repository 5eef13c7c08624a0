"""What a bare status means, when neither the proxy nor a wall has said anything."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.classify.json_type import is_json
from scrapy_resiproxy.classify.reasons import identity, rate, terminal, transient
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

_TABLE: Final[dict[int, Outcome]] = {
    400: terminal("bad_request"),
    # A wall's bare refusal, or an honest one: a second session tells.
    401: identity("unauthorized", Blame.SESSION, weak=True),
    403: identity("forbidden", Blame.SESSION, weak=True),
    404: terminal("not_found"),
    405: terminal("method_not_allowed"),
    408: transient("request_timeout"),
    410: terminal("gone"),
    420: rate("too_many_requests"),
    # RFC 9110 15.5.20 and RFC 8470: the same request may be sent again on another connection, or later.
    421: transient("misdirected"),
    425: transient("too_early"),
    429: rate("too_many_requests"),
    451: terminal("legal_reasons"),
    503: transient("unavailable"),
    509: rate("too_many_requests"),
    # Cloudflare's faults on the way to the origin. A proxy that uses the same numbers names itself.
    **dict.fromkeys((*range(520, 528), 530), transient("origin_unreachable")),
}

KNOWN: Final = frozenset((*_TABLE, 200, 204, 206, 304))
"""Statuses whose class ``RETRY_HTTP_CODES`` does not change."""

_WAITING_CURES: Final = frozenset({403, 413, 420, 429, 503, 509, 529})
"""Refusals that ``Retry-After`` turns into "too fast"; elsewhere it only says how long."""


def judge_status(request: Request, response: Response, told: float | None) -> Outcome:
    """The outcome of a status that is neither 2xx nor 3xx; *told* is the wait that the server asked for."""
    status = response.status
    outcome = _TABLE.get(status) or _by_range(status)
    if told and status in _WAITING_CURES and outcome.class_ is not OutcomeClass.RATE:
        outcome = rate("retry_after")
    elif _is_honest(request, response):
        outcome = terminal("auth_required" if status == 401 else "permission_denied")
    return replace(outcome, evidence=sys.intern(f"status:{status}"))


def _by_range(status: int) -> Outcome:
    if 400 <= status < 500:
        return terminal("client_error")
    if 500 <= status < 600:
        return transient("server_error")
    if 100 <= status < 200:
        return transient("protocol_error")
    # LinkedIn's 999: a number outside HTTP is meant for nobody who is welcome.
    return identity("odd_status", Blame.SESSION)


def _is_honest(request: Request, response: Response) -> bool:
    """Whether a 401 or 403 is about the credentials of the request and not about who sends it.

    RFC 9110 15.5.2 requires ``WWW-Authenticate`` on a genuine 401.
    """
    if response.status == 401:
        return "WWW-Authenticate" in response.headers or "Authorization" in request.headers
    return response.status == 403 and "Authorization" in request.headers and is_json(response)
