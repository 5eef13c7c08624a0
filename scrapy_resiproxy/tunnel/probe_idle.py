"""How long a tunnel may idle, who closes it, and whether pings keep it: measured on tunnels that do nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.tunnel.probe_wire import StageFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_resiproxy.tunnel.probe import Opener
    from scrapy_resiproxy.tunnel.probe_wire import Line

STEPS: Final = (0.06, 0.09, 0.12, 0.17, 0.23, 0.34, 0.5, 0.67, 0.84, 1.0)
"""Shares of the longest wait at which a tunnel of its own is tried: a silent drop shows between two of them."""
_PINGS_PER_TIMEOUT: Final = 3
_TIMEOUTS_TO_OUTLIVE: Final = 3


@dataclass(frozen=True, slots=True)
class Silence:
    """What became of tunnels that said nothing."""

    closed_after: float | None
    """Seconds until the other side closed; None if it did not within the wait."""
    closed_by: str | None
    """``origin`` if it ended TLS itself, ``peer`` if there is no telling."""
    promised: float | None
    """Seconds that the origin says it keeps an idle connection."""
    alive_after: float
    """The longest silence after which a tunnel still worked."""
    dead_after: float | None
    """The shortest silence after which a tunnel no longer worked although nobody had closed it."""

    @property
    def dropped_silently(self) -> bool:
        return self.dead_after is not None and (self.closed_after is None or self.dead_after < self.closed_after)

    @property
    def timeout(self) -> float | None:
        """The idle timeout, as far as it is known for sure; None when there is none within the wait."""
        return self.alive_after if self.dropped_silently else self.closed_after

    @property
    def origin_closes(self) -> bool:
        """True when it is the origin, not the proxy, that ends idle tunnels."""
        if self.closed_after is None:
            return False
        told = self.promised is not None and self.closed_after >= 0.9 * self.promised
        return self.closed_by == "origin" or told


@dataclass(frozen=True, slots=True)
class Warmth:
    """What became of a tunnel that was pinged."""

    interval: float
    lived: float
    """Seconds."""
    died: bool


class Wait:
    """Waiting that can be called off, and shows how far it is. *clock* gives seconds."""

    def __init__(self, clock: Callable[[], float], show: Callable[[float], None]) -> None:
        self.clock = clock
        self._show = show
        self.off = Event()

    def pause(self, seconds: float) -> bool:
        """Wait for so long; True when it was called off."""
        return self.off.wait(seconds)

    def until(self, moment: float, end: float | None = None) -> None:
        """Wait for *moment*, or until it is called off; show how far the *end* is, which is *moment* by default."""
        while (left := moment - self.clock()) > 0:
            self._show(left if end is None else left + end - moment)
            if self.pause(min(1.0, left)):
                return


def measure_silence(open_line: Opener, longest: float, patience: float, wait: Wait) -> Silence:
    """Let one tunnel idle until it is closed, and others, each to be tried once, to find silent drops.

    Takes *longest* seconds at most, and *patience* more for what does not answer. Raises ``StageFailed`` when the first
    tunnel does not open; a tunnel that the port will not open besides is left out.
    """
    first = open_line()
    start = wait.clock()
    with ThreadPoolExecutor(len(STEPS) + 1) as pool:
        watched = pool.submit(_watch, first, longest, wait)
        trials = [pool.submit(_trial, open_line, step * longest, patience, wait) for step in STEPS]
        wait.until(start + longest)
        by, end = watched.result()
        results = [trial.result() for trial in trials]
    first.close()
    return Silence(
        end - start if by is not None else None,
        by,
        first.promised,
        alive_after=max((age for age, alive, _ in results if alive), default=0.0),
        # Where the end of one tunnel was seen, a trial that saw its own end met the same a moment earlier.
        dead_after=min((age for age, alive, ended in results if alive is False and not (by and ended)), default=None),
    )


def _watch(line: Line, longest: float, wait: Wait) -> tuple[str | None, float]:
    """Wait until the tunnel is closed; by whom, and the moment. The trials that wait longer are called off."""
    by = line.wait_for_end(longest)
    end = wait.clock()
    if by is not None:
        wait.off.set()
    return by, end


def _trial(open_line: Opener, age: float, patience: float, wait: Wait) -> tuple[float, bool | None, bool]:
    """Try a tunnel after *age* seconds of silence.

    The seconds that it was silent, which are more on a busy machine; whether it worked, None when there was no trial or
    when the tunnel had been closed by then: that is no silent drop; and whether its end was seen.
    """
    try:
        line = open_line()
    except StageFailed:
        return age, None, False
    start = wait.clock()
    try:
        called_off = wait.pause(age)
        silent = wait.clock() - start
        if called_off or line.wait_for_end(0) is not None:
            return silent, None, not called_off
        alive = line.alive(patience)
        return silent, alive, not alive and line.wait_for_end(0) is not None
    finally:
        line.close()


def measure_warmth(open_line: Opener, timeout: float, longest: float, patience: float, wait: Wait) -> Warmth:
    """Ping a tunnel at a third of *timeout* for three timeouts, at most *longest* seconds."""
    line = open_line()
    interval, start = timeout / _PINGS_PER_TIMEOUT, wait.clock()
    end = start + min(longest, _TIMEOUTS_TO_OUTLIVE * timeout)
    try:
        while wait.clock() < end:
            wait.until(min(end, wait.clock() + interval), end)
            if not line.alive(patience):
                return Warmth(interval, wait.clock() - start, died=True)
    finally:
        line.close()
    return Warmth(interval, wait.clock() - start, died=False)
