"""One tunnel: one TCP connection through a proxy, with an HTTP/1.1 client at its end."""

# ruff: noqa: N802

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer  # type: ignore[import-untyped]

from scrapy_resiproxy.tunnel.errors import TunnelGone
from scrapy_resiproxy.tunnel.heads import ResponseHeads
from scrapy_resiproxy.tunnel.wire import CountedTransport, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory
    from twisted.python.failure import Failure
    from twisted.web.client import URI
    from twisted.web.http_headers import Headers
    from twisted.web.iweb import IBodyProducer, IResponse

    from scrapy_resiproxy.tunnel.route import Route, TunnelKey
    from scrapy_resiproxy.tunnel.tls import TlsClient

    Dial = Callable[[Route, TlsClient, Traffic, IProtocolFactory], Deferred[IProtocol]]

_FOR_EVER = 10**9
"""Twisted's pool must not close idle connections: the one who owns the tunnel does."""


class Tunnel:
    """Opened by its first request, used by one request at a time, never opened again.

    ``on_lost`` is called once, with the tunnel, when its connection is gone; after that it is good for nothing.
    """

    def __init__(
        self, reactor: Any, route: Route, tls: TlsClient, dial: Dial, on_lost: Callable[[Tunnel], None]
    ) -> None:
        self._reactor = reactor
        self.route = route
        self.tls = tls
        self.traffic = Traffic(reactor)
        self.plain = Traffic(reactor)
        """What TLS carried: requests and responses, pings included."""
        self.heads = ResponseHeads()
        self.opened: float | None = None
        self.since = reactor.seconds()
        """When the last request or ping ended."""
        self.handshake_bytes = 0
        self.requests = 0
        self.pings = 0
        self.ping_bytes = 0
        self.pinged = 0
        """Bytes of pings since the last request."""
        self.ping_plain = 0
        self.busy = False
        self.retired = False
        """True once its session has ended."""
        self.pinging: list[Deferred[None]] | None = None
        """Who waits for the ping under way; None when there is none."""
        self.session_headers: Headers | None = None
        """What makes a ping look like the session's requests."""
        self.close_reason: str | None = None
        self.closed_by: Literal["us", "origin", "peer"] = "us"
        self._dial = dial
        self._on_lost = on_lost
        self._dialling: Deferred[IProtocol] | None = None
        self._leg: _Leg | None = None
        self._http_pool = HTTPConnectionPool(reactor, persistent=True)
        self._http_pool.maxPersistentPerHost = 1
        self._http_pool.cachedConnectionTimeout = _FOR_EVER
        self._http_pool.retryAutomatically = False
        self._agent = Agent.usingEndpointFactory(reactor, _OnlyOnce(self), self._http_pool)

    @property
    def key(self) -> TunnelKey:
        return self.route.key

    @property
    def path(self) -> tuple[str, str]:
        """Proxy and origin."""
        return self.route.key.proxy, self.route.key.origin

    @property
    def transport(self) -> Any:
        """The TLS transport, None before it is there."""
        return self._leg.transport if self._leg is not None else None

    @property
    def payload_bytes(self) -> int:
        """Bytes of requests and responses, without TLS and without pings."""
        return self.plain.total - self.ping_plain

    def send(
        self, method: bytes, url: bytes, headers: Headers, body: IBodyProducer | None = None
    ) -> Deferred[IResponse]:
        """Send one request; the first one opens the tunnel.

        Fails with ``TunnelFailed`` or ``TunnelGone`` while nothing was sent, and as ``Agent.request`` does after that.
        Cancelling closes the tunnel.
        """
        if self.close_reason is not None:
            return fail(TunnelGone("the tunnel was closed"))
        self.heads.expect()
        response: Deferred[IResponse] = self._agent.request(method, url, headers, body)
        return response

    def close(self, reason: str, *, abort: bool = False) -> None:
        """Close the connection for *reason*; *abort* cuts off what is under way. Closing twice is no error."""
        if self.close_reason is not None:
            return
        self.close_reason = reason
        if self._leg is not None:
            self._leg.end(abort=abort)
        elif self._dialling is not None:
            self._dialling.cancel()
        self._http_pool.closeCachedConnections()

    def dial(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """For the HTTP client: open the connection, once."""
        if self._dialling is not None or self.close_reason is not None:
            return fail(TunnelGone("the tunnel was lost"))
        self._dialling = self._dial(self.route, self.tls, self.traffic, _LegFactory(self, factory))
        return self._dialling.addCallbacks(self._dialled, self._not_dialled)

    def _dialled(self, leg: IProtocol) -> IProtocol:
        self._leg = cast("_Leg", leg)
        self.opened = self._reactor.seconds()
        self.handshake_bytes = self.traffic.total
        return self._leg.http

    def _not_dialled(self, failure: Failure) -> Failure:
        if self.close_reason is None:
            self.close_reason = "not_opened"
        return failure

    def retire(self) -> None:
        """The session has ended: nothing of it may be used again."""
        self.retired = True
        self.tls.keeps_ticket = False

    def ended(self) -> None:
        """The connection is gone; what is under way has not been told yet."""
        if self.close_reason is None:
            self.close_reason = self._why_they_closed()
            self.closed_by = "origin" if self.tls.origin_said_goodbye or not self.heads.persistent else "peer"

    def lost(self) -> None:
        """The connection is gone, and what was under way has failed."""
        self._http_pool.closeCachedConnections()
        self._on_lost(self)

    def _why_they_closed(self) -> str:
        if not self.heads.persistent:
            return "connection_close"
        if self.pinging is not None:
            return "peer_ping"
        return "peer_busy" if self.busy else "peer_idle"

    def ping_ended(self) -> Deferred[None]:
        """Fires when no ping is under way."""
        ended: Deferred[None] = Deferred()
        if self.pinging is None:
            ended.callback(None)
        else:
            self.pinging.append(ended)
        return ended

    def spoken_to(self) -> None:
        """The origin said something that nobody asked for, as a 408 before it closes."""
        self.close("unsolicited")


@implementer(IAgentEndpointFactory, IStreamClientEndpoint)
class _OnlyOnce:
    """Makes Twisted's agent dial the tunnel's one connection and no other."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:  # noqa: ARG002
        return self

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        return self._tunnel.dial(protocolFactory)


class _LegFactory(Factory):
    noisy = False

    def __init__(self, tunnel: Tunnel, http_factory: IProtocolFactory) -> None:
        self._tunnel = tunnel
        self._http_factory = http_factory

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        return _Leg(self._tunnel, cast("Protocol", self._http_factory.buildProtocol(cast("Any", addr))))


class _Leg(Protocol):
    """Sits between TLS and Twisted's HTTP client: counts, and reads the heads."""

    def __init__(self, tunnel: Tunnel, http: Protocol) -> None:
        self._tunnel = tunnel
        self.http = http

    def connectionMade(self) -> None:
        self.http.makeConnection(cast("Any", CountedTransport(self.transport, self._tunnel.plain)))

    def dataReceived(self, data: bytes) -> None:
        tunnel = self._tunnel
        tunnel.plain.received(len(data))
        if not tunnel.busy and tunnel.pinging is None:
            tunnel.spoken_to()
            return
        data = tunnel.heads.feed(data)
        if data:
            self.http.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._tunnel.ended()
        rest = self._tunnel.heads.rest()
        if rest:
            self.http.dataReceived(rest)
        self.http.connectionLost(reason)
        self._tunnel.lost()

    def end(self, *, abort: bool) -> None:
        tls = cast("Any", self.transport)
        if abort:
            tls.abortConnection()
            return
        # TLS alone would wait for the other side's goodbye, maybe for ever.
        tls.loseConnection()
        tls.transport.loseConnection()
