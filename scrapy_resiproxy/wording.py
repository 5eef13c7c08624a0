"""Numbers in sentences: plurals, durations, and what may be called a rate."""

from __future__ import annotations

from typing import Final

SHORTEST_FOR_A_RATE: Final = 600.0
"""Seconds from which on a count is told by the hour too. What is fetched at the beginning (every session opens its
tunnels, every page is new) is not what an hour brings, and six seconds times six hundred is no measurement.
"""

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 letter``, ``2 letters``; *many* is the plural where it is not *one* with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def lasting(seconds: float) -> str:
    """``45 s``, ``12 min`` from two minutes on, ``2.5 h`` from two hours on."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def over(number: int, seconds: float) -> str:
    """*number* in *seconds*: ``in 45 s``, and from :data:`SHORTEST_FOR_A_RATE` on ``in 20 min, 270 per hour``."""
    time = f"in {lasting(seconds)}"
    return time if seconds < SHORTEST_FOR_A_RATE else f"{time}, {number * _HOUR / seconds:,.0f} per hour"
