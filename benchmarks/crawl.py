"""CPU of a whole crawl, stock Scrapy beside ours: ``python benchmarks/crawl.py [--quick]``.

The crawls take turns, each in a process of its own, against a server in another process. What is compared is the user
and system time of the crawling process for each request, from the start of the crawl to its end. Whatever else the
machine is doing can only add to it, so the lowest of each is what it costs.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kit import HERE, Table, arguments, in_a_process
from pages import page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "CLOSESPIDER_TIMEOUT": 120,
}
ANSWER = page(10_000)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)


class Site(asyncio.Protocol):
    """Answers every GET with the same page."""

    def __init__(self) -> None:
        self.seen = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.seen += data
        while b"\r\n\r\n" in self.seen:
            _, _, self.seen = self.seen.partition(b"\r\n\r\n")
            self.transport.write(HEAD + ANSWER)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Site, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # It ends with the benchmark that started it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def site() -> Iterator[int]:
    """A server in a process of its own; its port."""
    command = [sys.executable, str(HERE / "crawl.py"), "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def crawl(kind: str, port: int, urls: int) -> None:
    """Crawl, and print the CPU that it took."""
    from scrapy import Request, Spider, signals
    from scrapy.crawler import CrawlerProcess

    class BenchSpider(Spider):
        name = "bench"

        async def start(self) -> AsyncIterator[Request]:
            for number in range(urls):
                yield Request(f"http://127.0.0.1:{port}/item/{number}")

        def parse(self, response: Any) -> None:
            """Nothing: callbacks are not measured."""

    addons = {"scrapy_resiproxy.Addon": 500} if kind == "ours" else {}
    process = CrawlerProcess({**SETTINGS, "ADDONS": addons})
    crawler = process.create_crawler(BenchSpider)
    process.crawl(crawler)
    marks = []
    # From here on: what is loaded at start is paid once for a crawl, not for a request.
    crawler.signals.connect(
        lambda: marks.append(resource.getrusage(resource.RUSAGE_SELF)), signals.spider_opened, weak=False
    )
    process.start()
    before = marks[0]
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answers = crawler.stats.get_value("downloader/response_status_count/200") if crawler.stats else 0
    print(json.dumps({"cpu": spent / urls * 1e6, "answers": answers}))


def main() -> None:
    quick = arguments(__doc__).quick
    rounds, urls = (4, 1000) if quick else (12, 2000)
    seen: dict[str, list[float]] = {"stock": [], "ours": []}
    with site() as port:
        for turn in range(rounds):
            for kind in ("stock", "ours") if turn % 2 else ("ours", "stock"):
                crawled = in_a_process("crawl.py", kind, port, urls)
                assert crawled["answers"] == urls, crawled
                seen[kind].append(crawled["cpu"])
    table = Table(
        f"CPU of a whole crawl of {urls} pages of 10 kB, in microseconds per request",
        (f"of {rounds} turns", "stock", "ours", "difference", "within"),
    )
    for what, measure in (("the lowest", min), ("the median", statistics.median)):
        stock, ours = measure(seen["stock"]), measure(seen["ours"])
        more = (ours / stock - 1) * 100
        within = f"{'yes' if more <= 3 else 'NO'} (3 %)" if measure is min else ""
        table.add(what, f"{stock:.0f}", f"{ours:.0f}", f"{more:+.1f} %", within)
    table.print()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve"]:
            asyncio.run(serve())
        case ["stock" | "ours" as kind, port, urls]:
            crawl(kind, int(port), int(urls))
        case _:
            main()
