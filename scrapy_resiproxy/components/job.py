"""What of a crawl outlives its process: the requests on their way, kept in JOBDIR. Without JOBDIR nothing is."""

from __future__ import annotations

import contextlib
import logging
import pickle
from typing import TYPE_CHECKING

from scrapy.utils.request import request_from_dict

from scrapy_resiproxy.components.flow import again, state_of
from scrapy_resiproxy.components.refusing import is_refused
from scrapy_resiproxy.names import META_STATE
from scrapy_resiproxy.schedule.waiting import NEVER_LEFT, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request, Spider

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.schedule.store import StoredRequest

logger = logging.getLogger(__name__)

STORE_ERRORS = (ValueError, TypeError, AttributeError, pickle.PicklingError)
"""What ``to_dict`` and pickling raise for a request that cannot be stored."""


class Job:
    """The store of one crawl, as requests see it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def keep(self, entry: Waiting[Request]) -> None:
        """*entry* waits: it must be there after a kill."""
        store = self.runtime.store
        if store is None:
            return
        wall = self.runtime.wall_at(entry.due)
        extra = {"target": entry.target, "reason": entry.reason, "charge": entry.charge, "why": entry.extra}
        try:
            store.put(entry.id, wall, entry.request.to_dict(spider=self.runtime.crawler.spider), extra)
        except STORE_ERRORS as error:
            # What Scrapy's disk queue cannot keep, ours cannot: a lambda as callback, an open file in the meta.
            logger.warning(
                "A waiting request cannot be kept in JOBDIR and would be lost by a kill: %(request)s (%(error)s)",
                {"request": entry.request, "error": error},
            )

    def journal(self, request: Request, state: State, target: str) -> None:
        """A first attempt leaves Scrapy's queue: it is kept until it has an outcome."""
        store = self.runtime.store
        if store is None:
            return
        extra = {"target": target, "reason": "hold", "charge": None, "why": "killed"}
        with contextlib.suppress(*STORE_ERRORS):
            kept = request.to_dict(spider=self.runtime.crawler.spider)
            kept["meta"] = {**kept["meta"], META_STATE: state}
            store.put(state["id"], self.runtime.wall(), kept, extra, released=True)

    def released(self, entry_id: str) -> None:
        """A request that waited is in Scrapy's hands again."""
        if self.runtime.store is not None:
            self.runtime.store.release(entry_id)

    def finished(self, entry_id: str) -> None:
        """A request has its final outcome."""
        if self.runtime.store is not None:
            self.runtime.store.finish(entry_id, self.runtime.now())

    def take_up(self, spider: Spider) -> Iterator[Waiting[Request]]:
        """What the last run left, to wait until it is due; after a kill also what was on its way."""
        store = self.runtime.store
        if store is None:
            return
        if not store.fact("clean"):
            store.take_back()  # Scrapy's queue died with the process.
        store.remember("clean", value=False)
        for row in store.load():
            if row.released:
                continue  # Scrapy's own queue has it.
            entry = self._restored(row, spider)
            if entry is not None:
                yield entry

    def _restored(self, row: StoredRequest, spider: Spider) -> Waiting[Request] | None:
        try:
            request = request_from_dict(row.request, spider=spider)
        except (ValueError, ImportError, AttributeError) as error:
            logger.error("A waiting request of this job cannot be restored: %s", error)
            return None
        state = state_of(request)
        if state is None:
            return None
        due, reason, why = self.runtime.now() + row.due - self.runtime.wall(), row.extra["reason"], row.extra["why"]
        if "told" in {reason, why}:
            # What the server said stands, and for all of the target.
            self.runtime.governor.hold(row.extra["target"], due)
        if reason in NEVER_LEFT:
            # What held it has ended with its process: the new guards are asked.
            due = self.runtime.now()
        return Waiting(
            id=row.id,
            request=again(request, state),
            target=row.extra["target"],
            due=due,
            reason=reason,
            sent=state.get("sent", 0),
            charge=row.extra["charge"],
            extra=why,
        )

    def close(self) -> None:
        """The crawl has come to its end in order. One that was refused leaves the job as it was."""
        if self.runtime.store is not None:
            if not is_refused(self.runtime.crawler):
                self.runtime.store.remember("clean", value=True)
            self.runtime.store.close()
