"""When the spider may close: not while anything waits that will be sent in this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

if TYPE_CHECKING:
    from scrapy_resiproxy.runtime import Runtime


class Idling:
    """Answers ``spider_idle``, and counts what waits for our priority queue, which keeps that signal from coming."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.room = runtime.room
        runtime.waiting = self.waiting
        runtime.crawler.signals.connect(self.spider_idle, signals.spider_idle)

    def spider_idle(self) -> None:
        """Keep the spider open while anything waits that will be sent in this run."""
        if self.waiting():
            raise DontCloseSpider
        if self.runtime.keeps_waiting and (reason := self._close_reason()):
            raise CloseSpider(reason)

    def waiting(self) -> int:
        """How many wait in the room and will be sent, or surfaced, in this run."""
        if not self.runtime.keeps_waiting:
            return len(self.room)
        if self.runtime.gateway_ended is not None:
            return self._waiting_to_go_direct()
        return len(self.room) - sum(self.room.count(target) for target in self.runtime.ended_targets)

    def _waiting_to_go_direct(self) -> int:
        runtime, count = self.runtime, self.room.count
        if not runtime.others_go_direct:
            return sum(map(count, runtime.direct_targets - runtime.ended_targets.keys()))
        return len(self.room) - sum(map(count, runtime.proxied_targets | runtime.ended_targets.keys()))

    def _close_reason(self) -> str | None:
        """Why the spider closes although the job has requests left; None when it has none."""
        if not len(self.room) and not any(queue.kept() for queue in self.runtime.queues):
            return None
        if self.runtime.gateway_ended == "proxy_refused":
            return "resiproxy_proxy_refused"
        return "resiproxy_target_given_up" if self.runtime.ended_targets or self.runtime.gateway_ended else None
