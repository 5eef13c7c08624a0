"""Memory of what is remembered: ``python benchmarks/memory.py [--quick]``.

Measured with tracemalloc: what the guards and the counts keep of a target after one good answer, and what one waiting
retry takes, its request included.
"""

from __future__ import annotations

import gc
import random
import tracemalloc

from kit import Table, arguments, versions
from scrapy import Request

from scrapy_resiproxy.guard.governor import Governor, Permit
from scrapy_resiproxy.outcome import OK
from scrapy_resiproxy.schedule.waiting import Waiting, WaitingRoom
from scrapy_resiproxy.settings import GuardSettings
from scrapy_resiproxy.tally import Tally


def idle_target(count: int) -> float:
    """Bytes for each of *count* targets, their names left out."""
    names = [f"host{number}.example.com" for number in range(count)]
    governor, tally = Governor(GuardSettings(), random.Random(1)), Tally()
    gc.collect()
    tracemalloc.start()
    for number, name in enumerate(names):
        permit = governor.admit(name, number * 0.001)
        assert isinstance(permit, Permit)
        governor.report(permit, OK, number * 0.001 + 0.0005)
        tally.judged(name, OK, 10_000, fresh=False)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / count


def waiting_retry(count: int) -> float:
    """Bytes for each of *count* retries in the waiting room."""
    room: WaitingRoom[Request] = WaitingRoom()
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        state = {"id": f"0123456789ab{number:x}", "sent": 1, "first": 1.5, "log": [{"outcome": "transient", "at": 1.5}]}
        meta = {"depth": 1, "_resiproxy": state}
        request = Request(f"https://shop.example/item/{number}", meta=meta, headers={"User-Agent": "a", "Accept": "b"})
        room.park(Waiting(str(state["id"]), request, "shop.example", float(number), "backoff", 1))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / count


def main() -> None:
    count = 20_000 if arguments(__doc__).quick else 100_000
    table = Table(f"Memory, {count:,} of each", ("", "bytes", "within"), notes=[versions()])
    for name, used, most in (
        ("an idle target", idle_target(count), 600),
        ("a waiting retry", waiting_retry(count), 3000),
    ):
        table.add(name, f"{used:.0f}", f"{'yes' if used <= most else 'NO'} ({most})")
    table.print()


if __name__ == "__main__":
    main()
