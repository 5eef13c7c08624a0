"""What becomes of a judged attempt: delivered, sent round again, or given up."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.browser import in_browser
from scrapy_resiproxy.components.flow import ATTEMPTS_KEPT, again, attempt_of, host_of, story_of, uncached, with_attempt
from scrapy_resiproxy.components.waits import sleep
from scrapy_resiproxy.components.wishes import wrong_wish
from scrapy_resiproxy.guard.decide import Deliver, GiveUp, History, PastAttempt, Retry, decide
from scrapy_resiproxy.guard.samples import is_unreachable
from scrapy_resiproxy.names import META_IDEMPOTENT, META_SESSION
from scrapy_resiproxy.outcome import Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.boarding import Boarding
    from scrapy_resiproxy.components.endings import Endings
    from scrapy_resiproxy.components.events import Events
    from scrapy_resiproxy.components.flow import Answer, Flight, State
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.components.wire import Wire
    from scrapy_resiproxy.guard.budget import Reservation
    from scrapy_resiproxy.runtime import Runtime

NEVER_SENT = frozenset(
    {"dns_not_found", "dns_failed", "connect_refused", "connect_failed", "network_down", "proxy_unreachable"}
)
"""Reasons that prove that the target never saw the request."""


class Verdicts:
    """Carries out decisions for one crawl."""

    def __init__(
        self,
        runtime: Runtime,
        rescheduler: Rescheduler,
        sessions: Boarding,
        events: Events,
        wire: Wire,
        endings: Endings,
    ) -> None:
        self.runtime = runtime
        self.rescheduler = rescheduler
        self.sessions = sessions
        self.events = events
        self.wire = wire
        self.endings = endings
        self.observing = runtime.observing
        self.own_tunnels = False
        """Whether our handler carries https: a connection of its own for each request, where that is another exit."""

    # One attempt --------------------------------------------------------------------------------------------

    def settle(
        self,
        request: Request,
        flight: Flight,
        outcome: Outcome,
        *,
        response: Response | None = None,
        exception: Exception | None = None,
    ) -> Answer | Awaitable[Answer]:
        """What the middleware must return: the response, a copy to send again, an awaitable of it, or None.

        Raises a :class:`~scrapy_resiproxy.exceptions.ResiproxyError` where that is what an errback gets.
        """
        # What came over the wire has a status by now; the rest is the HTTP cache's, or another middleware's own.
        cached = flight.status is None and response is not None and "cached" in response.flags
        if not cached:
            if exception is not None:
                self.events.met(request, flight, outcome, exception)
            self._report(flight, outcome)
        else:
            self.events.recall(flight)
        if self.events.heard(signals.outcome_classified):
            self._announce(request, outcome, response)
        if self.observing:
            if not outcome.ok and not cached:
                self._count_wish(request, flight, outcome, exception)
            return response
        if flight.state.get("hop"):
            if response is not None:
                flight.status = response.status
            self.wire.settled(request, flight, outcome)
        if outcome.ok:
            return self._deliver(request, flight, response)
        if cached:
            # A bad page from the HTTP cache is fetched anew; nothing was sent, so nothing is charged.
            return uncached(again(request, flight.state))
        return self._act_on(request, flight, outcome, response, exception)

    def _act_on(
        self,
        request: Request,
        flight: Flight,
        outcome: Outcome,
        response: Response | None,
        exception: Exception | None,
    ) -> Answer | Awaitable[Answer]:
        """Decide on a failed attempt, and carry it out."""
        state = self._with_attempt(flight, outcome, exception)
        decision = self._decide(request, flight, state, outcome)
        if isinstance(decision, Retry) and (reason := self._no_place_to_wait(flight, decision)) is not None:
            decision = GiveUp(reason)
        if isinstance(decision, GiveUp):
            outcome, state = self._at_last(flight, state, outcome, decision, exception)
            return self.endings.give_up(request, flight, state, outcome, decision, response, exception)
        return self._retry(request, flight, state, outcome, decision)

    def _count_wish(self, request: Request, flight: Flight, outcome: Outcome, exception: Exception | None) -> None:
        """Count what would have been a retry of ours. Scrapy's own count tells how many came before; they are taken to
        have failed alike.
        """
        before = request.meta.get("retry_times", 0)
        if wrong_wish(request.meta, self.runtime.pool) is not None:
            return  # Nobody can tell what would have come of it.
        state = self._with_attempt(flight, outcome, exception)
        state["sent"] = 1 + (max(0, before) if isinstance(before, int) else 0)
        state["log"] = state["log"] * min(state["sent"], ATTEMPTS_KEPT)
        decision = self._decide(request, flight, state, outcome)
        waits = flight.scheduled or getattr(decision, "delay", 0.0) <= self.runtime.config.waiting.inline_wait_max
        if isinstance(decision, Retry) and waits:
            self.runtime.tally.wanted(flight.target)

    def _with_attempt(self, flight: Flight, outcome: Outcome, exception: Exception | None) -> State:
        """The request's state after one more failed attempt."""
        attempt = attempt_of(flight, outcome, exception, self.runtime.wall())
        return with_attempt(flight.state, attempt, free=self.runtime.governor.own_outage and is_unreachable(outcome))

    def _at_last(
        self, flight: Flight, state: State, outcome: Outcome, decision: GiveUp, exception: Exception | None
    ) -> tuple[Outcome, State]:
        """The outcome and state of a request that is given up. What fails for good was passing only as long as that
        was not known, as with a name that does not resolve.
        """
        if decision.reason != "terminal" or outcome.class_ is not OutcomeClass.TRANSIENT:
            return outcome, state
        final = replace(outcome, class_=OutcomeClass.TERMINAL)
        return final, self._with_attempt(flight, final, exception)

    def _decide(self, request: Request, flight: Flight, state: State, outcome: Outcome) -> Retry | GiveUp:
        """What to do about a failed attempt."""
        governor = self.runtime.governor
        history = self._history(request, flight, state)
        decision = decide(outcome, history, governor.settings_of(flight.target), self.runtime.rng)
        assert not isinstance(decision, Deliver)
        return decision

    def _report(self, flight: Flight, outcome: Outcome) -> None:
        now = self.runtime.now()
        fresh = flight.lease is None or flight.lease.fresh
        if flight.permit is not None:
            self.runtime.governor.report(flight.permit, outcome, now, fresh=fresh)
        if flight.lease is not None:
            self.sessions.report(flight, outcome, now)
        self.runtime.tally.judged(flight.target, outcome, flight.bytes, fresh=fresh)
        self.events.take(flight.target, outcome)

    def _announce(self, request: Request, outcome: Outcome, response: Response | None) -> None:
        self.runtime.crawler.signals.send_catch_log(
            signals.outcome_classified,
            outcome=outcome,
            request=request,
            response=response,
            spider=self.runtime.crawler.spider,
        )

    def _history(self, request: Request, flight: Flight, state: State) -> History:
        meta, general, governor = request.meta, self.runtime.config.general, self.runtime.governor
        most = meta.get("max_retry_times")
        return History(
            sent=max(1, state["sent"] - state.get("free", 0)),
            max_attempts=general.max_attempts if most is None else int(most) + 1,
            past=tuple(
                PastAttempt(
                    OutcomeClass(facts["outcome"]),
                    facts["reason"],
                    not facts.get("worn", False),
                    facts.get("weak", False),
                )
                for _, facts in state["log"][:-1]
            ),
            fresh=flight.lease is None or flight.lease.fresh,
            can_rotate=(flight.lease is not None or self.observing) and self._can_rotate(request),
            named=meta.get(META_SESSION) is not None and flight.lease is not None,
            resendable=meta.get(META_IDEMPOTENT) is not False or state["log"][-1][1]["reason"] in NEVER_SENT,
            retry_allowed=general.retry_enabled and not meta.get("dont_retry"),
            healthy=governor.healthy(flight.target, self.runtime.now()),
            own_outage=governor.own_outage,
        )

    def _can_rotate(self, request: Request) -> bool:
        """Whether *request* can have another exit. Other handlers use a connection to an https site again."""
        pool = self.runtime.pool
        if pool is None or not pool.can_rotate:
            return False
        kept = request.url.startswith("https:") and not self.own_tunnels and not in_browser(request)
        return not (kept and pool.rotates_by_connection)

    # Delivered ----------------------------------------------------------------------------------------------

    def _deliver(self, request: Request, flight: Flight, response: Response | None) -> Response | None:
        """Hand a good answer on. It goes into the story alone: nobody will decide by the state again."""
        state, at = flight.state, self.runtime.wall()
        session = flight.lease.session.alias if flight.lease is not None else None
        attempt = {"at": at, "class": "ok", "reason": "ok", "session": session, "status": flight.status}
        attempts = [*story_of(state["log"]), attempt][-ATTEMPTS_KEPT:] if "log" in state else [attempt]
        self.endings.end(request, state, flight.target, attempts)
        return response

    # Sent round again ---------------------------------------------------------------------------------------

    def _retry(
        self, request: Request, flight: Flight, state: State, outcome: Outcome, decision: Retry
    ) -> Request | Awaitable[Request]:
        # A refused session goes in by the door again; a page that failed is asked for again, and no form sent twice.
        source = self.wire.original(request, state) if outcome.class_ is OutcomeClass.IDENTITY else request
        alias = state["log"][-1][1].get("session")
        moved: State = {**state, "hop": False, "uncounted": True}
        if decision.rotate:
            moved["prefer"], moved["avoid"] = None, alias
        copy = again(source, moved)
        if outcome.class_ is OutcomeClass.IDENTITY:
            # The cache sits nearer to the wire and would hand out the wall's page again.
            uncached(copy)
        target = flight.target if source is request else self.runtime.target_of(source, host_of(source))
        self.runtime.crawler.signals.send_catch_log(
            signals.retry_scheduled,
            request=copy,
            outcome=outcome,
            delay=decision.delay,
            spider=self.runtime.crawler.spider,
        )
        if not flight.scheduled:
            return self._retry_in_place(copy, decision)
        return self._park_retry(copy, target, outcome, decision)

    def _no_place_to_wait(self, flight: Flight, decision: Retry) -> str | None:
        """Why a retry cannot wait: the reason of its dead letter."""
        waiting = self.runtime.config.waiting
        if not flight.scheduled:
            if decision.delay > waiting.inline_wait_max:
                return "attempts_exhausted"  # Who awaits it in place would come back before it was told to.
            return None if self._funded(flight.target, decision) is not None else "budget_exhausted"
        return "budget_exhausted" if len(self.runtime.room) >= waiting.waiting_max else None

    def _funded(self, target: str, decision: Retry) -> Reservation | None:
        """The budget for a retry of *target*, if there is any; the wish for it is counted either way."""
        now, endpoint = self.runtime.now(), self.runtime.endpoint_of(target)
        reservation = self.runtime.governor.reserve(target, decision.charge, now, endpoint=endpoint)
        self.runtime.tally.wanted(target, denied=reservation is None)
        self.events.take(target)
        return reservation

    def _park_retry(self, copy: Request, target: str, outcome: Outcome, decision: Retry) -> Request:
        return self.rescheduler.park(
            copy,
            target=target,
            due=self.runtime.now() + decision.delay,
            reason="told" if outcome.class_ is OutcomeClass.RATE else "backoff",
            charge=decision.charge,
            reservation=self._funded(target, decision),
            # One text for all who wait for the same reason.
            why=sys.intern(f"{outcome.class_.value}/{outcome.reason}"),
        )

    async def _retry_in_place(self, copy: Request, decision: Retry) -> Request:
        """Who awaits the request itself (media, robots.txt) downloads what comes back at once."""
        await sleep(decision.delay)
        return copy

    def resettle(self, request: Request, state: State, outcome: Outcome, status: int | None) -> None:
        """*request* was redirected to a page that another request fetched: it shares that page's *outcome*."""
        target = self.runtime.target_of(request, host_of(request))
        if outcome.ok:
            self.rescheduler.finish(state, target)
            self.wire.forget(state["id"])
            return
        flight = self.wire.landed(state, target, host_of(request))
        flight.status = status
        self.sessions.report(flight, outcome, self.runtime.now())
        state = self._with_attempt(flight, outcome, None)
        decision = self._decide(request, flight, state, outcome)
        if isinstance(decision, Retry):
            self._retry(request, flight, state, outcome, decision)
        else:
            _, state = self._at_last(flight, state, outcome, decision, None)
            self.rescheduler.surface(again(request, {**state, "verdict": decision.reason}), target)
