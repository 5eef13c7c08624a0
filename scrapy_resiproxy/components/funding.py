"""Retries that wait for budget: when one may go without any, and when it has waited long enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.schedule.waiting import Waiting

QUIET_TAIL = 1.0
"""A target whose queue is empty and that has sent no first attempt for so many seconds is in its tail."""

QUIET_TAIL_BLIND = 5.0
"""The same where the scheduler's queue is not ours, so that it cannot be asked."""


class Funding:
    """Budget for what waits. In the tail of a target, when no first attempt is left to earn any, as many retries go as
    the target may have downloads at once, while it is well.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._places = runtime.crawler.settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") or 1
        self._tail: dict[str, set[str]] = {}
        """Those that went without budget and are on their way, by target."""

    def granted(self, entry: Waiting[Request], now: float) -> bool:
        """Whether *entry* has its budget, or gets it now."""
        if entry.charge is None or entry.reservation is not None:
            return True
        endpoint = self.runtime.endpoint_of(entry.target)
        entry.reservation = self.runtime.governor.reserve(entry.target, entry.charge, now, endpoint=endpoint)
        return entry.reservation is not None

    def next_of(self, target: str, now: float) -> tuple[Waiting[Request], Literal["go", "give_up"]] | None:
        """The next of *target*'s line that may go or has waited too long; None when the first must wait on."""
        first = self.runtime.room.first_without_budget(target)
        if first is None:
            return None
        entry, waited = first
        if self.granted(entry, now):
            return entry, "go"
        if waited >= self.runtime.governor.settings_of(target).budget_wait:
            return entry, "give_up"
        return (entry, "go") if self._into_tail(entry, now) else None

    def _into_tail(self, entry: Waiting[Request], now: float) -> bool:
        pending = self.runtime.pending(entry.target)
        quiet = QUIET_TAIL if pending == 0 else QUIET_TAIL_BLIND
        if pending or now - self.runtime.tally.of(entry.target).last_first < quiet:
            return False
        out = self._tail.get(entry.target, set())
        endpoint = self.runtime.endpoint_of(entry.target)
        if len(out) >= self._places or not self.runtime.governor.tail_open(entry.target, now, endpoint):
            return False
        self._tail.setdefault(entry.target, out).add(entry.id)
        return True

    def back(self, target: str, entry_id: str) -> bool:
        """*entry_id* has an outcome; whether that makes room in the tail of *target*."""
        out = self._tail.get(target)
        if not out or entry_id not in out:
            return False
        out.discard(entry_id)
        if not out:
            del self._tail[target]
        return True
