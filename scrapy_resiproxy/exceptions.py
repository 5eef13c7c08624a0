"""What an errback may get from us, and what a wrong setting raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.http import Response

    from scrapy_resiproxy.outcome import Outcome


class ResiproxyError(IgnoreRequest):
    """A request that was given up. It is an ``IgnoreRequest``: Scrapy logs no traceback for it.

    ``outcome`` is the last :class:`~scrapy_resiproxy.outcome.Outcome`, ``attempts`` the story of every attempt
    (as in ``response.meta["resiproxy"]``), ``response`` the refused answer; each is ``None`` or empty where
    there was none.
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
    """Raised when an answer that looked good was refused by a wall's marker or by a validator, for good."""


class SessionLost(ResiproxyError):
    """Raised when a named session has ended: it is never replaced silently."""


class ProxyRefused(ResiproxyError):
    """Raised when the proxy itself refuses us: wrong credentials, no traffic left, a forbidden target."""


class CircuitOpen(ResiproxyError):
    """Raised when the target was given up for this run."""


class BudgetExhausted(ResiproxyError):
    """Raised when a retry has waited ``RESIPROXY_BUDGET_WAIT`` seconds for budget and got none."""
