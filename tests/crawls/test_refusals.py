"""A refused crawl: one line, exit code 1, and nothing sent, run, taken out of a job or written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from crawl_kit import crawl
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.extension import ResiproxyExtension
from scrapy_resiproxy.components.refusing import is_refused, refuse
from scrapy_resiproxy.schedule.store import FILE_NAME, WaitingStore

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {"RESIPROXY_MAX_ATTEMPTS": 0}
LINE = "scrapy_resiproxy refuses to start. RESIPROXY_MAX_ATTEMPTS is 0; it must be a whole number of 1 or more."
STARTS = """
class Starting(ProbeSpider):
    async def start(self):
        self.note("started")
        yield {"item": 1}
        yield self.request("http://127.0.0.1:9/")
"""


BY_HAND: dict[str, tuple[str, Any]] = {
    "middleware": (
        "DOWNLOADER_MIDDLEWARES",
        {
            "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
            "scrapy_resiproxy.ResiproxyMiddleware": 585,
        },
    ),
    "extension": ("EXTENSIONS", {"scrapy_resiproxy.ResiproxyExtension": 0}),
    "queue": ("SCHEDULER_PRIORITY_QUEUE", "scrapy_resiproxy.GuardedPriorityQueue"),
    "handler": ("DOWNLOAD_HANDLERS", {"https": "scrapy_resiproxy.TunnelDownloadHandler"}),
    "replay": ("SPIDER_MIDDLEWARES", {"scrapy_resiproxy.ReplaySpiderMiddleware": 10}),
}


RETRYING = {"DOWNLOADER_MIDDLEWARES": {"scrapy.downloadermiddlewares.retry.RetryMiddleware": 550}}


def by_hand(part: str) -> dict[str, Any]:
    name, value = BY_HAND[part]
    return {name: value}


@pytest.mark.parametrize("reactor", [True, False], ids=["reactor", "no reactor"])
def test_a_refused_crawl_says_only_the_refusal_and_its_extensions_are_stopped(reactor: bool, tmp_path: Path) -> None:
    settings = {**WRONG, "REMOTE_CONTROL_ENABLED": True, "RESIPROXY_BUDGET_RATO": 1, "RETRY_TIMES": 1}
    crawled = crawl(tmp_path / "crawl", settings=settings, spider=STARTS, name="Starting", reactor=reactor)
    ours = [line for line in crawled.log.splitlines() if " [scrapy_resiproxy" in line]
    assert len(ours) == 1
    assert LINE in ours[0]
    assert "Traceback" not in crawled.log
    assert crawled.lines("ERROR") == ours
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.notes
    assert not list((tmp_path / "crawl").glob("deadletter/**/*"))


@pytest.mark.parametrize("part", ["middleware", "extension", "handler"])
def test_each_part_by_itself_refuses_before_the_spider_starts(part: str, tmp_path: Path) -> None:
    settings = {**WRONG, **by_hand(part)}
    crawled = crawl(tmp_path / "crawl", settings=settings, spider=STARTS, name="Starting", addon=False)
    assert [line for line in crawled.lines("ERROR") if LINE in line] == crawled.lines("ERROR")
    assert len(crawled.lines("ERROR")) == 1
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.notes
    assert "item_scraped_count" not in crawled.stats


def test_a_socks_proxy_is_refused_and_nothing_else_is_said(tmp_path: Path) -> None:
    settings = {"RESIPROXY_PROXY": "socks5://user:canary-pa55@127.0.0.1:9"}
    crawled = crawl(tmp_path / "crawl", ["http://127.0.0.1:9/"], settings)
    ours = [line for line in crawled.log.splitlines() if " [scrapy_resiproxy" in line]
    assert len(ours) == 1
    assert "RESIPROXY_PROXY is a SOCKS proxy" in ours[0]


# With Scrapy's own commands


def runspider(directory: Path, *options: str, spider: str = "") -> subprocess.CompletedProcess[str]:
    source = spider or (
        "import scrapy\n\nclass Items(scrapy.Spider):\n    name = 'items'\n\n"
        "    async def start(self):\n        yield {'item': 1}\n"
    )
    (directory / "items.py").write_text(source)
    return scrapy(directory, "runspider", "items.py", *options)


def scrapy(directory: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scrapy", name, "-s", "TELNETCONSOLE_ENABLED=False"]
    command += ["-s", 'ADDONS={"scrapy_resiproxy.Addon": 500}', *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, env=environment, timeout=120, check=False
    )


@pytest.mark.parametrize("mode", [(), ("-s", "TWISTED_REACTOR_ENABLED=False")], ids=["reactor", "no reactor"])
@pytest.mark.parametrize("option", ["-O", "-o"])
def test_a_refused_command_ends_with_1_and_leaves_the_feed_as_it_was(
    option: str, mode: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "out.json").write_text("precious")
    ended = runspider(tmp_path, "-s", "RESIPROXY_MAX_ATTEMPTS=0", option, "out.json", *mode)
    assert (tmp_path / "out.json").read_text() == "precious"
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("refuses to start") == 1


def test_the_shell_says_the_refusal_and_opens(tmp_path: Path) -> None:
    words = ["-s", "RESIPROXY_MAX_ATTEMPTS=0", "-c", "response", "http://127.0.0.1:9/"]
    run = scrapy(tmp_path, "shell", *words)
    assert "scrapy_resiproxy refuses to start. RESIPROXY_MAX_ATTEMPTS is '0'" in run.stderr
    assert run.stdout.strip() == "None"
    assert run.returncode == 0


# Jobs


PAGES = """
class Job(ProbeSpider):
    custom_settings = {"DOWNLOAD_DELAY": 0}

    async def start(self):
        self.note("started")
        for number in range(3):
            yield self.request(f"data:,{number}", dont_filter=True)
