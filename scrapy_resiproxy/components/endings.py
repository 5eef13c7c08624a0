"""How a request's story ends: told in its meta, and where it failed, written down and surfaced."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.components.flow import attempt_of, host_of, is_robots_txt, story_of, strip_for_good, with_attempt
from scrapy_resiproxy.components.surfaced import (
    ALWAYS_RAISED,
    HELD,
    error_of,
    error_of_hold,
    outcome_of,
    said_by_proxy,
)
from scrapy_resiproxy.exceptions import ResiproxyError
from scrapy_resiproxy.names import META_STATE, META_STORY
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.deadletters import DeadLetterOffice
    from scrapy_resiproxy.components.flow import Flight, State
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.components.wire import Wire
    from scrapy_resiproxy.guard.answers import GivenUp, Hold
    from scrapy_resiproxy.guard.decide import GiveUp
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

SAID_ELSEWHERE = frozenset({"circuit_open", "proxy_refused", "retry_after_too_long", "terminal"})
"""Reasons without a log line for each request: a target or a proxy that is gone is said once."""

HINTS = {"dns_not_found": ", the name of its host does not resolve"}
"""Added to the line of a request that is given up, by the outcome's reason. Where there is a hint that line is logged
even for SAID_ELSEWHERE: nothing else would tell.
"""

REFUSED_BY_PROXY = {
    "proxy_auth": "check user name and password",
    "proxy_quota": "no traffic or money is left, check the plan",
    "proxy_policy": "it forbids this site, port or use",
    "proxy_config": "it cannot make sense of what it is asked, check the user name's parts and the port",
}
"""What to do, by the outcome's reason."""


