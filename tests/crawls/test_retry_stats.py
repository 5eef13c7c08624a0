"""Scrapy's own stats, log line and meta of retries: of those that were sent, once each."""

from __future__ import annotations

from typing import Any

import pytest
from days import pages

INLINE = """
class InlineSpider(ProbeSpider):
    async def parse(self, response):
        self.note("page", url=response.url, page="good")
        if "inline" not in response.url:
            for number in range(10):
                response = await self.crawler.engine.download_async(Request(response.urljoin(f"/inline/{number}")))
                self.note("page", url=response.url, page="good")
"""


def retries_logged(crawled: Any) -> list[str]:
    return [line for line in crawled.lines("DEBUG") if "[scrapy.downloadermiddlewares.retry]" in line]


@pytest.mark.parametrize(
    ("behaviour", "count", "spider"),
    [
        ("down:how=reset", 60, ""),
        ("flaky:p=0.5,once=false", 60, ""),
        ("ratelimit:rate=20,burst=5", 40, ""),
        ("outage:start=0,duration=1,how=503", 60, ""),
        ("flaky:p=0.5", 1, INLINE),
    ],
    ids=["given-up", "used-up", "paced", "held", "in-place"],
)
def test_every_retry_that_was_sent_is_counted_once_and_no_other(
    day: Any, behaviour: str, count: int, spider: str
) -> None:
    with day(behaviour) as today:
        name = "InlineSpider" if spider else "ProbeSpider"
        crawled = today.crawl(pages(count), spider=spider, name=name)
        rows = [row["path"] for row in today.lab.ledger() if "path" in row]
    sent = len(rows) - len(set(rows))
    counted = {key: value for key, value in crawled.stats.items() if key.startswith("retry/reason_count/")}
    assert crawled.stats.get("retry/count", 0) == sum(counted.values()) == len(retries_logged(crawled)) == sent
    assert crawled.stats["resiproxy/retry_count"] == sent


REDIRECTED = """
from scrapy.http import HtmlResponse

class Site(Handler):
    asked = {}

    async def download_request(self, request):
        self.asked[request.url] = self.asked.get(request.url, 0) + 1
        if "/item/" in request.url:
            headers = {"Location": request.url.replace("item", "page")}
            return HtmlResponse(request.url, status=302, headers=headers, request=request)
        status = 503 if self.asked[request.url] == 1 else 200
        return HtmlResponse(request.url, status=status, body=b"<html></html>", request=request)

class RedirectedSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, priority=5, **kwargs)

    def parse(self, response):
        self.note("page", url=response.url, page="good", priority=response.request.priority,
                  retry_times=response.meta.get("retry_times"))
"""


def test_the_retry_of_a_page_that_a_request_was_redirected_to_is_one(day: Any) -> None:
    with day("ok") as today:
        settings = {"DOWNLOAD_HANDLERS": {"http": "spider_under_test.Site"}, "RETRY_PRIORITY_ADJUST": -2}
        crawled = today.crawl(pages(3), settings, spider=REDIRECTED, name="RedirectedSpider")
    assert [page["retry_times"] for page in crawled.good] == [1, 1, 1]
    assert crawled.stats["retry/count"] == crawled.stats["resiproxy/retry_count"] == len(retries_logged(crawled)) == 3
    assert crawled.stats["retry/reason_count/503 Service Unavailable"] == 3
    said = "(failed 1 times): 503 Service Unavailable (transient/unavailable)"
    assert all(said in line for line in retries_logged(crawled))
    # Scrapy's redirect middleware adds 2, the retry takes 2 away.
    assert [page["priority"] for page in crawled.good] == [5, 5, 5]
