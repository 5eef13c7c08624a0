"""Crawls one after the other in one process, whatever drives it: a reactor, asyncio's or another, or none."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.python.failure import Failure

from scrapy_resiproxy.components.feeds import permit_overwriting
from scrapy_resiproxy.components.replay import ReplaySpiderMiddleware, replay_settings
from scrapy_resiproxy.deadletter.arguments import remember

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Spider
    from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess

    from scrapy_resiproxy.deadletter.progress import Summary

logger = logging.getLogger(__name__)

PRIORITY: Final = 50
"""Above the command line's 40, for Scrapy's ``crawl`` lays the process's settings over the crawler's again."""


@dataclass(slots=True)
class Run:
    """One crawl that replays letters."""

    shown: str
    """Its name for the user."""
    spidercls: type[Spider]
    arguments: dict[str, Any]
    letters: int
    offline: bool
    settings: dict[str, Any] = field(default_factory=dict)
    """What is set over the project's and the spider's settings."""


class Runs:
    """Runs *runs* in turn on *process* and calls *report* after each with its summary, None if it did not start."""

    def __init__(
        self,
        process: AsyncCrawlerProcess | CrawlerProcess,
        runs: Sequence[Run],
        report: Callable[[Run, Summary | None], None],
    ) -> None:
        self._process = process
        self._runs = list(reversed(runs))
        self._report = report

    def start(self) -> None:
        """Blocks until the last crawl has ended, or until the user stops one."""
        if self._next():
            self._process.start()

    def _next(self) -> bool:
        """Start the next crawl that can be started; False when none is left."""
        while self._runs:
            run = self._runs.pop()
            crawler = self._process.create_crawler(run.spidercls)
            self._configure(crawler, run)
            try:
                ending = self._process.crawl(crawler, **run.arguments)
            except Exception:
                logger.exception("%s did not start", run.shown)
                self._report(run, None)
                continue
            if isinstance(ending, asyncio.Future):
                ending.add_done_callback(partial(self._ended, run, crawler))
            else:
                ending.addBoth(partial(self._ended, run, crawler))
            return True
        return False

    @staticmethod
    def _configure(crawler: Crawler, run: Run) -> None:
        settings = crawler.settings
        overrides = {**run.settings, **replay_settings(settings, offline=run.offline)}
        # Without it the spider's own start requests would run.
        settings.set_in_component_priority_dict("SPIDER_MIDDLEWARES", ReplaySpiderMiddleware, 10)
        overrides["SPIDER_MIDDLEWARES"] = settings.getdict("SPIDER_MIDDLEWARES")
        settings.setdict(overrides, priority=PRIORITY)
        remember(crawler, run.arguments)
        # The command has looked at them, and knows of --allow-overwrite.
        permit_overwriting(crawler)

    def _ended(self, run: Run, crawler: Crawler, result: Any) -> None:
        error = _error(result)
        if error is not None:
            logger.error("%s did not start", run.shown, exc_info=error)
        summary = None if error is not None else _summary(crawler)
        self._report(run, summary)
        if summary is None or summary.finish_reason != "shutdown":
            self._next()


def _error(result: Any) -> BaseException | None:
    """Why a crawl failed, from its task or from what its Deferred fired with."""
    if isinstance(result, asyncio.Future):
        return asyncio.CancelledError() if result.cancelled() else result.exception()
    return result.value if isinstance(result, Failure) else None


def _summary(crawler: Crawler) -> Summary | None:
    """None when the middleware has refused to start."""
    middleware = crawler.get_spider_middleware(ReplaySpiderMiddleware)
    return None if middleware is None else middleware.summary
