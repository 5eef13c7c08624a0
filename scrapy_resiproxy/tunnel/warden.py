"""Looks after idle tunnels: a timer for each, which pings it, leaves it alone or has it closed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from scrapy_resiproxy.tunnel.keepalive import (
    PACE_SHARE,
    PING_BYTES,
    Close,
    Demand,
    Idle,
    Ping,
    next_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IDelayedCall, IReactorTime

    from scrapy_resiproxy.tunnel.connection import Tunnel
    from scrapy_resiproxy.tunnel.idle import IdleTimes
    from scrapy_resiproxy.tunnel.keepalive import Plan
    from scrapy_resiproxy.tunnel.pinger import Pinger
    from scrapy_resiproxy.tunnel.registry import Registry
    from scrapy_resiproxy.tunnel.route import Route, TunnelKey

_WINDOW: Final = 10.0
"""Seconds over which work is remembered where no idle timeout is set."""


class Crawl(Protocol):
    """What only the crawl can know or do; a tunnel's route says whose requests it carried last. Each may be set at any
    time.
    """

    is_held: Callable[[Route], bool] | None
    """True: nothing is sent there now."""
    has_work: Callable[[Route], bool] | None
    """False: no request for it waits or is being downloaded."""
    pace_of: Callable[[Route], float | None] | None
    """Requests per second that the target grants at present, None for any number."""
    pinged: Callable[[str], None] | None
    """Told the session of every tunnel that has answered a ping."""


class Permits:
    """Pings obey holds, stop without work, and take a tenth of a target's pace at most; their answers are told."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._last: dict[str, float] = {}

    def may_ping(self, route: Route, now: float) -> bool:
        crawl = self._crawl
        if (crawl.is_held and crawl.is_held(route)) or (crawl.has_work and not crawl.has_work(route)):
            return False
        pace = crawl.pace_of(route) if crawl.pace_of else None
        if pace is None:
            return True
        if pace <= 0 or now < self._last.get(route.target, -inf) + 1 / (PACE_SHARE * pace):
            return False
        self._last[route.target] = now
        return True

    def answered(self, session: str) -> None:
        """A tunnel of *session* has answered a ping."""
        if self._crawl.pinged:
            self._crawl.pinged(session)


class Warden:
    """Told by the pool which tunnels work and which rest."""

    def __init__(
        self,
        clock: IReactorTime,
        tunnels: Registry[Tunnel],
        plan: Plan,
        *,
        idle_times: IdleTimes,
        pinger: Pinger | None,
        permits: Permits,
        close: Callable[[Tunnel, str], None],
    ) -> None:
        self._clock = clock
        self._tunnels = tunnels
        self._plan = plan
        self._idle_times = idle_times
        self._pinger = pinger
        self._permits = permits
        self._close = close
        self._timers: dict[Tunnel, IDelayedCall] = {}
        self._demand: dict[TunnelKey, Demand] = {}
        # Half the timeout: a spare tunnel that nobody wants is then gone within two of them.
        self._window = (plan.idle_timeout or _WINDOW) / 2

    def works(self, tunnel: Tunnel) -> None:
        """A request has got *tunnel*."""
        tunnel.pinged = 0
        now = self._clock.seconds()
        demand = self._demand.setdefault(tunnel.key, Demand(self._window, now))
        demand.note(self._tunnels.busy(tunnel.key), now)

    def rests(self, tunnel: Tunnel) -> None:
        """*tunnel* has become idle.

        A timer from an earlier rest is left running where it comes soon enough: at many requests a second it would
        be set anew for nothing each time.
        """
        timer, interval = self._timers.get(tunnel), self._plan.interval
        if timer is None or (interval is not None and timer.getTime() > self._clock.seconds() + interval):
            self._tend(tunnel)

    def gone(self, tunnel: Tunnel) -> None:
        """*tunnel* was closed or lost."""
        self._stop(tunnel)
        if not self._tunnels.knows(tunnel.key):
            self._demand.pop(tunnel.key, None)

    def _stop(self, tunnel: Tunnel) -> None:
        timer = self._timers.pop(tunnel, None)
        if timer is not None:
            timer.cancel()

    def _wake(self, tunnel: Tunnel) -> None:
        del self._timers[tunnel]
        if not tunnel.busy and tunnel.pinging is None:
            self._tend(tunnel)

    def _tend(self, tunnel: Tunnel) -> None:
        self._stop(tunnel)
        now = self._clock.seconds()
        route = tunnel.route
        step = next_step(self._look_at(tunnel, now), self._plan, now, lambda: self._permits.may_ping(route, now))
        if isinstance(step, Close):
            self._close(tunnel, step.reason)
        elif isinstance(step, Ping):
            self._ping(tunnel)
        else:
            self._timers[tunnel] = self._clock.callLater(max(0.0, step.until - now), self._wake, tunnel)

    def _look_at(self, tunnel: Tunnel, now: float) -> Idle:
        return Idle(
            opened=now if tunnel.opened is None else tunnel.opened,
            since=tunnel.since,
            limit=self._idle_times.limit(tunnel.path, tunnel.heads.idle_timeout),
            spare=self._is_spare(tunnel, now),
            pinged=tunnel.pinged,
            ping=tunnel.ping_bytes // tunnel.pings if tunnel.pings else PING_BYTES,
            reconnect=tunnel.handshake_bytes,
            keep_exit=tunnel.route.keep_exit,
            expected=self._demand[tunnel.key].expected,
        )

    def _is_spare(self, tunnel: Tunnel, now: float) -> bool:
        idle = self._tunnels.idle(tunnel.key)
        used_before_it = len(idle) - 1 - idle.index(tunnel)
        wanted = self._demand[tunnel.key].peak(now) - self._tunnels.busy(tunnel.key)
        return used_before_it >= wanted

    def _ping(self, tunnel: Tunnel) -> None:
        assert self._pinger is not None
        before = (tunnel.traffic.total, tunnel.plain.total, tunnel.since)
        tunnel.pinging = []
        self._pinger.ping(tunnel).addCallback(self._pinged, tunnel, *before)

    def _pinged(self, alive: bool, tunnel: Tunnel, wire: int, plain: int, since: float) -> None:
        cost = tunnel.traffic.total - wire
        tunnel.pings += 1
        tunnel.pinged += cost
        tunnel.ping_bytes += cost
        tunnel.ping_plain += tunnel.plain.total - plain
        tunnel.since = self._clock.seconds()
        waiting, tunnel.pinging = tunnel.pinging or [], None
        if alive:
            self._idle_times.survived(tunnel.path, tunnel.since - since)
            self._permits.answered(tunnel.key.session)
        if not alive:
            self._close(tunnel, "ping_lost")
        elif not tunnel.heads.persistent:
            self._close(tunnel, "connection_close")
        elif not tunnel.busy and tunnel.close_reason is None:
            self._tend(tunnel)
        for ended in waiting:
            ended.callback(None)
