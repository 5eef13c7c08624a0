"""One crawl's components, wired to each other: the desk at which the middleware asks.

It also listens to what happens after delivery: a callback that raises and an item that is refused are failures of
their request too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.http import Response

from scrapy_resiproxy.components.boarding import Boarding
from scrapy_resiproxy.components.browser import has_own_proxy, in_browser, would_go_direct
from scrapy_resiproxy.components.closing import Closing
from scrapy_resiproxy.components.deadletters import DeadLetterOffice
from scrapy_resiproxy.components.endings import Endings
from scrapy_resiproxy.components.entrance import Entrance
from scrapy_resiproxy.components.events import Events
from scrapy_resiproxy.components.flow import again, host_of, state_of, strip_for_good
from scrapy_resiproxy.components.idling import Idling
from scrapy_resiproxy.components.judging import Judge
from scrapy_resiproxy.components.offline import sends_nothing
from scrapy_resiproxy.components.refusing import is_refused
from scrapy_resiproxy.components.rescheduler import Rescheduler
from scrapy_resiproxy.components.surfaced import last_outcome
from scrapy_resiproxy.components.unqueued import Unqueued
from scrapy_resiproxy.components.verdicts import Verdicts
from scrapy_resiproxy.components.way_out import way_out
from scrapy_resiproxy.components.wire import Wire
from scrapy_resiproxy.names import META_STATE, META_STORY
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.runtime import Runtime
from scrapy_resiproxy.schedule.waiting import HOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from scrapy_resiproxy.components.flow import Flight, State
    from scrapy_resiproxy.guard.governor import Hold

logger = logging.getLogger(__name__)

_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()

TUNNEL_HANDLER = "TunnelDownloadHandler"
END_OF_DATES = 253_402_300_800
"""Seconds from the epoch to the year 10000, which no date can hold."""
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
        self.entrance = Entrance(runtime, self.rescheduler.stops)
        self.entrance.redirected = self.wire.redirected
        self.unqueued = Unqueued(runtime, self._refused_by_others)
        self.entrance.announced = self.unqueued.announced
        self.closing = Closing(runtime, self.office, self.rescheduler, self.wire)
        self.at_end: list[Callable[[], None]] = []
        """Called when everything has been written."""
        self._buried: WeakKeyDictionary[Response, str] = WeakKeyDictionary()
        """Answers whose failure after delivery was written down, and why."""
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

    def uses_pool(self, request: Request, state: State, host: str, target: str) -> bool:
        """Whether *request* goes through one of our sessions: not where the user set a proxy or said direct.

        Then its *target*, which may be named by the request itself, is known not to depend on our proxies. Raises what
        surfaces a request that a browser would send direct although nobody said so.
        """
        if self.runtime.pool is None:
            return False
        if "proxy" in request.meta:
            self.runtime.direct_targets.add(target)
            return False
        browser = in_browser(request)
        if browser and has_own_proxy(request):
            return False
        if self.runtime.config.target(host).direct:
            # None keeps HttpProxyMiddleware from taking one of the environment.
            request.meta["proxy"] = None
            self.runtime.direct_targets.add(target)
            return False
        if browser and (mistake := would_go_direct(request)) is not None:
            raise self.endings.unusable(request, state, mistake)
        return True

    def lease_time(self, meta: Mapping[str, Any]) -> float:
        """Seconds until the permit of a request with *meta* is taken back, if nobody has ended it."""
        timeout = meta.get("download_timeout")
        return self._usual_lease if not timeout else float(timeout) + SEND_MARGIN

    def count_departure(self, target: str, now: float, *, retry: bool, state: State) -> None:
        """An attempt leaves; a first attempt earns budget for the retries that wait for it."""
        self.runtime.tally.departed(target, now, retry=retry)
        if retry:
            self.rescheduler.sent(state)
        elif target in self.runtime.room.without_budget:
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
            self.office.bury_one_of_many(request, "terminal", target=target, outcome=last_outcome(state), state=state)
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
        self.wire.gone(flight.state["id"])
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
        if is_refused(self.runtime.crawler):
            return
        if self.runtime.config.adopted:
            logger.info("Adopted from Scrapy's settings: %s", ", ".join(self.runtime.config.adopted))
        for line in self.runtime.config.unknown:
            logger.warning("%s", line)
        if sends_nothing(self.runtime.crawler.settings):
            return
        self._join_tunnels()
        self._look_at_rotation()
        if self.runtime.pool is not None and self.runtime.observing:
            logger.warning("RESIPROXY_PROXY is not used in observe mode: requests go as the project sends them.")
        else:
            logger.info("%s", way_out(self.runtime))

    def _join_tunnels(self) -> None:
        """Where our tunnels carry https, they end with their session and keep quiet where nothing may be sent."""
        runtime = self.runtime
        handler = runtime.crawler.settings.getwithbase("DOWNLOAD_HANDLERS").get("https")
        if not getattr(handler, "__name__", str(handler)).endswith(TUNNEL_HANDLER):
            return
        # Not at the top: it loads Twisted's web client, which a crawl without a reactor must not need.
        from scrapy_resiproxy.components.tunnel_handler import carries, tunnels_of  # noqa: PLC0415

        tunnels = tunnels_of(runtime.crawler)
        if tunnels is None:
            return
        self.verdicts.own_tunnels = runtime.pool is not None and carries(runtime.crawler, runtime.pool.sample())
        runtime.on_session_closed.append(tunnels.close_session)
        runtime.tunnel_figures = tunnels.figures
        tunnels.is_held = lambda route: runtime.is_held(route.target)
        tunnels.has_work = lambda route: runtime.has_work(route.target, route.slot)
        tunnels.pace_of = lambda route: runtime.governor.pace(route.target)
        tunnels.pinged = self.sessions.touch

    def _look_at_rotation(self) -> None:
        """Say so where ``rotate`` cannot be had."""
        pool = self.runtime.pool
        if pool is None or self.runtime.observing:
            return
        if pool.rotates_by_connection and not self.verdicts.own_tunnels:
            logger.warning(
                "RESIPROXY_SESSION_MODE is 'rotate' and RESIPROXY_PROXY has no {session}: another exit needs another "
                "connection, and the download handler for https uses its connections again. Requests to one https site "
                "share an exit, and a refused one is not retried there. Give the URL a {session}, or have %s carry "
                "https, which it does through an http:// proxy and without DOWNLOADER_CLIENTCONTEXTFACTORY.",
                TUNNEL_HANDLER,
            )

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
        story = _story_in(request)
        self.office.bury(
            request,
            reason,
            target=self.runtime.target_of(request, host_of(request)),
            outcome=Outcome(OutcomeClass.TERMINAL, reason, Blame.LOCAL),
            state={"first": story.get("first", self.runtime.wall()), "slot": request.meta.get("download_slot")},
            attempts=story.get("attempts"),
            response=response,
            error=error,
        )

    def spider_closed(self) -> None:
        """What still waits stays in the job, or becomes a letter."""
        self.unqueued.look()
        self.closing.close()
        for finish in self.at_end:
            finish()
        self.office.close()


def _story_in(request: Request) -> dict[str, Any]:
    """What was told of *request* when it was delivered; empty where somebody has written something else there.

    What is in an attempt may be anything: the letter takes of it what JSON holds.
    """
    story = request.meta.get(META_STORY)
    first = story.get("first") if isinstance(story, dict) else None
    if not isinstance(story, dict) or not isinstance(first, (int, float)) or not 0 <= first < END_OF_DATES:
        return {}
    attempts = story.get("attempts")
    told = [attempt for attempt in attempts if isinstance(attempt, dict)] if isinstance(attempts, list) else []
    return {"first": first, "attempts": told}
