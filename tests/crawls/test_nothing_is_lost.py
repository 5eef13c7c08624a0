"""Whatever dies when: what has failed once is delivered, in a letter, or waiting on disk."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from typing import Any

import pytest
import scrapy
from days import pages

PATIENT = {
    # Everything that fails waits, and nothing else stops it.
    "RESIPROXY_BACKOFF_BASE": 30,
    "RESIPROXY_BACKOFF_CAP": 30,
    "RESIPROXY_BUDGET_RATIO": 10,
    "RESIPROXY_BUDGET_GLOBAL_RATIO": 10,
    "RESIPROXY_CIRCUIT_CONSECUTIVE": 100_000,
    "RESIPROXY_CIRCUIT_MIN_REQUESTS": 100_000,
}
HASTY = {**PATIENT, "RESIPROXY_BACKOFF_BASE": 0.1}


def run_until(running: Any, today: Any, requests: int) -> None:
    """Let the crawl go on until the site has seen so many requests."""
    while today.lab.summary()["requests"] < requests:
        assert running.process.poll() is None, running.wait().log[-3000:]
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_loses_no_request_that_has_failed_once(day: Any, seed: int) -> None:
    with day(f"flaky:p=0.5,seed={seed}") as today:
        settings = {**PATIENT, "JOBDIR": "job", "RESIPROXY_BACKOFF_BASE": 1}
        running = today.start(pages(300), settings)
        run_until(running, today, random.Random(seed).randint(40, 280))
        running.send(signal.SIGKILL)
        first = running.wait()
        failed = today.failed_urls()
        second = today.crawl(pages(300), {**HASTY, "JOBDIR": "job"})
    assert failed
    assert failed <= {page["url"] for page in [*first.good, *second.good]}


def test_a_stopped_job_goes_on_where_it_was(day: Any) -> None:
    with day("flaky:p=0.5") as today:
        running = today.start(pages(300), {**PATIENT, "JOBDIR": "job", "RESIPROXY_BACKOFF_BASE": 3})
        run_until(running, today, 200)
        running.send(signal.SIGTERM)
        first = running.wait()
        second = today.crawl(pages(300), {**HASTY, "JOBDIR": "job"})
        sent = today.lab.summary()["requests"]
        failed = today.failed_urls()
    assert first.stats["finish_reason"] == "shutdown"
    assert first.letters == []
    assert {page["url"] for page in second.notes} == set(pages(300))
    assert sent == 300 + len(failed), "nothing may be fetched twice after a clean stop"


def test_a_job_keeps_the_due_times(day: Any) -> None:
    far_away = {**PATIENT, "JOBDIR": "job", "RESIPROXY_BACKOFF_BASE": 600, "RESIPROXY_BACKOFF_CAP": 600}
    with day("flaky:p=0.5") as today:
        running = today.start(pages(60), far_away)
        run_until(running, today, 60)
        running.send(signal.SIGTERM)
        running.wait()
        before = today.lab.summary()["requests"]
        running = today.start([], {**far_away, "CLOSESPIDER_TIMEOUT": 2})
        crawled = running.wait()
        assert today.lab.summary()["requests"] - before < 20, "ten minutes have not passed"
    assert "taken up again" in crawled.log


AT_ONCE = """
class AtOnceSpider(ProbeSpider):
    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/item/0"):
            for number in range(1, 600):
                yield self.request(response.urljoin(f"/item/{number}"))
"""


def test_without_a_job_everything_sent_once_is_a_letter(day: Any) -> None:
    with day("flaky:p=0.5,seed=1") as today:
        running = today.start(pages(1), {**PATIENT, "RESIPROXY_BACKOFF_BASE": 3}, spider=AT_ONCE, name="AtOnceSpider")
        run_until(running, today, 120)
        running.send(signal.SIGTERM)
        crawled = running.wait()
        failed = today.failed_urls()
    delivered = {page["url"] for page in crawled.good}
    letters = {letter["request"]["url"]: letter for letter in crawled.letters}
    assert failed - delivered <= set(letters)
    assert {letter["reason"] for letter in letters.values()} == {"shutdown"}
    assert "never sent and are not kept" in crawled.log


def test_a_letter_of_a_stopped_crawl_tells_how_long_the_server_wanted_to_be_left_alone(day: Any) -> None:
    with day("down:how=429,retry_after=200") as today:
        running = today.start(pages(3), PATIENT)
        run_until(running, today, 1)
        # What is on its way is answered, and judged, before the crawl ends.
        running.send(signal.SIGTERM)
        crawled = running.wait()
    assert crawled.letters
    for letter in crawled.letters:
        assert (letter["reason"], letter["class"]) == ("shutdown", "rate")
        assert letter["not_before"] > letter["time"]


def test_retries_that_fall_due_during_a_slow_shutdown_are_letters(day: Any) -> None:
    with day({"shop.example": "flaky:p=1", "slow.example": "ok:latency=3"}) as today:
        running = today.start(
            [*pages(1, "slow.example"), *pages(40)],
            {**PATIENT, "RESIPROXY_BACKOFF_BASE": 1, "RESIPROXY_BACKOFF_CAP": 1},
        )
        run_until(running, today, 30)
        running.send(signal.SIGTERM)
        crawled = running.wait()
        failed = today.failed_urls()
    delivered = {page["url"] for page in crawled.good}
    assert failed - delivered == {letter["request"]["url"] for letter in crawled.letters}


RAISES = """
class RaisingSpider(ProbeSpider):
    name = "probe"
    broken = True

    def parse(self, response):
        if self.broken and int(response.url.rsplit("/", 1)[1]) < 10:
            raise RuntimeError("the parser does not know this page")
        yield from super().parse(response)