class Endings:
    """The last step of every request of one crawl."""

    def __init__(self, runtime: Runtime, office: DeadLetterOffice, rescheduler: Rescheduler, wire: Wire) -> None:
        self.runtime = runtime
        self.office = office
        self.rescheduler = rescheduler
        self.wire = wire
        self._refusals_said: set[str] = set()

    def end(self, request: Request, state: State, target: str, attempts: list[dict[str, Any]]) -> None:
        """The request's story is complete: leave it in the meta, and nothing else of ours."""
        meta = request.meta
        strip_for_good(request, state)
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

    # After an attempt ---------------------------------------------------------------------------------------

    def give_up(
        self,
        request: Request,
        flight: Flight,
        state: State,
        outcome: Outcome,
        decision: GiveUp,
        response: Response | None,
        exception: Exception | None,
    ) -> Response | None:
        """Write the letter and return the refused *response*, None where there is only an *exception*.

        Raises what the errback gets in place of them, where they must not be taken for the target's answer.
        """
        raises = decision.reason in ALWAYS_RAISED or _is_soft(outcome, response)
        if flight.scheduled or not is_robots_txt(request):
            self.office.bury(
                self.wire.original(request, state),
                decision.reason,
                target=flight.target,
                outcome=outcome,
                state=state,
                response=response,
                error=exception,
                handed_on=flight.scheduled and not raises,
                not_before=None if decision.not_before is None else self.runtime.wall() + decision.not_before,
            )
        self._say(request, state, outcome, decision.reason)
        self.end(request, state, flight.target, story_of(state["log"]))
        if raises:
            raise error_of(request, decision.reason, state, outcome, response) from exception
        return response

    def _say(self, request: Request, state: State, outcome: Outcome, reason: str) -> None:
        """Scrapy's own stat and log line."""
        if reason == "proxy_refused" and outcome.reason not in self._refusals_said:
            self._refusals_said.add(outcome.reason)
            logger.error(
                "The proxy refuses us (%(why)s): %(advice)s. The first request so refused: %(request)s",
                {
                    "why": outcome.reason,
                    "advice": REFUSED_BY_PROXY.get(outcome.reason, "see its words"),
                    "request": request,
                },
                extra={"spider": self.runtime.crawler.spider},
            )
        hint = HINTS.get(outcome.reason, "")
        if reason in SAID_ELSEWHERE and not hint:
            return
        stats = self.runtime.crawler.stats
        if reason in {"attempts_exhausted", "identity_exhausted"}:
            stats.inc_value("retry/max_reached")
        level = request.meta.get("give_up_log_level", self.runtime.config.general.retry_give_up_log_level)
        logger.log(
            logging.getLevelName(level) if isinstance(level, str) else int(level),
            "Gave up %(request)s after %(sent)s (%(reason)s): %(class)s/%(why)s%(hint)s",
            {
                "request": request,
                "sent": counted(state.get("sent", 0), "attempt"),
                "reason": reason,
                "class": outcome.class_.value,
                "why": outcome.reason,
                "hint": hint,
            },
            extra={"spider": self.runtime.crawler.spider},
        )

    def ignored_elsewhere(self, request: Request, flight: Flight, error: BaseException | None) -> None:
        """Another middleware ignored the answer on its way back: a failure like any other, never retried."""
        outcome = Outcome(OutcomeClass.TERMINAL, "ignored", Blame.LOCAL)
        state = with_attempt(flight.state, attempt_of(flight, outcome, None, self.runtime.wall()))
        self.office.bury(request, "terminal", target=flight.target, outcome=outcome, state=state, error=error)
        self.end(request, state, flight.target, story_of(state["log"]))

    # Before one ---------------------------------------------------------------------------------------------

    def surface(self, request: Request, state: State) -> ResiproxyError:
        """The end of a request that was given up while it waited: what its errback gets."""
        reason, not_before = state["verdict"], state.get("not_before")
        target = self.runtime.target_of(request, host_of(request))
        outcome = outcome_of(
            state,
            reason,
            blame=Blame.PROXY if reason == "circuit_open" and self._proxy_ended(target) else None,
            wait=None if not_before is None else max(0.0, not_before - self.runtime.wall()),
        )
        self.office.bury(
            request,
            reason,
            target=target,
            outcome=outcome,
            state=state,
            status=state["log"][-1][1].get("status") if reason == "terminal" and state.get("log") else None,
            not_before=not_before,
        )
        self.end(request, state, target, story_of(state.get("log", ())))
        return error_of(request, reason, state, outcome)

    def _proxy_ended(self, target: str) -> bool:
        """Whether nothing is sent to *target* because of the proxy before it."""
        runtime = self.runtime
        return runtime.gateway_ended is not None and target not in runtime.ended_targets and runtime.has_ended(target)

    def target_given_up(self, request: Request, state: State, given_up: GivenUp) -> ResiproxyError:
        """The end of a request that comes when its target, or the proxy, is gone for this run."""
        ended: State = {**state, "verdict": given_up.reason}
        if given_up.not_before is not None:
            ended["not_before"] = self.runtime.wall_at(given_up.not_before)
        return self.surface(request, ended)

    def session_lost(self, request: Request, state: State) -> ResiproxyError:
        """The end of a request for a named session that has ended."""
        return self.surface(request, {**state, "verdict": "session_lost"})

    def unusable(self, request: Request, state: State, mistake: str) -> ResiproxyError:
        """The end of a request whose meta holds a *mistake*: it is never sent."""
        target = self.runtime.target_of(request, host_of(request))
        outcome = Outcome(OutcomeClass.TERMINAL, "error", Blame.LOCAL)
        logger.error(
            "%(mistake)s. Not sent: %(request)s",
            {"mistake": mistake, "request": request},
            extra={"spider": self.runtime.crawler.spider},
        )
        error = ResiproxyError(f"{mistake}: {request}", outcome=outcome)
        self.office.bury(request, "terminal", target=target, outcome=outcome, state=state, error=error)
        self.end(request, state, target, [])
        return error

    def not_sent(self, request: Request, state: State, hold: Hold) -> ResiproxyError:
        """The end of a request that cannot wait in place, or not any longer."""
        target = self.runtime.target_of(request, host_of(request))
        engine = self.runtime.engine
        reason = "shutdown" if engine is None or not engine.running else HELD.get(hold.reason, "circuit_open")
        told = reason == "retry_after_too_long"
        outcome = outcome_of(
            state,
            reason,
            blame=Blame.LOCAL if hold.reason == "outage" else None,
            wait=max(0.0, hold.until - self.runtime.now()) if told else None,
        )
        if not is_robots_txt(request):
            not_before = self.runtime.wall_at(hold.until) if told else None
            self.office.bury(request, reason, target=target, outcome=outcome, state=state, not_before=not_before)
        self.end(request, state, target, story_of(state.get("log", ())))
        return error_of_hold(request, reason, state, outcome, hold)


def _is_soft(outcome: Outcome, response: Response | None) -> bool:
    """Whether the page would reach a callback as data, or is the proxy's own answer."""
    return response is not None and (200 <= response.status < 300 or said_by_proxy(outcome))
