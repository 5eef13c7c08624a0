"""Runs a real crawl in a process of its own and tells what came of it. Used by the tests of the components."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPIDER = """
import json, os, sys
import scrapy
from scrapy import Request
from scrapy.http import Response
from scrapy_resiproxy import has_css

good_page = has_css('meta[name=lab-page][content=good]')

class Handler:
    # A download handler that answers by itself: give it "async def download_request(self, request)".
    lazy = False

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    async def close(self):
        pass

class ProbeSpider(scrapy.Spider):
    name = "probe"
    custom_settings = {}
    seen, errors = [], []

    async def start(self):
        with open(os.environ["CRAWL_URLS"]) as file:
            urls = json.load(file)
        for url in urls:
            yield self.request(url)

    def request(self, url, **kwargs):
        return Request(url, callback=self.parse, errback=self.failed, **kwargs)

    def parse(self, response):
        page = response.css("meta[name=lab-page]::attr(content)").get() if hasattr(response, "css") else None
        self.note("page", url=response.url, status=response.status, page=page,
                  story=response.meta.get("resiproxy"), first=(response.meta.get("redirect_urls") or [response.url])[0])
        yield {"url": response.url}

    def failed(self, failure):
        response = getattr(failure.value, "response", None)
        self.note("error", url=failure.request.url, error=type(failure.value).__name__, text=str(failure.value),
                  status=getattr(response, "status", None))

    def note(self, kind, **what):
        with open(os.environ["CRAWL_NOTES"], "ab", buffering=0) as file:
            file.write(json.dumps({"kind": kind, **what}).encode() + b"\\n")
"""

MAIN = """
import json, os, sys
sys.path.insert(0, os.environ["CRAWL_DIR"])
from scrapy.utils.project import get_project_settings
from scrapy.settings import Settings
settings = Settings(json.loads(os.environ["CRAWL_SETTINGS"]), priority="project")
if settings.getbool("TWISTED_REACTOR_ENABLED", True):
    from scrapy.crawler import CrawlerProcess as Process
else:
    from scrapy.crawler import AsyncCrawlerProcess as Process
process = Process(settings)
import spider_under_test
crawler = process.create_crawler(getattr(spider_under_test, os.environ["CRAWL_SPIDER"]))
process.crawl(crawler, **json.loads(os.environ["CRAWL_ARGS"]))
process.start()
stats = crawler.stats.get_stats() if crawler.stats else {}
with open(os.environ["CRAWL_STATS"], "w") as file:
    json.dump({key: value for key, value in stats.items() if isinstance(value, (int, float, str))}, file)
"""

PATIENCE = 240.0
"""Seconds after which a crawl hangs."""
BASE_SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_resiproxy.Addon": 500},
    "LOG_LEVEL": "DEBUG",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "DOWNLOAD_TIMEOUT": 60,
}


@dataclass
class Crawled:
    """What a crawl left behind."""

    directory: Path
    returncode: int = 0
    log: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pages(self) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["kind"] == "page"]

    @property
    def good(self) -> list[dict[str, Any]]:
        return [page for page in self.pages if page["page"] == "good"]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["kind"] == "error"]

    @property
    def letters(self) -> list[dict[str, Any]]:
        """Every letter of every feed, marks left out."""
        found = []
        for path in sorted(self.directory.glob("deadletter/**/*.jsonl")):
            lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
            found += [line for line in lines if "request" in line]
        return found

    def lines(self, level: str) -> list[str]:
        return [line for line in self.log.splitlines() if f" {level}: " in line]

    def text_of_all_files(self) -> str:
        return "\n".join(path.read_bytes().decode("latin-1") for path in self.directory.rglob("*") if path.is_file())


class RunningCrawl:
    """A crawl that is still going on."""

    def __init__(self, process: subprocess.Popen[bytes], crawled: Crawled, log: Path) -> None:
        self.process = process
        self.crawled = crawled
        self._log = log

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = PATIENCE) -> Crawled:
        try:
            self.crawled.returncode = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the crawl did not end:\n{self._log.read_text()[-4000:]}") from None
        directory = self.crawled.directory
        self.crawled.log = self._log.read_text()
        stats, notes = directory / "stats.json", directory / "notes.jsonl"
        self.crawled.stats = json.loads(stats.read_text()) if stats.exists() else {}
        self.crawled.notes = [json.loads(line) for line in notes.read_bytes().splitlines()] if notes.exists() else []
        return self.crawled


def start_crawl(
    directory: Path,
    urls: list[str] = [],  # noqa: B006 - never changed
    settings: dict[str, Any] | None = None,
    *,
    spider: str = "",
    name: str = "ProbeSpider",
    args: dict[str, Any] | None = None,
    reactor: bool = True,
    addon: bool = True,
) -> RunningCrawl:
    """Start a crawl of *urls*; *spider* is source that is added to the probe spider's module."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spider_under_test.py").write_text(SPIDER + spider)
    (directory / "urls.json").write_text(json.dumps(urls))
    merged = {**BASE_SETTINGS, **(settings or {})}
    if not addon:
        merged.pop("ADDONS")
    if not reactor:
        merged["TWISTED_REACTOR_ENABLED"] = False
    log = directory / "crawl.log"
    environment = {
        **os.environ,
        "CRAWL_DIR": str(directory),
        "CRAWL_URLS": str(directory / "urls.json"),
        "CRAWL_SETTINGS": json.dumps(merged),
        "CRAWL_SPIDER": name,
        "CRAWL_ARGS": json.dumps(args or {}),
        "CRAWL_NOTES": str(directory / "notes.jsonl"),
        "CRAWL_STATS": str(directory / "stats.json"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN], cwd=directory, env=environment, stdout=stream, stderr=stream
        )
    return RunningCrawl(process, Crawled(directory), log)


def crawl(directory: Path, urls: list[str] = [], settings: dict[str, Any] | None = None, **more: Any) -> Crawled:  # noqa: B006
    """Run a crawl to its end."""
    timeout = more.pop("timeout", PATIENCE)
    return start_crawl(directory, urls, settings, **more).wait(timeout)
