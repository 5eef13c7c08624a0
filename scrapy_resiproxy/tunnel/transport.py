"""The warm transport: sends a request through the right tunnel, and replaces a tunnel that died idle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.web.client import RequestTransmissionFailed, ResponseNeverReceived
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer  # type: ignore[import-untyped]

from scrapy_resiproxy.tunnel.connection import Tunnel
from scrapy_resiproxy.tunnel.dial import Dialler
from scrapy_resiproxy.tunnel.errors import TunnelGone
from scrapy_resiproxy.tunnel.idle import IdleTimes
from scrapy_resiproxy.tunnel.keepalive import Plan
from scrapy_resiproxy.tunnel.pinger import Pinger, session_look
from scrapy_resiproxy.tunnel.pool import Limits, TunnelPool
from scrapy_resiproxy.tunnel.route import proxy_endpoint
from scrapy_resiproxy.tunnel.tls import SharedTls, TlsOptions
from scrapy_resiproxy.tunnel.totals import Totals
from scrapy_resiproxy.tunnel.warden import Permits

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from twisted.internet.interfaces import IConsumer, IStreamClientEndpoint
    from twisted.web.http_headers import Headers
    from twisted.web.iweb import IResponse

    from scrapy_resiproxy.tunnel.route import Route
    from scrapy_resiproxy.tunnel.totals import Figures

IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
"""RFC 9110, section 9.2.2."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: bytes
    url: bytes
    headers: Headers
    body: bytes = b""
    resend: bool | None = None
    """May it be sent again although the origin may have seen it? None: if its method is idempotent."""

    def may_be_resent_after(self, error: Exception) -> bool:
        """True when a request that failed with *error* on a tunnel that had idled may go out again."""
        if isinstance(error, TunnelGone):
            return True
        if not isinstance(error, ResponseNeverReceived | RequestTransmissionFailed):
            return False
        if any(reason.check(CancelledError) for reason in error.reasons):
            return False
        return self.method in IDEMPOTENT if self.resend is None else self.resend


@dataclass(frozen=True, slots=True)
class Options:
    """How the transport behaves; seconds where not said."""

    connect_timeout: float = 20.0
    max_tunnels: int = 100
    idle_per_key: int = 8
    reuse: bool = True
    max_age: float = 600.0
    idle_timeout: float | None = None
    ping_interval: float | None = None
    """None: a third of the idle timeout; without one there are no pings."""
    ping_path: str | None = "/"
    """None: no pings."""
    ping_method: str = "HEAD"
    tls: TlsOptions = field(default_factory=TlsOptions)

    @property
    def interval(self) -> float | None:
        if self.ping_path is None or self.idle_timeout is None or not self.reuse:
            return None
        return self.ping_interval or self.idle_timeout / 3