"""


def state_of_queue(job: Path) -> Any:
    return json.loads((job / "requests.queue" / "active.json").read_text())


def write_job(job: Path, state: Any) -> None:
    (job / "requests.queue").mkdir(parents=True)
    (job / "requests.queue" / "active.json").write_text(json.dumps(state))


@pytest.mark.parametrize(
    "state",
    [[0, -1], {"shop.example": "junk"}, {"shop.example": [0.5]}, {"shop.example": 3}, "junk", 7],
    ids=["ScrapyPriorityQueue", "a string", "fractions", "a number", "all a string", "all a number"],
)
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_a_job_of_another_queue_is_refused_in_one_line_and_stays_as_it_was(
    state: Any, killed: bool, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    write_job(job, state)
    (job / "requests.queue" / "0").mkdir()
    if killed:
        store = WaitingStore(job / FILE_NAME)
        store.remember("clean", False)
        store.close()
    crawled = crawl(tmp_path / "crawl", settings={"JOBDIR": str(job)}, spider=PAGES, name="Job")
    (line,) = crawled.lines("ERROR")
    assert f"JOBDIR is {str(job)!r}; its queue was written by another SCHEDULER_PRIORITY_QUEUE" in line
    assert "scrapy_resiproxy.GuardedPriorityQueue" in line
    assert "Traceback" not in crawled.log
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert "downloader/request_count" not in crawled.stats
    assert state_of_queue(job) == state
    assert (job / "requests.queue" / "0").is_dir()
    assert crawled.notes == []


@pytest.mark.parametrize("wrong", [WRONG, RETRYING], ids=["a setting", "a second retry layer"])
def test_a_killed_job_is_as_it_was_after_a_run_that_was_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    job = tmp_path / "job"
    write_job(job, {"shop.example": [0]})
    (job / "requests.queue" / "shop.example" / "0").mkdir(parents=True)
    store = WaitingStore(job / FILE_NAME)
    store.remember("clean", False)
    store.put("a", 1.0, {"url": "http://shop.example/"}, {}, released=True)
    store.close()
    crawled = crawl(tmp_path / "crawl", settings={"JOBDIR": str(job), **wrong}, spider=PAGES, name="Job")
    assert crawled.notes == []
    assert "put aside" not in crawled.log
    assert "taken up" not in crawled.log
    assert state_of_queue(job) == {"shop.example": [0]}
    assert (job / "requests.queue" / "shop.example" / "0").is_dir()
    store = WaitingStore(job / FILE_NAME)
    assert store.fact("clean") is False
    assert [(row.id, row.released) for row in store.load()] == [("a", True)]
    store.close()


@pytest.mark.parametrize("kind", ["no database", "a folder"])
def test_a_store_that_cannot_be_used_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    if kind == "a folder":
        (job / FILE_NAME).mkdir()
    else:
        (job / FILE_NAME).write_text("nonsense " * 1000)
    crawled = crawl(tmp_path / "crawl", settings={"JOBDIR": str(job)}, spider=PAGES, name="Job")
    (line,) = crawled.lines("ERROR")
    assert f"JOBDIR is {str(job)!r}; resiproxy.sqlite in it cannot be used" in line
    assert "Traceback" not in crawled.log
    assert crawled.notes == []


SECRET = "http://user:canary-pa55@gw.example:1"


@pytest.mark.parametrize(
    "settings",
    [
        {"RESIPROXY_TARGETS": SECRET},
        {"RESIPROXY_TARGETS": {"a.example": SECRET}},
        {"RESIPROXY_PROVIDER": SECRET},
        {"RESIPROXY_COUNTRY": SECRET},
        {"RESIPROXY_MODE": SECRET},
        {"RESIPROXY_REPLAY": SECRET},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_proxy_in_the_wrong_setting_tells_nobody_its_password(settings: dict[str, Any], tmp_path: Path) -> None:
    wrong = {"RESIPROXY_PROXY": "http://gw.example:1", **settings}
    crawled = crawl(tmp_path / "crawl", settings=wrong, spider=STARTS, name="Starting")
    assert "scrapy_resiproxy refuses to start." in crawled.log
    ours = [line for line in crawled.log.splitlines() if " [scrapy_resiproxy" in line]
    assert not any("canary-pa55" in line for line in ours)


@pytest.mark.parametrize("state", [{}, []])
def test_a_job_with_nothing_in_its_queue_is_anybodys(state: Any, tmp_path: Path) -> None:
    write_job(tmp_path / "job", state)
    crawled = crawl(tmp_path / "crawl", settings={"JOBDIR": str(tmp_path / "job")}, spider=PAGES, name="Job")
    assert not crawled.lines("ERROR")
    assert len(crawled.pages) == 3


def test_what_was_said_of_one_crawl_is_not_taken_for_said_of_the_next(caplog: pytest.LogCaptureFixture) -> None:
    crawler = get_crawler(Spider)
    refuse(crawler, "one")
    refuse(crawler, "one")
    refuse(crawler, "two")
    other = get_crawler(Spider)
    assert not is_refused(other)
    refuse(other, "one")
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.removeprefix("scrapy_resiproxy refuses to start. ") for line in said] == ["one", "two", "one"]


def test_the_end_of_a_refused_crawl_says_nothing_of_what_waits(caplog: pytest.LogCaptureFixture) -> None:
    """It waits for a run that is not refused."""
    crawler = get_crawler(type("Shop", (Spider,), {"name": "shop"}))
    extension = ResiproxyExtension.from_crawler(crawler)
    extension.crawl.office.unwritten = 1
    refuse(crawler, "one")
    extension.finish()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("scrapy_resiproxy")] == [
        "scrapy_resiproxy refuses to start. one"
    ]


# Switched off


def test_a_part_that_was_placed_by_hand_stands_aside_where_the_package_is_switched_off(tmp_path: Path) -> None:
    spider = """
