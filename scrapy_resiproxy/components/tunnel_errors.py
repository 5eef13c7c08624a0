"""A tunnel that could not be opened, also as what Scrapy's own handler would have raised in its place.

So an errback that checks for Scrapy's exceptions goes on working, and one that wants to know more finds the attributes
of :class:`~scrapy_resiproxy.tunnel.errors.TunnelFailed`.
"""

from __future__ import annotations

from typing import Final

from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from scrapy_resiproxy.tunnel.errors import TunnelFailed


class TunnelRefused(TunnelFailed, TunnelError):  # noqa: N818
    """The proxy answered CONNECT with a status that is no grant, or with what is no HTTP."""


class TunnelTimedOut(TunnelFailed, DownloadTimeoutError):  # noqa: N818
    """There was no tunnel within ``RESIPROXY_TUNNEL_CONNECT_TIMEOUT``."""


class TunnelNotConnected(TunnelFailed, DownloadConnectionRefusedError):  # noqa: N818
    """The proxy's port is closed."""


class TunnelNotResolved(TunnelFailed, CannotResolveHostError):  # noqa: N818
    """The proxy's name does not resolve."""


class TunnelBroken(TunnelFailed, DownloadFailedError):  # noqa: N818
    """Anything else: closed, reset, no TLS, a bad certificate."""


_NO_ANSWER_AT_ALL: Final = frozenset({"closed", "reset", "timeout"})
_BY_REASON: Final[dict[str, type[TunnelFailed]]] = {
    "timeout": TunnelTimedOut,
    "refused": TunnelNotConnected,
    "dns": TunnelNotResolved,
}


def as_scrapys(error: TunnelFailed) -> TunnelFailed:
    """Return *error* as the class that is also Scrapy's, with the same message, attributes and cause."""
    answered = error.phase == "answer" and (error.status is not None or error.reason not in _NO_ANSWER_AT_ALL)
    kind = TunnelRefused if answered else _BY_REASON.get(error.reason, TunnelBroken)
    twin = kind(
        str(error),
        phase=error.phase,
        reason=error.reason,
        status=error.status,
        headers=error.headers,
        body=error.body,
    )
    twin.__cause__ = error.__cause__
    return twin
