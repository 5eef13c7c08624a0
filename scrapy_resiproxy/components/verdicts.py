"""What becomes of a judged attempt: delivered, sent round again, or written down and surfaced."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.flow import (
    ATTEMPTS_KEPT,
    Attempt,
    again,
    host_of,
    story_of,
    strip_ours,
    with_attempt,
)
from scrapy_resiproxy.components.waits import sleep
from scrapy_resiproxy.exceptions import (
    BudgetExhausted,
    CircuitOpen,
    ProxyRefused,
    ResiproxyError,
    SessionLost,
    SoftBlock,
)
from scrapy_resiproxy.guard.decide import Charge, GiveUp, History, PastAttempt, Retry, decide
from scrapy_resiproxy.names import META_IDEMPOTENT, META_SESSION, META_STATE, META_STORY
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.boarding import Boarding
    from scrapy_resiproxy.components.deadletters import DeadLetterOffice
    from scrapy_resiproxy.components.events import Events
    from scrapy_resiproxy.components.flow import Answer, Flight, State
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.components.wire import Wire
    from scrapy_resiproxy.guard.budget import Reservation
    from scrapy_resiproxy.guard.governor import GivenUp, Hold
    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.settings import GuardSettings

logger = logging.getLogger(__name__)

ERRORS: dict[str, type[ResiproxyError]] = {
    "budget_exhausted": BudgetExhausted,
    "circuit_open": CircuitOpen,
    "retry_after_too_long": CircuitOpen,
    "session_lost": SessionLost,
    "proxy_refused": ProxyRefused,
}
"""What an errback gets by dead-letter reason; SoftBlock for the rest."""

NEVER_SENT = frozenset(
    {"dns_not_found", "dns_failed", "connect_refused", "connect_failed", "network_down", "proxy_unreachable"}
)
"""Reasons that prove that the target never saw the request."""


class Verdicts:
    """Carries out decisions for one crawl."""

    wire: Wire

    def __init__(
        self,
        runtime: Runtime,
        office: DeadLetterOffice,
        rescheduler: Rescheduler,
        sessions: Boarding,
        events: Events,
    ) -> None:
        self.runtime = runtime
        self.office = office
        self.rescheduler = rescheduler
        self.sessions = sessions
        self.events = events
        self.observing = runtime.observing

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
            self._report(flight, outcome)
        elif flight.permit is not None:
            self.runtime.governor.cancel(flight.permit, self.runtime.now())
        if self.events.heard(signals.outcome_classified):
            self._announce(request, outcome, response)
        if self.observing:
            return response
        if flight.state.get("hop"):
            if response is not None:
                flight.status = response.status
            self.wire.settled(request, flight, outcome)
        if outcome.ok:
            return self._deliver(request, flight, response)
        if cached:
            return self._refetch(request, flight.state)
        state = with_attempt(flight.state, self._attempt(flight, outcome, exception))
        guard = self._guard(flight.target)
        decision = decide(outcome, self._history(request, flight, state), guard, self.runtime.rng)
        if isinstance(decision, Retry) and (reason := self._no_place_to_wait(flight, decision)) is not None:
            decision = GiveUp(reason)
        if isinstance(decision, GiveUp):
            return self._give_up(request, flight, state, outcome, decision, response, exception)
        assert isinstance(decision, Retry)
        return self._retry(request, flight, state, outcome, decision)

    def _guard(self, target: str) -> GuardSettings:
        return self.runtime.governor.settings_of(target)

    def _report(self, flight: Flight, outcome: Outcome) -> None:
        now = self.runtime.now()
        fresh = flight.lease is None or flight.lease.fresh
        if flight.permit is not None:
            self.runtime.governor.report(flight.permit, outcome, now, fresh=fresh)
        if flight.lease is not None:
            self.sessions.report(flight, outcome, now)
        self.runtime.tally.judged(flight.target, outcome, flight.bytes, fresh=fresh)
        self.events.take(flight.target)

    def _announce(self, request: Request, outcome: Outcome, response: Response | None) -> None:
        self.runtime.crawler.signals.send_catch_log(
            signals.outcome_classified,
            outcome=outcome,
            request=request,
            response=response,
            spider=self.runtime.crawler.spider,
        )

    def _attempt(self, flight: Flight, outcome: Outcome, exception: Exception | None) -> Attempt:
        """A failed attempt."""
        attempt: Attempt = {
            "at": self.runtime.wall(),
            "outcome": outcome.class_.value,
            "reason": outcome.reason,
            "evidence": outcome.evidence,
        }
        if flight.status is not None:
            attempt["status"] = flight.status
        if flight.lease is not None:
            attempt["session"] = flight.lease.session.alias
            if not flight.lease.fresh:
                attempt["worn"] = True
        if outcome.weak:
            attempt["weak"] = True
        if outcome.wait is not None:
            attempt["wait"] = outcome.wait
        if exception is not None:
            attempt["error"] = type(exception).__name__
        return attempt

    def _history(self, request: Request, flight: Flight, state: State) -> History:
        meta, general = request.meta, self.runtime.config.general
        most = meta.get("max_retry_times")
        pool = self.runtime.pool
        return History(
            sent=state["sent"],
            max_attempts=general.max_attempts if most is None else int(most) + 1,
            past=tuple(
                PastAttempt(
                    OutcomeClass(line["outcome"]),
                    line["reason"],
                    not line.get("worn", False),
                    line.get("weak", False),
                )
                for line in state["log"][:-1]
            ),
            fresh=flight.lease is None or flight.lease.fresh,
            can_rotate=flight.lease is not None and pool is not None and pool.can_rotate,
            named=META_SESSION in meta and flight.lease is not None,
            resendable=meta.get(META_IDEMPOTENT) is not False or state["log"][-1]["reason"] in NEVER_SENT,
            retry_allowed=general.retry_enabled and not meta.get("dont_retry"),
            healthy=self.runtime.governor.healthy(flight.target, self.runtime.now()),
        )

    # Delivered ----------------------------------------------------------------------------------------------

    def _deliver(self, request: Request, flight: Flight, response: Response | None) -> Response | None:
        """Hand a good answer on. It goes into the story alone: nobody will decide by the state again."""
        state, at = flight.state, self.runtime.wall()
        session = flight.lease.session.alias if flight.lease is not None else None
        attempt = {"at": at, "class": "ok", "reason": "ok", "session": session, "status": flight.status}
        attempts = [*story_of(state["log"]), attempt][-ATTEMPTS_KEPT:] if "log" in state else [attempt]
        self._end(request, state, flight.target, attempts)
        return response

    def _end(self, request: Request, state: State, target: str, attempts: list[dict[str, Any]]) -> None:
        """The request's story is complete: leave it in the meta, and nothing else of ours."""
        meta = request.meta
        strip_ours(request, state)
        meta.pop(META_STATE, None)
        request.dont_filter = state.get("filter", request.dont_filter)
        meta[META_STORY] = {
            "key": self.runtime.key_of(request),
            "first": state.get("first", attempts[0]["at"] if attempts else None),
            "session": attempts[-1]["session"] if attempts else None,
            "attempts": attempts,
        }
        if self.wire.origins:
            self.wire.forget(state["id"])
        self.rescheduler.finish(state, target)

    # Sent round again ---------------------------------------------------------------------------------------

    def _refetch(self, request: Request, state: State) -> Request:
        """A bad page from the HTTP cache is fetched again; nothing was sent, so nothing is charged."""
        copy = again(request, state)
        copy.meta["dont_cache"] = True
        return copy

    def _retry(
        self, request: Request, flight: Flight, state: State, outcome: Outcome, decision: Retry
    ) -> Request | Awaitable[Request]:
        source = self.wire.original(request, state)
        alias = state["log"][-1].get("session")
        moved: State = {**state, "hop": False}
        if decision.rotate:
            moved["prefer"], moved["avoid"] = None, alias
        copy = again(source, moved)
        if outcome.class_ is OutcomeClass.IDENTITY:
            # The cache sits nearer to the wire and would hand out the wall's page again.
            copy.meta["dont_cache"] = True
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
        now, endpoint = self.runtime.now(), self.runtime.endpoint
        reservation = self.runtime.governor.reserve(target, decision.charge, now, endpoint=endpoint)
        for counts in self.runtime.tally.both(target):
            counts.asked += 1
            counts.denied += reservation is None
        self.events.take(target)
        return reservation

    def _park_retry(self, copy: Request, target: str, outcome: Outcome, decision: Retry) -> Request:
        return self.rescheduler.park(
            copy,
            target=target,
            due=self.runtime.now() + decision.delay,
            reason="told" if decision.charge is Charge.PACED else "backoff",
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
        state = with_attempt(state, self._attempt(flight, outcome, None))
        decision = decide(outcome, self._history(request, flight, state), self._guard(target), self.runtime.rng)
        if isinstance(decision, Retry):
            self._retry(request, flight, state, outcome, decision)
        elif isinstance(decision, GiveUp):
            self.rescheduler.surface(again(request, {**state, "verdict": decision.reason}), target)

    # Given up -----------------------------------------------------------------------------------------------

    def _give_up(
        self,
        request: Request,
        flight: Flight,
        state: State,
        outcome: Outcome,
        decision: GiveUp,
        response: Response | None,
        exception: Exception | None,
    ) -> Response | None:
        not_before = None if decision.not_before is None else self.runtime.wall() + decision.not_before
        source = self.wire.original(request, state)
        if flight.scheduled or not request.url.endswith("/robots.txt"):
            self.office.bury(
                source,
                decision.reason,
                target=flight.target,
                outcome=outcome,
                state=state,
                response=response,
                error=exception,
                not_before=not_before,
            )
        self._say_given_up(request, state, outcome, decision.reason)
        self._end(request, state, flight.target, story_of(state["log"]))
        if decision.reason in {"session_lost", "proxy_refused"} or self._is_soft(outcome, response):
            raise self._error(request, decision.reason, state, outcome, response) from None
        return response

    @staticmethod
    def _is_soft(outcome: Outcome, response: Response | None) -> bool:
        """Whether the page would reach a callback as data, or is the proxy's own answer."""
        return response is not None and (200 <= response.status < 300 or outcome.blame is Blame.PROXY)

    def _say_given_up(self, request: Request, state: State, outcome: Outcome, reason: str) -> None:
        """Scrapy's own stat and log line; a target or a proxy that is gone is said once, elsewhere."""
        if reason in {"circuit_open", "proxy_refused", "retry_after_too_long", "terminal"}:
            return
        stats = self.runtime.crawler.stats
        if reason in {"attempts_exhausted", "identity_exhausted"}:
            stats.inc_value("retry/max_reached")
        level = request.meta.get("give_up_log_level", self.runtime.config.general.retry_give_up_log_level)
        logger.log(
            logging.getLevelName(level) if isinstance(level, str) else int(level),
            "Gave up %(request)s after %(sent)d attempts (%(reason)s): %(class)s/%(why)s",
            {
                "request": request,
                "sent": state.get("sent", 0),
                "reason": reason,
                "class": outcome.class_.value,
                "why": outcome.reason,
            },
            extra={"spider": self.runtime.crawler.spider},
        )

    def _error(
        self,
        request: Request,
        reason: str,
        state: State,
        outcome: Outcome | None = None,
        response: Response | None = None,
    ) -> ResiproxyError:
        why = f" ({outcome.class_.value}/{outcome.reason})" if outcome is not None else ""
        return ERRORS.get(reason, SoftBlock)(
            f"{reason}{why}: {request}",
            outcome=outcome,
            attempts=story_of(state.get("log", [])),
            response=response,
        )

    def surface(self, request: Request, state: State) -> ResiproxyError:
        """The end of a request that was given up while it waited."""
        reason = state["verdict"]
        target = self.runtime.target_of(request, host_of(request))
        self.office.bury(
            request,
            reason,
            target=target,
            outcome=_last_outcome(state),
            state=state,
            status=state["log"][-1].get("status") if reason == "terminal" and state.get("log") else None,
            not_before=state.get("not_before"),
        )
        self._end(request, state, target, story_of(state.get("log", ())))
        return self._error(request, reason, state, _last_outcome(state))

    def target_given_up(self, request: Request, state: State, target: str, given_up: GivenUp) -> ResiproxyError:
        """A request that comes when its target, or the proxy, is gone for this run."""
        not_before = None
        if given_up.not_before is not None:
            not_before = self.runtime.wall() + given_up.not_before - self.runtime.now()
        ended: State = {**state, "verdict": given_up.reason}
        if not_before is not None:
            ended["not_before"] = not_before
        self.events.take(target)
        return self.surface(request, ended)

    def session_lost(self, request: Request, state: State, target: str) -> ResiproxyError:  # noqa: ARG002
        """A request for a named session that has ended."""
        return self.surface(request, {**state, "verdict": "session_lost"})

    def not_sent(self, request: Request, state: State, hold: Hold) -> ResiproxyError:
        """A request that could not wait in place any longer."""
        self.rescheduler.finish(state, self.runtime.target_of(request, host_of(request)))
        return CircuitOpen(f"held ({hold.reason}) for too long to wait in place: {request}")

    def ignored_elsewhere(self, request: Request, flight: Flight, error: BaseException | None) -> bool:
        """Another middleware ignored the answer on its way back: a failure like any other, never retried."""
        outcome = Outcome(OutcomeClass.TERMINAL, "ignored", Blame.LOCAL)
        if flight.permit is not None:
            self.runtime.governor.cancel(flight.permit, self.runtime.now())
            self.events.take(flight.target)
        if self.observing:
            return False
        state = with_attempt(flight.state, self._attempt(flight, outcome, None))
        self.office.bury(request, "terminal", target=flight.target, outcome=outcome, state=state, error=error)
        self._end(request, state, flight.target, story_of(state["log"]))
        return False


def _last_outcome(state: State) -> Outcome | None:
    log = state.get("log")
    if not log:
        return None
    return Outcome(OutcomeClass(log[-1]["outcome"]), log[-1]["reason"], evidence=log[-1].get("evidence", ""))
