"""The end of a crawl: what still waits, or was given back to Scrapy, stays in the job or becomes a letter."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.core.scheduler import Scheduler

from scrapy_resiproxy.components.flow import again, host_of, state_of
from scrapy_resiproxy.components.surfaced import last_outcome
from scrapy_resiproxy.names import META_STATE, scheduler_of
from scrapy_resiproxy.schedule.waiting import Waiting
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request

    from scrapy_resiproxy.components.deadletters import DeadLetterOffice
    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.components.wire import Wire
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

CANNOT = "JOBDIR keeps only what can be pickled, which a lambda as callback, for one, cannot"


class Closing:
    """What of one crawl is left undone."""

    def __init__(self, runtime: Runtime, office: DeadLetterOffice, rescheduler: Rescheduler, wire: Wire) -> None:
        self.runtime = runtime
        self.office = office
        self.rescheduler = rescheduler
        self.wire = wire
        self.unsent = 0
        """Requests that were never sent and are not kept, known at the end."""
        self.kept = 0
        """Requests that wait in the job for the next run, known at the end."""

    def close(self) -> None:
        """See to everything that has no outcome. Scrapy's scheduler was closed before."""
        waiting = self.rescheduler.close()
        waiting += [self._waiting(hop) for hop in self.wire.unsettled()]
        store = self.runtime.store
        if store is not None:
            for entry in waiting:
                if entry.reason == "hop":
                    self.rescheduler.job.keep(entry)
            on_disk = [queue for queue in self.runtime.queues if queue.key]
            self.kept = sum(entry.id in store for entry in self.runtime.room) + sum(queue.left() for queue in on_disk)
            waiting = [entry for entry in waiting if entry.id not in store]  # These cannot be pickled.
        if not self.runtime.observing:
            self._bury(waiting)
        if store is not None:
            self.rescheduler.job.close()

    def _bury(self, waiting: list[Waiting[Request]]) -> None:
        """Write letters of what was sent before, and count the others: of *waiting*, and of what only memory holds."""
        entries: dict[str, Waiting[Request]] = {}
        for request in self._left_in_memory():
            if (state := state_of(request)) is None:
                self.unsent += 1
            else:
                entries[state["id"]] = self._waiting(request)
        for entry in waiting:
            # What is in the queue too was given back to it: a retry, or what was only held.
            entries[entry.id] = self._waiting(entry.request) if _is_hop(entry.request) else entry
        for entry in entries.values():
            if entry.sent:
                self._bury_one(entry)
            elif not self._taken_back(entry.request):
                self.unsent += 1
        if self.unsent:
            lost = counted(self.unsent, "request was never sent and is", "requests were never sent and are")
            hint = "with JOBDIR a stopped crawl goes on where it was" if self.runtime.store is None else CANNOT
            logger.warning("%s not kept: %s.", lost, hint)

    def _left_in_memory(self) -> Iterator[Request]:
        """What is still in Scrapy's queues in memory, whosever they are."""
        for queue in self.runtime.queues:
            if not queue.key or self.runtime.store is None:
                yield from queue.drain()
        scheduler = scheduler_of(self.runtime.engine)
        if self.runtime.queues or _is_foreign(scheduler):
            return
        try:
            while (request := scheduler.mqs.pop()) is not None:
                yield request
        except Exception:
            # A queue of the project's own must not cost the others their letters.
            logger.exception("What is left in the scheduler's queue cannot be read")

    def _taken_back(self, request: Request) -> bool:
        """Whether a scheduler that outlives the process (scrapy-redis …) took a request that was never sent."""
        scheduler = scheduler_of(self.runtime.engine)
        if scheduler is None or not _is_foreign(scheduler):
            return False
        request.meta.pop(META_STATE, None)
        return bool(scheduler.enqueue_request(request))

    def _waiting(self, request: Request) -> Waiting[Request]:
        """One of ours that has no outcome. A redirect that never came to its page is the request that it was."""
        state = state_of(request)
        assert state is not None
        source = self.wire.original(request, state)
        sent = max(1, state.get("sent", 0)) if state.get("hop") else state.get("sent", 0)
        carried: State = {**state, "sent": sent, "hop": False}
        target = self.runtime.target_of(source, host_of(source))
        return Waiting(state["id"], again(source, carried), target, self.runtime.now(), "hop", sent)

    def _bury_one(self, entry: Waiting[Request]) -> None:
        state = state_of(entry.request)
        assert state is not None
        self.office.bury_one_of_many(
            entry.request,
            "shutdown",
            target=entry.target,
            outcome=last_outcome(state),
            state=state,
            not_before=self.runtime.wall_at(entry.due) if entry.reason == "told" else None,
        )


def _is_hop(request: Request) -> bool:
    return bool((state_of(request) or {}).get("hop"))


def _is_foreign(scheduler: Any) -> bool:
    """Whether *scheduler* is none of Scrapy's own. isinstance() takes every class with its methods for one."""
    return Scheduler not in type(scheduler).__mro__
