"""Tells an outage of our own network from one of a target: then no circuit may open and no budget be spent."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.open_gate import OpenGate

LOOKS_BACK = 30.0
TICKS = 4
"""Parts of a second in which targets are counted."""
SPAN = int(LOOKS_BACK * TICKS) + 1
NEVER = -SPAN

TARGETS_NEEDED = 10
CANARY_EVERY = 1.0


class OutageWatch:
    """How many targets were active of late, and which of them could not be reached.

    Each target is counted in the tick of its last answer, which its gate remembers.
    """

    __slots__ = ("_active", "_believed", "_counts", "_failing", "_longest", "_next_canary", "_since", "_tick", "ours")

    def __init__(self, longest: float) -> None:
        self.ours = False
        """Whether so many targets are out of reach that it must be our own network. The first answer ends it; and after
        *longest* seconds it is believed no more, until there is one: perhaps all that is left to ask is dead.
        """
        self._longest = longest
        self._since = 0.0
        self._believed = True
        self._tick = 0
        self._counts = [0] * SPAN
        self._active = 0
        self._failing: OrderedDict[str, float] = OrderedDict()
        self._next_canary = 0.0

    def note(self, target: str, gate: OpenGate, now: float, *, unreachable: bool) -> None:
        """Count one answer of *target*, whose gate is *gate*, or that it could not be reached."""
        tick = int(now * TICKS)
        if gate.seen != tick:
            self._count(gate, tick)
        failing = self._failing
        if unreachable:
            failing[target] = now
            failing.move_to_end(target)
        else:
            self._believed = True
            if self.ours:
                self.ours = False
                failing.clear()
            elif failing:
                failing.pop(target, None)
        while failing and next(iter(failing.values())) < now - LOOKS_BACK:
            failing.popitem(last=False)
        if self.ours:
            self.ours = self._believed = now - self._since < self._longest
        elif unreachable and self._believed and self._active >= TARGETS_NEEDED and 2 * len(failing) >= self._active:
            self.ours, self._since = True, now

    def _count(self, gate: OpenGate, tick: int) -> None:
        if tick > self._tick:
            for passed in range(max(self._tick, tick - SPAN) + 1, tick + 1):
                self._active -= self._counts[passed % SPAN]
                self._counts[passed % SPAN] = 0
            self._tick = tick
        if gate.seen == self._tick:
            return
        if gate.seen > self._tick - SPAN:
            self._counts[gate.seen % SPAN] -= 1
        else:
            self._active += 1
        self._counts[self._tick % SPAN] += 1
        gate.seen = self._tick

    @staticmethod
    def remembers(gate: OpenGate, now: float) -> bool:
        """Whether the target of *gate* counts as active at *now*."""
        return gate.seen > int(now * TICKS) - SPAN

    def held_until(self, now: float) -> float | None:
        """When the next canary may go; None when one may go now."""
        return self._next_canary if now < self._next_canary else None

    def claim(self, now: float) -> None:
        """One goes, to find out whether it is over."""
        self._next_canary = now + CANARY_EVERY
