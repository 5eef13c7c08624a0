"""The crawling side of ``tunnels.py``: one job in one process, with Scrapy's handler or with ours."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path

from scrapy.utils.reactor import install_reactor

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.test import get_crawler
from twisted.internet import reactor

HANDLERS = {
    "stock": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
    "ours": "scrapy_resiproxy.components.tunnel_handler.TunnelDownloadHandler",
}

DEFAULT_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language": "en",
    "User-Agent": "Scrapy/2.19.0 (+https://scrapy.org)",
    "Accept-Encoding": "gzip, deflate",
}
"""What Scrapy's middlewares add."""


class Client:
    def __init__(self, job):
        crawler = get_crawler(Spider, {"DOWNLOAD_TIMEOUT": 30, "LOG_LEVEL": "ERROR", **job["settings"]})
        crawler.spider = crawler._create_spider("bench")
        self.handler = build_from_crawler(load_object(HANDLERS[job["handler"]]), crawler)
        self.crawler = crawler
        self.job = job
        self.failed = 0

    async def get(self, session="s0", method="GET", body=b"", host=None):
        proxy = f"http://127.0.0.1:{self.job['proxy']}"
        login = "Basic " + session  # The relay does not look at it; a session is a login, as with a real vendor.
        meta = {"proxy": proxy, "download_timeout": self.job.get("timeout", 30)}
        url = f"https://{host or 'localhost'}:{self.job['origin']}/"
        headers = {**DEFAULT_HEADERS, "Proxy-Authorization": login}
        request = Request(url, headers=headers, meta=meta, method=method, body=body)
        try:
            await self.handler.download_request(request)
        except Exception as error:
            self.failed += 1
            return error
        return None

    async def steady(self):
        """Each of some sessions sends one request every so many seconds."""
        every, until = self.job["every"], time.monotonic() + self.job["seconds"]
        sessions = self.job.get("sessions", 1)

        async def one(number):
            due = time.monotonic() + number * every / sessions
            while due < until:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await self.get(f"s{number}")
                due += every

        await asyncio.gather(*(one(n) for n in range(sessions)))
        return {}

    async def burst(self):
        """Eight at once, then one every so often; how many tunnels are open at the end is for the relay to say."""
        await asyncio.gather(*(self.get() for _ in range(8)))
        end = time.monotonic() + self.job["seconds"]
        while time.monotonic() < end:
            await asyncio.sleep(self.job["every"])
            await self.get()
        print(json.dumps({"now": True}), flush=True)
        await asyncio.sleep(0.3)
        return {}

    async def flood(self):
        """So many requests, so many at once, on one session."""
        await asyncio.gather(*(self.get() for _ in range(self.job["at_once"])))
        gate, start = asyncio.Semaphore(self.job["at_once"]), time.perf_counter()

        async def one():
            async with gate:
                await self.get()

        await asyncio.gather(*(one() for _ in range(self.job["requests"])))
        return {"seconds": time.perf_counter() - start}

    async def dying(self):
        """One request after the other on a tunnel that dies as it is written."""
        for _ in range(self.job["requests"]):
            await self.get(method=self.job["method"], body=self.job["body"].encode())
            await asyncio.sleep(0.02)
        return {}

    async def memory(self):
        """Bytes of resident memory for each of so many idle tunnels."""
        await self.get("warm-up")
        before = resident()
        for number in range(self.job["tunnels"]):
            await self.get(f"m{number}")
        return {"bytes_each": (resident() - before) / self.job["tunnels"]}

    async def failures(self):
        """What each failure takes, and the sockets that are left."""
        slowest, waiting, left = 0.0, 0, {}
        for name in self.job["scripts"]:
            fds, start = sockets(), time.perf_counter()
            await asyncio.gather(*(self.get(host=f"{name}.test") for _ in range(5)))
            took = time.perf_counter() - start
            slowest, waiting = max(slowest, took), waiting + (took > 0.9 * self.job["timeout"])
            await asyncio.sleep(0.1)
            if sockets() > fds:
                left[name] = sockets() - fds
        return {"slowest": slowest, "waiting": waiting, "leaking": len(left)}

    async def silent(self):
        """One request, a silence, and what the next one meets."""
        await self.get()
        await asyncio.sleep(self.job["idle"])
        start = time.perf_counter()
        await self.get()
        return {"seconds": time.perf_counter() - start}


class Pages(Spider):
    """The same page so many times."""

    name = "pages"

    async def start(self):
        job = self.crawler.settings.getdict("JOB")
        proxy = f"http://s0:x@127.0.0.1:{job['proxy']}"
        meta = {} if job["handler"] == "add-on" else {"proxy": proxy}
        for number in range(job["requests"]):
            yield Request(f"https://localhost:{job['origin']}/?{number}", meta=dict(meta))

    def parse(self, response):
        yield {"size": len(response.body)}


async def crawl(job):
    """Seconds that a whole crawl takes from its opening to its end."""
    settings = {
        "JOB": job,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    }
    if job["handler"] == "ours":
        settings["DOWNLOAD_HANDLERS"] = {"https": HANDLERS["ours"]}
    if job["handler"] == "add-on":
        settings |= {
            "ADDONS": {"scrapy_resiproxy.Addon": 500},
            "RESIPROXY_PROXY": f"http://user-{{session}}:x@127.0.0.1:{job['proxy']}",
            "RESIPROXY_SESSIONS_PER_TARGET": 1,
        }
    crawler = AsyncCrawlerRunner(settings).create_crawler(Pages)
    moments = []

    def begin():
        # A full collection takes as long as 25 pages and comes when the imports before it have left enough behind:
        # all begin with the same distance to the next one.
        gc.collect()
        note()

    def note():
        moments.append((time.perf_counter(), time.process_time()))

    crawler.signals.connect(begin, signals.engine_started)
    crawler.signals.connect(note, signals.engine_stopped)
    await crawler.crawl_async()
    (wall, cpu), (wall_end, cpu_end) = moments
    stats = crawler.stats
    return {
        "wall": wall_end - wall,
        "cpu": cpu_end - cpu,
        "pages": stats.get_value("item_scraped_count", 0),
        "tunnels": stats.get_value("resiproxy/tunnel/opened_count", "-"),
    }


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets():
    return sum(os.path.realpath(p).count("socket:") for p in Path("/proc/self/fd").iterdir())


async def main(job):
    if job["name"] == "crawl":
        return await crawl(job)
    client = Client(job)
    result = await getattr(client, job["name"])()
    transport = getattr(client.handler, "_transport", None)
    stats = transport.stats() if transport else {}
    await client.handler.close()
    return {**result, "failed": client.failed, "stats": stats}


if __name__ == "__main__":
    outcome = []
    d = deferred_from_coro(main(json.loads(sys.argv[1])))
    d.addBoth(outcome.append)
    d.addBoth(lambda _: reactor.stop())
    reactor.run()
    if not isinstance(outcome[0], dict):
        outcome[0].printTraceback()
        sys.exit(1)
    print(json.dumps(outcome[0]), flush=True)