"""


def test_a_callback_that_raises_leaves_the_page_in_a_letter(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(30), spider=RAISES, name="RaisingSpider")
    assert len(crawled.good) == 20
    assert [letter["reason"] for letter in crawled.letters] == ["parse_error"] * 10
    assert all(letter["response"]["status"] == 200 for letter in crawled.letters)
    assert all(json.dumps(letter["error"]).count("RuntimeError") for letter in crawled.letters)


def test_a_request_that_cannot_be_stored_still_waits(day: Any) -> None:
    source = """
class LambdaSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={"handle": lambda: None}, **kwargs)
"""
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(3), {**HASTY, "JOBDIR": "job"}, spider=source, name="LambdaSpider")
    assert len(crawled.good) == 3
    assert "cannot be kept in JOBDIR" in crawled.log


REDIRECTING = """
class Detour:
    # Every page is reached through redirects: /item/N -> /gate (one for all) -> the answer of the gate.
    chain = ("/gate", "/nothing-here")
    answer = 503

    def process_request(self, request, spider=None):
        from scrapy.http import HtmlResponse
        path = request.url.split("example", 1)[1]
        if path in self.chain[:-1]:
            place = self.chain[self.chain.index(path) + 1]
        elif path == self.chain[-1]:
            return HtmlResponse(request.url, status=self.answer, request=request)
        else:
            place = self.chain[0]
        return HtmlResponse(request.url, status=302, headers={"Location": place}, request=request)
"""
DETOUR = {"DOWNLOADER_MIDDLEWARES": {"spider_under_test.Detour": 950}, "RETRY_TIMES": 0}


def test_a_chain_of_redirects_to_one_page_loses_nobody(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(12), DETOUR, spider=REDIRECTING)
    surfaced = {letter["request"]["url"] for letter in crawled.letters}
    assert surfaced == set(pages(12))


def test_redirects_to_one_missing_page_make_no_letters(day: Any) -> None:
    source = REDIRECTING.replace("answer = 503", "answer = 404")
    with day("ok") as today:
        crawled = today.crawl(pages(12), DETOUR, spider=source)
    assert crawled.letters == []


def test_a_redirect_survives_a_clean_stop_on_disk(day: Any) -> None:
    with day("redirect:pages=0") as today:
        crawled = today.crawl(pages(20), {"JOBDIR": "job", "RESIPROXY_TARGET_GIVE_UP": 1})
    assert "scheduler/unserializable" not in crawled.stats


TURNED_AWAY = """
from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse

class Site(Handler):
    # /item/N leads to another host, or fails, by turns.
    async def download_request(self, request):
        number = int(request.url.rsplit("/", 1)[1])
        place = f"http://elsewhere.example/item/{number}"
        status, headers = (302, {"Location": place}) if number % 2 else (503, {})
        return HtmlResponse(request.url, status=status, headers=headers, request=request)

class TurnedAwaySpider(ProbeSpider):
    allowed_domains = ["shop.example"]

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.no_retries, signals.request_scheduled)
        return spider

    def no_retries(self, request):
        if request.meta.get("retry_times"):
            self.note("turned away")
            raise IgnoreRequest("no second try")

    def closed(self, reason):
        from scrapy_resiproxy.components.crawl import Crawl
        crawl = Crawl.of(self.crawler)
        wire = crawl.wire
        kept = wire.origins, wire.leases, wire._expected, wire._chains, crawl.rescheduler.in_flow
        self.note("kept", sizes=[len(each) for each in kept])
