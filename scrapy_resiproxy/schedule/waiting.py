"""The waiting room: requests that may not leave yet, outside Scrapy's downloader and scheduler.

Each waits in one of three ways: for its own time; for budget, in its target's line; or for its target to let it go,
in the order in which they came.

Pure bookkeeping: times are passed in, on the monotonic scale, in seconds. Nothing here sends, sleeps or stores.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

R = TypeVar("R")

HOLD = "hold"
"""Why an entry waits that its target's guards do not let go: nobody knows when they will, so it is looked at when
something has happened there, and at the latest when it is due.
"""


NEVER_LEFT = frozenset({HOLD, "session"})
"""Why an entry waits whose attempt never began."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[R]):
    """One request in the room."""

    id: str
    request: R
    target: str
    due: float
    """Not before this time."""
    reason: str
    """``backoff``, ``told``, ``hold``, ``session`` (none was free), ``hop`` or ``verdict``."""
    sent: int
    """How many attempts were sent so far: 0 for a first attempt that met a held target."""
    charge: Any = None
    """What budget its retry is charged to; None for what needs none."""
    reservation: Any = None
    """The budget that was granted, to be given back if the retry is never sent."""
    extra: Any = None
    """What the owner wants to find again with it."""
    joined: float = 0.0
    """What its target's budget clock said when it began to wait for budget."""
    gone: bool = field(default=False, repr=False)

    def __lt__(self, other: Waiting[R]) -> bool:
        """Whether it is due earlier; of two that are due at once, whether its request came earlier: ids count up."""
        if self.due != other.due:
            return self.due < other.due
        return (len(self.id), self.id) < (len(other.id), other.id)


@dataclass(slots=True)
class BudgetLine(Generic[R]):
    """The entries of one target that wait for budget, and the clock that limits their wait.

    The clock counts only the seconds in which the target was well: it stands still while the target is held or
    its circuit is not closed.
    """

    clock: float
    seen: float
    entries: deque[Waiting[R]] = field(default_factory=deque)


