"""The one timer of a crawl: a turn whenever one was asked for, as long as Scrapy takes requests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_resiproxy.runtime import Runtime

BUSY_TURN = 0.1
"""Seconds until the next try while Scrapy takes no more requests."""


class Turns:
    """Calls *work* with the time at every turn, and asks *next_turn* after it when the next is needed, not before the
    time that it is given; infinity where none is. Times are monotonic.
    """

    def __init__(self, runtime: Runtime, work: Callable[[float], None], next_turn: Callable[[float], float]) -> None:
        self.runtime = runtime
        self._work = work
        self._next_turn = next_turn
        self._timer: Any = None
        self._timer_at = math.inf
        self.over = False
        """Whether there are no more turns: the crawl is closing."""

    def wake_at(self, when: float) -> None:
        """Ask for a turn at *when*."""
        if when >= self._timer_at or self.over or self.runtime.engine is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = call_later(max(0.0, when - self.runtime.now()), self._turn)

    def _turn(self) -> None:
        self._timer, self._timer_at = None, math.inf
        engine = self.runtime.engine
        if self.over:
            return
        now = self.runtime.now()
        if engine is None or not engine.running or engine.needs_backout():
            self.wake_at(self._next_turn(now + BUSY_TURN))
            return
        try:
            self._work(now)
        finally:
            self.wake_at(self._next_turn(now))

    def stop(self) -> None:
        """No more turns."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
