"""CPU that the middleware costs per good response: ``python benchmarks/cpu.py [--quick]``.

The hooks are called as Scrapy's middleware manager calls them, and (where the table says so) by that manager itself.
Every request and response is a fresh one, and has been fingerprinted, as the dupefilter does it before we come.
"""

from __future__ import annotations

import statistics
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kit import Table, arguments, cpu_of, ratio, take_turns, verdict, without_garbage_collection
from pages import page
from scrapy import Request, Spider, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.http import HtmlResponse, JsonResponse, Response
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.middleware import ResiproxyMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 64
"""Requests that are made, and then measured, at once: they are still in the processor's caches, as in a crawl."""
BATCHES = 16
"""Batches of one case in a row: the median is that of a processor that has warmed to it."""
HOSTS = 50
PROXY = "http://user-session-{session}:password@127.0.0.1:1"

PAGES: dict[str, Callable[[Request], Response]] = {
    "binary": lambda request: Response(request.url, body=bytes(400), headers={"Content-Type": "image/png"}),
    "json": lambda request: JsonResponse(
        request.url, body=b'{"items": []}', headers={"Content-Type": "application/json"}
    ),
    "10 kB": lambda request: HtmlResponse(request.url, body=SMALL, headers={"Content-Type": "text/html"}),
    "100 kB": lambda request: HtmlResponse(request.url, body=LARGE, headers={"Content-Type": "text/html"}),
}
SMALL, LARGE = page(10_000), page(100_000)


class ShopSpider(Spider):
    name = "shop"

    def parse(self, response: Response) -> None:
        """Nothing: callbacks are not measured."""


class Bench:
    """A crawler that does not run, with one middleware or none."""

    def __init__(self, *middlewares: type, **settings: Any) -> None:
        self.crawler = get_crawler(
            ShopSpider,
            {
                "DOWNLOADER_MIDDLEWARES_BASE": {},
                "DOWNLOADER_MIDDLEWARES": {cls: place for place, cls in enumerate(middlewares)},
                **settings,
            },
        )
        self.crawler.spider = ShopSpider.from_crawler(self.crawler)
        self.manager = DownloaderMiddlewareManager.from_crawler(self.crawler)
        self.middleware: Any = self.manager.middlewares[0] if middlewares else None
        self.crawler.engine = SimpleNamespace(running=True, downloader=SimpleNamespace(middleware=self.manager))
        self.stamp: Callable[[Request], None] = lambda request: None
        if isinstance(self.middleware, ResiproxyMiddleware):
            self.stamp = self.middleware.crawl.entrance.request_scheduled
        self.crawler.signals.send_catch_log(signals.spider_opened, spider=self.crawler.spider)
        self._made = 0

    def batch(self, answer: Callable[[Request], Response]) -> list[tuple[Request, Response]]:
        pairs = []
        for number in range(self._made, self._made + BATCH):
            request = Request(f"http://shop{number % HOSTS}.example/item/{number}")
            self.crawler.request_fingerprinter.fingerprint(request)
            pairs.append((request, answer(request)))
        self._made += BATCH
        return pairs

    def hooks(self, answer: Callable[[Request], Response]) -> float:
        """Both hooks, called directly."""
        pairs, judge = self.batch(answer), self.middleware.process_response
        ask = getattr(self.middleware, "process_request", None)
        for request, _ in pairs:
            self.stamp(request)

        def work() -> None:
            for request, response in pairs:
                if ask is not None:
                    ask(request=request)
                judge(request=request, response=response)

        return cpu_of(work, BATCH)

    def through_manager(self, answer: Callable[[Request], Response]) -> float:
        """The same through Scrapy's manager."""
        pairs, answers, download = self.batch(answer), {}, self.manager.download_async
        for request, response in pairs:
            self.stamp(request)
            answers[request] = response

        async def handler(request: Request) -> Response:
            return answers[request]

        def work() -> None:
            for request, _ in pairs:
                with suppress(StopIteration):
                    download(handler, request).send(None)

        return cpu_of(work, BATCH)

    def with_signals(self, answer: Callable[[Request], Response]) -> float:
        """Both hooks, if any, and the signals that the engine and the downloader send for a request."""
        pairs, send, spider = self.batch(answer), self.crawler.signals.send_catch_log, self.crawler.spider
        ask = getattr(self.middleware, "process_request", None)
        judge = getattr(self.middleware, "process_response", None)

        def work() -> None:
            for request, response in pairs:
                send(signal=signals.request_scheduled, request=request, spider=spider, dont_log=())
                if ask is not None:
                    ask(request=request)
                request.meta["download_slot"] = "shop.example"
                send(signal=signals.request_reached_downloader, request=request, spider=spider)
                send(signal=signals.response_downloaded, response=response, request=request, spider=spider)
                send(signal=signals.request_left_downloader, request=request, spider=spider)
                if judge is not None:
                    judge(request=request, response=response)

        return cpu_of(work, BATCH)


