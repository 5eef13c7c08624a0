"""The extension: counts into Scrapy's stats, a line for every sick target, the table at the end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_resiproxy import signals as our_signals
from scrapy_resiproxy.components.alarms import Alarms
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.refusing import is_refused, refuse
from scrapy_resiproxy.components.replay_hint import command_of
from scrapy_resiproxy.names import STATS_PREFIX
from scrapy_resiproxy.report import cost_line, replay_lines, stats_of, table, tunnel_line
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.settings_reader import ENABLED, is_on
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.tally import Counts

logger = logging.getLogger(__name__)

TABLE_ROWS = 10
INTERVAL_WITHOUT_LOGSTATS = 60.0


class ResiproxyExtension:
    """``EXTENSIONS = {"scrapy_resiproxy.ResiproxyExtension": 0}``."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.runtime = crawl.runtime
        self.settings = crawl.runtime.config.report
        self.alarms = Alarms(crawl.runtime)
        self._loop: Any = None
        self._published: set[str] = set()
        """The stats that were written last, without their prefix."""
        crawl.at_end.append(self.finish)
        connect = self.runtime.crawler.signals.connect
        connect(self.engine_started, signals.engine_started)
        connect(self.circuit_opened, our_signals.circuit_opened)
        connect(self.session_retired, our_signals.session_retired)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ResiproxyExtension:
        if not is_on(crawler.settings, ENABLED):
            raise NotConfigured
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
            self.alarms.say()
        self.runtime.governor.evict(self.runtime.now())
        if self.runtime.pool is not None:
            self.runtime.pool.evict(self.runtime.now())
            self.crawl.sessions.bury_closed()

    def circuit_opened(self, target: str) -> None:
        if target != self.runtime.endpoint:
            for counts in self.runtime.tally.both(target):
                counts.opened += 1

    def session_retired(self, target: str) -> None:
        for counts in self.runtime.tally.both(target):
            counts.retired += 1

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
        room = self.runtime.room
        found = {**stats_of(counts), **self._rarer(counts), "waiting/parked_count": room.parked_of(target)}
        values = {f"targets/{target}/{tail}": value for tail, value in found.items()}
        values[f"targets/{target}/waiting/max"] = room.most_of(target)
        values[f"circuit/state/{target}"] = self.runtime.governor.view(target, self.runtime.now()).state
        return values

    def _others(self, shown: list[str]) -> dict[str, Any]:
        """The targets beyond STATS_MAX_TARGETS, summed: a crawl of a million hosts must not fill the stats."""
        tally = self.runtime.tally
        rest = tally.total.less(tally.targets[target] for target in shown)
        if not rest.requests:
            return {}
        room = self.runtime.room
        parked = room.parked - sum(map(room.parked_of, shown))
        found = {**stats_of(rest), **self._rarer(rest), "waiting/parked_count": parked}
        return {f"targets/other/{tail}": value for tail, value in found.items()}

    def _rarer(self, counts: Counts) -> dict[str, Any]:
        """What the crawl's own stats have from elsewhere, of some targets."""
        found: dict[str, Any] = {"circuit/opened_count": counts.opened}
        if self.runtime.pool is not None:
            found["session/retired_count"] = counts.retired
        for reason, count in (counts.letter_reasons or {}).items():
            found[f"deadletter/reason_count/{reason}"] = count
        return found

    # The end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The end of the crawl: final stats, the table, the cost, and how to get back what was lost."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self.publish()
        tally, office = self.runtime.tally, self.crawl.office
        assert self.runtime.crawler.stats is not None
        left = office.written + office.unwritten + self.crawl.closing.unsent + self.crawl.closing.kept
        self.runtime.crawler.stats.set_value(f"{STATS_PREFIX}/incomplete_count", left)
        if is_refused(self.runtime.crawler) or (not tally.total.judged and not left):
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
        office, kept = self.crawl.office, self.crawl.closing.kept
        if kept:
            waits = counted(kept, "request waits", "requests wait")
            logger.warning("%s in JOBDIR: run the same command again to go on.", waits)
        command = command_of(self.runtime.crawler, self.runtime.config.deadletters.deadletter_redact)
        for line in replay_lines(
            str(office.path), office.written, stored=office.stored, final=office.final, command=command
        ):
            logger.warning("%s", line)
        if office.unwritten:
            logger.warning("%s failed and left no dead letter.", counted(office.unwritten, "request"))
