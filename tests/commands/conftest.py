"""A Scrapy project in a folder of its own, a site on loopback, and real ``scrapy`` commands on both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.request import fingerprint

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed
from scrapy_resiproxy.deadletter.record import make_letter

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
"""Seconds after which a command hangs."""

SPIDERS = '''
import asyncio, json, os
from pathlib import Path
import scrapy
from scrapy import Request
from scrapy.extensions.feedexport import BlockingFeedStorage
from scrapy.utils.asyncio import is_asyncio_available


class Base(scrapy.Spider):
    """Its behaviour is switched by files in the working directory, so that it can be mended between two runs."""

    urls = ""

    async def start(self):
        for url in json.loads(os.environ.get("CRAWL_URLS", "[]")):
            yield Request(url, cb_kwargs={"extra": [1, 2]}, meta={"tag": "t"}, priority=3)

    def broken(self):
        return Path("broken").exists()

    def parse(self, response, extra=None):
        if self.broken():
            raise KeyError("price")
        yield {"url": response.url, "text": response.text, "extra": extra, "tag": response.meta.get("tag"),
               "category": getattr(self, "category", None)}
        if Path("follows").exists() and "/follow" not in response.url:
            yield response.follow("/follow", callback=self.parse_follow, meta=response.meta, dont_filter=True)
        yield None

    def parse_follow(self, response):
        with open("follow-meta", "a") as file:
            file.write(json.dumps("_resiproxy_replay" in response.meta) + "\\n")
        yield {"url": response.url, "follow": True}


class ShopSpider(Base):
    name = "shop"


class OtherSpider(Base):
    name = "other"
    handle_httpstatus_list = [418]


class SyncSpider(Base):
    name = "sync"

    def replay_request(self, request, letter):
        return request.replace(url=request.url.replace("***", "fresh"))


class RebuildSpider(Base):
    name = "rebuild"

    async def replay_request(self, request, letter):
        if "refuse" in request.url:
            return None
        if "wrong" in request.url:
            return "no request"
        if "raise" in request.url:
            raise RuntimeError("boom")
        return request.replace(url=request.url.replace("***", "fresh"))


class Dear:
    """An item pipeline that takes its time and can refuse or fail."""

    async def process_item(self, item):
        if is_asyncio_available():
            await asyncio.sleep(0.05)
        if Path("drop").exists():
            raise scrapy.exceptions.DropItem("no")
        if Path("item-fails").exists():
            raise ValueError("database is locked")
        return item


class UploadStorage(BlockingFeedStorage):
    """A feed that gets its items when the crawl has ended, as S3 and FTP do."""

    def __init__(self, uri, *, feed_options=None): ...

    def _store_in_thread(self, file):
        if Path("upload-fails").exists():
            raise OSError("no route to bucket")
        file.seek(0)
        Path("uploaded.jl").write_bytes(file.read())
'''

SETTINGS = """
import json, os
BOT_NAME = "proj"
SPIDER_MODULES = ["proj.spiders"]
COMMANDS_MODULE = "scrapy_resiproxy.commands"
ADDONS = {"scrapy_resiproxy.Addon": 500}
ITEM_PIPELINES = {"proj.spiders.Dear": 100}
FEEDS = {"items.jl": {"format": "jsonlines"}}
FEED_STORAGES = {"upload": "proj.spiders.UploadStorage"}
TELNETCONSOLE_ENABLED = False
DOWNLOAD_TIMEOUT = 60
CONCURRENT_REQUESTS_PER_DOMAIN = 8
RESIPROXY_TUNNEL_ENABLED = False
RESIPROXY_MAX_ATTEMPTS = 1
RESIPROXY_PACING_ENABLED = False
RESIPROXY_CIRCUIT_CONSECUTIVE = 1000
RESIPROXY_CIRCUIT_MIN_REQUESTS = 1000
globals().update(json.loads(os.environ.get("PROJECT_SETTINGS", "{}")))
"""


class Site:
    """A site on loopback that answers as it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        """Path -> status; ``*`` for all others."""
        self.gates: dict[str, threading.Event] = {}
        """Path -> what its answer waits for."""
        self.asked: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                site.headers.append(dict(self.headers.items()))
                if self.path in site.gates:
                    site.gates[self.path].wait(PATIENCE)
                status = site.status.get(self.path, site.status.get("*", 200))
                body = f"<html><body><p>page {self.path}</p></body></html>".encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A client that was killed in the middle of an answer is no news.
        self._server.handle_error = lambda request, address: None  # type: ignore[method-assign]
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


