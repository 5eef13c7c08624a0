"""Tells an outage of our own network from one of a target: then no circuit may open and no budget be spent."""

from __future__ import annotations

from collections import OrderedDict

LOOKS_BACK = 30.0
TARGETS_NEEDED = 10
CANARY_EVERY = 1.0


class OutageWatch:
    """Which targets were active of late, and which of them failed below HTTP."""

    __slots__ = ("_active", "_failing", "_next_canary")

    def __init__(self) -> None:
        self._active: OrderedDict[str, float] = OrderedDict()
        self._failing: OrderedDict[str, float] = OrderedDict()
        self._next_canary = 0.0

    def note(self, target: str, now: float, *, unreachable: bool) -> None:
        """Count one answer of *target*, or that it could not be reached."""
        self._active[target] = now
        self._active.move_to_end(target)
        if unreachable:
            self._failing[target] = now
            self._failing.move_to_end(target)
        else:
            self._failing.pop(target, None)
        for seen in (self._active, self._failing):
            while seen and next(iter(seen.values())) < now - LOOKS_BACK:
                seen.popitem(last=False)

    def is_ours(self) -> bool:
        """Whether so many targets are unreachable that it must be our own network."""
        failing = len(self._failing)
        return bool(failing) and len(self._active) >= TARGETS_NEEDED and 2 * failing >= len(self._active)

    def next_canary(self) -> float:
        """When the next request may go to find out."""
        return self._next_canary

    def canary(self, now: float) -> None:
        self._next_canary = now + CANARY_EVERY
