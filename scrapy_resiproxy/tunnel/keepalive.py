"""When to ping an idle tunnel, when to leave it alone, when to drop it: decided from times, not by a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

PING_BYTES: Final = 340
"""What a HEAD and its answer cost on the wire until a ping was measured (68 up, 270 down at nginx)."""
_PING_SHARE: Final = 0.8
"""A ping goes at this share of our limit at the latest, where the limit turns out shorter than was thought."""
PACE_SHARE: Final = 0.1
"""The part of a target's pace that pings may take at most."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of keeping warm."""

    interval: float | None
    """Seconds from the last byte to a ping; None: no pings."""
    max_age: float
    """Seconds from its opening after which a tunnel is not used again."""
    idle_timeout: float | None = None
    """The other side's, where it was told."""


@dataclass(frozen=True, slots=True)
class Idle:
    """What counts of one idle tunnel."""

    opened: float
    since: float
    """When the last byte passed, in either direction."""
    limit: float
    """Seconds of silence after which we drop it."""
    spare: bool
    """True when recent work would not have needed it."""
    pinged: int
    """Bytes spent on pings since its last request."""
    ping: int
    """Bytes of one ping."""
    reconnect: int
    """Bytes that opening it took."""
    keep_exit: bool
    """True when losing it would cost more than bytes."""
    expected: float | None = None
    """When the next request of its key is due, if they come at intervals; it makes a ping needless."""


@dataclass(frozen=True, slots=True)
class Sleep:
    until: float


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Close:
    reason: Literal["age", "idle"]


Step = Sleep | Ping | Close


def next_step(idle: Idle, plan: Plan, now: float, may_ping: Callable[[], bool]) -> Step:
    """Return what is to be done with an idle tunnel at *now*.

    It is pinged while recent work needed it and while the pings since its last request cost less than a reconnect
    (338 bytes against some 7,000, 2,800 with resumption), an interval after the last byte; but where a request is
    expected before our limit comes near, that is waited for. *may_ping* is asked only when a ping is due; told no, it
    is asked again an interval later.
    """
    if now >= idle.opened + plan.max_age:
        return Close("age")
    if now >= idle.since + idle.limit:
        return Close("idle")
    end = min(idle.opened + plan.max_age, idle.since + idle.limit)
    if plan.interval is None or idle.spare or not _worth_it(idle):
        return Sleep(end)
    latest = idle.since + _PING_SHARE * idle.limit
    soon = idle.expected is not None and idle.since < idle.expected <= latest
    due = latest if soon else min(latest, idle.since + plan.interval)
    if now < due:
        return Sleep(min(due, end))
    return Ping() if may_ping() else Sleep(min(now + plan.interval, end))


def _worth_it(idle: Idle) -> bool:
    return idle.keep_exit or idle.pinged + idle.ping <= idle.reconnect


class Demand:
    """The work of one key: the most tunnels in use at once in the last *window* to two windows of seconds, and when
    the next request is due if it comes after the last one as that came after the one before.
    """

    __slots__ = ("_before", "_current", "_last", "_start", "_window", "expected")

    def __init__(self, window: float, now: float) -> None:
        self._window = window
        self._start = now
        self._current = 0
        self._before = 0
        self._last: float | None = None
        self.expected: float | None = None

    def note(self, busy: int, now: float) -> None:
        """A request begins at *now*, the *busy*-th at work."""
        self._turn(now)
        self._current = max(self._current, busy)
        self.expected = None if self._last is None else now + (now - self._last)
        self._last = now

    def peak(self, now: float) -> int:
        """At least 1: a key that has a tunnel has had work."""
        self._turn(now)
        return max(1, self._current, self._before)

    def _turn(self, now: float) -> None:
        passed = int((now - self._start) // self._window)
        if passed >= 1:
            self._before = self._current if passed == 1 else 0
            self._current = 0
            self._start += passed * self._window
