"""What an errback may get from us; what is awaited in place (media, ``engine.download_async``) raises the same.

The rest is Scrapy's: the download exception itself when the attempts are used up, and a refused answer that is not 2xx,
which goes on as a response (``HttpError``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.http import Response

    from scrapy_resiproxy.outcome import Outcome


class ResiproxyError(IgnoreRequest):
    """A request that was given up. It is an ``IgnoreRequest``: Scrapy logs no traceback for it.

    ``outcome`` is the :class:`~scrapy_resiproxy.outcome.Outcome` of the last attempt, with its blame and the wait that
    the server asked for; what was never sent has one too, whose reason says so. ``attempts`` is the story of every
    attempt (as in ``response.meta["resiproxy"]``), ``response`` the refused answer where it is at hand, else ``None``.

    Raised itself for a request whose meta holds a mistake; for one that cannot wait in place for as long as its target
    is paced or told us to stay away, until a session is free, or to the end of the crawl; and for a redirect whose page
    failed when it was fetched for another request.
    """

    def __init__(
        self,
        message: str = "",
        *,
        outcome: Outcome | None = None,
        attempts: Sequence[dict[str, Any]] = (),
        response: Response | None = None,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.attempts = tuple(attempts)
        self.response = response


class SoftBlock(ResiproxyError):
    """Raised when an answer that looked good (2xx) was refused by a wall's marker or by a validator, for good."""


class SessionLost(ResiproxyError):
    """Raised when a named session has ended: it is never replaced silently."""


class ProxyRefused(ResiproxyError):
    """Raised when the proxy itself answered, and for good: wrong credentials, no traffic left, a forbidden target, or
    that it could not get the page. ``outcome.reason`` tells which. Such an answer never goes on as the target's.
    """


class CircuitOpen(ResiproxyError):
    """Raised when the target, or the proxy before it, was given up for this run, or its circuit is not closed and the
    request cannot wait.
    """


class BudgetExhausted(ResiproxyError):
    """Raised when a retry has waited ``RESIPROXY_BUDGET_WAIT`` seconds for budget and got none, or cannot wait for it:
    in place, or because ``RESIPROXY_WAITING_MAX`` requests wait already. Where its last answer is at hand it is in
    ``response``, and a download exception is its ``__cause__``.
    """
