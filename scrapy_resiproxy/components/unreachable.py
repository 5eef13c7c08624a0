"""Says, once for each proxy and reason, that a proxy cannot be reached, and why."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.classify.causes import find_cause
from scrapy_resiproxy.redact import redact_text
from scrapy_resiproxy.tunnel.errors import TunnelFailed

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.outcome import Outcome

logger = logging.getLogger(__name__)

LINES_AT_MOST: Final = 10
"""A list may hold thousands of proxies, and all of them may be gone."""

REFUSED: Final = "connection refused"
NO_NAME: Final = "its name does not resolve"
NO_ROUTE: Final = "no route to it"
CLOSED: Final = "it closes the connection"

WORDS: Final = {
    "connect_refused": REFUSED,
    "connection_lost": CLOSED,
    "dns_failed": "no name server answers",
    "dns_not_found": NO_NAME,
    "network_down": NO_ROUTE,
    "timeout": "no answer in time",
    "tls_error": "TLS failed",
    # Our tunnels' own words.
    "closed": CLOSED,
    "dns": NO_NAME,
    "refused": REFUSED,
    "reset": CLOSED,
    "unreachable": NO_ROUTE,
}
"""By the reason of a tunnel's failure, or the one that the exception has where no proxy is thought of."""

OUR_NETWORK: Final = frozenset({"dns_failed", "network_down"})
"""What is charged to our own network: through a proxy it was the proxy that was looked up and dialled."""


class Unreachable:
    """The proxies of one crawl that could not be reached."""

    def __init__(self) -> None:
        self.last: str | None = None
        """Why the last one could not be reached."""
        self._said: set[tuple[str, str]] = set()

    def note(self, proxy: str, request: Request, outcome: Outcome, exception: Exception) -> None:
        """An attempt through *proxy*, without credentials, ended with *exception*, which was judged as *outcome*."""
        if not _is_the_proxys(proxy, request, outcome):
            return
        why = self.last = in_words(exception)
        if (proxy, why) in self._said or len(self._said) >= LINES_AT_MOST:
            return
        self._said.add((proxy, why))
        logger.error("The proxy %s cannot be reached: %s. The first request that met this: %s", proxy, why, request)


def _is_the_proxys(proxy: str, request: Request, outcome: Outcome) -> bool:
    if outcome.reason == "tls_error":
        # Towards an http page there is no other TLS than the proxy's own.
        return proxy.startswith("https:") and request.url.startswith("http:")
    return outcome.reason == "proxy_unreachable" or outcome.reason in OUR_NETWORK


def in_words(exception: Exception) -> str:
    """Why there was no connection, without a credential; the exception's own words where there are no better ones."""
    known = WORDS.get(_reason(exception))
    return known or redact_text(f"{type(exception).__name__}: {exception}".partition("\n")[0][:200])


def _reason(exception: Exception) -> str:
    if isinstance(exception, TunnelFailed):
        return exception.reason
    cause = find_cause(exception)
    return "" if cause is None else cause.outcome.reason
