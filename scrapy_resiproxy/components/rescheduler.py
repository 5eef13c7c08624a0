"""Requests that may not leave yet: taken out of Scrapy's flow, kept, and given back when they are due.

The way of a waiting request: the middleware calls :meth:`Rescheduler.park` and returns the copy; the engine passes it
to ``request_scheduled``, where it is stopped (:mod:`~scrapy_resiproxy.components.entrance`: no errback, no
``request_dropped``, no place held); when it is due it goes through ``engine.crawl`` like any other request.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals

from scrapy_resiproxy.components.flow import state_of
from scrapy_resiproxy.components.funding import Funding
from scrapy_resiproxy.components.job import Job
from scrapy_resiproxy.components.refusing import is_refused
from scrapy_resiproxy.components.retries import as_retry
from scrapy_resiproxy.components.turns import BUSY_TURN, Turns
from scrapy_resiproxy.guard.answers import Hold
from scrapy_resiproxy.names import META_STATE
from scrapy_resiproxy.schedule.waiting import NEVER_LEFT, Waiting
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy import Spider

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.guard.budget import Reservation
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

RELEASED_AT_ONCE = 100
"""At most so many are given back in one turn of the event loop: each costs about 25 µs."""

BUDGET_TURN = 1.0
"""Seconds between looks at what waits for budget; a first attempt of the target looks at once."""

BROKEN_TURN = 5.0
"""Seconds until the next try when the scheduler would not take a request."""

KEPT_TURN = 60.0
"""Seconds between looks at a request that stays in the job for the next run."""


class Rescheduler:
    """Owns everything that waits."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.crawler = runtime.crawler
        self.room = runtime.room
        self.job = Job(runtime)
        self.funding = Funding(runtime)
        self.in_flow: dict[str, Waiting[Request]] = {}
        """Given back, not yet at their next outcome: by state id."""
        self._ending: deque[tuple[Waiting[Request], str, float | None]] = deque()
        """Those whose target has ended, with their verdict and when they may be sent again."""
        self.on_turn: Callable[[float], None] = lambda now: None  # noqa: ARG005
        """Called at the beginning of every turn."""
        self._nudge = Request("data:,resiproxy-wake", dont_filter=True)
        """Handed to the engine to make it look at its queue; it is never sent."""
        self._looked_at_budget = 0.0
        self._turns = Turns(runtime, self._release_what_may_go, self._next_turn)
        self.wake_at = runtime.wake_at = self._turns.wake_at
        self.crawler.signals.connect(self.spider_opened, signals.spider_opened)

    # Into the room ------------------------------------------------------------------------------------------

    def park(
        self,
        copy: Request,
        *,
        target: str,
        due: float,
        reason: str,
        charge: Any = None,
        reservation: Reservation | None = None,
        why: str = "",
    ) -> Request:
        """Keep *copy* until *due* and return it, to be handed to the engine, which will not send it."""
        state = state_of(copy)
        assert state is not None
        if self.runtime.has_ended(target) and not self.runtime.keeps_waiting:
            due = self.runtime.now()  # It was the last straw itself: it has nothing to wait for.
        entry = Waiting(
            id=state["id"],
            request=copy,
            target=target,
            due=due,
            reason=reason,
            sent=state.get("sent", 0),
            charge=charge,
            reservation=reservation,
            extra=why,
        )
        self.in_flow.pop(entry.id, None)
        self._back_from_tail(target, entry.id)
        self.job.keep(entry)
        self.room.park(entry)
        self.wake_at(due)
        return copy

    def finish(self, state: State, target: str) -> None:
        """The request has its final outcome: nothing waits for it any more."""
        entry_id = state["id"]
        if self.in_flow:
            self._back_from_tail(target, entry_id)
            entry = self.in_flow.pop(entry_id, None)
            if entry is not None and entry.reservation is not None:
                self.runtime.governor.refund(entry.reservation, self.runtime.now())
        if self.runtime.store is not None:
            self.job.finished(entry_id)

    def sent(self, state: State) -> None:
        """The retry was admitted: its budget is spent."""
        entry = self.in_flow.get(state["id"])
        if entry is not None:
            entry.reservation = None

    # Out of the room ----------------------------------------------------------------------------------------

    def _release_what_may_go(self, now: float) -> None:
        """Give back what is due, look at what waits for budget, and make the engine look at its queue."""
        self.on_turn(now)
        released = self._end_some()
        while released < RELEASED_AT_ONCE and (target := self.room.pop_look(now)) is not None:
            released += self._let_go(target, now)
        while released < RELEASED_AT_ONCE and (entry := self.room.pop_due(now)) is not None:
            released += self._due(entry, now)
        if now - self._looked_at_budget >= BUDGET_TURN:
            self._looked_at_budget = now
            for target in self.room.targets_without_budget():
                self.look_at_budget(target, now)
        engine = self.runtime.engine
        if not released and engine is not None:
            engine.crawl(self._nudge)

    def _next_turn(self, earliest: float) -> float:
        """When the next turn is needed, not before *earliest*; infinity while nobody waits."""
        due = earliest if self._ending else self.room.next_due()
        turns = [math.inf if due is None else max(due, earliest)]
        if self.room.targets_without_budget():
            turns.append(max(self._looked_at_budget + BUDGET_TURN, earliest))
        for queue in self.runtime.queues:
            held_until = queue.next_release()
            if held_until is not None:
                # Overdue: the queue was not asked (a pause, no free place): it need not be asked at once again.
                turns.append(held_until if held_until > earliest else earliest + BUSY_TURN)
        return min(turns)

    def _due(self, entry: Waiting[Request], now: float) -> bool:
        """Give *entry* back, or let it wait for budget; whether it was given back."""
        ended = self.runtime.has_ended(entry.target)
        if ended and self.runtime.keeps_waiting:
            # It stays in the job; the spider closes when only such are left.
            self.room.postpone(entry, now + KEPT_TURN)
            return False
        # Where nothing is sent any more it needs no budget: it will be refused, and surfaced.
        if not ended and not self.funding.granted(entry, now):
            self.room.wait_for_budget(entry, now)
            return False
        self.release(entry)
        return True

    def look_again(self, target: str) -> None:
        """Something happened at *target*: what it held may go."""
        if self.room.first_held(target) is not None and not self._turns.over:
            self._let_go(target, self.runtime.now())

    def look_everywhere(self) -> None:
        """Something happened that concerns every target."""
        now = self.runtime.now()
        for target in self.room.targets_held():
            self.room.look_at(target, now)
        self.wake_at(now)

    def _let_go(self, target: str, now: float) -> int:
        """Give back as many of those that *target* held as it lets go now; how many."""
        released, endpoint = 0, self.runtime.endpoint_of(target)
        while (entry := self.room.first_held(target)) is not None:
            refusal = self.runtime.governor.peek(target, now, endpoint)
            if isinstance(refusal, Hold):
                self.room.look_at(target, refusal.until)
                self.wake_at(refusal.until)
                break
            if refusal is not None and self.runtime.keeps_waiting:
                break  # They stay in the job.
            if released == RELEASED_AT_ONCE:
                self.room.look_at(target, now)
                break
            self.runtime.governor.popped(target, now)
            self.release(entry)
            released += 1
        return released

    def look_at_budget(self, target: str, now: float) -> None:
        """Give back what has budget by now, or may go without, or has waited too long."""
        still = self.runtime.governor.still(target, now, self.runtime.endpoint_of(target))
        self.room.turn_budget_clock(target, now, still=still)
        while (found := self.funding.next_of(target, now)) is not None:
            entry, answer = found
            if answer == "go":
                self.release(entry)
            else:
                self._give_up(entry, "budget_exhausted")

    def _back_from_tail(self, target: str, entry_id: str) -> None:
        if self.funding.back(target, entry_id):
            self._looked_at_budget = 0.0
            self.wake_at(self.runtime.now())

    def _give_up(self, entry: Waiting[Request], verdict: str, not_before: float | None = None) -> None:
        """Send *entry* round once more, only to be surfaced."""
        state = state_of(entry.request)
        assert state is not None
        ended: State = {**state, "verdict": verdict}
        if not_before is not None:
            ended["not_before"] = not_before
        entry.request.meta[META_STATE] = ended
        self.release(entry)

    def surface(self, copy: Request, target: str) -> None:
        """Send a request round once more whose state holds its verdict."""
        state = state_of(copy)
        assert state is not None
        entry = Waiting(state["id"], copy, target, self.runtime.now(), "verdict", state.get("sent", 0))
        self.release(entry)

    def has_room(self) -> bool:
        """Whether one more request may be parked for a hold.

        Where the scheduler's queue is not ours it cannot keep the requests of a held target back; then only so many
        are taken out of a foreign scheduler that a crash or a close loses little.
        """
        if len(self.room) >= self.runtime.config.waiting.waiting_max:
            return False
        if self.runtime.queues:
            return True
        most = 2 * self.crawler.settings.getint("CONCURRENT_REQUESTS")
        return self.room.holds < max(1, most)

    def can_keep(self) -> bool:
        """Whether what its target's end leaves over stays in the job, with one more beside those that wait already."""
        return self.runtime.keeps_waiting and len(self.room) < self.runtime.config.waiting.waiting_max

    def release(self, entry: Waiting[Request]) -> None:
        """Hand *entry*'s request to the engine."""
        self.room.remove(entry.id)
        self.in_flow[entry.id] = entry
        state = state_of(entry.request)
        assert state is not None
        self.job.released(entry.id)
        engine = self.runtime.engine
        assert engine is not None
        try:
            if entry.sent and entry.reason not in NEVER_LEFT and "verdict" not in state:
                # At the end of the queue the session that was told to wait would be gone.
                usual = 0 if entry.reason == "told" else self.runtime.config.general.retry_priority_adjust
                request = as_retry(entry.request, usual)
            else:
                request = entry.request.copy()
            engine.crawl(request)
        except Exception:
            # Whatever a scheduler or a queue raises, the request is not lost: it waits, and is tried again.
            logger.exception("A waiting request could not be given back: %s", entry.request)
            self.in_flow.pop(entry.id, None)
            # A new entry: what the room still holds of the old one is to be passed over.
            again = replace(entry, due=self.runtime.now() + BROKEN_TURN, gone=False)
            self.job.keep(again)
            self.room.park(again)

    def end_targets(self, targets: Collection[str], verdict: str, not_before: float | None) -> None:
        """Surface everything of *targets* that waits, some in every turn; with a job it stays in the job instead.

        *not_before* is wall clock, for the letters.
        """
        if not self.runtime.keeps_waiting:
            self._ending.extend((entry, verdict, not_before) for entry in self.room if entry.target in targets)
            self.wake_at(self.runtime.now())

    def _end_some(self) -> int:
        """Surface as many as one turn may take of those whose target has ended; how many."""
        released = 0
        while released < RELEASED_AT_ONCE and self._ending:
            entry, verdict, not_before = self._ending.popleft()
            if not entry.gone:
                self._give_up(entry, verdict, not_before)
                released += 1
        return released

    # Signals ------------------------------------------------------------------------------------------------

    def stops(self, request: Request, state: State | None) -> bool:
        """Whether this very *request* is what waits, or only wakes the engine. Only copies of what waits are given
        back: should it come late, it is stopped all the same.
        """
        if state is None:
            return request is self._nudge
        entry = self.room.get(state["id"]) or self.in_flow.get(state["id"])
        return entry is not None and entry.request is request

    def spider_opened(self, spider: Spider) -> None:
        """Take up what the last run of this job left waiting, if this one is not refused."""
        if is_refused(self.crawler):
            return
        for entry in self.job.take_up(spider):
            self.room.park(entry)
        if len(self.room):
            taken = counted(len(self.room), "waiting retry of this job was", "waiting retries of this job were")
            logger.info("%s taken up again.", taken)
            self.wake_at(self.runtime.now())

    def close(self) -> list[Waiting[Request]]:
        """Stop, and return everything that still waits or was given back and has no outcome."""
        self._turns.stop()
        return [*self.room, *self.in_flow.values()]