class TunnelTransport:
    """All tunnels of a crawl.

    ``is_held``, ``has_work`` and ``pace_of`` may be set to functions of a route that tell what only the crawl
    knows of it, ``pinged`` to one of a session (see ``warden.Crawl``). *on_gone* is called with each tunnel that was
    open and is lost.
    """

    def __init__(
        self,
        reactor: Any,
        options: Options,
        rng: Random,
        *,
        on_gone: Callable[[Tunnel], None],
        tcp: Callable[[Any, Route, float], IStreamClientEndpoint] = proxy_endpoint,
    ) -> None:
        self._reactor = reactor
        self._rng = rng
        self._on_gone = on_gone
        self.is_held: Callable[[Route], bool] | None = None
        self.has_work: Callable[[Route], bool] | None = None
        self.pace_of: Callable[[Route], float | None] | None = None
        self.pinged: Callable[[str], None] | None = None
        self.idle_times = IdleTimes(options.idle_timeout)
        self.totals = Totals(reactor.seconds())
        self._tls = SharedTls(options.tls)
        self._dial = Dialler(reactor, options.connect_timeout, rng, on_status=self.totals.refused, tcp=tcp)
        self._pool = TunnelPool(
            reactor,
            self._make,
            Limits(options.max_tunnels, options.idle_per_key, options.reuse),
            Plan(options.interval, options.max_age, options.idle_timeout),
            idle_times=self.idle_times,
            pinger=_pinger(reactor, options),
            permits=Permits(self),
            on_gone=self._gone,
        )

    def send(self, route: Route, call: Call) -> Deferred[tuple[Tunnel, IResponse]]:
        """Send *call* along *route*; fires with the response's head and the tunnel that holds its body.

        The caller ends with :meth:`done` or :meth:`failed`. A tunnel that died idle is replaced once, as long as
        that cannot send twice what must not be. Fails with ``TunnelFailed`` while nothing was sent; cancelling
        closes the tunnel.
        """
        return Deferred.fromCoroutine(self._send(route, call))

    async def _send(self, route: Route, call: Call) -> tuple[Tunnel, IResponse]:
        tunnel = await self._pool.acquire(route)
        reused = tunnel.requests > 0
        try:
            return tunnel, await self._send_over(tunnel, call)
        except Exception as error:
            if not reused or not call.may_be_resent_after(error):
                raise
        self.totals.replaced += 1
        tunnel = await self._pool.acquire(route, fresh=True)
        return tunnel, await self._send_over(tunnel, call)

    async def _send_over(self, tunnel: Tunnel, call: Call) -> IResponse:
        try:
            await tunnel.ping_ended()
            idle = self._reactor.seconds() - tunnel.since
            reused = tunnel.requests > 0
            tunnel.requests += 1
            tunnel.session_headers = session_look(call.headers)
            body = _Body(call.body) if call.body else None
            response = await tunnel.send(call.method, call.url, call.headers, cast("IBodyProducer", body))
        except BaseException:
            self.failed(tunnel)
            raise
        if reused:
            self.totals.reused += 1
            self.idle_times.survived(tunnel.path, idle)
        return response

    def done(self, tunnel: Tunnel) -> None:
        """The whole body was read."""
        self._pool.release(tunnel)

    def failed(self, tunnel: Tunnel) -> None:
        """The exchange was cut short: the tunnel cannot be used again."""
        self._pool.discard(tunnel, "failed", abort=True)

    def close_session(self, session: str) -> None:
        """Nothing more goes out as *session*: its tunnels close, its TLS tickets are forgotten."""
        self._pool.close_session(session)
        self._tls.tickets.forget(session)

    def close(self) -> Deferred[None]:
        """Close all tunnels at once; fires when they are gone."""
        return self._pool.close()

    def figures(self) -> Figures:
        """What the tunnels came to so far, those that are open included."""
        return self.totals.figures(self._reactor.seconds(), self._pool.open_tunnels())

    def learned_idle_timeout(self) -> float | None:
        """The shortest idle timeout that the ends of tunnels have shown, None while there is none."""
        return self.idle_times.shortest_learned()

    def stats(self) -> dict[str, float]:
        """The numbers of this transport, those of open tunnels included."""
        return self.totals.stats(self._reactor.seconds(), self._pool.open_tunnels(), self._pool.most_open)

    def _make(self, route: Route, on_lost: Callable[[Tunnel], None]) -> Tunnel:
        return Tunnel(self._reactor, route, self._tls.client(route.host, route.key), self._dial, on_lost)

    def _gone(self, tunnel: Tunnel) -> None:
        self.totals.gone(tunnel)
        self._on_gone(tunnel)


def _pinger(reactor: Any, options: Options) -> Pinger | None:
    if options.interval is None or options.ping_path is None:
        return None
    return Pinger.of(
        reactor,
        options.ping_method,
        options.ping_path,
        interval=options.interval,
        connect_timeout=options.connect_timeout,
    )


@implementer(IBodyProducer)
class _Body:
    """A request's body, written at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:  # noqa: N802
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:  # noqa: N802
        pass

    def resumeProducing(self) -> None:  # noqa: N802
        pass

    def stopProducing(self) -> None:  # noqa: N802
        pass