class WaitingRoom(Generic[R]):
    """Requests by due time, and those without budget by target, in the order in which they came."""

    def __init__(self) -> None:
        self._heap: list[Waiting[R]] = []
        self.without_budget: dict[str, BudgetLine[R]] = {}
        """Those without budget, by target; a target's line may be empty by now."""
        self._held: dict[str, deque[Waiting[R]]] = {}
        self._looks: list[tuple[float, str]] = []
        self._look_at: dict[str, float] = {}
        """When the held entries of a target are to be looked at next."""
        self._by_id: dict[str, Waiting[R]] = {}
        self._count_by_target: dict[str, int] = {}
        self._parked: dict[str, tuple[int, int]] = {}
        """How many of a target were ever parked, and the most at once."""
        self.holds = 0
        """How many wait only because their target is held, or no session was free."""
        self.parked = 0
        """How many were ever parked."""
        self.most = 0
        """The most that ever waited at once."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Waiting[R]]:
        return iter(list(self._by_id.values()))

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._by_id

    def get(self, entry_id: str) -> Waiting[R] | None:
        """The entry of that id; None when there is none."""
        return self._by_id.get(entry_id)

    def count(self, target: str) -> int:
        """How many of *target* wait."""
        return self._count_by_target.get(target, 0)

    def parked_of(self, target: str) -> int:
        """How many of *target* were ever parked."""
        return self._parked.get(target, (0, 0))[0]

    def most_of(self, target: str) -> int:
        """The most of *target* that ever waited at once."""
        return self._parked.get(target, (0, 0))[1]

    def park(self, entry: Waiting[R]) -> None:
        """Let *entry* wait until it is due. An entry of the same id is replaced."""
        self.remove(entry.id)
        self._by_id[entry.id] = entry
        self._count_by_target[entry.target] = self.count(entry.target) + 1
        self.holds += entry.reason in NEVER_LEFT
        self.parked += 1
        self.most = max(self.most, len(self._by_id))
        ever, most = self._parked.get(entry.target, (0, 0))
        self._parked[entry.target] = ever + 1, max(most, self.count(entry.target))
        if entry.reason == HOLD:
            if self.first_held(entry.target) is None:
                self._look_at.pop(entry.target, None)  # It was wanted for those that are gone.
            self._held.setdefault(entry.target, deque()).append(entry)
            self.look_at(entry.target, entry.due)
        else:
            self._push(entry)

    def _push(self, entry: Waiting[R]) -> None:
        heapq.heappush(self._heap, entry)

    def remove(self, entry_id: str) -> Waiting[R] | None:
        """Take the entry out, wherever it waits; None when there is none."""
        entry = self._by_id.pop(entry_id, None)
        if entry is None:
            return None
        entry.gone = True
        self.holds -= entry.reason in NEVER_LEFT
        left = self._count_by_target[entry.target] - 1
        if left:
            self._count_by_target[entry.target] = left
        else:
            del self._count_by_target[entry.target]
        return entry

    def next_due(self) -> float | None:
        """When the next entry is due, or the next look at held ones; None when none has a time."""
        due = min(self._next_entry(), self._next_look())
        return due if due < math.inf else None

    def _next_entry(self) -> float:
        while self._heap and self._heap[0].gone:
            heapq.heappop(self._heap)
        return self._heap[0].due if self._heap else math.inf

    def _next_look(self) -> float:
        while self._looks:
            when, target = self._looks[0]
            wanted = self._look_at.get(target) == when
            if wanted and self.first_held(target) is not None:
                return when
            heapq.heappop(self._looks)
            if wanted:
                del self._look_at[target]
        return math.inf

    def pop_due(self, now: float) -> Waiting[R] | None:
        """The entry that is due first, if it is due; it stays in the room until :meth:`remove`,
        :meth:`postpone` or :meth:`wait_for_budget` says what becomes of it. Held ones are not among them.
        """
        return heapq.heappop(self._heap) if self._next_entry() <= now else None

    def pop_look(self, now: float) -> str | None:
        """The target whose held entries are to be looked at now, if there is one: ask :meth:`first_held`."""
        if self._next_look() > now:
            return None
        target = heapq.heappop(self._looks)[1]
        del self._look_at[target]
        return target

    def look_at(self, target: str, when: float) -> None:
        """Look at the held entries of *target* at *when*, or earlier if that was wanted before."""
        if when < self._look_at.get(target, math.inf):
            self._look_at[target] = when
            heapq.heappush(self._looks, (when, target))

    def first_held(self, target: str) -> Waiting[R] | None:
        """The held entry of *target* that came first; it stays in the room."""
        held = self._held.get(target)
        while held and held[0].gone:
            held.popleft()
        if held:
            return held[0]
        self._held.pop(target, None)
        return None

    def targets_held(self) -> list[str]:
        """The targets that have held entries."""
        return list(self._held)

    def postpone(self, entry: Waiting[R], due: float) -> None:
        """Let an entry that was due wait until *due*."""
        entry.due = due
        self._push(entry)

    def wait_for_budget(self, entry: Waiting[R], now: float) -> None:
        """Let an entry that was due wait for budget, behind the others of its target."""
        line = self.without_budget.setdefault(entry.target, BudgetLine(0.0, now))
        entry.joined = line.clock
        line.entries.append(entry)

    def targets_without_budget(self) -> list[str]:
        """The targets that have entries waiting for budget."""
        return list(self.without_budget)

    def turn_budget_clock(self, target: str, now: float, *, still: bool) -> None:
        """Move the clock of *target*'s line on to *now*; *still* when the time since must not count."""
        line = self.without_budget.get(target)
        if line is not None:
            line.clock += 0.0 if still else max(0.0, now - line.seen)
            line.seen = now

    def first_without_budget(self, target: str) -> tuple[Waiting[R], float] | None:
        """The entry of *target* that has waited for budget longest, and for how long; it stays in line."""
        line = self.without_budget.get(target)
        if line is None:
            return None
        while line.entries and line.entries[0].gone:
            line.entries.popleft()
        if not line.entries:
            del self.without_budget[target]
            return None
        return line.entries[0], line.clock - line.entries[0].joined
