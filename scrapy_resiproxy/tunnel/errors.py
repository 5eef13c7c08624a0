"""What can go wrong before the first byte of a request is on its way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
Phase = Literal["connect", "answer", "tls"]


class TunnelFailed(ConnectionError):  # noqa: N818
    """A tunnel through the proxy could not be opened; nothing of the request was sent.

    It is a :class:`ConnectionError`, and so an :class:`OSError`: Scrapy's default ``RETRY_EXCEPTIONS`` hold
    it. The message never holds a credential. Attributes:

    ``phase``
        how far it came: ``connect`` (no TCP connection to the proxy), ``answer`` (no or a bad answer to
        CONNECT), ``tls`` (the tunnel was granted, the handshake with the origin failed).
    ``reason``
        the proxy's reason phrase where it answered with a status, else a fixed word: ``timeout``,
        ``refused``, ``dns``, ``unreachable``, ``closed``, ``reset``, ``garbage``, ``head_too_long``,
        ``certificate``, ``not_tls``, ``tls_error``.
    ``status``, ``headers``, ``body``
        the proxy's refusal: its status (None without one), its headers as sent, and as much of the body as
        came with them (at most 2,000 bytes).
    """

    def __init__(
        self,
        message: str,
        *,
        phase: Phase,
        reason: str,
        status: int | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.reason = reason
        self.status = status
        self.headers = list(headers)
        self.body = body

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild = partial(
            type(self),
            phase=self.phase,
            reason=self.reason,
            status=self.status,
            headers=self.headers,
            body=self.body,
        )
        return rebuild, self.args


class TunnelGone(ConnectionError):  # noqa: N818
    """The tunnel had died before the request was written to it, so the request was not sent."""