class Project:
    """A Scrapy project, and what its commands leave behind."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.folder, self.site = folder, site
        self.settings: dict[str, Any] = {}
        """Laid over the project's settings."""
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = proj.settings\n")
        (folder / "proj").mkdir()
        (folder / "proj" / "__init__.py").write_text("")
        (folder / "proj" / "settings.py").write_text(SETTINGS)
        (folder / "proj" / "spiders.py").write_text(SPIDERS)

    def start(self, *args: str, paths: list[str] = []) -> subprocess.Popen[str]:  # noqa: B006 - never changed
        foreign = {"SCRAPY_PROJECT", "SCRAPY_SETTINGS_MODULE"}
        environment = {name: value for name, value in os.environ.items() if name not in foreign} | {
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            "PROJECT_SETTINGS": json.dumps(self.settings),
            "CRAWL_URLS": json.dumps([self.site.root + path for path in paths]),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "scrapy", *args],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, paths: list[str] = [], code: int | None = 0) -> str:  # noqa: B006
        """Run ``scrapy *args*``; its standard output. The log is in ``self.log``."""
        process = self.start(*args, paths=paths)
        output, self.log = process.communicate(timeout=PATIENCE)
        assert code in (None, process.returncode), f"{process.returncode}\n{output}\n{self.log}"
        return output

    def crawl(self, *paths: str, spider: str = "shop", args: tuple[str, ...] = ()) -> str:
        """Crawl; the path of the feed that it wrote."""
        before = set(self.feeds())
        self.run("crawl", spider, *args, paths=list(paths))
        (feed,) = set(self.feeds()) - before
        return feed

    def lose(self, *paths: str, spider: str = "shop", args: dict[str, str] | None = None) -> str:
        """Write a feed with a letter of an outage for each of *paths*; its path."""
        name = f"deadletter/{spider}/{len(self.feeds())}.jsonl"
        feed = DeadLetterFeed(self.folder / name)
        owner = Spider(spider)
        for path in paths:
            request = Request(
                self.site.root + path,
                callback=owner.parse,
                cb_kwargs={"extra": [1, 2]},
                meta={"tag": "t", "depth": 0},
                priority=3,
            )
            feed.write(
                make_letter(
                    request=request,
                    spider=owner,
                    outcome_class="transient",
                    reason="attempts_exhausted",
                    target="127.0.0.1",
                    key=fingerprint(request).hex(),
                    now=time.time(),
                    first_seen=time.time() - 60,
                    attempts=[],
                    spider_args=args,
                )
            )
        feed.close()
        return name

    def feeds(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob("deadletter/**/*.jsonl"))

    def lines(self, feed: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / feed).read_bytes().splitlines()]

    def letters(self, feed: str) -> list[dict[str, Any]]:
        return [line for line in self.lines(feed) if "mark" not in line]

    def marks(self, feed: str) -> dict[str, str]:
        return {line["mark"]: line["state"] for line in self.lines(feed) if "mark" in line}

    def states(self, feed: str) -> Counter[str]:
        marks = self.marks(feed)
        return Counter(marks.get(letter["id"], "open") for letter in self.letters(feed))

    def items(self, name: str = "items.jl") -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def switch(self, name: str, *, on: bool = True) -> None:
        """Turn a behaviour of the spider or the pipeline on or off."""
        (self.folder / name).touch() if on else (self.folder / name).unlink()


@pytest.fixture
def project(tmp_path, site):
    return Project(tmp_path, site)
