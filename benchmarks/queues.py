"""The scheduler's priority queue, Scrapy's beside ours: ``python benchmarks/queues.py [--quick]``.

Each slot holds a few requests. At rest nothing is being downloaded; at work 16 requests are, and each pop starts one
and ends the oldest. What is measured is the pop alone.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kit import Table, arguments, cpu_of, ratio, take_turns, without_garbage_collection
from scrapy import Request, Spider
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.test import get_crawler

from scrapy_resiproxy import GuardedPriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable

CONCURRENT = 16
SIZES = 10, 100, 1_000, 10_000


class Downloader:
    """As much of Scrapy's downloader as a queue looks at."""

    def __init__(self) -> None:
        self.slots: dict[str, Any] = {}

    def get_slot_key(self, request: Request) -> str:
        return request.meta.get("download_slot") or urlparse_cached(request).hostname or ""

    def work(self, popped: list[Request], number: int) -> None:
        """The request of this *number* begins, and the oldest under way ends."""
        slot = self.slots.setdefault(self.get_slot_key(popped[number]), SimpleNamespace(active=set()))
        slot.active.add(popped[number])
        if number >= CONCURRENT:
            oldest = popped[number - CONCURRENT]
            self.slots[self.get_slot_key(oldest)].active.discard(oldest)


def pops(queue_class: type, slots: int, count: int, *, at_work: bool) -> float:
    """Microseconds of one pop, from a queue in which no slot runs empty meanwhile."""
    crawler = get_crawler(Spider)
    downloader = Downloader()
    crawler.engine = SimpleNamespace(downloader=downloader, running=True)
    queue = queue_class(crawler, LifoMemoryQueue, "", start_queue_cls=FifoMemoryQueue)
    for number in range(slots * (count // slots + 2)):
        queue.push(Request(f"http://shop{number % slots}.example/item/{number}"))
    popped: list[Request] = []

    def pop_all() -> None:
        for number in range(count):
            popped.append(queue.pop())
            if at_work:
                downloader.work(popped, number)

    def work_alone() -> None:
        for number in range(count):
            popped.append(popped[number])
            if at_work:
                downloader.work(popped, number)

    with without_garbage_collection():
        return cpu_of(pop_all, count) - cpu_of(work_alone, count)


def main() -> None:
    quick = arguments(__doc__).quick
    sizes = SIZES[:3] if quick else SIZES
    table = Table(
        "pop() of the priority queue, in microseconds",
        ("slots", "at rest: stock", "ours", "stock / ours", "at work: stock", "ours", "stock / ours"),
        notes=[
            "stock: DownloaderAwarePriorityQueue; ours: GuardedPriorityQueue, which also asks for holds.",
        ],
    )
    for slots in sizes:
        # Scrapy's takes 2 ms at 10,000 slots.
        counts = {DownloaderAwarePriorityQueue: max(100, 20_000 // slots), GuardedPriorityQueue: max(2_000, slots)}
        cases: dict[str, Callable[[], float]] = {
            f"{cls.__name__} {at_work}": partial(pops, cls, slots, count, at_work=at_work)
            for cls, count in counts.items()
            for at_work in (False, True)
        }
        took = take_turns(2 if quick else 5, cases)
        cells = [f"{slots:,}"]
        for at_work in (False, True):
            stock, ours = (took[f"{cls.__name__} {at_work}"] for cls in counts)
            cells += [f"{stock:.1f}", f"{ours:.1f}", ratio(stock, ours)]
        table.add(*cells)
    table.print()


if __name__ == "__main__":
    main()
