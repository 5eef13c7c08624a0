"""Dialling: the endpoint of each tunnel, and how long to wait before a proxy that failed is dialled again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted.internet import task

from scrapy_resiproxy.tunnel.endpoint import TunnelEndpoint
from scrapy_resiproxy.tunnel.errors import TunnelFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
    from twisted.python.failure import Failure

    from scrapy_resiproxy.tunnel.route import Route
    from scrapy_resiproxy.tunnel.tls import TlsClient
    from scrapy_resiproxy.tunnel.wire import Traffic

_BASE: Final = 0.25
_MAX_DOUBLINGS: Final = 10


class ProxyBackoff:
    """How long a dial must wait after others to the same proxy have failed in a row.

    After *n* of them a dial waits U(0, min(*cap*, 0.25 * 2^(n-1))) seconds. A refusal by status is no such failure:
    the proxy is there, and what its answer means is decided elsewhere.
    """

    def __init__(self, cap: float, rng: Random) -> None:
        self._cap = cap
        self._rng = rng
        self._failures: dict[str, int] = {}

    def wait(self, proxy: str) -> float:
        failures = self._failures.get(proxy, 0)
        if not failures:
            return 0.0
        return self._rng.uniform(0.0, min(self._cap, _BASE * 2.0 ** (failures - 1)))

    def failed(self, proxy: str) -> None:
        self._failures[proxy] = min(_MAX_DOUBLINGS, self._failures.get(proxy, 0) + 1)

    def answered(self, proxy: str) -> None:
        self._failures.pop(proxy, None)


class Dialler:
    """Opens tunnels: calling it gives the application's protocol, or ``TunnelFailed`` within *timeout* seconds.

    ``on_status`` is called with the status of every refusal.
    """

    def __init__(
        self,
        reactor: Any,
        timeout: float,
        rng: Random,
        *,
        on_status: Callable[[int], None],
        tcp: Callable[[Any, Route, float], IStreamClientEndpoint],
    ) -> None:
        self._reactor = reactor
        self._timeout = timeout
        self._backoff = ProxyBackoff(timeout / 4, rng)
        self._on_status = on_status
        self._tcp = tcp

    def __call__(
        self, route: Route, tls: TlsClient, traffic: Traffic, factory: IProtocolFactory
    ) -> Deferred[IProtocol]:
        wait = self._backoff.wait(route.key.proxy)
        left = self._timeout - wait
        endpoint = TunnelEndpoint(
            self._reactor, self._tcp(self._reactor, route, left), route, tls=tls, traffic=traffic, timeout=left
        )
        if wait:
            opening: Deferred[IProtocol] = task.deferLater(self._reactor, wait, endpoint.connect, factory)
        else:
            opening = endpoint.connect(factory)
        return opening.addCallbacks(
            self._opened, self._failed, callbackArgs=(route.key.proxy,), errbackArgs=(route.key.proxy,)
        )

    def _opened(self, protocol: IProtocol, proxy: str) -> IProtocol:
        self._backoff.answered(proxy)
        return protocol

    def _failed(self, failure: Failure, proxy: str) -> Failure:
        error = failure.value
        if isinstance(error, TunnelFailed):
            if error.phase != "tls" and error.status is None:
                self._backoff.failed(proxy)
            else:
                self._backoff.answered(proxy)
            if error.status is not None:
                self._on_status(error.status)
        return failure
