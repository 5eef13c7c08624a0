"""Passes on what the governor saw happen: signals, one log line each, and what must be woken or ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.unreachable import Unreachable
from scrapy_resiproxy.outcome import OutcomeClass

if TYPE_CHECKING:
    from scrapy_resiproxy.components.flow import Flight
    from scrapy_resiproxy.components.rescheduler import Rescheduler
    from scrapy_resiproxy.guard.governor import GuardEvent
    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

SIGNALS = {
    "circuit_opened": signals.circuit_opened,
    "circuit_half_opened": signals.circuit_half_opened,
    "circuit_closed": signals.circuit_closed,
    "budget_exhausted": signals.budget_exhausted,
}


class Events:
    """The governor's events of one crawl."""

    def __init__(self, runtime: Runtime, rescheduler: Rescheduler) -> None:
        self.runtime = runtime
        self.rescheduler = rescheduler
        self.counts: dict[str, int] = {}
        self.unreachable = Unreachable()
        self._outcome: Outcome | None = None
        """What was reported last, while its events are told."""
        self._gone: dict[str, float] = {}
        """When targets whose circuit is not closed are to be given up."""
        self._gateway_changes = 0
        self._senders = id(runtime.crawler.signals.sender), id(dispatcher.Any)
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

    def take(self, target: str, outcome: Outcome | None = None) -> None:
        """Deal with what has happened since the last call; *target* is the one that moved last, by *outcome*."""
        runtime = self.runtime
        if runtime.endpoint is not None and self._gateway_changed(runtime.endpoint):
            for queue in runtime.queues:
                queue.look_everywhere()
            self.rescheduler.look_everywhere()
        else:
            for queue in runtime.queues:
                queue.look_again(target)
            if runtime.room.holds:
                self.rescheduler.look_again(target)
        self._outcome = outcome
        for event in runtime.governor.take_events():
            self._tell(event)

    def _gateway_changed(self, endpoint: str) -> bool:
        """Whether the circuit of the gateway has changed its state: then what waits for any target may go."""
        changes = self.runtime.governor.changes(endpoint)
        changed, self._gateway_changes = changes != self._gateway_changes, changes
        return changed

    def _tell(self, event: GuardEvent) -> None:
        self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            handler(event)
        signal = SIGNALS.get(event.kind)
        if signal is not None:
            self._send(signal, event)

    def heard(self, signal: object) -> bool:
        """Whether anybody listens to *signal*. To send one to nobody costs ten times the look."""
        for sender in self._senders:
            receivers = dispatcher.connections.get(sender)
            if receivers is not None and (signal in receivers or dispatcher.Any in receivers):
                return True
        return False

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
        logger.warning(
            "%(target)s %(is)s%(why)s: its circuit is open, nothing is sent %(there)s for %(wait).0f s.",
            {
                "target": f"The proxy {event.target}" if is_proxy else event.target,
                "is": self._state(still=event.target in self._gone),
                "why": self._why(is_proxy=is_proxy),
                "there": "through it" if is_proxy else "there",
                "wait": max(0.0, until - self.runtime.now()),
            },
        )
        self.rescheduler.wake_at(until)
        give_up_at = self.runtime.governor.view(event.target, event.now).give_up_at
        if give_up_at is not None:
            self._gone[event.target] = give_up_at
            self.rescheduler.wake_at(give_up_at)

    def _state(self, *, still: bool) -> str:
        """What a target or a proxy does whose circuit opens. One that refuses us is up."""
        if self._outcome is not None and self._outcome.class_ is OutcomeClass.IDENTITY:
            return "still refuses us" if still else "refuses us"
        return "is still down" if still else "is down"

    def _why(self, *, is_proxy: bool) -> str:
        """The last outcome, in brackets; nothing where no answer moved the circuit."""
        if self._outcome is None:
            return ""
        if is_proxy and self._outcome.reason == "proxy_unreachable" and self.unreachable.last is not None:
            return f" ({self.unreachable.last})"
        return f" ({self._outcome.class_.value}/{self._outcome.reason})"

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
