"""What happens to every request on its way to the scheduler: ``request_scheduled``.

Its handlers see a request before the dupefilter does, whatever scheduler there is, and may stop it without an errback:
see Scrapy's documentation of that signal and of ``IgnoreRequest`` raised from its handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest

from scrapy_resiproxy.components.flow import META_SCHEDULED, is_hop, state_of, strip_ours, unwatch
from scrapy_resiproxy.names import META_STATE, META_STORY, META_TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.runtime import Runtime


class Entrance:
    """Stops what is not to be scheduled (*stops* says so); stamps, and strips of credentials, what goes on."""

    def __init__(self, runtime: Runtime, stops: Callable[[Request, State | None], bool]) -> None:
        self._stops = stops
        self.redirected: Callable[[Request], None] = lambda hop: None  # noqa: ARG005
        """Told of a redirect before the dupefilter sees it."""
        self.announced: Callable[[Request, State], None] = lambda request, state: None  # noqa: ARG005
        """Told of every request that was sent before and goes on to the scheduler now."""
        runtime.crawler.signals.connect(self.request_scheduled, signals.request_scheduled)

    def request_scheduled(self, request: Request) -> None:
        """One comes."""
        state = state_of(request)
        if self._stops(request, state):
            raise IgnoreRequest
        unwatch(request)  # A redirect's copy carries our stand-in.
        meta = request.meta
        meta.pop(META_STORY, None)
        if state is not None:
            strip_ours(request, state)
            hop = is_hop(request, state)
            meta[META_STATE] = {**state, "proxy": False, "jar": False, "browser": False, "hop": hop}
            if hop:
                self.redirected(request)
            self.announced(request, state)
        if META_TARGET in meta:
            meta.setdefault("download_slot", str(meta[META_TARGET]))
        meta[META_SCHEDULED] = True
