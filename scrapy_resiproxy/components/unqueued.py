"""Requests of ours that another handler of ``request_scheduled`` refused, as OffsiteMiddleware refuses a redirect.

Scrapy forgets them without an errback and without ``request_dropped``, and so do we: their story ends there. A handler
does not see what the others raise, but one that is let pass is in the queue before the event loop's next turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import call_later

from scrapy_resiproxy.components.flow import host_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.runtime import Runtime


class Unqueued:
    """What was announced to the handlers and has not come into a queue. Only our own queue tells; without it this
    remembers nothing.
    """

    def __init__(self, runtime: Runtime, refused: Callable[[Request, str], None]) -> None:
        self.runtime = runtime
        self.refused = refused
        """Called with each that was refused, and its target."""
        self._announced: dict[str, tuple[Request, str]] = {}
        runtime.on_queued = self.queued
        runtime.crawler.signals.connect(self.queued, signals.request_dropped)

    def announced(self, request: Request, state: State) -> None:
        """*request* is shown to the handlers of ``request_scheduled`` now."""
        if not self.runtime.queues:
            return
        if not self._announced:
            call_later(0, self.look)
        self._announced[state["id"]] = request, self.runtime.target_of(request, host_of(request))

    def queued(self, request: Request) -> None:
        """*request* came into a queue, or the dupefilter dropped it."""
        if self._announced and (state := state_of(request)) is not None:
            self._announced.pop(state["id"], None)

    def look(self) -> None:
        """End the story of those that nobody has queued."""
        announced, self._announced = self._announced, {}
        for request, target in announced.values():
            self.refused(request, target)
