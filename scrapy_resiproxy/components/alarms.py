"""What the log says while a crawl runs: a line for every target that is not well, and that retries grow too many."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_resiproxy.report import GIVEN_UP, Sickness, sick_line
from scrapy_resiproxy.tally import AllCounts
from scrapy_resiproxy.wording import lasting

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.governor import TargetView
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

LINES_AT_MOST = 10
SICK_SHARE = 0.2
"""A target of whose answers so many failed since the last line gets one."""
TELLING_FIRSTS = 10
"""First attempts from which on a ratio per first attempt means something: with fewer the span goes on."""


@dataclass(slots=True)
class Look:
    """What was counted at an earlier moment."""

    at: float
    counts: AllCounts = field(default_factory=AllCounts)
    top: tuple[str, str, str] | None = None
    """The (class, reason, blame) that failed most in the last span with failures."""


class Alarms:
    """The lines of one crawl. Each speaks of what came since the one before it, and says how long that was."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.settings = runtime.config.report
        self._start = runtime.now()
        self._looks: dict[str, Look] = {}
        """The last look at each target that was among the worst."""
        self._demand = Look(self._start)

    def say(self) -> None:
        """Every LOGSTATS_INTERVAL."""
        self._say_who_is_sick()
        self._warn_of_retries()

    def _say_who_is_sick(self) -> None:
        """One line for each sick target, the worst of the crawl first."""
        lines = 0
        for target in self.runtime.tally.worst(max(LINES_AT_MOST, self.settings.stats_max_targets)):
            counts = self.runtime.tally.targets[target]
            if not isinstance(counts, AllCounts) or not counts.reasons:
                break  # It never failed, so none after it did: worst() goes by failures first.
            line = self._line(target, counts)
            if line is not None and lines < LINES_AT_MOST:
                logger.warning("%s", line, extra={"spider": self.runtime.crawler.spider})
                lines += 1

    def _line(self, target: str, counts: AllCounts) -> str | None:
        now = self.runtime.now()
        last = self._looks.get(target) or Look(self._start)
        span = counts.less((last.counts,))
        self._looks[target] = Look(now, counts.less(()), span.top_reason() or last.top)
        view = self.runtime.governor.view(target, now)
        state = _state(view, failing=bool(span.judged) and span.failed / span.judged >= SICK_SHARE)
        return None if state is None else sick_line(self._sickness(target, state, view, now, last), span)

    def _sickness(self, target: str, state: str, view: TargetView, now: float, last: Look) -> Sickness:
        goes_on = view.given_up is None
        return Sickness(
            target=target,
            state=state,
            for_seconds=None if view.gone_since is None else now - view.gone_since,
            span=now - last.at,
            before=last.top,
            proxied=self.runtime.pool is not None and not self.runtime.is_direct(target),
            waiting=self.runtime.room.count(target) + (self.runtime.pending(target) or 0),
            next_probe=view.next_probe - now if view.next_probe is not None and goes_on else None,
            give_up=view.give_up_at - now if view.give_up_at is not None and goes_on else None,
            held=None if view.hold_until is None else view.hold_until - now,
            rate=view.rate,
        )

    def _warn_of_retries(self) -> None:
        """The demand for retries is the earliest alarm: the budget caps what is sent, not what is wanted."""
        now, total, last = self.runtime.now(), self.runtime.tally.total, self._demand
        span = total.less((last.counts,))
        if span.firsts < TELLING_FIRSTS:
            return
        self._demand = Look(now, total.less(()))
        warn = self.settings.retry_demand_warn
        if warn and span.retry_demand_ratio >= warn:
            logger.warning(
                "Retries wanted per request in the last %(span)s: %(wanted).2f (RESIPROXY_RETRY_DEMAND_WARN is "
                "%(warn)g); %(sent).2f were sent.",
                {
                    "span": lasting(now - last.at),
                    "wanted": span.retry_demand_ratio,
                    "warn": warn,
                    "sent": span.retry_ratio,
                },
            )


def _state(view: TargetView, *, failing: bool) -> str | None:
    """What a target is called; None for one that is well."""
    if view.given_up is not None:
        return GIVEN_UP
    if view.state != "closed":
        return view.state
    if failing:
        return "failing"
    return "slowed down" if view.hold_until is not None else None
