"""An endpoint whose connections are TLS to an origin, inside a CONNECT tunnel through a proxy.

Everything that can go wrong on the way there ends in :class:`~scrapy_resiproxy.tunnel.errors.TunnelFailed`
within the endpoint's timeout, and takes the socket with it.
"""

# ruff: noqa: N802

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from OpenSSL import SSL
from twisted.internet import error as tx
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from scrapy_resiproxy.tunnel.answer import AnswerParser, BadAnswer
from scrapy_resiproxy.tunnel.failures import failure, refusal
from scrapy_resiproxy.tunnel.route import host_port
from scrapy_resiproxy.tunnel.tls import CertificateRefused
from scrapy_resiproxy.tunnel.wire import CountedTransport

if TYPE_CHECKING:
    from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory, IReactorTime

    from scrapy_resiproxy.tunnel.errors import Phase, TunnelFailed
    from scrapy_resiproxy.tunnel.route import Route
    from scrapy_resiproxy.tunnel.tls import TlsClient
    from scrapy_resiproxy.tunnel.wire import Traffic

_CONNECT_WORDS: Final = {
    tx.DNSLookupError: "dns",
    tx.ConnectionRefusedError: "refused",
    tx.TimeoutError: "timeout",
    tx.TCPTimedOutError: "timeout",
}
_NOT_TLS: Final = ("wrong version number", "packet length too long", "http request", "record too small")


