"""How long to wait before a retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

MOST_DOUBLINGS = 30
"""The exponent is clamped before it is used: 2.0**1100 overflows, and a big integer costs milliseconds."""

TOLD_JITTER = 0.1
TOLD_JITTER_MAX = 30.0


def full_jitter(attempt: int, base: float, cap: float, rng: Random) -> float:
    """Seconds before the retry that follows attempt number *attempt* (1 for the first).

    Uniform between 0 and ``min(cap, base * 2**(attempt - 1))``. Full jitter makes the fewest calls under contention:
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    return rng.uniform(0.0, min(cap, base * 2.0 ** min(max(attempt - 1, 0), MOST_DOUBLINGS)))


def with_told(delay: float, told: float | None, rng: Random) -> float:
    """*delay*, but never earlier than the server told, spread only upwards so that not all return at one instant."""
    if told is None:
        return delay
    return max(delay, told) + rng.uniform(0.0, min(TOLD_JITTER * told, TOLD_JITTER_MAX))