"""


@pytest.mark.parametrize("job", [{}, {"JOBDIR": "job"}], ids=["memory", "disk"])
def test_what_another_handler_turns_away_at_the_queue_ends_there(day: Any, job: dict[str, str]) -> None:
    settings = {**HASTY, **job, "DOWNLOAD_HANDLERS": {"http": "spider_under_test.Site"}}
    with day("ok") as today:
        crawled = today.crawl(pages(12), settings, spider=TURNED_AWAY, name="TurnedAwaySpider")
    assert crawled.stats["offsite/filtered"] == 6
    assert crawled.stats["finish_reason"] == "finished"
    # A redirect is gone as it would be without us; what has failed before has its letter.
    assert {letter["request"]["url"] for letter in crawled.letters} == set(pages(12)[::2])
    assert [(letter["reason"], letter["class"]) for letter in crawled.letters] == [("terminal", "transient")] * 6
    assert Counter(note["kind"] for note in crawled.notes) == {"turned away": 6, "kept": 1}
    assert crawled.notes[-1]["sizes"] == [0] * 5
    if job:
        with sqlite3.connect(crawled.directory / "job" / "resiproxy.sqlite") as store:
            assert store.execute("SELECT count(*) FROM waiting").fetchone() == (0,)


BREAKS_ONCE = """
from scrapy.core.scheduler import Scheduler

class BreaksOnce(Scheduler):
    broken = False

    def enqueue_request(self, request):
        if request.meta.get("retry_times") and not BreaksOnce.broken:
            BreaksOnce.broken = True
            raise OSError("no space left on device")
        return super().enqueue_request(request)
"""


def test_a_scheduler_that_fails_once_costs_no_request(day: Any) -> None:
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(3), {"SCHEDULER": "spider_under_test.BreaksOnce"}, spider=BREAKS_ONCE)
    assert len(crawled.good) == 3
    assert "could not be given back" in crawled.log


def test_every_failed_item_of_a_pagination_has_its_letter(day: Any) -> None:
    source = """
class FailingPipeline:
    def process_item(self, item, spider=None):
        raise RuntimeError("the database is down")

class PagesSpider(ProbeSpider):
    custom_settings = {"ITEM_PIPELINES": {"spider_under_test.FailingPipeline": 1}}

    def parse(self, response):
        yield {"url": response.url}
        number = int(response.url.rsplit("/", 1)[1])
        if number < 4:
            yield Request(response.urljoin(f"/item/{number + 1}"), self.parse, meta=response.meta)
"""
    with day("ok") as today:
        crawled = today.crawl(pages(1), spider=source, name="PagesSpider")
    assert [letter["reason"] for letter in crawled.letters] == ["item_error"] * 5


def test_retries_in_place_are_charged_like_the_others(day: Any) -> None:
    source = """
class MediaSpider(ProbeSpider):
    custom_settings = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}, "FILES_STORE": "files"}

    def parse(self, response):
        yield {"file_urls": [response.urljoin(f"http://files.example/item/{number}") for number in range(40)]}
"""
    settings = {
        "RESIPROXY_BUDGET_MIN_RETRIES": 5,
        "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
        "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
    }
    with day({"shop.example": "ok", "files.example": "down"}) as today:
        crawled = today.crawl(pages(1), settings, spider=source, name="MediaSpider")
        sent = today.lab.summary()["hosts"]["files.example"]["requests"]
    assert 40 < sent <= 40 + 5
    assert crawled.stats["resiproxy/budget/denied_count"] >= 30


ONCE_REDIRECTED = """
from scrapy.http import HtmlResponse

class Site(Handler):
    # /item/N leads to /final/N, which fails the first time, each in another way.
    good = b'<html><head><meta name="lab-page" content="good"></head><body>' + b"words " * 100 + b"</body></html>"
    fails = [(503, {{}}), (429, {{"Retry-After": "0"}}), (403, {{"cf-mitigated": "challenge"}})]
    leads = {leads!r}
    asked = {{}}

    async def download_request(self, request):
        path = request.url.split("example", 1)[1]
        self.asked[path] = self.asked.get(path, 0) + 1
        with open("asked.txt", "a") as file:
            file.write(f"{{request.method}} {{path}}\\n")
        status, headers, body = 200, {{}}, self.good
        if path.startswith("/item/"):
            place = path.replace("item", "final")
            if self.leads == "refresh":
                body = f'<html><head><meta http-equiv="refresh" content="0;url={{place}}"></head></html>'.encode()
            else:
                status, headers = int(self.leads), {{"Location": place}}
        elif self.asked[path] == 1:
            status, headers = self.fails[int(path[-1])]
        return HtmlResponse(request.url, status=status, headers=headers, body=body, request=request)

class PostSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, method={method!r}, **kwargs)
"""


@pytest.mark.parametrize("leads", ["302", "303", "307", "refresh"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_behind_a_redirect_is_fetched_again(day: Any, leads: str, method: str) -> None:
    source = ONCE_REDIRECTED.format(leads=leads, method=method)
    settings = {**HASTY, "DOWNLOAD_HANDLERS": {"http": "spider_under_test.Site"}}
    with day("ok") as today:
        crawled = today.crawl(pages(3), settings, spider=source, name="PostSpider")
    assert sorted(page["url"] for page in crawled.pages) == [f"http://shop.example/final/{n}" for n in range(3)]
    assert crawled.letters == []
    asked = Counter((crawled.directory / "asked.txt").read_text().split("\n"))
    # Only another session is worth going through the door again; a form is not sent twice for less.
    assert [asked[f"{method} /item/{n}"] for n in range(3)] == [1, 1, 1 if leads == "refresh" else 2]


SQLITE = {
    "JOBDIR": "job",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoSQLiteQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
    "CONCURRENT_REQUESTS": 4,
}


@pytest.mark.skipif(scrapy.version_info < (2, 19), reason="Scrapy has SQLite queues since 2.19")
@pytest.mark.parametrize("again", [False, True], ids=["without start requests", "with the same start requests"])
def test_what_sqlite_queues_held_at_a_kill_is_gone_on_with(day: Any, again: bool) -> None:
    # Its circuit opens, and what comes after that stays in the queue.
    down = {**SQLITE, "RESIPROXY_TARGET_GIVE_UP": 60, "RESIPROXY_CIRCUIT_COOLDOWN": 30}
    with day("down") as today:
        running = today.start(pages(40), {**down, "RESIPROXY_CIRCUIT_COOLDOWN_MAX": 30})
        queue = today.directory / "job" / "requests.queue"
        run_until(running, today, 5)
        while not (killed := [file for _, _, files in os.walk(queue) for file in files]):
            assert running.process.poll() is None
            time.sleep(0.01)
        running.send(signal.SIGKILL)
        first = running.wait()
        today.lab.set_behaviour("shop.example", "ok")
        second = today.crawl(pages(40) if again else [], {**HASTY, **SQLITE})
    assert killed
    assert second.stats["finish_reason"] == "finished"
    delivered = {page["url"] for page in [*first.good, *second.good]}
    # What start() had not yielded when the kill came is nowhere else.
    assert delivered == set(pages(40)) if again else len(delivered) > 5
    assert [path.name for path in queue.rglob("*") if path.is_file()] == ["active.json"]


def test_a_job_whose_callback_has_gone_comes_to_its_end(day: Any) -> None:
    before = """
class RenamedSpider(ProbeSpider):
    def old_name(self, response):
        yield from self.parse(response)

    def request(self, url, **kwargs):
        return Request(url, callback=self.old_name if url.endswith("7") else self.parse, errback=self.failed)
"""
    settings = {"JOBDIR": "job", "CONCURRENT_REQUESTS": 2}
    with day("ok:latency=0.05") as today:
        running = today.start(pages(40), settings, spider=before, name="RenamedSpider")
        run_until(running, today, 10)
        running.send(signal.SIGTERM)
        first = running.wait()
        second = today.crawl([], settings, spider="class RenamedSpider(ProbeSpider):\n    pass\n", name="RenamedSpider")
    assert second.stats["finish_reason"] == "finished"
    delivered = {page["url"] for page in [*first.good, *second.good]}
    assert delivered >= {url for url in pages(40) if not url.endswith("7")}


@pytest.mark.parametrize("end", ["given up", "stopped"])
def test_what_a_job_cannot_keep_becomes_letters(day: Any, end: str) -> None:
    source = """
class LambdaSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return Request(url, callback=lambda response: None, errback=lambda failure: None)
"""
    settings = {"JOBDIR": "job", "CONCURRENT_REQUESTS": 4}
    with day("down") as today:
        if end == "stopped":
            running = today.start(
                pages(20), {**settings, "RESIPROXY_TARGET_GIVE_UP": 60}, spider=source, name="LambdaSpider"
            )
            run_until(running, today, 5)
            running.send(signal.SIGTERM)
            crawled = running.wait()
        else:
            crawled = today.crawl(pages(20), settings, spider=source, name="LambdaSpider")
    sent = crawled.stats["resiproxy/deadletter/written_count"]
    assert len(crawled.letters) == sent > 0
    assert "in JOBDIR: run the same command again" not in crawled.log
    unsent = 20 - sent
    if unsent:
        assert f"{unsent} request" in crawled.log
        assert "JOBDIR keeps only what can be pickled" in crawled.log