class Off(ProbeSpider):
    async def start(self):
        yield self.request("data:,page")
        from scrapy_resiproxy.components import crawl, tunnel_handler
        self.note("parts", runtime=len(crawl._crawls), tunnels=tunnel_handler.tunnels_of(self.crawler) is not None)
"""
    settings: dict[str, Any] = {"RESIPROXY_ENABLED": False, "RESIPROXY_MAX_ATTEMPTS": "wrong, and nobody looks"}
    settings |= dict(BY_HAND.values())
    job = tmp_path / "job"
    settings["JOBDIR"] = str(job)
    crawled = crawl(tmp_path / "crawl", settings=settings, spider=spider, name="Off", addon=False)
    assert not crawled.lines("ERROR")
    assert len(crawled.pages) == 1
    assert crawled.pages[0]["story"] is None
    assert not [key for key in crawled.stats if key.startswith("resiproxy/")]
    assert " [scrapy_resiproxy" not in crawled.log
    assert not list(job.glob("*resiproxy*"))
    (parts,) = [note for note in crawled.notes if note["kind"] == "parts"]
    assert (parts["runtime"], parts["tunnels"]) == (0, False)


@pytest.mark.parametrize("addon", [True, False], ids=["add-on", "by hand"])
def test_a_replay_is_refused_where_the_package_is_switched_off(addon: bool, tmp_path: Path) -> None:
    settings = {"RESIPROXY_ENABLED": False, "RESIPROXY_REPLAY": "letters.jsonl"}
    settings |= {} if addon else by_hand("replay")
    crawled = crawl(tmp_path / "crawl", settings=settings, spider=STARTS, name="Starting", addon=addon)
    (line,) = crawled.lines("ERROR")
    assert line.endswith("RESIPROXY_REPLAY is set; it needs RESIPROXY_ENABLED, which is False.")
    assert not crawled.notes


# Replays


def letters(directory: Path) -> Path:
    """The feed of a crawl that has failed once."""
    crawled = crawl(directory, ["http://127.0.0.1:9/item/1"], {"RESIPROXY_MAX_ATTEMPTS": 1})
    assert len(crawled.letters) == 1
    (feed,) = directory.glob("deadletter/**/*.jsonl")
    return feed


def test_a_replay_by_setting_does_not_overwrite_what_was_collected(tmp_path: Path) -> None:
    feed, out = letters(tmp_path / "first"), tmp_path / "items.jl"
    out.write_text("precious\n")
    before = feed.read_bytes()
    settings = {"RESIPROXY_REPLAY": str(feed), "FEEDS": {str(out): {"format": "jsonlines", "overwrite": True}}}
    crawled = crawl(tmp_path / "crawl", settings=settings, spider=STARTS)
    (line,) = crawled.lines("ERROR")
    assert f"RESIPROXY_REPLAY is set; the replay would overwrite the item feed {out}: " in line
    assert out.read_text() == "precious\n"
    assert feed.read_bytes() == before
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert not crawled.notes


def test_a_replay_by_setting_adds_to_a_feed_that_can_be_added_to(tmp_path: Path) -> None:
    feed, out = letters(tmp_path / "first"), tmp_path / "items.jl"
    out.write_text("precious\n")
    settings = {"RESIPROXY_REPLAY": str(feed), "FEEDS": {str(out): {"format": "jsonlines"}}}
    crawled = crawl(tmp_path / "crawl", settings=settings)
    assert out.read_text() == "precious\n"
    assert crawled.stats["finish_reason"] == "finished"
    assert "Replaying 1 dead letter" in crawled.log
