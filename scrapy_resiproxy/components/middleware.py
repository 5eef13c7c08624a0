"""The downloader middleware: translates, asks, obeys.

One request from top to bottom: ``process_request`` asks the governor for a permit and the pool for a session;
``process_response`` and ``process_exception`` have the attempt judged, report it, ask for a decision and carry it out
(:mod:`scrapy_resiproxy.components.verdicts`). What may not leave goes to the waiting room.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any
from weakref import ref

from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Request, Response
from twisted.python.failure import Failure

from scrapy_resiproxy.classify.classifier import is_not_a_failure
from scrapy_resiproxy.components.checks import check_components
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.flow import META_SCHEDULED, Flight, Watch, again, host_of, state_of, unwatch
from scrapy_resiproxy.components.refusing import RefusingMiddleware, refuse
from scrapy_resiproxy.components.replay import stored_response
from scrapy_resiproxy.components.rescheduler import KEPT_TURN
from scrapy_resiproxy.components.retries import count_retry
from scrapy_resiproxy.components.waits import sleep
from scrapy_resiproxy.components.wishes import wrong_wish
from scrapy_resiproxy.exceptions import ResiproxyError
from scrapy_resiproxy.guard.governor import GivenUp, Hold
from scrapy_resiproxy.names import META_REPLAY, META_STATE, META_STORY
from scrapy_resiproxy.outcome import Outcome
from scrapy_resiproxy.sessions.pool import NoSession
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.settings_reader import ENABLED, is_on

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.components.flow import Answer, Errback, State

logger = logging.getLogger(__name__)


KNOWN_TO_LAST = frozenset({"told", "circuit"})
"""Why a target is held that is held until then, whatever happens there."""

STAYS = "given_up"
"""Why a request is held whose target has ended for this run, and which stays in the job for the next."""

BACK_TO_SCHEDULER = 0.5
"""Seconds after which a held request that cannot be parked is given back to its scheduler."""


class ResiproxyMiddleware:
    """``DOWNLOADER_MIDDLEWARES = {"scrapy_resiproxy.ResiproxyMiddleware": 585}``, in place of RetryMiddleware.

    585 lies after decompression (590) and before meta refresh (580): the only place that sees a page as the spider
    will, before a wall's interstitial is followed.
    """

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.runtime = crawl.runtime
        self.observing = crawl.runtime.observing

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ResiproxyMiddleware | RefusingMiddleware:
        if not is_on(crawler.settings, ENABLED):
            raise NotConfigured
        try:
            crawl = Crawl.of(crawler)
            check_components(crawl.runtime)
        except SettingError as error:
            refuse(crawler, str(error))
            return RefusingMiddleware()
        return cls(crawl)

    # Before the wire ----------------------------------------------------------------------------------------

    def process_request(
        self,
        request: Request,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Request | Response | Awaitable[Request | Response | None] | None:
        meta = request.meta
        scheduled = bool(meta.pop(META_SCHEDULED, False))
        if not request.url.startswith("http"):
            return None
        state = state_of(request) if META_STATE in meta else None
        if state is None:
            state = self._new_state(request, meta)
            if not self.observing and (mistake := wrong_wish(meta, self.runtime.pool)) is not None:
                raise self.crawl.endings.unusable(request, state, mistake)
        elif "verdict" in state:
            raise self.crawl.endings.surface(request, state)
        else:
            # Where it leads to was perhaps seen before: by itself, on its last attempt.
            request.dont_filter = bool(state.get("sent")) or state.get("filter", request.dont_filter)
        if META_REPLAY in meta and (page := stored_response(request)) is not None:
            # A callback may key its items by it, here too.
            meta[META_STORY] = self._story_of_a_stored_page(request)
            return page
        if self.observing:
            host = host_of(request)
            flight = self._take_off(request, state, self.runtime.target_of(request, host), host, scheduled=scheduled)
            sent_before = bool(meta.get("retry_times"))
            self.crawl.count_departure(flight.target, self.runtime.now(), retry=sent_before, state=state)
            return None
        refusal = self._ask(request, state, scheduled=scheduled)
        if refusal is None:
            return None
        if scheduled and (refusal.reason == STAYS or self.crawl.rescheduler.has_room()):
            return self.crawl.park_for_hold(request, state, refusal)
        return self._wait_in_place(request, state, refusal, scheduled=scheduled)

    def _story_of_a_stored_page(self, request: Request) -> dict[str, Any]:
        return {"key": self.runtime.key_of(request), "first": self.runtime.wall(), "session": None, "attempts": []}

    def _new_state(self, request: Request, meta: dict[str, Any]) -> State:
        state: State = {
            "id": self.runtime.new_id(),
            "slot": meta.get("download_slot"),
            "filter": request.dont_filter,
        }
        if "redirect_urls" in meta:
            state["base"] = len(meta["redirect_urls"])
        return state

    def _ask(self, request: Request, state: State, *, scheduled: bool) -> Hold | None:
        """One step: permit, then session. None when the request may go; it is ready to be sent then.

        Raises what surfaces a request whose target was given up.
        """
        runtime, crawl, meta, host = self.runtime, self.crawl, request.meta, host_of(request)
        now, target = runtime.now(), runtime.config.target_in(meta, host)
        uses_pool = runtime.pool is not None and crawl.uses_pool(request, state, host, target)
        retry = "uncounted" in state or (bool(state.get("sent")) and not state.get("hop"))
        answer = runtime.governor.admit(
            target,
            now,
            endpoint=runtime.endpoint if uses_pool else None,
            retry=retry,
            lease=crawl.lease_time(meta),
        )
        if isinstance(answer, Hold):
            return answer
        if isinstance(answer, GivenUp):
            crawl.events.take(target)
            if scheduled and crawl.rescheduler.can_keep():
                return Hold(now + KEPT_TURN, STAYS)
            raise crawl.endings.target_given_up(request, state, answer)
        if scheduled and not retry and runtime.store is not None:
            crawl.rescheduler.job.journal(request, state, target)
        meta[META_STATE] = state
        flight = self._take_off(request, state, target, host, scheduled=scheduled)
        flight.permit = answer
        if uses_pool:
            refusal = crawl.sessions.board(request, flight, now)
            if refusal is not None:
                self._land(request)
                crawl.events.cancel(flight)
                if isinstance(refusal, NoSession):
                    return Hold(refusal.until, "session")
                raise crawl.endings.session_lost(request, state)
        crawl.count_departure(target, now, retry=retry, state=state)
        if "uncounted" in state:
            count_retry(runtime.crawler, request, flight)
        return None

    def _take_off(self, request: Request, state: State, target: str, host: str, *, scheduled: bool) -> Flight:
        flight = Flight(state, target, host, scheduled)
        key = ref(request, self.crawl.wire.lost_sight)
        self.crawl.wire.flights[key] = flight
        if scheduled:
            request.errback = Watch(self._failed_elsewhere, request.errback)
        else:
            self.crawl.wire.watch(key)
        return flight

    def _land(self, request: Request) -> Flight | None:
        """The attempt is over: take the flight out, and our stand-in off the request."""
        flight = self.crawl.wire.flights.pop(ref(request), None)
        unwatch(request)
        if flight is not None and flight.lease is not None:
            self.crawl.sessions.leave(flight)
        return flight

    async def _wait_in_place(
        self, request: Request, state: State, hold: Hold, *, scheduled: bool
    ) -> Request | Response | None:
        """For what never passes the scheduler (media, robots.txt), and where too many are parked already.

        What came from a scheduler goes back to it before long: a place that waits would hold up a shutdown. The first
        time it goes at once: whatever else that scheduler has is to come before it.
        """
        if scheduled and "back" not in state:
            return self._give_back(request, state)
        longest = BACK_TO_SCHEDULER if scheduled else self.runtime.config.waiting.inline_wait_max
        deadline = self.runtime.now() + longest
        refusal: Hold | None = hold
        while refusal is not None:
            now, engine = self.runtime.now(), self.runtime.engine
            # One that is held for longer than it may wait need not hold its place until then.
            vain = not scheduled and refusal.reason in KNOWN_TO_LAST and refusal.until > deadline
            if now >= deadline or vain or engine is None or not engine.running:
                if scheduled:
                    return self._give_back(request, state)
                raise self.crawl.endings.not_sent(request, state, refusal)
            await sleep(min(max(refusal.until - now, 0.01), 0.25))
            refusal = self._ask(request, state, scheduled=scheduled)
        return None

    def _give_back(self, request: Request, state: State) -> Request:
        """Back to the scheduler, behind the others: its queue may hand out first what came last."""
        copy = again(request, {**state, "back": True})
        copy.priority -= 1
        return copy

    # After the wire -----------------------------------------------------------------------------------------

    def process_response(
        self,
        request: Request,
        response: Response,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Answer | Awaitable[Answer]:
        flight = self._land(request)
        if flight is None:
            return response
        outcome = self.crawl.judge.response(request, response, flight)
        if not isinstance(outcome, Outcome):
            return self._settle_later(request, response, flight, outcome)
        return self.crawl.verdicts.settle(request, flight, outcome, response=response)

    async def _settle_later(
        self, request: Request, response: Response, flight: Flight, waiting: Awaitable[Outcome]
    ) -> Answer:
        try:
            outcome = await waiting
        except BaseException:
            self.crawl.abandon(request, flight)  # Who awaited the page itself has cancelled it.
            raise
        answer = self.crawl.verdicts.settle(request, flight, outcome, response=response)
        return await answer if inspect.isawaitable(answer) else answer

    def process_exception(
        self,
        request: Request,
        exception: Exception,
        spider: Spider | None = None,  # noqa: ARG002
    ) -> Answer | Awaitable[Answer]:
        flight = self._land(request)
        if flight is None:
            return None
        if is_not_a_failure(exception):
            self.crawl.abandon(request, flight)
            return None
        outcome = self.crawl.judge.exception(request, exception)
        return self.crawl.verdicts.settle(request, flight, outcome, exception=exception)

    def _failed_elsewhere(self, errback: Errback | None, failure: Failure) -> Any:
        """Another middleware raised on the way back: the request goes round again, or its own *errback* is called."""
        try:
            if self._goes_round_again(failure):
                return None
        except ResiproxyError as surfaced:
            failure = _in_place_of(failure, surfaced)
        return failure if errback is None else errback(failure)

    def _goes_round_again(self, failure: Failure) -> bool:
        request: Request = failure.request  # type: ignore[attr-defined]
        flight = self._land(request)
        if flight is None:
            return False
        error = failure.value
        if not isinstance(error, Exception) or isinstance(error, IgnoreRequest):
            self.crawl.ignored_elsewhere(request, flight, error)
            return False
        outcome = self.crawl.judge.exception(request, error)
        answer = self.crawl.verdicts.settle(request, flight, outcome, exception=error)
        if isinstance(answer, Request):
            engine = self.runtime.engine
            assert engine is not None
            engine.crawl(answer)
            return True
        return False


def _in_place_of(failure: Failure, error: ResiproxyError) -> Failure:
    """*error* as what the errback gets, for the request of *failure*."""
    ours = Failure(error)
    ours.request = failure.request  # type: ignore[attr-defined]
    return ours
