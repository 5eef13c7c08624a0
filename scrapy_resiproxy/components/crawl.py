"""One crawl's components, wired to each other: the desk at which the middleware asks.

It also listens to what happens after delivery: a callback that raises and an item that is refused are failures of
their request too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.core.scheduler import Scheduler
from scrapy.http import Response

from scrapy_resiproxy.components.boarding import Boarding
from scrapy_resiproxy.components.browser import has_own_proxy, in_browser
from scrapy_resiproxy.components.deadletters import DeadLetterOffice
from scrapy_resiproxy.components.endings import Endings, last_outcome
from scrapy_resiproxy.components.events import Events
from scrapy_resiproxy.components.flow import again, host_of, state_of, strip_for_good
from scrapy_resiproxy.components.idling import Idling
from scrapy_resiproxy.components.judging import Judge
from scrapy_resiproxy.components.rescheduler import Rescheduler
from scrapy_resiproxy.components.unqueued import Unqueued
from scrapy_resiproxy.components.verdicts import Verdicts
from scrapy_resiproxy.components.way_out import way_out
from scrapy_resiproxy.components.wire import Wire
from scrapy_resiproxy.names import META_STATE, META_STORY
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.runtime import Runtime
from scrapy_resiproxy.schedule.waiting import HOLD, Waiting
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from scrapy_resiproxy.components.flow import Flight, State
    from scrapy_resiproxy.guard.governor import Hold

logger = logging.getLogger(__name__)

_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()

TUNNEL_HANDLER = "TunnelDownloadHandler"
SEND_MARGIN = 30.0
"""Seconds beyond the download timeout after which a permit that nobody ended is taken back."""


class Crawl:
    """What one crawl's middleware, extension and replay share."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._usual_lease = runtime.config.general.download_timeout + SEND_MARGIN
        self.office = DeadLetterOffice(runtime)
        self.rescheduler = Rescheduler(runtime)
        self.idling = Idling(runtime)
        self.sessions = Boarding(runtime)
        self.judge = Judge(runtime)
        self.events = Events(runtime, self.rescheduler)
        self.wire = Wire(runtime, self.events, self.sessions)
        self.endings = Endings(runtime, self.office, self.rescheduler, self.wire)
        self.verdicts = Verdicts(runtime, self.rescheduler, self.sessions, self.events, self.wire, self.endings)
        self.wire.resettle = self.verdicts.resettle
        self.rescheduler.hops = self.wire.redirected
        self.unqueued = Unqueued(runtime, self._refused_by_others)
        self.rescheduler.announced = self.unqueued.announced
        self.at_end: list[Callable[[], None]] = []
        """Called when everything has been written."""
        self._buried: WeakKeyDictionary[Response, str] = WeakKeyDictionary()
        """Answers whose failure after delivery was written down, and why."""
        self.unsent = 0
        """Requests that were never sent and are not kept, known at the end."""
        self.kept = 0
        """Requests that wait in the job for the next run, known at the end."""
        connect = runtime.crawler.signals.connect
        connect(self.spider_opened, signals.spider_opened)
        connect(self.spider_error, signals.spider_error)
        connect(self.item_error, signals.item_error)
        connect(self.spider_closed, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Crawl:
        """The components of *crawler*, built at the first call.

        Raises :class:`~scrapy_resiproxy.settings.SettingError` when a setting cannot be used.
        """
        crawl = _crawls.get(crawler)
        if crawl is None:
            crawl = _crawls[crawler] = cls(Runtime.of(crawler))
        return crawl

    # Before the wire ----------------------------------------------------------------------------------------

    def uses_pool(self, request: Request, host: str, target: str) -> bool:
        """Whether *request* goes through one of our sessions: not where the user set a proxy or said direct.

        Then its *target*, which may be named by the request itself, is known not to depend on our proxies.
        """
        if self.runtime.pool is None:
            return False
        if "proxy" in request.meta:
            self.runtime.direct_targets.add(target)
            return False
        if in_browser(request) and has_own_proxy(request):
            return False
        if self.runtime.config.target(host).direct:
            # None keeps HttpProxyMiddleware from taking one of the environment.
            request.meta["proxy"] = None
            self.runtime.direct_targets.add(target)
            return False
        return True

    def lease_time(self, request: Request) -> float:
        """Seconds until its permit is taken back, if nobody has ended it."""
        timeout = request.meta.get("download_timeout")
        return self._usual_lease if not timeout else float(timeout) + SEND_MARGIN

    def count_departure(self, target: str, now: float, *, retry: bool, state: State) -> None:
        """An attempt leaves; a first attempt earns budget for the retries that wait for it."""
        self.runtime.tally.departed(target, now, retry=retry)
        if retry:
            self.rescheduler.sent(state)
        elif self.runtime.room.first_without_budget(target) is not None:
            self.rescheduler.look_at_budget(target, now)

    def park_for_hold(self, request: Request, state: State, hold: Hold) -> Request:
        """Keep a request whose target is held, without having sent it."""
        copy = again(request, state)
        target = self.runtime.target_of(request, host_of(request))
        reason = "session" if hold.reason == "session" else HOLD
        return self.rescheduler.park(copy, target=target, due=hold.until, reason=reason, why=hold.reason)

    def _refused_by_others(self, request: Request, target: str) -> None:
        """A redirect, or a retry, was kept from the queue by another handler of ``request_scheduled``.

        A redirect is gone as without us, where the log says why; a retry has failed before, and is a dead letter.
        """
        state = state_of(request)
        assert state is not None
        if self.rescheduler.room.get(state["id"]) is not None:
            return  # Its scheduler failed, and it waits for another try.
        if state.get("log") and not state.get("hop"):
            self.office.bury(request, "terminal", target=target, outcome=last_outcome(state), state=state)
        self.rescheduler.finish(state, target)
        self.wire.gone(state["id"])

    # After the wire -----------------------------------------------------------------------------------------

    def abandon(self, request: Request, flight: Flight) -> None:
        """The attempt ended without a judgement: somebody else ignored or cancelled it."""
        if flight.status is None:
            self.events.recall(flight)
        else:
            self.events.cancel(flight)
        self.rescheduler.finish(flight.state, flight.target)
        if flight.scheduled:
            # Its errback may send it again, and should not send our session with it. One that is awaited in place has
            # none; it may have been cancelled in the downloader's queue, from which it is sent all the same.
            strip_for_good(request, flight.state)
            request.meta.pop(META_STATE, None)

    def ignored_elsewhere(self, request: Request, flight: Flight, error: BaseException | None) -> None:
        """Another middleware ignored the answer on its way back."""
        self.events.cancel(flight)
        if not self.runtime.observing:
            self.endings.ignored_elsewhere(request, flight, error)

    # After delivery -----------------------------------------------------------------------------------------

    def spider_opened(self) -> None:
        for line in self.runtime.config.adopted:
            logger.info("Adopted from Scrapy's settings: %s", line)
        for line in self.runtime.config.unknown:
            logger.warning("%s", line)
        self._join_tunnels()
        if self.runtime.pool is not None and self.runtime.observing:
            logger.warning("RESIPROXY_PROXY is not used in observe mode: requests go as the project sends them.")
        else:
            logger.info("%s", way_out(self.runtime))

    def _join_tunnels(self) -> None:
        """Where our tunnels carry https, they end with their session and keep quiet where nothing may be sent."""
        runtime = self.runtime
        if not str(runtime.crawler.settings.getwithbase("DOWNLOAD_HANDLERS").get("https")).endswith(TUNNEL_HANDLER):
            return
        # Not at the top: it loads Twisted's web client, which a crawl without a reactor must not need.
        from scrapy_resiproxy.components.tunnel_handler import tunnels_of  # noqa: PLC0415

        tunnels = tunnels_of(runtime.crawler)
        if tunnels is None:
            return
        runtime.on_session_closed.append(tunnels.close_session)
        runtime.tunnel_figures = tunnels.figures
        tunnels.is_held = lambda route: runtime.is_held(route.target)
        tunnels.has_work = lambda route: runtime.has_work(route.target, route.slot)
        tunnels.pace_of = lambda route: runtime.governor.pace(route.target)
        tunnels.pinged = self.sessions.touch

    def spider_error(self, failure: Failure, response: Any) -> None:
        """A callback raised: no download can mend that, a fixed parser can."""
        if isinstance(response, Response) and response.request is not None:
            self._bury_after_delivery(response.request, "parse_error", response, failure.value)

    def item_error(self, response: Any, failure: Failure) -> None:
        if isinstance(response, Response) and response.request is not None:
            self._bury_after_delivery(response.request, "item_error", response, failure.value)

    def _bury_after_delivery(
        self, request: Request, reason: str, response: Response, error: BaseException | None
    ) -> None:
        if self.runtime.observing or self._buried.get(response) == reason:
            return
        self._buried[response] = reason
        story = request.meta.get(META_STORY) or {}
        self.office.bury(
            request,
            reason,
            target=self.runtime.target_of(request, host_of(request)),
            outcome=Outcome(OutcomeClass.TERMINAL, reason, Blame.LOCAL),
            state={"first": story.get("first", self.runtime.wall()), "slot": request.meta.get("download_slot")},
            response=response,
            error=error,
        )

    def spider_closed(self) -> None:
        """What still waits stays in the job, or becomes a letter."""
        self.unqueued.look()
        waiting = self.rescheduler.close()
        waiting += [self._as_waiting(hop) for hop in self.wire.unsettled()]
        if self.runtime.store is not None:
            for entry in waiting:
                if entry.reason == "hop":
                    self.rescheduler.job.keep(entry)
            self.kept = len(self.runtime.room) + sum(queue.left() for queue in self.runtime.queues)
            self.rescheduler.job.close()
        else:
            self._bury_waiting(waiting)
        for finish in self.at_end:
            finish()
        self.office.close()

    def _taken_back(self, request: Request) -> bool:
        """Whether a scheduler that outlives the process (scrapy-redis …) took a request that was never sent.

        The engine's scheduler can be asked since Scrapy 2.19.
        """
        scheduler = getattr(self.runtime.engine, "scheduler", None)
        # isinstance() takes every class with a scheduler's methods for one of Scrapy's own.
        if scheduler is None or Scheduler in type(scheduler).__mro__:
            return False
        request.meta.pop(META_STATE, None)
        return bool(scheduler.enqueue_request(request))

    def _as_waiting(self, hop: Request) -> Waiting[Request]:
        """A redirect that never came to its page, as the request that it was."""
        state = state_of(hop)
        assert state is not None
        source = self.wire.original(hop, state)
        sent: State = {**state, "sent": max(1, state.get("sent", 0)), "hop": False}
        target = self.runtime.target_of(source, host_of(source))
        return Waiting(state["id"], again(source, sent), target, self.runtime.now(), "hop", sent["sent"])

    def _bury_at_end(self, entry: Waiting[Request], state: State) -> None:
        not_before = self.runtime.wall_at(entry.due) if entry.reason == "told" else None
        outcome = last_outcome(state)
        try:
            self.office.bury(
                entry.request, "shutdown", target=entry.target, outcome=outcome, state=state, not_before=not_before
            )
        except Exception:
            # One that cannot be described must not cost the others their letters.
            logger.exception("No dead letter could be written of %s", entry.request)

    def _bury_waiting(self, waiting: list[Any]) -> None:
        left = [request for queue in self.runtime.queues for request in queue.drain()]
        hops = [request for request in left if (state_of(request) or {}).get("hop")]
        # A released retry that was redirected is there twice: as what was released, and as its redirect.
        entries = {entry.id: entry for entry in [*map(self._as_waiting, hops), *waiting]}
        for entry in entries.values():
            state = state_of(entry.request)
            if entry.sent and state is not None:
                self._bury_at_end(entry, state)
            elif not self._taken_back(entry.request):
                self.unsent += 1
        self.unsent += sum(state_of(request) is None for request in left)
        if self.unsent:
            lost = counted(self.unsent, "request was never sent and is", "requests were never sent and are")
            logger.warning("%s not kept: with JOBDIR a stopped crawl goes on where it was.", lost)
