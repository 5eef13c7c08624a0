"""Passes on what the governor saw happen: signals, one log line each, and what must be woken or ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.tls_trouble import TlsTrouble
from scrapy_resiproxy.components.unreachable import Unreachable
from scrapy_resiproxy.outcome import OutcomeClass
from scrapy_resiproxy.wording import lasting

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.components.flow import Flight
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.guard.governor import GuardEvent, TargetView
    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

SIGNALS = {
    "circuit_opened": signals.circuit_opened,
    "circuit_half_opened": signals.circuit_half_opened,
    "circuit_closed": signals.circuit_closed,
    "budget_exhausted": signals.budget_exhausted,
}


DOWN = "is down", "is still down"
FLAKY = "fails", "still fails"
"""Of one from which good answers came not long ago."""
NOT_DOWN = {
    OutcomeClass.IDENTITY: ("refuses us", "still refuses us"),
    OutcomeClass.RATE: ("limits us", "still limits us"),
}
"""What a target or a proxy does whose circuit opens, and opens again, by the last outcome's class: these are up."""


class Events:
    """The governor's events of one crawl."""

    def __init__(self, runtime: Runtime, rescheduler: Rescheduler) -> None:
        self.runtime = runtime
        self.rescheduler = rescheduler
        self.counts: dict[str, int] = {}
        self.unreachable = Unreachable()
        self.tls_trouble = TlsTrouble()
        self._outcome: Outcome | None = None
        """What was reported last, while its events are told."""
        self._gone: dict[str, float] = {}
        """When targets whose circuit is not closed are to be given up."""
        self._crawler, self._anybody = id(runtime.crawler.signals.sender), id(dispatcher.Any)
        """The senders to whose signals a handler can be connected, as the dispatcher knows them."""
        rescheduler.on_turn = self.turn

    def cancel(self, flight: Flight) -> None:
        """The attempt told nothing: its place is free for another."""
        if flight.permit is not None:
            self.runtime.governor.cancel(flight.permit, self.runtime.now())
            self.take(flight.target)

    def recall(self, flight: Flight) -> None:
        """The attempt never came to the wire."""
        if flight.permit is not None:
            self.runtime.tally.recalled(flight.target, retry=flight.permit.retry)
            self.cancel(flight)

    def met(self, request: Request, flight: Flight, outcome: Outcome, exception: Exception) -> None:
        """An attempt ended with *exception*, judged as *outcome*: say what only its own words tell."""
        if flight.lease is not None:
            self.unreachable.note(flight.lease.session.bare, request, outcome, exception)
        self.tls_trouble.note(flight.target, request, outcome, exception)

    def take(self, target: str, outcome: Outcome | None = None) -> None:
        """Deal with what has happened since the last call; *target* is the one that moved last, by *outcome*."""
        runtime = self.runtime
        for queue in runtime.queues:
            queue.look_again(target)
        if runtime.room.holds:
            self.rescheduler.look_again(target)
        self._outcome = outcome
        if runtime.governor.events:
            for event in runtime.governor.take_events():
                self._tell(event)

    def _tell(self, event: GuardEvent) -> None:
        self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            handler(event)
        signal = SIGNALS.get(event.kind)
        if signal is not None:
            self._send(signal, event)
        if event.target == self.runtime.endpoint:
            # What waits for any target may go now, or has nothing to wait for any more.
            for queue in self.runtime.queues:
                queue.look_everywhere()
            self.rescheduler.look_everywhere()

    def heard(self, signal: object) -> bool:
        """Whether anybody listens to *signal*. To send one to nobody costs ten times the look."""
        connections, anything = dispatcher.connections, dispatcher.Any
        ours = connections.get(self._crawler)
        if ours is not None and (signal in ours or anything in ours):
            return True
        anybodys = connections.get(self._anybody)
        return anybodys is not None and (signal in anybodys or anything in anybodys)

    def turn(self, now: float) -> None:
        """Give up what has been gone for too long: nobody else may ask for it any more."""
        for target, at in list(self._gone.items()):
            if now >= at:
                del self._gone[target]
                self.runtime.governor.given_up(target, now, target)
                self.take(target)
            else:
                self.rescheduler.wake_at(at)

    def _send(self, signal: object, event: GuardEvent) -> None:
        arguments: dict[str, Any] = {"target": event.target, "spider": self.runtime.crawler.spider}
        if event.kind == "circuit_opened" and event.until is not None:
            arguments["until"] = self.runtime.wall_at(event.until)
        self.runtime.crawler.signals.send_catch_log(signal, **arguments)

    def _circuit_opened(self, event: GuardEvent) -> None:
        until = event.until if event.until is not None else self.runtime.now()
        is_proxy = event.target == self.runtime.endpoint
        view = self.runtime.governor.view(event.target, event.now)
        state = self._state(view, still=event.target in self._gone)
        logger.warning(
            "%(target)s %(is)s%(why)s: its circuit is open, nothing is sent %(there)s for %(wait).0f s.",
            {
                "target": f"The proxy {event.target}" if is_proxy else event.target,
                "is": state,
                "why": self._why(event, view if state == FLAKY[0] else None, is_proxy=is_proxy),
                "there": "through it" if is_proxy else "there",
                "wait": max(0.0, until - self.runtime.now()),
            },
        )
        self.rescheduler.wake_at(until)
        if view.give_up_at is not None:
            self._gone[event.target] = view.give_up_at
            self.rescheduler.wake_at(view.give_up_at)

    def _state(self, view: TargetView, *, still: bool) -> str:
        """What a target or a proxy does whose circuit opens."""
        by_share = DOWN if view.down else FLAKY
        return (by_share if self._outcome is None else NOT_DOWN.get(self._outcome.class_, by_share))[still]

    def _why(self, event: GuardEvent, flaky: TargetView | None, *, is_proxy: bool) -> str:
        """The last outcome in brackets, and how many answers failed where others were good; nothing where no answer
        moved the circuit.
        """
        if self._outcome is None:
            return ""
        why = f"{self._outcome.class_.value}/{self._outcome.reason}"
        if is_proxy and self._outcome.reason == "proxy_unreachable" and self.unreachable.last is not None:
            why = self.unreachable.last
        if flaky is None:
            return f" ({why})"
        if flaky.row:
            return f" ({flaky.row} answers in a row, the last one {why})"
        # What TARGETS says of "*" is of targets: an endpoint's circuit goes by the settings of all.
        guard = self.runtime.config.guard if is_proxy else self.runtime.governor.settings_of(event.target)
        window = guard.circuit_window
        return f" ({flaky.failure_ratio:.0%} of its answers in the last {lasting(window)}, the last one {why})"

    def _circuit_closed(self, event: GuardEvent) -> None:
        self._gone.pop(event.target, None)
        logger.info("%s is well again: its circuit is closed.", event.target)

    def _target_given_up(self, event: GuardEvent) -> None:
        reason, not_before = self._given_up(event)
        if event.target in self.runtime.ended_targets:
            return
        self.runtime.ended_targets[event.target] = reason
        stays = "stay in the job" if self.runtime.keeps_waiting else "become dead letters"
        logger.error(
            "%(target)s is given up for this run (%(reason)s): its requests %(stays)s.",
            {"target": event.target, "reason": reason, "stays": stays},
        )
        self.rescheduler.end_targets({event.target}, reason, not_before)
        for queue in self.runtime.queues:
            queue.look_again(event.target)
        self.rescheduler.wake_at(self.runtime.now())

    def _endpoint_refused(self, event: GuardEvent) -> None:
        logger.error(
            "Nothing more is sent through the proxy %s in this run: it refuses us, and said why above.", event.target
        )
        self._end_gateway(event, "proxy_refused", None)

    def _endpoint_given_up(self, event: GuardEvent) -> None:
        reason, not_before = self._given_up(event)
        stays = "stays in the job" if self.runtime.keeps_waiting else "becomes a dead letter"
        logger.error(
            "The proxy %(proxy)s is given up for this run (%(reason)s%(why)s): what would go through it %(stays)s.",
            {
                "proxy": event.target,
                "reason": reason,
                "why": f"; {self.unreachable.last}" if reason == "circuit_open" and self.unreachable.last else "",
                "stays": stays,
            },
        )
        self._end_gateway(event, reason, not_before)

    def _given_up(self, event: GuardEvent) -> tuple[str, float | None]:
        """Why the target or endpoint of *event* was given up, and until when, by the wall clock."""
        given_up = self.runtime.governor.given_up(event.target, self.runtime.now(), event.target)
        if given_up is None or given_up.not_before is None:
            return (given_up.reason if given_up is not None else "circuit_open"), None
        return given_up.reason, self.runtime.wall_at(given_up.not_before)

    def _end_gateway(self, event: GuardEvent, reason: str, not_before: float | None) -> None:
        if event.target == self.runtime.endpoint and self.runtime.gateway_ended is None:
            self.runtime.gateway_ended = reason
            waiting = {entry.target for entry in self.runtime.room}
            ended = {target for target in waiting if not self.runtime.is_direct(target)}
            self.rescheduler.end_targets(ended, reason, not_before)
        self.rescheduler.wake_at(self.runtime.now())
