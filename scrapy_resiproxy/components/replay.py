"""Runs dead letters instead of a spider's start requests."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.spidermiddlewares.httperror import HttpErrorMiddleware

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.feeds import ItemFeeds, check_replay
from scrapy_resiproxy.components.foreign import stamp_of
from scrapy_resiproxy.components.ledger import Ledger
from scrapy_resiproxy.components.offline import (
    offline_settings,
    put_up,
    sends_nothing,
    stored_response,
    take_down,
)
from scrapy_resiproxy.components.rebuilding import Rebuilder
from scrapy_resiproxy.components.refusing import refuse
from scrapy_resiproxy.deadletter.index import expand
from scrapy_resiproxy.deadletter.lock import LockedError
from scrapy_resiproxy.deadletter.progress import Delivery, Summary
from scrapy_resiproxy.deadletter.replay import WHY_LEFT, Filter, Selection, select
from scrapy_resiproxy.names import META_REPLAY
from scrapy_resiproxy.redact import MASK
from scrapy_resiproxy.runtime import Runtime
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.settings_reader import ENABLED, is_on
from scrapy_resiproxy.signals import request_dead_lettered
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.deadletter.index import Entry

__all__ = ["ReplaySpiderMiddleware", "replay_settings", "stored_response"]

logger = logging.getLogger(__name__)

PROBLEMS_SHOWN = 20


def replay_settings(settings: BaseSettings, *, offline: bool) -> dict[str, Any]:
    """What must be set, whatever the project says, in a crawl that replays letters."""
    return {"JOBDIR": None, **(offline_settings(settings) if offline else {})}


class ReplaySpiderMiddleware:
    """``SPIDER_MIDDLEWARES = {"scrapy_resiproxy.ReplaySpiderMiddleware": 10}``: there only with a replay to run.

    10 is the place next to the engine: from there it sees what is left of the spider's output after all other
    middlewares, and none of them takes its requests for start requests.
    """

    def __init__(self, crawler: Crawler, runtime: Runtime, wanted: Filter) -> None:
        assert crawler.spider is not None
        self.spider = crawler.spider
        self.crawler = crawler
        self.wanted = wanted
        self.gone = runtime.config.deadletters.deadletter_exclude_http_codes
        self.name = secrets.token_hex(8)
        self.summary = Summary(self.spider.name)
        self.feeds = ItemFeeds(crawler)
        self.ledger = Ledger(self.name, self.summary, self.feeds, runtime.wall)
        validators = (entry.validator for entry in runtime.config.targets.values())
        self.rebuilder = Rebuilder(self.spider, self.ledger, validators)
        self.selection = Selection()
        self._deliveries: dict[int, tuple[Response, Delivery]] = {}
        """By the id of the response, which is held so that the id stays its own."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ReplaySpiderMiddleware | NoStart:
        if not crawler.settings.get("RESIPROXY_REPLAY"):
            raise NotConfigured
        try:
            _check_enabled(crawler)
            check_replay(crawler)
            runtime = Runtime.of(crawler)
            middleware = cls(crawler, runtime, _filter(runtime))
            middleware.choose(runtime)
            middleware.warn_of_direct(runtime)
        except (SettingError, LockedError, OSError) as error:
            refuse(crawler, str(error))
            return NoStart()
        middleware.listen()
        return middleware

    def choose(self, runtime: Runtime) -> None:
        """Lock the feeds and select from them. Raises what makes the crawl stop at its start."""
        if runtime.jobdir:
            raise SettingError("JOBDIR is set; a replay must not mix with a job: add -s JOBDIR=")
        if self.wanted.offline and not sends_nothing(self.crawler.settings):
            raise SettingError(
                "RESIPROXY_REPLAY_FILTER has offline set; that needs `scrapy replay --offline` or the add-on, "
                "which take the download handlers away"
            )
        try:
            files = expand(runtime.config.deadletters.replay)
        except ValueError as error:
            raise SettingError(f"RESIPROXY_REPLAY: {error}") from None
        self.ledger.lock(files)
        self.selection = select(
            files, self.wanted, now=runtime.wall(), rebuilders=self.rebuilder.spiders, fits=self._fits
        )
        self.ledger.remember_older(self.selection.older)
        self.summary.selected = len(self.selection.entries)
        self._announce(files)

    def _fits(self, entry: Entry) -> bool:
        """Whether a letter's spider arguments are those that this spider shows as attributes.

        What a letter may not hold cannot be compared.
        """
        if self.wanted.spider_args:
            return True
        told = {name: str(value) for name, value in json.loads(entry.spider_args).items()}
        return all(MASK in value or str(getattr(self.spider, name, None)) == value for name, value in told.items())

    def _announce(self, files: list[str]) -> None:
        problems = self.selection.problems
        for problem in problems[:PROBLEMS_SHOWN]:
            logger.warning("Skipped: %s", problem)
        if len(problems) > PROBLEMS_SHOWN:
            logger.warning("Skipped: %s", counted(len(problems) - PROBLEMS_SHOWN, "more line"))
        left = [f"{count} {WHY_LEFT[why]}" for why, count in self.selection.left.items()]
        logger.info(
            "Replaying %s from %s; left alone: %s",
            counted(self.summary.selected, "dead letter"),
            ", ".join(files),
            ", ".join(left) or "none",
        )

    def warn_of_direct(self, runtime: Runtime) -> None:
        """Letters that went through a proxy would show this machine's own address to the site now."""
        proxied = sum(entry.proxied for entry in self.selection.entries)
        if proxied and runtime.pool is None and not self.wanted.offline:
            logger.warning(
                "%d of these letters went through a session of a proxy when %s failed, and RESIPROXY_PROXY is not set "
                "now: the site would see another address.",
                proxied,
                "it" if proxied == 1 else "they",
            )

    def listen(self) -> None:
        connect = self.crawler.signals.connect
        connect(self._item_passed, signals.item_scraped)
        connect(self._item_passed, signals.item_dropped)
        connect(self._item_failed, signals.item_error)
        connect(self._dead_lettered, request_dead_lettered)
        connect(self._spider_closed, signals.spider_closed)
        connect(self._engine_stopped, signals.engine_stopped)
        if self.wanted.offline:
            put_up(self.name, self.ledger)

    # In place of the start requests -------------------------------------------------------------------------

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await _discard(start)
        for entry in self.selection.entries:
            # Otherwise Scrapy would take them all into its queue at once, and run the last ones first.
            if self.crawler.engine.needs_backout():
                await self.crawler.signals.wait_for(signals.scheduler_empty)
            request = await self.rebuilder.request(entry)
            if request is not None:
                self.ledger.sent(entry)
                yield request

    # What becomes of them -----------------------------------------------------------------------------------

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        stamp = stamp_of(response.meta)
        if stamp is None:
            async for output in result:
                yield output
            return
        delivery = self._delivered(response, stamp["id"])
        try:
            async for output in result:
                if self._noted(output, delivery):
                    yield output
        except BaseException:
            # The callback raised, or the crawl was stopped before it had yielded everything.
            delivery.failed = True
            raise
        finally:
            delivery.exhausted = True
            self._settle(response)

    def _delivered(self, response: Response, letter_id: str) -> Delivery:
        if id(response) in self._deliveries:
            # Output that another middleware has put in the place of an exception.
            delivery = self._deliveries[id(response)][1]
            delivery.exhausted = False
            return delivery
        delivery = Delivery(letter_id)
        self._deliveries[id(response)] = response, delivery
        if not 200 <= response.status < 300 and self._is_turned_away(response):
            delivery.failed = response.status not in self.gone
        return delivery

    def _is_turned_away(self, response: Response) -> bool:
        """Whether HttpErrorMiddleware keeps *response* from its callback."""
        guard = self.crawler.get_spider_middleware(HttpErrorMiddleware)
        try:
            if guard is not None:
                guard.process_spider_input(response)
        except IgnoreRequest:
            return True
        return False

    def _noted(self, output: Any, delivery: Delivery) -> bool:
        """Count *output*; whether it may go on."""
        if isinstance(output, Request):
            delivery.follow_ups += 1
            # What was made with meta=response.meta is no replay of the letter.
            output.meta.pop(META_REPLAY, None)
            if self.wanted.offline:
                self.summary.unsent += 1
                delivery.failed = True
                return False
        elif output is not None:
            delivery.pending += 1
        return True

    def _item_passed(self, response: Any) -> None:
        if id(response) in self._deliveries:
            self._deliveries[id(response)][1].pending -= 1
            self._settle(response)

    def _item_failed(self, response: Any) -> None:
        if id(response) in self._deliveries:
            self._deliveries[id(response)][1].failed = True
            self._item_passed(response)

    def _settle(self, response: Response) -> None:
        delivery = self._deliveries[id(response)][1]
        if delivery.over:
            del self._deliveries[id(response)]
            if delivery.passed:
                self.ledger.passed(delivery)

    def _dead_lettered(self, letter: dict[str, Any]) -> None:
        office, summary = Crawl.of(self.crawler).office, self.summary
        summary.new_letters += 1
        summary.new_feed, summary.new_stored, summary.new_final = str(office.path), office.stored, office.final
        if letter["replay_of"] is not None:
            self.ledger.superseded(letter["replay_of"], letter["id"])

    def _spider_closed(self, reason: str) -> None:
        self.summary.finish_reason = reason

    def _engine_stopped(self) -> None:
        """Everybody who had something to do when the spider closed has done it: feeds are stored, letters written."""
        take_down(self.name)
        self.ledger.crawl_ended(self.summary.finish_reason)
        logger.info("Replay: %s", self.summary.line())


class NoStart:
    """Stands in where a replay cannot run: the spider's own start requests must not run in its place."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await _discard(start)
        return
        yield


async def _discard(start: AsyncIterator[Any]) -> None:
    """Close a generator that nobody will read."""
    if isinstance(start, AsyncGenerator):
        await start.aclose()


def _check_enabled(crawler: Crawler) -> None:
    if not is_on(crawler.settings, ENABLED):
        raise SettingError(f"RESIPROXY_REPLAY is set; it needs {ENABLED}, which is False.")


def _filter(runtime: Runtime) -> Filter:
    assert runtime.crawler.spider is not None
    try:
        given = Filter.from_mapping(runtime.config.deadletters.replay_filter, now=runtime.wall())
    except ValueError as error:
        raise SettingError(f"RESIPROXY_REPLAY_FILTER: {error}") from None
    return replace(given, spiders=frozenset({runtime.crawler.spider.name}))
