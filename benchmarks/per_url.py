"""Requests per URL and what is delivered, on five bad days: ``python benchmarks/per_url.py [--quick]``.

The days are played by the lab (``scrapy_resiproxy.lab``), which counts what it was sent. Who crawls is stock Scrapy
with a session taken at random, as people write it by hand, scrapy_resiproxy, and scrapy-rotating-proxies where that is
installed. Each meets a day of its own, side by side with the others.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import Table, arguments, in_a_process

from scrapy_resiproxy.lab import running_lab

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy_resiproxy.lab import RunningLab

HOST = "shop.example"
SESSIONS = [f"s{number}" for number in range(10)]
COMMON: dict[str, Any] = {
    "LOG_LEVEL": "CRITICAL",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CLOSESPIDER_TIMEOUT": 120,
}
SECONDS_FOR_MINUTES: dict[str, Any] = {
    "RESIPROXY_BACKOFF_BASE": 0.3,
    "RESIPROXY_BACKOFF_CAP": 3.0,
    "RESIPROXY_CIRCUIT_COOLDOWN": 1.0,
    "RESIPROXY_CIRCUIT_COOLDOWN_MAX": 2.0,
    "RESIPROXY_CIRCUIT_RECOVERY": 3.0,
    "RESIPROXY_TARGET_GIVE_UP": 15.0,
    "RESIPROXY_BUDGET_WINDOW": 10.0,
}
"""The guards scaled as the days are: an outage takes 8 seconds here."""


@dataclass(frozen=True)
class Day:
    told: str
    behaviour: str
    urls: int


def days(*, quick: bool) -> list[Day]:
    few, many, limited = (200, 200, 60) if quick else (1_000, 500, 200)
    return [
        Day("down for the first 8 s (503)", "outage:duration=8", few),
        Day("down all day (503)", "down", few),
        Day("one page in five fails once (503)", "flaky:p=0.2", few),
        Day("10 pages a second; blocks who does not listen", "ratelimit:rate=10", limited),
        Day("fake pages after 20 of a session (200)", "softblock:pages=20", many),
    ]


def settings_of(kind: str, lab: RunningLab) -> dict[str, Any]:
    """How the crawl of this *kind* goes through the lab's gateway."""
    if kind == "ours":
        addons = {"scrapy_resiproxy.Addon": 500}
        return {**SECONDS_FOR_MINUTES, "ADDONS": addons, "RESIPROXY_PROXY": lab.proxy("{session}")}
    if kind == "rotating-proxies":
        return {
            "ROTATING_PROXY_LIST": [lab.proxy(name) for name in SESSIONS],
            "DOWNLOADER_MIDDLEWARES": {
                "rotating_proxies.middlewares.RotatingProxyMiddleware": 610,
                "rotating_proxies.middlewares.BanDetectionMiddleware": 620,
            },
        }
    return {
        "BADDAY_PROXY": lab.proxy("{session}"),
        "BADDAY_SESSIONS": SESSIONS,
        "DOWNLOADER_MIDDLEWARES": {"scrapy_resiproxy.lab.badday.by_hand.RandomSessionMiddleware": 740},
    }


def crawl(settings: dict[str, Any], urls: int) -> None:
    """Crawl, and print how many good and fake pages came to the callback."""
    from scrapy import Request, Spider
    from scrapy.crawler import CrawlerProcess

    pages: dict[str, set[str]] = {}

    class ShopSpider(Spider):
        name = "shop"

        async def start(self) -> AsyncIterator[Request]:
            for number in range(urls):
                yield Request(f"http://{HOST}/item/{number}")

        def validate_response(self, response: Any) -> bool:
            """What a good page is. Only scrapy_resiproxy asks."""
            return bool(response.css("h1.title") and response.css("span.price"))

        def parse(self, response: Any) -> None:
            # The lab's pages say what they are; no real site does.
            kind = response.css("meta[name=lab-page]::attr(content)").get()
            pages.setdefault(kind, set()).add(response.url)

    process = CrawlerProcess({**COMMON, **settings})
    process.crawl(ShopSpider)
    process.start()
    letters = sum(b'"request":' in line for path in Path().glob("deadletter/**/*.jsonl") for line in path.open("rb"))
    print(json.dumps({"good": len(pages.get("good", ())), "fake": len(pages.get("fake", ())), "letters": letters}))


def play(day: Day, kind: str) -> dict[str, Any]:
    with running_lab({HOST: f"{day.behaviour}+ok:latency=0.02"}) as lab, tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        job = {"settings": settings_of(kind, lab), "urls": day.urls}
        result = in_a_process("per_url.py", json.dumps(job), cwd=directory)
        ledger = lab.summary()
    blocks = ledger["blocks"] if "limit" in day.behaviour else 0
    return {**result, "seconds": time.monotonic() - began, "requests": ledger["requests"], "blocks": blocks}


def main() -> None:
    kinds = ["stock", "ours"]
    if find_spec("rotating_proxies"):
        kinds.append("rotating-proxies")
    table = Table(
        "Requests per URL, and what came of them",
        ("day", "who", "URLs", "per URL", "of stock", "delivered", "fake", "kept", "lost", "blocks", "seconds"),
        notes=[
            "kept: in the dead letters, to be replayed. lost: neither delivered nor kept.",
            "The guards are scaled to seconds, as the days are.",
        ],
    )
    with ThreadPoolExecutor() as pool:
        for day in days(quick=arguments(__doc__).quick):
            running = {kind: pool.submit(play, day, kind) for kind in kinds}
            seen = {kind: future.result() for kind, future in running.items()}
            for kind, found in seen.items():
                lost = day.urls - found["good"] - found["fake"] - found["letters"]
                table.add(
                    day.told if kind == "stock" else "",
                    kind,
                    day.urls,
                    f"{found['requests'] / day.urls:.2f}",
                    f"{found['requests'] / seen['stock']['requests']:.2f} x",
                    f"{found['good'] / day.urls:.1%}",
                    *(found["fake"], found["letters"], lost, found["blocks"], f"{found['seconds']:.0f}"),
                )
    table.print()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        crawl(**json.loads(sys.argv[1]))
    else:
        main()
