"""The scheduler's priority queue that leaves the requests of a held target where they are.

It is Scrapy's ``DownloaderAwarePriorityQueue`` with the same state on disk, and with two differences: a slot whose
target is held is passed over until the hold ends, and the next slot is found in constant time (the parent scans all
of them at every pop).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import DownloaderAwarePriorityQueue

from scrapy_resiproxy.components.queue_state import after_kill, foreign_line, is_state
from scrapy_resiproxy.components.refusing import is_refused, refuse
from scrapy_resiproxy.guard.governor import GivenUp
from scrapy_resiproxy.names import META_TARGET
from scrapy_resiproxy.runtime import Runtime
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.settings_reader import ENABLED, is_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

NEVER = float("inf")


class GuardedPriorityQueue(DownloaderAwarePriorityQueue):
    """Set ``SCHEDULER_PRIORITY_QUEUE = "scrapy_resiproxy.GuardedPriorityQueue"``.

    Every slot with requests is in exactly one of three places: ``_idle`` (nothing of it was being downloaded when it
    was looked at last), ``_busy`` (something may be) or ``_held``. A pop takes the first idle slot. Only when none is
    left are the busy ones looked at, and all but about CONCURRENT_REQUESTS of them turn out to be idle again: in the
    long run no pop costs more for a larger number of slots.
    """

    def __init__(
        self,
        crawler: Any,
        downstream_queue_cls: Any,
        key: str,
        slot_startprios: dict[str, Any] | None = None,
        *,
        start_queue_cls: Any = None,
    ) -> None:
        try:
            self._runtime: Runtime | None = Runtime.of(crawler)
        except SettingError:
            self._runtime = None  # The middleware says so, and stops the crawl.
        self._downloader = crawler.engine.downloader
        self._state_before = slot_startprios
        if not is_state(slot_startprios):
            refuse(crawler, foreign_line(crawler.settings["JOBDIR"], slot_startprios))
        self._refused = is_refused(crawler)
        self._finds_more = bool(key) and self._runtime is not None and self._runtime.was_killed
        """Whether a file that is opened may hold what a killed run has left in it."""
        self._count = 0
        self._target_in: dict[str, str | None] = {}
        """Whose requests are in each slot; None where it mixes targets, which are then held one by one later."""
        self._slots_of: dict[str, set[str]] = {}
        """The slots of a target that have another name: those of a group, or that the user named."""
        self._idle: OrderedDict[str, None] = OrderedDict()
        self._busy: dict[str, None] = {}
        self._held: dict[str, float] = {}
        self._holds: list[tuple[float, str]] = []
        self._kept_slots: set[str] = set()
        if self._refused:
            slot_startprios = None
        elif self._finds_more:
            slot_startprios = after_kill(Path(key), downstream_queue_cls)
        super().__init__(crawler, downstream_queue_cls, key, slot_startprios, start_queue_cls=start_queue_cls)
        for slot, queue in self.pqueues.items():
            self._count += len(queue)
            self._learn(slot, self._runtime.config.target_key(slot) if self._runtime else slot)
            self._idle[slot] = None
        if self._runtime is not None:
            self._runtime.queues.append(self)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        """Scrapy's own queue where ``RESIPROXY_ENABLED`` is False: what one has put on disk, the other goes on with."""
        if not is_on(crawler.settings, ENABLED):
            return DownloaderAwarePriorityQueue.from_crawler(crawler, *args, **kwargs)
        return super().from_crawler(crawler, *args, **kwargs)

    # What Scrapy's scheduler asks ---------------------------------------------------------------------------

    def push(self, request: Request) -> None:
        slot = self._slot_of(request)
        queue = self.pqueues.get(slot)
        if queue is None:
            queue = self.pqueues[slot] = self.pqfactory(slot)
        before = len(queue) if self._finds_more else 0
        queue.push(request)
        self._count += len(queue) - before if self._finds_more else 1
        if self._runtime is not None:
            self._runtime.on_queued(request)
        if slot not in self._target_in:
            self._idle[slot] = None
        self._learn(slot, self._runtime.target_of(request, slot) if self._runtime else slot)

    def pop(self) -> Request | None:
        if not self.pqueues:
            return None
        now = self._runtime.now() if self._runtime is not None else 0.0
        slot = self._next_slot_to_go(now)
        if slot is None:
            return None
        queue = self.pqueues[slot]
        try:
            request = queue.pop()
        except Exception:
            # It is gone from the queue, and cannot be made again: its callback has another name by now …
            self._count = sum(map(len, self.pqueues.values()))
            raise
        if request is not None:
            self._count -= 1
            target = self._target_in[slot]
            if self._runtime is not None and target is not None:
                self._runtime.governor.popped(target, now)
        if queue:
            self._idle.pop(slot, None)
            # To the end: of those with as few downloads, the one that was popped longest ago is next.
            self._busy.pop(slot, None)
            self._busy[slot] = None
        else:
            self._forget(slot)
            queue.close()
            if self.key:
                # Only an empty directory can go; the downstream queues remove their own files.
                with suppress(OSError):
                    Path(queue.key).rmdir()
        return request

    def peek(self) -> Request | None:
        slot = self._next_slot_to_go(self._runtime.now() if self._runtime is not None else 0.0)
        return None if slot is None else self.pqueues[slot].peek()

    def close(self) -> Any:
        """What Scrapy writes down, to go on with in the next run."""
        return self._state_before if self._refused else super().close()

    def __len__(self) -> int:
        """What will be sent in this run: the waiting room counts with the memory queue, so that the spider does not
        go idle while retries wait; what a given-up target leaves in the job does not count.
        """
        count = self._count - self.kept() if self._kept_slots else self._count
        if not self.key and self._runtime is not None and self._runtime.waiting is not None:
            count += self._runtime.waiting()
        return count

    # What the runtime asks ----------------------------------------------------------------------------------

    def pending(self, target: str) -> int:
        """How many requests of *target* are in this queue."""
        return sum(len(self.pqueues[slot]) for slot in self._slots(target))

    def kept(self) -> int:
        """How many requests of given-up targets stay here for the next run of the job."""
        return sum(len(self.pqueues[slot]) for slot in self._kept_slots)

    def left(self) -> int:
        """How many requests are in this queue, kept ones included."""
        return self._count

    def drain(self) -> Iterator[Request]:
        """Everything that is left, at the end of a crawl that keeps nothing."""
        for queue in self.pqueues.values():
            while (request := queue.pop()) is not None:
                self._count -= 1
                yield request

    def next_release(self) -> float | None:
        """When the next held slot is to be looked at again; None when none has a time."""
        while self._holds and self._held.get(self._holds[0][1]) != self._holds[0][0]:
            heapq.heappop(self._holds)
        return self._holds[0][0] if self._holds and self._holds[0][0] < NEVER else None

    def look_again(self, target: str) -> None:
        """Something changed at *target*: its held slots may go."""
        if self._held:
            for slot in self._slots(target):
                self._let_go(slot)

    def look_everywhere(self) -> None:
        """Something changed that concerns every target."""
        for slot in self._held.keys() - self._kept_slots:
            self._let_go(slot)

    def _let_go(self, slot: str) -> None:
        if self._held.pop(slot, None) is not None:
            self._kept_slots.discard(slot)
            self._idle[slot] = None

    # How it finds the next slot -----------------------------------------------------------------------------

    def _slot_of(self, request: Request) -> str:
        named = request.meta.get(META_TARGET)
        return str(named) if named else self._downloader.get_slot_key(request)

    def _learn(self, slot: str, target: str) -> None:
        if self._target_in.setdefault(slot, target) != target:
            self._target_in[slot] = None
            self._let_go(slot)
        if slot != target:
            self._slots_of.setdefault(target, set()).add(slot)

    def _slots(self, target: str) -> set[str]:
        """The slots that hold requests of *target*."""
        slots = set(self._slots_of.get(target, ()))
        if self._target_in.get(target, "") in {target, None}:
            slots.add(target)
        return slots

    def _forget(self, slot: str) -> None:
        del self.pqueues[slot]
        self._idle.pop(slot, None)
        self._busy.pop(slot, None)
        self._held.pop(slot, None)
        self._kept_slots.discard(slot)
        target = self._target_in.pop(slot)
        if target != slot:
            for name in [target] if target is not None else list(self._slots_of):
                slots = self._slots_of.get(name, set())
                slots.discard(slot)
                if not slots:
                    self._slots_of.pop(name, None)

    def _next_slot_to_go(self, now: float) -> str | None:
        if self._runtime is None:
            return next(iter(self._idle), None) or next(iter(self._busy), None)
        while self._holds and (due := self.next_release()) is not None and due <= now:
            slot = heapq.heappop(self._holds)[1]
            del self._held[slot]
            self._idle[slot] = None
        while (candidate := self._candidate()) is not None:
            if not self._hold(candidate, now):
                return candidate
        return None

    def _candidate(self) -> str | None:
        """The slot whose turn it is among the idle ones; the least busy one where none is idle."""
        while self._idle:
            slot = next(iter(self._idle))
            found = self._downloader.slots.get(slot)
            if found is None or not found.active:
                return slot
            # It ran empty and was filled again while its last requests were still being downloaded.
            del self._idle[slot]
            self._busy[slot] = None
        return self._least_busy()

    def _least_busy(self) -> str | None:
        """The busy slot with the fewest downloads, if it has a place for one more: what waits in the downloader goes
        out whatever its target says meanwhile. Those without any are idle again, all at once: so the next look comes
        only after as many pops as were freed here.
        """
        downloading = self._downloader.slots
        least, fewest, freed = None, NEVER, []
        for slot in self._busy:
            found = downloading.get(slot)
            if found is None or not found.active:
                freed.append(slot)
            elif len(found.active) < min(fewest, found.concurrency):
                least, fewest = slot, len(found.active)
        for slot in freed:
            del self._busy[slot]
            self._idle[slot] = None
        return freed[0] if freed else least

    def _hold(self, slot: str, now: float) -> bool:
        """Whether *slot*'s target is held; then the slot is put away until the hold ends."""
        assert self._runtime is not None
        target = self._target_in[slot]
        if target is None:
            return False
        hold = self._runtime.governor.peek(target, now, self._runtime.endpoint_of(target))
        if hold is None:
            return False
        if isinstance(hold, GivenUp):
            if not self._runtime.keeps_waiting:
                return False
            self._kept_slots.add(slot)
            until = NEVER
        else:
            until = hold.until
        self._idle.pop(slot, None)
        self._busy.pop(slot, None)
        self._held[slot] = until
        heapq.heappush(self._holds, (until, slot))
        self._runtime.wake_at(until)
        return True
