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
    (338 bytes against some 7,000, 2,800 with resumption). *may_ping* is asked only when a ping is due; told no, it is
    asked again an interval later.
    """
    if now >= idle.opened + plan.max_age:
        return Close("age")
    if now >= idle.since + idle.limit:
        return Close("idle")
    end = min(idle.opened + plan.max_age, idle.since + idle.limit)
    if plan.interval is None or idle.spare or not _worth_it(idle):
        return Sleep(end)
    due = idle.since + min(plan.interval, _PING_SHARE * idle.limit)
    if now < due:
        return Sleep(min(due, end))
    return Ping() if may_ping() else Sleep(min(now + plan.interval, end))


def _worth_it(idle: Idle) -> bool:
    return idle.keep_exit or idle.pinged + idle.ping <= idle.reconnect


class Demand:
    """The most tunnels of one key that were at work at once in the last *window* to two windows of seconds."""

    __slots__ = ("_before", "_current", "_start", "_window")

    def __init__(self, window: float, now: float) -> None:
        self._window = window
        self._start = now
        self._current = 0
        self._before = 0

    def note(self, busy: int, now: float) -> None:
        self._turn(now)
        self._current = max(self._current, busy)

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
