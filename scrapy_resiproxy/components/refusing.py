"""A refusal to start: one line in the log, and a crawl that ends before anything is sent or written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_resiproxy.components.feeds import leave_untouched
from scrapy_resiproxy.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

REFUSED_REASON: Final = "resiproxy_setting_error"
SOON: Final = 0.01
"""Seconds until an engine that is starting is looked at again."""

_refused: WeakKeyDictionary[Crawler, set[str]] = WeakKeyDictionary()
"""What was said of each crawl."""


def refuse(crawler: Crawler, line: str) -> None:
    """Say *line* and close the spider before anything is sent; once for a crawl, whoever finds it.

    ``scrapy crawl`` and ``scrapy runspider`` end with exit code 1 then. The spider's ``start`` does not run, what a job
    holds stays there, and no item feed is emptied.
    """
    line = redact_text(line)
    if crawler not in _refused:
        _refused[crawler] = set()
        _end(crawler)
    if line not in _refused[crawler]:
        _refused[crawler].add(line)
        logger.error("scrapy_resiproxy refuses to start. %s", line)


def is_refused(crawler: Crawler) -> bool:
    """Whether *crawler* was refused by any of our parts."""
    return crawler in _refused


def _end(crawler: Crawler) -> None:
    """Let the engine start, which others rely on to be stopped in their turn, but do nothing, and close the spider.

    ``scrapy shell`` has no spider yet, and closes by itself.
    """
    if crawler.spider is None:
        return
    crawler.spider.start = _nothing  # type: ignore[method-assign]

    def opened() -> None:
        assert crawler.engine is not None
        crawler.engine.pause()

    def started() -> None:
        leave_untouched(crawler)
        _close_once_running(crawler)

    def stopped() -> None:
        # A crawler without a spider is for Scrapy one whose crawl did not come about: its commands end with code 1.
        crawler.spider = None

    for handler, signal in (
        (opened, signals.spider_opened),
        (_keep_out, signals.request_scheduled),
        (started, signals.engine_started),
        (stopped, signals.engine_stopped),
    ):
        crawler.signals.connect(handler, signal, weak=False)


class RefusingMiddleware:
    """Stands in for our downloader middleware, for whoever downloads without the scheduler while the crawl closes."""

    def process_request(self, request: Request, spider: Spider | None = None) -> None:  # noqa: ARG002
        _keep_out()


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


def _keep_out() -> None:
    raise IgnoreRequest("scrapy_resiproxy refused to start")


def _close_once_running(crawler: Crawler) -> None:
    """An engine that is closed earlier never says that it has stopped, and its extensions are left as they are."""
    engine = crawler.engine
    assert engine is not None
    if engine.spider is None:
        return
    if engine.running:
        deferred_from_coro(engine.close_spider_async(reason=REFUSED_REASON))
    else:
        call_later(SOON, _close_once_running, crawler)