def in_a_row(batch: Callable[[], float]) -> float:
    with without_garbage_collection():
        return statistics.median(batch() for _ in range(BATCHES))


def main() -> None:
    rounds = 2 if arguments(__doc__).quick else 7
    retry, ours, nothing = Bench(RetryMiddleware), Bench(ResiproxyMiddleware), Bench()
    proxied = Bench(ResiproxyMiddleware, HttpProxyMiddleware, RESIPROXY_PROXY=PROXY)
    binary = PAGES["binary"]
    batches: dict[str, Callable[[], float]] = {
        "retry": lambda: retry.hooks(binary),
        "hooks": lambda: ours.hooks(binary),
        "json": lambda: ours.hooks(PAGES["json"]),
        "proxied": lambda: proxied.hooks(binary),
        "retry signals": lambda: retry.with_signals(binary),
        "hooks signals": lambda: ours.with_signals(binary),
        "proxied signals": lambda: proxied.with_signals(binary),
        "no signals": lambda: nothing.with_signals(binary),
        "10 kB": lambda: ours.hooks(PAGES["10 kB"]),
        "100 kB": lambda: ours.hooks(PAGES["100 kB"]),
        "empty manager": lambda: nothing.through_manager(binary),
        "retry manager": lambda: retry.through_manager(binary),
        "hooks manager": lambda: ours.through_manager(binary),
    }
    took = take_turns(rounds, {name: partial(in_a_row, batch) for name, batch in batches.items()})
    sent, managed = took["no signals"], took["empty manager"]
    stock = took["retry"]
    table = Table(
        "CPU per good response, in microseconds",
        ("", "RetryMiddleware", "ours", "ratio", "within"),
        notes=[
            "With signals: less what it costs to send the same four signals to nobody.",
            "Through Scrapy's manager: less what a manager without middlewares costs.",
        ],
    )

    def row(name: str, theirs: float, own: float, limit: float | None) -> None:
        within = "" if limit is None else verdict(own, limit)
        table.add(name, f"{theirs:.1f}", f"{own:.1f}", ratio(own, theirs), within)

    row("both hooks, binary answer (no body scan)", stock, took["hooks"], 10)
    row("both hooks, small JSON", stock, took["json"], 10)
    row("... through Scrapy's manager", took["retry manager"] - managed, took["hooks manager"] - managed, None)
    row("... with our signal handlers", took["retry signals"] - sent, took["hooks signals"] - sent, 25)
    row("both hooks, on a session of a proxy", stock, took["proxied"], None)
    row("... with our signal handlers", took["retry signals"] - sent, took["proxied signals"] - sent, None)
    row("both hooks, page of 10 kB", stock, took["10 kB"], 60)
    row("both hooks, page of 100 kB", stock, took["100 kB"], 120)
    table.print()


if __name__ == "__main__":
    main()
