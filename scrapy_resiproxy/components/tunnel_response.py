"""Turns what comes out of a tunnel into a Scrapy response, with all that Scrapy's own handler does on the way."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from scrapy import signals
from scrapy.exceptions import DownloadCancelledError, ResponseDataLossError, StopDownload
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import UNKNOWN_LENGTH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.web.iweb import IResponse

    from scrapy_resiproxy.tunnel.connection import Tunnel

logger = logging.getLogger(__name__)

CUT_SHORT: Final = frozenset({"dataloss", "partial", "download_stopped"})
"""Flags of a response after which its tunnel cannot be used again."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What one request may bring."""

    maximum: int
    """Bytes; 0 for any number."""
    warn_at: int
    """Bytes; 0 for never."""
    fail_on_dataloss: bool


@dataclass(slots=True)
class Received:
    """A body and what befell it."""

    body: bytes = b""
    flags: list[str] = field(default_factory=list)
    stop: StopDownload | None = None


class ResponseReader:
    """Reads the body of one response."""

    def __init__(self, crawler: Crawler, request: Request, tunnel: Tunnel, txresponse: IResponse) -> None:
        self._crawler = crawler
        self._request = request
        self._tx = cast("Any", txresponse)
        # The connection may be lost before the body is complete; its certificate is asked for now.
        self._certificate = Certificate(tunnel.transport.getPeerCertificate())
        self._address = ipaddress.ip_address(tunnel.transport.getPeer().host)
        self._headers = Headers()
        if self._tx.length is not UNKNOWN_LENGTH:
            self._headers[b"Content-Length"] = str(self._tx.length).encode()
        self._headers.update(self._tx.headers.getAllRawHeaders())

    async def read(self, url: str, sizes: Sizes) -> Response:
        """Return the response.

        Raises ``StopDownload`` (for its errback), ``DownloadCancelledError`` for what is too large,
        ``ResponseDataLossError`` for what is cut short.
        """
        stop = stopped_by(
            self._crawler,
            signals.headers_received,
            self._request,
            headers=self._headers,
            body_length=self._tx.length,
        )
        if stop is not None:
            received = Received(stop=stop)
        elif self._tx.length == 0:
            received = Received()
        else:
            received = await self._read_body(sizes)
        return self._build(url, received)

    def _read_body(self, sizes: Sizes) -> Deferred[Received]:
        expected = -1 if self._tx.length is UNKNOWN_LENGTH else self._tx.length
        if sizes.maximum and expected > sizes.maximum:
            message = _too_large("Expected to receive", expected, "max", sizes.maximum, self._request)
            logger.warning(message)
            raise DownloadCancelledError(message)
        collector = _Collector(self._crawler, self._request, sizes, expected)
        self._tx.deliverBody(collector)
        return collector.done

    def _build(self, url: str, received: Received) -> Response:
        name, major, minor = self._tx.version
        kind = responsetypes.from_args(headers=self._headers, url=url, body=received.body)
        flags = [*received.flags, *(["download_stopped"] if received.stop else [])]
        response = kind(
            url=url,
            status=self._tx.code,
            headers=self._headers,
            body=received.body,
            flags=flags,
            certificate=self._certificate,
            ip_address=self._address,
            protocol=f"{name.decode()}/{major}.{minor}",
        )
        if received.stop is not None and received.stop.fail:
            received.stop.response = response
            raise received.stop
        return response


class _Collector(Protocol):
    """Takes the body as it comes."""

    def __init__(self, crawler: Crawler, request: Request, sizes: Sizes, expected: int) -> None:
        self.done: Deferred[Received] = Deferred()
        self._crawler = crawler
        self._request = request
        self._sizes = sizes
        self._body = bytearray()
        self._warned = False
        if sizes.warn_at and expected > sizes.warn_at:
            self._warn("Expected to receive", expected)

    def _warn(self, verb: str, size: int) -> None:
        self._warned = True
        logger.warning(_too_large(verb, size, "warn", self._sizes.warn_at, self._request))

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if self.done.called:
            return
        self._body += data
        size = len(self._body)
        stop = stopped_by(self._crawler, signals.bytes_received, self._request, data=data)
        if stop is not None:
            self._end(Received(bytes(self._body), stop=stop))
        elif self._sizes.maximum and size > self._sizes.maximum:
            message = _too_large("Received", size, "max", self._sizes.maximum, self._request)
            logger.warning(message)
            self._body.clear()
            self.done.errback(DownloadCancelledError(message))
        elif self._sizes.warn_at and size > self._sizes.warn_at and not self._warned:
            self._warn("Received", size)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        if self.done.called:
            return
        body = bytes(self._body)
        if reason.check(ResponseDone):
            self._end(Received(body))
        elif reason.check(PotentialDataLoss):
            self._end(Received(body, ["partial"]))
        elif not self._sizes.fail_on_dataloss:
            self._end(Received(body, ["dataloss"]))
        else:
            error = ResponseDataLossError()
            error.__cause__ = reason.value
            self.done.errback(error)

    def _end(self, received: Received) -> None:
        self.done.callback(received)


def stopped_by(crawler: Crawler, signal: object, request: Request, **details: Any) -> StopDownload | None:
    """Send *signal*; return the ``StopDownload`` that a handler raised, if one did."""
    answers = crawler.signals.send_catch_log(signal=signal, request=request, spider=crawler.spider, **details)
    for handler, result in answers:
        if isinstance(result, Failure) and isinstance(result.value, StopDownload):
            logger.debug(
                "Download stopped for %(request)s from signal handler %(handler)s",
                {"request": request, "handler": getattr(handler, "__qualname__", handler)},
            )
            return result.value
    return None


def _too_large(verb: str, size: int, which: str, limit: int, request: Request) -> str:
    return f"{verb} {size} bytes which is larger than download {which} size ({limit}) in request {request}."


def log_tls(tunnel: Tunnel) -> None:
    """What ``DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING`` asks for."""
    connection = tunnel.transport.getHandle()
    logger.debug(
        "SSL connection to %s using protocol %s, cipher %s",
        tunnel.route.host,
        connection.get_protocol_version_name(),
        connection.get_cipher_name(),
    )
    certificate = connection.get_peer_certificate().to_cryptography()
    logger.debug(
        'SSL connection certificate: issuer "%s", subject "%s"',
        certificate.issuer.rfc4514_string(),
        certificate.subject.rfc4514_string(),
    )
