"""One ping: a small request of the session's own look, which never dials and is never waited for too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.web.client import ResponseDone
from twisted.web.http_headers import Headers

from scrapy_resiproxy.tunnel.route import host_port

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime
    from twisted.python.failure import Failure
    from twisted.web.iweb import IResponse

    from scrapy_resiproxy.tunnel.connection import Tunnel

_LOOK: Final = (b"User-Agent", b"Cookie")
"""The headers by which an origin knows the session; the others would only cost bytes."""
_PATIENCE: Final = 2.0
"""Seconds that an answer may take at least, however short the interval."""


@dataclass(frozen=True, slots=True)
class Pinger:
    """How pings are made: *method* HEAD or GET, *path* on the origin, *patience* seconds for the answer."""

    clock: IReactorTime
    method: str
    path: str
    patience: float

    @classmethod
    def of(cls, clock: IReactorTime, method: str, path: str, *, interval: float, connect_timeout: float) -> Pinger:
        """A ping must be answered before the next one is due, but gets two seconds in any case."""
        return cls(clock, method, path, min(connect_timeout, max(interval, _PATIENCE)))

    def ping(self, tunnel: Tunnel) -> Deferred[bool]:
        """Ping an idle tunnel; fires with True when it was answered, with False when it is dead. Never fails."""
        answered: Deferred[Any] = Deferred.fromCoroutine(self._exchange(tunnel))
        late = self.clock.callLater(self.patience, answered.cancel)

        def ended(result: Any) -> bool:
            if late.active():
                late.cancel()
            return result is None

        return answered.addBoth(ended)

    async def _exchange(self, tunnel: Tunnel) -> None:
        origin = host_port(tunnel.route.host, tunnel.route.port)
        url = f"https://{origin}{self.path}".encode("ascii")
        headers = tunnel.session_headers or Headers()
        response = await tunnel.send(self.method.encode("ascii"), url, headers)
        if response.length != 0:
            await _read_to_end(response)


def session_look(headers: Headers) -> Headers:
    """Return what a ping takes over from a request of the same session."""
    found = {name: cast("list[bytes]", headers.getRawHeaders(name)) for name in _LOOK}
    return Headers({name: values for name, values in found.items() if values})


def _read_to_end(response: IResponse) -> Deferred[None]:
    sink = _Sink()
    cast("Any", response).deliverBody(sink)
    return sink.done


class _Sink(Protocol):
    """Throws a body away."""

    def __init__(self) -> None:
        self.done: Deferred[None] = Deferred()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        if self.done.called:
            return
        if reason.check(ResponseDone):
            self.done.callback(None)
        else:
            self.done.errback(reason)
