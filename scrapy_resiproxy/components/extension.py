"""The extension: counts into Scrapy's stats, a line for every sick target, the table at the end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_resiproxy.components.checks import refuse
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.names import STATS_PREFIX
from scrapy_resiproxy.report import GIVEN_UP, Sickness, cost_line, replay_lines, sick_line, stats_of, table, tunnel_line
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.tally import Counts

logger = logging.getLogger(__name__)

TABLE_ROWS = 10
LINES_AT_MOST = 10
INTERVAL_WITHOUT_LOGSTATS = 60.0
SICK_SHARE = 0.2
"""A target of whose answers so many failed since the last line gets one."""


class ResiproxyExtension:
    """``EXTENSIONS = {"scrapy_resiproxy.ResiproxyExtension": 0}``."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.runtime = crawl.runtime
        self.settings = crawl.runtime.config.report
        self._loop: Any = None
        self._seen: dict[str, tuple[int, int]] = {}
        self._published: set[str] = set()
        """The stats that were written last, without their prefix."""
        self._warned_firsts = 0
        crawl.at_end.append(self.finish)
        connect = self.runtime.crawler.signals.connect
        connect(self.engine_started, signals.engine_started)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ResiproxyExtension:
        try:
            return cls(Crawl.of(crawler))
        except SettingError as error:
            refuse(crawler, str(error))
            raise NotConfigured from None

    def engine_started(self) -> None:
        self._loop = create_looping_call(self.turn)
        self._loop.start(self.settings.logstats_interval or INTERVAL_WITHOUT_LOGSTATS, now=False)

    def turn(self) -> None:
        """Every LOGSTATS_INTERVAL."""
        self.publish()
        if self.settings.logstats_interval:
            self.say_who_is_sick()
            self.warn_of_retries()
        self.runtime.governor.evict(self.runtime.now())
        if self.runtime.pool is not None:
            self.runtime.pool.evict(self.runtime.now())
            self.crawl.sessions.bury_closed()

    # Stats --------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write everything that was counted into the crawl's stats."""
        values = stats_of(self.runtime.tally.total)
        values |= self._crawl_values()
        worst = self.runtime.tally.worst(self.settings.stats_max_targets)
        for target in worst:
            values |= self._target_values(target, self.runtime.tally.targets[target])
        values |= self._others(worst)
        stats = self.runtime.crawler.stats
        assert stats is not None
        for tail, value in values.items():
            stats.set_value(f"{STATS_PREFIX}/{tail}", value)
        # Targets that are no longer among the worst count under "other" now.
        for tail in self._published - values.keys():
            stats.get_stats().pop(f"{STATS_PREFIX}/{tail}", None)
        self._published = set(values)

    def _crawl_values(self) -> dict[str, Any]:
        room, office, counts = self.runtime.room, self.crawl.office, self.crawl.events.counts
        values: dict[str, Any] = {
            "circuit/opened_count": counts.get("circuit_opened", 0),
            "waiting/parked_count": room.parked,
            "waiting/max": room.most,
            "deadletter/written_count": office.written,
        }
        if office.failed_writes:
            values["deadletter/failed_write_count"] = office.failed_writes
        for reason, count in office.reasons.items():
            values[f"deadletter/reason_count/{reason}"] = count
        pool = self.runtime.pool
        if pool is not None:
            values["session/opened_count"] = pool.opened_count
            values["session/retired_count"] = pool.retired_count
            values["session/expired_count"] = pool.expired_count
        return values

    def _target_values(self, target: str, counts: Counts) -> dict[str, Any]:
        values = {f"targets/{target}/{tail}": value for tail, value in stats_of(counts).items()}
        values[f"circuit/state/{target}"] = self.runtime.governor.view(target, self.runtime.now()).state
        return values

    def _others(self, shown: list[str]) -> dict[str, Any]:
        """The targets beyond STATS_MAX_TARGETS, summed: a crawl of a million hosts must not fill the stats."""
        tally = self.runtime.tally
        rest = tally.total.less(tally.targets[target] for target in shown)
        if not rest.requests:
            return {}
        return {f"targets/other/{tail}": value for tail, value in stats_of(rest).items()}

    # Lines --------------------------------------------------------------------------------------------------

    def say_who_is_sick(self) -> None:
        """One line for each sick target, the worst first."""
        lines = 0
        for target in self.runtime.tally.worst(self.settings.stats_max_targets or LINES_AT_MOST):
            counts = self.runtime.tally.targets[target]
            if not counts.reasons or lines == LINES_AT_MOST:
                break
            sickness = self._sickness(target, counts)
            if sickness is not None:
                logger.warning("%s", sick_line(sickness, counts), extra={"spider": self.runtime.crawler.spider})
                lines += 1

    def _sickness(self, target: str, counts: Counts) -> Sickness | None:
        judged, valid = self._seen.get(target, (0, 0))
        self._seen[target] = counts.judged, counts.valid
        answers = counts.judged - judged
        failing = answers and (answers - (counts.valid - valid)) / answers >= SICK_SHARE
        now = self.runtime.now()
        view = self.runtime.governor.view(target, now)
        if view.state == "closed" and view.hold_until is None and view.given_up is None and not failing:
            return None
        state = GIVEN_UP if view.given_up is not None else view.state if view.state != "closed" else "failing"
        return Sickness(
            target=target,
            state=state,
            for_seconds=None if view.gone_since is None else now - view.gone_since,
            waiting=self.runtime.room.count(target) + (self.runtime.pending(target) or 0),
            next_probe=None if view.next_probe is None or view.given_up is not None else view.next_probe - now,
            give_up=None if view.give_up_at is None or view.given_up is not None else view.give_up_at - now,
            held=None if view.hold_until is None else view.hold_until - now,
            rate=view.rate,
        )

    def warn_of_retries(self) -> None:
        """The demand for retries is the earliest alarm: the budget caps what is sent, not what is wanted."""
        total = self.runtime.tally.total
        firsts = total.firsts - self._warned_firsts
        if not self.settings.retry_demand_warn or firsts <= 0:
            return
        if total.retry_demand_ratio >= self.settings.retry_demand_warn:
            logger.warning(
                "Retries wanted per request: %.2f (RESIPROXY_RETRY_DEMAND_WARN is %g); %.2f were sent.",
                total.retry_demand_ratio,
                self.settings.retry_demand_warn,
                total.retry_ratio,
            )
        self._warned_firsts = total.firsts

    def finish(self) -> None:
        """The end of the crawl: final stats, the table, the cost, and how to get back what was lost."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self.publish()
        tally, office = self.runtime.tally, self.crawl.office
        assert self.runtime.crawler.stats is not None
        left = office.written + office.unwritten + self.crawl.unsent + self.crawl.kept
        self.runtime.crawler.stats.set_value(f"{STATS_PREFIX}/incomplete_count", left)
        if not tally.total.judged and not left:
            return
        lines = table(tally, min(TABLE_ROWS, self.settings.stats_max_targets or TABLE_ROWS))
        figures = self.runtime.tunnel_figures()
        if figures is not None and figures.opened:
            lines.append(tunnel_line(figures))
        if self.settings.price_per_gb is not None:
            lines.append(cost_line(tally.total, self.settings.price_per_gb, figures))
        logger.info("What was sent, and what came of it:\n%s", "\n".join(lines))
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        office, kept = self.crawl.office, self.crawl.kept
        if kept:
            waits = counted(kept, "request waits", "requests wait")
            logger.warning("%s in JOBDIR: run the same command again to go on.", waits)
        for line in replay_lines(str(office.path), office.written, stored=office.stored, final=office.final):
            logger.warning("%s", line)
        if office.unwritten:
            logger.warning("%s failed and left no dead letter.", counted(office.unwritten, "request"))
