"""Tells an outage of our own network from one of a target: then no circuit may open and no budget be spent."""

from __future__ import annotations

from collections import OrderedDict

LOOKS_BACK = 30.0
TARGETS_NEEDED = 10
CANARY_EVERY = 1.0


class OutageWatch:
    """Which targets were active of late, and which of them could not be reached."""

    __slots__ = ("_active", "_failing", "_next_canary", "ours")

    def __init__(self) -> None:
        self.ours = False
        """Whether so many targets are out of reach that it must be our own network; the first answer ends it."""
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
        elif self.ours:
            self.ours = False
            self._failing.clear()
        elif self._failing:
            self._failing.pop(target, None)
        for seen in (self._active, self._failing):
            while seen and next(iter(seen.values())) < now - LOOKS_BACK:
                seen.popitem(last=False)
        if unreachable and len(self._active) >= TARGETS_NEEDED and 2 * len(self._failing) >= len(self._active):
            self.ours = True

    def held_until(self, now: float) -> float | None:
        """When the next canary may go; None when one may go now."""
        return self._next_canary if now < self._next_canary else None

    def claim(self, now: float) -> None:
        """One goes, to find out whether it is over."""
        self._next_canary = now + CANARY_EVERY
