"""The tunnels of a crawl: which one a request gets, how many there may be, when each is closed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred, fail

from scrapy_resiproxy.tunnel.errors import TunnelGone
from scrapy_resiproxy.tunnel.registry import Registry
from scrapy_resiproxy.tunnel.warden import Warden

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IReactorTime

    from scrapy_resiproxy.tunnel.connection import Tunnel
    from scrapy_resiproxy.tunnel.idle import IdleTimes
    from scrapy_resiproxy.tunnel.keepalive import Plan
    from scrapy_resiproxy.tunnel.pinger import Pinger
    from scrapy_resiproxy.tunnel.route import Route, TunnelKey
    from scrapy_resiproxy.tunnel.warden import Permits

_GOODBYE: Final = 1.0
"""Seconds that closing everything may take before what is left is given up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many tunnels there may be."""

    total: int
    """Open at once, over all keys; who comes when all are at work waits."""
    idle_per_key: int
    """Kept idle for one key."""
    reuse: bool = True
    """False: every request has a tunnel of its own, for exits that change by connection."""


class TunnelPool:
    """Hands out tunnels and takes them back.

    The most recently used one goes out first, so that spare ones go cold and close. ``on_gone`` is called with
    every tunnel whose connection is lost, whoever closed it.
    """

    def __init__(
        self,
        clock: IReactorTime,
        make: Callable[[Route, Callable[[Tunnel], None]], Tunnel],
        limits: Limits,
        plan: Plan,
        *,
        idle_times: IdleTimes,
        pinger: Pinger | None,
        permits: Permits,
        on_gone: Callable[[Tunnel], None],
    ) -> None:
        self._clock = clock
        self._make = make
        self._limits = limits
        self._max_age = plan.max_age
        self._idle_times = idle_times
        self._on_gone = on_gone
        self._tunnels: Registry[Tunnel] = Registry()
        self._warden = Warden(
            clock,
            self._tunnels,
            plan,
            idle_times=idle_times,
            pinger=pinger,
            permits=permits,
            close=self.discard,
        )
        self._waiting: deque[tuple[Route, bool, Deferred[Tunnel]]] = deque()
        self._closing: dict[Tunnel, None] = {}
        """Closed by us, their connections not gone yet."""
        self._closed: list[Deferred[None]] | None = None
        """Who waits for the end; None while the pool is open."""
        self.most_open = 0

    def acquire(self, route: Route, *, fresh: bool = False) -> Deferred[Tunnel]:
        """Return the warmest idle tunnel for *route*, else a new one; with *fresh*, always a new one.

        When as many as allowed are open, the longest idle one is closed to make room; if all are at work, the
        caller waits its turn. Fails with ``TunnelGone`` once the pool is closed.
        """
        if self._closed is not None:
            return fail(TunnelGone("the tunnels were closed"))
        waiting: Deferred[Tunnel] = Deferred()
        self._waiting.append((route, fresh, waiting))
        self._serve()
        return waiting

    def release(self, tunnel: Tunnel) -> None:
        """A request on *tunnel* has ended well: keep it, or close it if there is a reason to."""
        if tunnel.close_reason is not None:
            return
        tunnel.since = self._clock.seconds()
        reason = self._why_not_keep(tunnel)
        if reason is not None:
            self.discard(tunnel, reason)
            return
        tunnel.busy = False
        self._tunnels.put(tunnel)
        self._warden.rests(tunnel)
        idle = self._tunnels.idle(tunnel.key)
        if len(idle) > self._limits.idle_per_key:
            self.discard(idle[0], "cap")
        self._serve()

    def discard(self, tunnel: Tunnel, reason: str, *, abort: bool = False) -> None:
        """Close *tunnel* for *reason*; *abort* cuts off what is under way."""
        self._forget(tunnel)
        if tunnel.transport is not None and tunnel.close_reason is None:
            self._closing[tunnel] = None
        tunnel.close(reason, abort=abort)
        self._serve()

    def close_session(self, session: str) -> None:
        """The session has ended: its idle tunnels close now, those at work when they are done."""
        ending = [tunnel for tunnel in self._closing if tunnel.key.session == session]
        for tunnel in [*self._tunnels.of_session(session), *ending]:
            tunnel.retire()
            if not tunnel.busy:
                self.discard(tunnel, "session")

    def close(self) -> Deferred[None]:
        """Close everything at once; fires when the connections are gone, after a second at the latest."""
        closed: Deferred[None] = Deferred()
        self._closed = [*(self._closed or ()), closed]
        while self._waiting:
            self._waiting.popleft()[2].cancel()
        for tunnel in self._tunnels.everything():
            self.discard(tunnel, "shutdown", abort=tunnel.busy)
        late = self._clock.callLater(_GOODBYE, self._all_gone)
        closed.addBoth(lambda _: late.cancel() if late.active() else None)
        if not self._closing:
            self._all_gone()
        return closed

    def open_tunnels(self) -> list[Tunnel]:
        return [*self._tunnels.everything(), *self._closing]

    def lost(self, tunnel: Tunnel) -> None:
        """The connection of *tunnel* is gone, whoever closed it."""
        self._forget(tunnel)
        if tunnel.close_reason == "peer_idle":
            self._idle_times.seen(tunnel.path, self._clock.seconds() - tunnel.since)
        self._on_gone(tunnel)
        self._closing.pop(tunnel, None)
        if not self._closing:
            self._all_gone()
        self._serve()

    def _all_gone(self) -> None:
        if self._closed is not None:
            waiting, self._closed = self._closed, []
            for closed in waiting:
                closed.callback(None)

    def _forget(self, tunnel: Tunnel) -> None:
        self._tunnels.drop(tunnel)
        self._warden.gone(tunnel)

    def _serve(self) -> None:
        while self._waiting:
            route, fresh, waiting = self._waiting[0]
            if not waiting.called:
                tunnel = self._grant(route, fresh=fresh)
                if tunnel is None:
                    return
                self._waiting.popleft()
                waiting.callback(tunnel)
            else:
                self._waiting.popleft()

    def _grant(self, route: Route, *, fresh: bool) -> Tunnel | None:
        tunnel = None if fresh else self._warmest(route.key)
        if tunnel is not None:
            self._tunnels.take(tunnel)
        elif self._make_room():
            tunnel = self._make(route, self.lost)
            self._tunnels.add(tunnel)
            self.most_open = max(self.most_open, len(self._tunnels))
        else:
            return None
        tunnel.busy = True
        tunnel.route = route
        self._warden.works(tunnel)
        return tunnel

    def _warmest(self, key: TunnelKey) -> Tunnel | None:
        """The most recently used idle tunnel; one under a ping only when there is no other."""
        idle = self._tunnels.idle(key)
        return next((t for t in reversed(idle) if t.pinging is None), idle[-1] if idle else None)

    def _make_room(self) -> bool:
        if len(self._tunnels) < self._limits.total:
            return True
        coldest = self._tunnels.coldest()
        if coldest is None:
            return False
        self._forget(coldest)
        self._closing[coldest] = None
        coldest.close("cap")
        return True

    def _why_not_keep(self, tunnel: Tunnel) -> str | None:
        if not tunnel.heads.persistent:
            return "connection_close"
        if tunnel.retired:
            return "session"
        if not self._limits.reuse:
            return "rotate"
        opened = tunnel.since if tunnel.opened is None else tunnel.opened
        return "age" if tunnel.since >= opened + self._max_age else None
