"""Downloads that pass no scheduler and that whoever awaits them cancels."""

from __future__ import annotations

from typing import Any

import pytest
from days import pages
from scrapy import version_info

SPIDER = """
from scrapy import signals
from scrapy_resiproxy.components.crawl import Crawl

class CancellingSpider(ProbeSpider):
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2}  # The others stay in the downloader's queue.

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.left_for_wire, signals.request_reached_downloader)
        spider.flights, spider.kept = [], []
        return spider

    def left_for_wire(self, request):
        flights = Crawl.of(self.crawler).wire.flights
        self.flights += [flight for key, flight in flights.items() if key() is request and "hang" in request.url]

    def inline(self):
        # Who keeps the requests sees to it that nobody is told of their end by their garbage.
        self.kept = [Request(f"http://hang.example/item/{n}") for n in range(5)]
        return [self.crawler.engine.download_async(request) for request in self.kept]

    def tell(self, results):
        self.note("cancelled", results=results,
                  ended=[flight.permit.ended for flight in self.flights],
                  in_flight=sum(flight.lease.session.use.in_flight for flight in self.flights),
                  proxies=[bool(request.meta.get("proxy")) for request in self.kept])
"""

WITH_ASYNCIO = """
import asyncio

class AsyncioSpider(CancellingSpider):
    async def parse(self, response):
        tasks = [asyncio.ensure_future(download) for download in self.inline()]
        while len(self.flights) < len(tasks):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(20):
            await asyncio.sleep(0)
        self.tell([type(result).__name__ for result in results])
"""

WITH_TWISTED = """
from twisted.internet.defer import Deferred, DeferredList

class TwistedSpider(CancellingSpider):
    async def parse(self, response):
        from twisted.internet import reactor
        downloads = [Deferred.fromCoroutine(download) for download in self.inline()]
        while len(self.flights) < len(downloads):
            turn = Deferred()
            reactor.callLater(0, turn.callback, None)
            await turn
        for download in downloads:
            download.cancel()
        results = await DeferredList(downloads, consumeErrors=True)
        self.tell([failure.type.__name__ for _, failure in results])
"""

SELECT = {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}
WAYS = {
    "asyncio": (WITH_ASYNCIO, "AsyncioSpider", {}),
    "no reactor": (WITH_ASYNCIO, "AsyncioSpider", {"TWISTED_REACTOR_ENABLED": False}),
    "select": (WITH_TWISTED, "TwistedSpider", SELECT),
}
if version_info < (2, 16):
    # Its handler without a reactor ignores proxies, so the crawl is refused.
    del WAYS["no reactor"]


@pytest.mark.parametrize(("spider", "name", "more"), WAYS.values(), ids=WAYS)
def test_a_cancelled_download_gives_permit_and_session_back_at_once(
    day: Any, spider: str, name: str, more: dict[str, Any]
) -> None:
    with day({"shop.example": "ok", "hang.example": "down:how=hang"}) as today:
        crawled = today.crawl(pages(1), {**more, "DOWNLOAD_TIMEOUT": 3}, spider=SPIDER + spider, name=name)
    [told] = [note for note in crawled.notes if note["kind"] == "cancelled"]
    assert told["results"] == ["CancelledError"] * 5
    assert told["ended"] == [True] * 5
    assert told["in_flight"] == 0
    assert told["proxies"] == [True] * 5, "what lies in the downloader's queue is sent all the same"
    assert crawled.stats["finish_reason"] == "finished"
    assert crawled.lines("ERROR") == []
