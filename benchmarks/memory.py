"""Memory that stays: ``python benchmarks/memory.py [--quick]``.

Each number is what a process of its own grew by (resident set), divided by how many there are: targets that
gave one good answer and are not used any more, and retries that wait. Both went through the middleware's hooks. Targets
come a hundred a second, or all at once: then nothing of them could be forgotten yet.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kit import Table, arguments, in_a_process, verdict
from scrapy import Request, Spider, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.http import Response
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.middleware import ResiproxyMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

WARM = 1_000
"""Made before the first look at the memory: whatever is there once must not be counted."""
PACE = 0.01
"""Seconds between two requests: what is kept for the last minute is not kept for all."""
AT_ONCE = 1e-5
PROXY = "http://user-session-{session}:password@127.0.0.1:1"
NEVER_TRIPS = {"RESIPROXY_CIRCUIT_MIN_REQUESTS": 10**9, "RESIPROXY_CIRCUIT_CONSECUTIVE": 10**9}
HEADERS = {
    "Accept": "text/html,application/xhtml+xml",
    "Accept-Language": "en",
    "User-Agent": "Scrapy (+https://scrapy.org)",
    "Accept-Encoding": "gzip, deflate",
    "Referer": "http://shop.example/list?page=1",
}


class BenchSpider(Spider):
    name = "bench"

    def parse(self, response: Response) -> None:
        """Nothing."""


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096


class Crawl:
    """A crawler that does not run, with our middleware."""

    def __init__(self, pace: float = PACE, **settings: Any) -> None:
        self.pace = pace
        self.crawler = get_crawler(
            BenchSpider,
            {
                "DOWNLOADER_MIDDLEWARES_BASE": {},
                "DOWNLOADER_MIDDLEWARES": {HttpProxyMiddleware: 750, ResiproxyMiddleware: 585},
                "RESIPROXY_WAITING_MAX": 10**7,
                "LOG_LEVEL": "CRITICAL",
                **settings,
            },
        )
        self.crawler.spider = BenchSpider.from_crawler(self.crawler)
        self.manager = DownloaderMiddlewareManager.from_crawler(self.crawler)
        self.crawler.engine = SimpleNamespace(running=True, downloader=SimpleNamespace(middleware=self.manager))
        (self.hooks,) = (each for each in self.manager.middlewares if isinstance(each, ResiproxyMiddleware))
        self.elapsed = 0.0
        self.hooks.runtime.now = lambda: self.elapsed
        self.send("spider_opened")

    def send(self, signal: str, **arguments: Any) -> None:
        arguments["spider"] = self.crawler.spider
        self.crawler.signals.send_catch_log(signal=getattr(signals, signal), **arguments)

    def fetch(self, request: Request, status: int) -> Any:
        """What the middleware makes of a request and its answer."""
        self.elapsed += self.pace
        self.send("request_scheduled", request=request)
        self.hooks.process_request(request=request)
        response = Response(request.url, status=status, body=b"x" * 100)
        self.send("response_downloaded", response=response, request=request)
        self.send("request_left_downloader", request=request)
        return self.hooks.process_response(request=request, response=response)


def page(number: int, host: str = "shop.example") -> Request:
    """As a spider makes one, after Scrapy's middlewares."""
    meta = {"depth": 2, "download_timeout": 180.0, "page": number, "category": "lamps"}
    return Request(f"http://{host}/item/{number}", headers=HEADERS, meta=meta, callback=None)


def idle_targets(pace: float, **settings: Any) -> Callable[[int], Any]:
    crawl = Crawl(pace, **settings)
    return lambda number: crawl.fetch(page(number, f"shop{number}.example"), 200)


def waiting_retries(**settings: Any) -> Callable[[int], Any]:
    crawl = Crawl(**NEVER_TRIPS, **settings)
    return lambda number: crawl.fetch(page(number), 503)


def scheduled_requests() -> Callable[[int], Any]:
    crawler = get_crawler(BenchSpider)
    queue = ScrapyPriorityQueue(crawler, LifoMemoryQueue, "")
    return lambda number: queue.push(page(number))


WHAT: dict[str, Callable[[], Callable[[int], Any]]] = {
    "targets": lambda: idle_targets(PACE),
    "targets at once": lambda: idle_targets(AT_ONCE),
    "targets with sessions": lambda: idle_targets(PACE, RESIPROXY_PROXY=PROXY),
    "targets with sessions at once": lambda: idle_targets(AT_ONCE, RESIPROXY_PROXY=PROXY),
    "retries": waiting_retries,
    "retries with sessions": lambda: waiting_retries(RESIPROXY_PROXY=PROXY),
    "scheduled": scheduled_requests,
}


async def measure(what: str, count: int) -> float:
    """Bytes of each. Asynchronous, because timers need a loop; it never runs."""
    work = WHAT[what]()
    for number in range(WARM):
        work(number)
    before = resident()
    for number in range(WARM, WARM + count):
        work(number)
    return (resident() - before) / count


def main() -> None:
    count = 20_000 if arguments(__doc__).quick else 100_000
    with ThreadPoolExecutor(2) as pool:
        grown = {what: pool.submit(in_a_process, "memory.py", what, count) for what in WHAT}
    took = {what: future.result()["bytes"] for what, future in grown.items()}
    table = Table(f"Memory, in bytes, at {count:,} of each", ("", "bytes", "stock", "within"))
    stock = f"{took['scheduled']:.0f} (the same request in the scheduler's memory queue)"
    for what, name, limit in (
        ("targets", "idle target", 600),
        ("targets at once", "... all at once", 600),
        ("targets with sessions", "... with sessions", None),
        ("targets with sessions at once", "... with sessions, all at once", None),
        ("retries", "waiting retry", 3000),
        ("retries with sessions", "... with sessions", None),
    ):
        within = "" if limit is None else verdict(took[what], limit)
        table.add(name, f"{took[what]:.0f}", stock if what == "retries" else "-", within)
    table.print()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps({"bytes": asyncio.run(measure(sys.argv[1], int(sys.argv[2])))}))
    else:
        main()
