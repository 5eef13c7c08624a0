"""The same failure, met by an ordinary request, by one that a callback awaits, and by a media pipeline's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import scrapy

SOURCE = """
from scrapy.http import HtmlResponse
from scrapy.pipelines.media import MediaPipeline

class Site(Handler):
    answers = {"error": (503, {}), "final": (400, {}), "wall": (200, {"cf-mitigated": "challenge"}),
               "gateway": (502, {"x-brd-err-code": "target_40099"}), "poor": (503, {}), "shop": (200, {})}

    async def download_request(self, request):
        cause = request.url.split("/")[2].partition(".")[0]
        if cause == "gone":
            raise ConnectionResetError("by peer")
        status, headers = self.answers[cause]
        return HtmlResponse(request.url, status=status, headers=headers, body=b"<html></html>", request=request)

class Media(MediaPipeline):
    def get_media_requests(self, item, info):
        return Request(item["media"])

    def media_to_download(self, request, info, *, item=None):
        return None

    def file_path(self, request, response=None, info=None, *, item=None):
        return "nowhere"

    def media_downloaded(self, response, request, info, *, item=None):
        ThreeWaysSpider.running.came("media", request.url, response)

    def media_failed(self, failure, request, info):
        ThreeWaysSpider.running.came("media", request.url, failure.value)

class ThreeWaysSpider(ProbeSpider):
    custom_settings = {"ITEM_PIPELINES": {"spider_under_test.Media": 1}}
    causes = ["error", "final", "wall", "gateway", "poor", "gone"]

    async def start(self):
        ThreeWaysSpider.running = self
        yield Request("http://shop.example/", self.shop)

    async def shop(self, response):
        for cause in self.causes:
            yield Request(f"http://{cause}.example/ordinary", errback=self.failed)
            yield {"media": f"http://{cause}.example/media"}
            url = f"http://{cause}.example/inline"
            try:
                came = await self.crawler.engine.download_async(Request(url))
            except Exception as error:
                came = error
            self.came("inline", url, came)

    def failed(self, failure):
        self.came("ordinary", failure.request.url, failure.value)

    def came(self, way, url, what):
        outcome = getattr(what, "outcome", None)
        self.note("came", way=way, cause=url.split("/")[2].partition(".")[0],
                  what="Response" if hasattr(what, "status") else type(what).__name__,
                  outcome=[outcome.class_, outcome.reason, outcome.blame] if outcome else None)
"""

CAME = {
    # What arrives at an errback, what else arrives, what ours say, and the reason of the letter.
    "error": ("HttpError", "Response", None, "attempts_exhausted"),
    "final": ("HttpError", "Response", None, "terminal"),
    "wall": ("SoftBlock", "SoftBlock", ["identity", "challenge", "session"], "identity_exhausted"),
    "gateway": ("ProxyRefused", "ProxyRefused", ["transient", "proxy_error", "target"], "attempts_exhausted"),
    "poor": ("BudgetExhausted", "BudgetExhausted", ["transient", "unavailable", "target"], "budget_exhausted"),
    "gone": ("ConnectionResetError", "ConnectionResetError", None, "attempts_exhausted"),
}


NO_PROXIES = pytest.mark.skipif(scrapy.version_info < (2, 16), reason="its handler without a reactor ignores proxies")


@pytest.mark.parametrize(
    "reactor", [pytest.param(True, id="reactor"), pytest.param(False, id="no reactor", marks=NO_PROXIES)]
)
def test_a_failure_arrives_the_same_three_ways(day: Any, reactor: bool) -> None:
    plenty = {"budget_min_retries": 1000, "circuit_consecutive": 1000, "circuit_min_requests": 1000}
    settings = {
        "DOWNLOAD_HANDLERS": {"http": "spider_under_test.Site"},
        "RESIPROXY_MAX_ATTEMPTS": 2,
        "RESIPROXY_BUDGET_GLOBAL_MIN_RETRIES": 1000,
        "RESIPROXY_TARGETS": {
            **{f"{cause}.example": plenty for cause in CAME},
            "poor.example": {**plenty, "budget_min_retries": 0, "budget_ratio": 0, "budget_wait": 0},
        },
    }
    with day("ok") as today:
        crawled = today.crawl([], settings, spider=SOURCE, name="ThreeWaysSpider", reactor=reactor)
    came = {(note["cause"], note["way"]): note for note in crawled.notes if note["kind"] == "came"}
    for cause, (at_errback, in_place, outcome, _) in CAME.items():
        assert came[cause, "ordinary"]["what"] == at_errback
        assert came[cause, "inline"]["what"] == came[cause, "media"]["what"] == in_place
        assert [came[cause, way]["outcome"] for way in ("ordinary", "inline", "media")] == [outcome] * 3
    letters = Counter((letter["target"].partition(".")[0], letter["reason"]) for letter in crawled.letters)
    assert letters == {(cause, reason): 3 for cause, (*_, reason) in CAME.items()}