@implementer(IStreamClientEndpoint)
class TunnelEndpoint:
    """Each :meth:`connect` opens one tunnel along *route*, over a TCP connection that *proxy* makes."""

    def __init__(
        self,
        clock: IReactorTime,
        proxy: IStreamClientEndpoint,
        route: Route,
        *,
        tls: TlsClient,
        traffic: Traffic,
        timeout: float,
    ) -> None:
        self.clock = clock
        self.proxy = proxy
        self.route = route
        self.tls = tls
        self.traffic = traffic
        self.timeout = timeout

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Return the factory's protocol once the handshake is done, or fail with ``TunnelFailed``.

        Cancelling closes the socket at once.
        """
        return _Opening(self, protocolFactory).start()

    def connect_request(self) -> bytes:
        target = host_port(self.route.host, self.route.port).encode("ascii")
        lines = [b"CONNECT %b HTTP/1.1" % target, b"Host: %b" % target]
        if self.route.authorization:
            lines.append(b"Proxy-Authorization: %b" % b" ".join(self.route.authorization.splitlines()))
        return b"\r\n".join(lines) + b"\r\n\r\n"


class _Opening:
    """One attempt to open a tunnel: TCP, then CONNECT, then TLS, under one timer."""

    def __init__(self, endpoint: TunnelEndpoint, factory: IProtocolFactory) -> None:
        self.endpoint = endpoint
        self._factory = factory
        self._phase: Phase = "connect"
        self._over = False
        self._wire: _Wire | None = None
        self._answer = AnswerParser()
        self._done: Deferred[IProtocol] = Deferred(lambda _: self._abandon())

    def start(self) -> Deferred[IProtocol]:
        self._timer = self.endpoint.clock.callLater(self.endpoint.timeout, self._fail, "timeout")
        self._dialling = self.endpoint.proxy.connect(_WireFactory(self))
        self._dialling.addErrback(self._not_connected)
        return self._done

    def _not_connected(self, failure: Failure) -> None:
        known = failure.check(*_CONNECT_WORDS)
        self._fail(_CONNECT_WORDS[known] if known else "unreachable", cause=failure.value)

    def connected(self, wire: _Wire) -> None:
        self._wire = wire
        self._phase = "answer"
        wire.counted.write(self.endpoint.connect_request())

    def answer_came(self, data: bytes) -> None:
        try:
            answer = self._answer.feed(data)
        except BadAnswer as error:
            self._fail(error.reason, status=error.status)
            return
        if answer is None:
            return
        if answer.granted:
            self._phase = "tls"
            cast("_Wire", self._wire).start_tls(answer.rest)
        else:
            self._finish(refusal(self.endpoint.route, answer))

    def handshake_done(self, gate: _Gate) -> None:
        transport = cast("Any", gate.transport)
        try:
            self.endpoint.tls.check_name(transport.getHandle())
        except CertificateRefused as error:
            self._fail("certificate", cause=error)
            return
        self._over = True
        self._timer.cancel()
        gate.wire.shaken = True
        app = self._factory.buildProtocol(transport.getPeer())
        gate.app = cast("Protocol", app)
        gate.app.makeConnection(transport)
        self._done.callback(gate.app)

    def lost_before_tls(self, reason: Failure) -> None:
        self._fail("closed" if reason.check(tx.ConnectionDone) else "reset", status=self._answer.status)

    def lost_in_tls(self, tls_reason: Failure, tcp_reason: Failure) -> None:
        if self.endpoint.tls.certificate_bad:
            word = "certificate"
        elif tls_reason.check(SSL.Error):
            text = str(tls_reason.value)
            word = "not_tls" if any(sign in text for sign in _NOT_TLS) else "tls_error"
        else:
            word = "closed" if tcp_reason.check(tx.ConnectionDone) else "reset"
        self._fail(word, cause=tls_reason.value)

    def _fail(self, reason: str, *, status: int | None = None, cause: BaseException | None = None) -> None:
        error = failure(self.endpoint.route, self.endpoint.timeout, self._phase, reason, status=status)
        error.__cause__ = cause
        self._finish(error)

    def _finish(self, error: TunnelFailed) -> None:
        if not self._over:
            self._abandon()
            self._done.errback(error)

    def _abandon(self) -> None:
        self._over = True
        if self._timer.active():
            self._timer.cancel()
        if self._wire is None:
            self._dialling.cancel()
        else:
            self._wire.counted.abortConnection()


class _WireFactory(Factory):
    noisy = False

    def __init__(self, opening: _Opening) -> None:
        self._opening = opening

    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # noqa: ARG002
        return _Wire(self._opening)


class _Wire(Protocol):
    """Sits on the TCP connection: counts, reads the answer to CONNECT, then feeds TLS."""

    counted: CountedTransport
    shaken = False
    """True once the handshake is done."""
    _tls: Protocol | None = None
    lost_reason: Failure = connectionDone

    def __init__(self, opening: _Opening) -> None:
        self._opening = opening
        self._traffic = opening.endpoint.traffic

    def connectionMade(self) -> None:
        self.counted = CountedTransport(self.transport, self._traffic)
        self._opening.connected(self)

    def start_tls(self, early: bytes) -> None:
        endpoint = self._opening.endpoint
        gates = _GateFactory(self._opening, self)
        factory = TLSMemoryBIOFactory(endpoint.tls, True, gates, endpoint.clock)
        self._tls = cast("Protocol", factory.buildProtocol(self.counted.getPeer()))
        self._tls.makeConnection(cast("Any", self.counted))
        if early:
            self._tls.dataReceived(early)

    def dataReceived(self, data: bytes) -> None:
        self._traffic.received(len(data))
        if self._tls is None:
            self._opening.answer_came(data)
        else:
            self._tls.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost_reason = reason
        if self._tls is None:
            self._opening.lost_before_tls(reason)
            return
        if self.shaken:
            reason = self._end_tls(reason)
        self._tls.connectionLost(reason)

    def _end_tls(self, reason: Failure) -> Failure:
        tls = self._opening.endpoint.tls
        tls.end(cast("Any", self._tls).getHandle())
        if reason.check(tx.ConnectionDone) and not tls.origin_said_goodbye:
            # As Twisted has it: an end without a close_notify may have been forged, and is never a clean one.
            return Failure(tx.ConnectionLost())
        return reason


class _GateFactory(Factory):
    noisy = False

    def __init__(self, opening: _Opening, wire: _Wire) -> None:
        self._opening = opening
        self._wire = wire

    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # noqa: ARG002
        return _Gate(self._opening, self._wire)


@implementer(IHandshakeListener)
class _Gate(Protocol):
    """Sits on TLS: shut until the handshake is done, then passes everything to the application's protocol."""

    app: Protocol | None = None

    def __init__(self, opening: _Opening, wire: _Wire) -> None:
        self._opening = opening
        self.wire = wire

    def handshakeCompleted(self) -> None:
        self._opening.handshake_done(self)

    def dataReceived(self, data: bytes) -> None:
        if self.app is not None:
            self.app.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.app is None:
            self._opening.lost_in_tls(reason, self.wire.lost_reason)
        else:
            self.app.connectionLost(reason)
