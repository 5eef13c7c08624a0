"""Beside everything else that a Scrapy project has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import scrapy
from days import VALIDATED, pages


def test_the_middleware_alone_does_what_one_component_can(day: Any) -> None:
    with day("flaky:p=0.3") as today:
        crawled = today.crawl(
            pages(60),
            {
                "DOWNLOADER_MIDDLEWARES": {
                    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
                    "scrapy_resiproxy.ResiproxyMiddleware": 585,
                }
            },
            addon=False,
        )
    assert len(crawled.good) == 60
    assert crawled.stats["retry/count"] > 5
    assert crawled.stats["finish_reason"] == "finished"


@pytest.mark.parametrize("reactor", ["asyncio", "none", "epoll"])
def test_every_run_mode(day: Any, reactor: str) -> None:
    settings = {
        "asyncio": {},
        "none": {"TWISTED_REACTOR_ENABLED": False},
        "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    }[reactor]
    with day("flaky:p=0.3") as today:
        crawled = today.crawl(pages(60), settings)
    if reactor == "none" and scrapy.version_info < (2, 16):
        assert "HttpxDownloadHandler of Scrapy" in crawled.log
        assert crawled.notes == []
        return
    assert len(crawled.good) == 60
    assert crawled.letters == []


def test_observing_changes_nothing_and_counts(day: Any) -> None:
    with day("flaky:p=0.3") as today:
        crawled = today.crawl(
            pages(60),
            {"RESIPROXY_MODE": "observe", "HTTPPROXY_ENABLED": True, "RESIPROXY_PROXY": None},
        )
        direct = today.lab.summary()["requests"]
    # No proxy of ours is set, so nothing reached the lab: the host names do not exist.
    assert direct == 0
    assert crawled.letters == []
    assert crawled.stats["resiproxy/outcome_count/transient"] >= 60
    assert crawled.stats["resiproxy/retry_count"] == crawled.stats["retry/count"] == 120


@pytest.mark.parametrize("odd", ['float("inf")', "-1", '"many"'])
def test_observing_takes_any_word_of_the_project(day: Any, odd: str) -> None:
    source = f"""
class OddSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={{"max_retry_times": 1, "resiproxy_idempotent": {odd}}}, **kwargs)

class Retrying:
    def process_request(self, request):
        request.meta["retry_times"] = {odd}
        request.meta["max_retry_times"] = {odd}
"""
    watching = {"RESIPROXY_MODE": "observe", "RETRY_ENABLED": False, "RESIPROXY_PROXY": None}
    watching["DOWNLOADER_MIDDLEWARES"] = {"spider_under_test.Retrying": 584}
    with day("ok") as today:
        url = today.lab.site + "/nowhere.example/item/1"
        crawled = today.crawl([url], watching, spider=source, name="OddSpider")
    assert [error["error"] for error in crawled.errors] == ["HttpError"]
    assert "Traceback" not in crawled.log


FOREIGN = """
import json
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.request import request_from_dict

class FileScheduler(BaseScheduler):
    # Stands for schedulers that live elsewhere: it keeps what it holds in a file.
    def __init__(self, crawler):
        self.crawler, self.seen, self.held = crawler, set(), []

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def has_pending_requests(self):
        return bool(self.held)

    def enqueue_request(self, request):
        if not request.dont_filter and request.url in self.seen:
            return False
        self.seen.add(request.url)
        self.held.append(request)
        with open("held.json", "w") as file:
            json.dump([request.url for request in self.held], file)
        return True

    def next_request(self):
        return self.held.pop(0) if self.held else None
"""


def test_a_foreign_scheduler_gets_back_what_was_only_held(day: Any) -> None:
    settings = {
        "SCHEDULER": "spider_under_test.FileScheduler",
        "RESIPROXY_TARGET_GIVE_UP": 60,
        "CLOSESPIDER_TIMEOUT": 5,
    }
    with day("down") as today:
        crawled = today.crawl(pages(100), settings, spider=FOREIGN)
        held = set(json.loads((today.directory / "held.json").read_text()))
    sent = {letter["request"]["url"] for letter in crawled.letters}
    assert {letter["reason"] for letter in crawled.letters} == {"shutdown"}
    assert held | sent | {error["url"] for error in crawled.errors} == set(pages(100))


@pytest.mark.parametrize("memory_queue", ["scrapy.squeues.LifoMemoryQueue", "scrapy.squeues.FifoMemoryQueue"])
def test_with_scrapys_own_priority_queue_a_held_target_does_not_stand_before_the_others(
    day: Any, memory_queue: str
) -> None:
    settings = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "SCHEDULER_MEMORY_QUEUE": memory_queue,
        "SCHEDULER_START_MEMORY_QUEUE": memory_queue,
        "RESIPROXY_TARGET_GIVE_UP": 8,
    }
    down, well = pages(300, "down.example"), pages(100)
    with day({"shop.example": "ok:latency=0.05", "down.example": "down:how=reset"}) as today:
        crawled = today.crawl(down[:150] + well + down[150:], settings)
    ended = ["given up" if note.get("error") == "CircuitOpen" else note["kind"] for note in crawled.notes]
    assert ended.count("page") == 100
    assert "page" not in ended[ended.index("given up") :]


def test_a_site_without_a_proxy(day: Any) -> None:
    with day("flaky:p=0.3") as today:
        urls = [f"{today.lab.site}/shop.example/item/{number}" for number in range(40)]
        crawled = today.crawl(urls, {"RESIPROXY_PROXY": None})
    assert len(crawled.good) == 40


def test_the_users_own_proxy_stays_his(day: Any) -> None:
    source = """
class OwnProxySpider(ProbeSpider):
    def request(self, url, **kwargs):
        import os
        return super().request(url, meta={"proxy": os.environ["OWN_PROXY"]}, **kwargs)
"""
    with day("flaky:p=0.3") as today:
        source = source.replace('os.environ["OWN_PROXY"]', repr(today.lab.proxy("mine")))
        crawled = today.crawl(pages(30), spider=source, name="OwnProxySpider")
        sessions = set(today.lab.summary()["gateway"]["sessions"])
    assert len(crawled.good) == 30
    assert sessions == {"mine"}


def test_a_named_session_keeps_one_exit_and_is_never_replaced(day: Any) -> None:
    source = """
class NamedSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={"resiproxy_session": "basket"}, **kwargs)
"""
    with day("block403:pages=10") as today:
        crawled = today.crawl(pages(30), spider=source, name="NamedSpider")
        sessions = today.lab.summary()["gateway"]["sessions"]
    assert len(sessions) == 1
    assert len(crawled.good) == 10
    assert {error["error"] for error in crawled.errors} == {"SessionLost"}
    assert {letter["reason"] for letter in crawled.letters} == {"session_lost"}


def test_children_with_copied_meta_start_afresh(day: Any) -> None:
    source = """
class CopySpider(ProbeSpider):
    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/item/1"):
            for number in range(100, 130):
                url = response.urljoin(f"/item/{number}")
                yield Request(url, self.parse, errback=self.failed, meta=response.meta)
"""
    with day("block403:pages=8") as today:
        crawled = today.crawl(pages(2), spider=source, name="CopySpider")
        sessions = today.lab.summary()["gateway"]["sessions"]
    assert len(crawled.good) == 32
    assert len(sessions) > 3, "children must not inherit their parent's session"


def test_a_cached_block_page_is_fetched_again(day: Any) -> None:
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "cache", **VALIDATED, "RESIPROXY_SESSIONS_PER_TARGET": 1}
    with day("softblock:pages=0") as today:
        first = today.crawl(pages(3), {**settings, "RETRY_TIMES": 0})
        today.lab.set_behaviour("shop.example", "ok")
        second = today.crawl(pages(3), settings)
    assert first.good == []
    assert {page["url"] for page in second.good} == set(pages(3))
    assert "canary" not in second.text_of_all_files()


def test_what_the_cache_had_is_no_request(day: Any) -> None:
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "cache"}
    with day("ok") as today:
        first = today.crawl(pages(5), settings)
        second = today.crawl(pages(8), settings)
        assert today.lab.summary()["requests"] == 8
    assert first.stats["resiproxy/request_count"] == 5
    assert second.stats["resiproxy/request_count"] == second.stats["resiproxy/valid_count"] == 3


def test_the_cache_holds_no_credentials(day: Any) -> None:
    with day("ok", password="canary-pa55") as today:
        crawled = today.crawl(pages(3), {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "cache", "JOBDIR": "job"})
    assert len(crawled.good) == 3
    text = crawled.text_of_all_files()
    assert "canary-pa55" not in text
    assert "Proxy-Authorization" not in text


def test_media_files_and_robots_txt_go_through_the_proxy_too(day: Any) -> None:
    source = """
class MediaSpider(ProbeSpider):
    custom_settings = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}, "FILES_STORE": "files"}

    def parse(self, response):
        yield from super().parse(response)
        yield {"file_urls": [response.urljoin(f"/item/{number}") for number in range(500, 520)]}
"""
    with day("flaky:p=0.3") as today:
        crawled = today.crawl(
            pages(2),
            {"ROBOTSTXT_OBEY": True},
            spider=source,
            name="MediaSpider",
        )
        hosts = today.lab.summary()["hosts"]["shop.example"]
    assert len(crawled.good) == 2
    assert crawled.stats["file_count"] == 20
    assert crawled.stats["robotstxt/response_count"] == 1
    assert hosts["requests"] >= 23


def test_autothrottle_beside_it(day: Any) -> None:
    with day("flaky:p=0.3") as today:
        crawled = today.crawl(pages(20), {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05})
    assert len(crawled.good) == 20


def test_a_second_retry_layer_is_refused_in_one_line(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(
            pages(2),
            {"DOWNLOADER_MIDDLEWARES": {"scrapy.downloadermiddlewares.retry.RetryMiddleware": 550}},
        )
        assert today.lab.summary()["requests"] == 0
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"
    assert len([line for line in crawled.log.splitlines() if "two retry layers multiply" in line]) == 1
    assert "Traceback" not in crawled.log


WRONG = {
    "ratio": ({"RESIPROXY_BUDGET_RATIO": -1}, "RESIPROXY_BUDGET_RATIO is -1; it must be a number from 0 to 10."),
    "word": ({"RESIPROXY_MODE": "watch"}, "RESIPROXY_MODE is 'watch'; it must be 'enforce' or 'observe'."),
    "proxy": ({"RESIPROXY_PROXY": "ftp://user:canary-pa55@x:1"}, "RESIPROXY_PROXY"),
    "socks": ({"RESIPROXY_PROXY": "socks5://u:canary-pa55@x.example:1"}, "RESIPROXY_PROXY is a SOCKS proxy"),
    "provider": ({"RESIPROXY_PROVIDER": "nobody"}, "start. RESIPROXY_PROVIDER 'nobody': it must be one of "),
    "target": ({"RESIPROXY_TARGETS": {"a.example": {"validater": 1}}}, "has the key 'validater'"),
    "validator": ({"RESIPROXY_TARGETS": {"a.example": {"validator": "no.such"}}}, "['validator']"),
    "feed": ({"RESIPROXY_DEADLETTER_FILE": "urls.json/x.jsonl"}, "RESIPROXY_DEADLETTER_FILE"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_stops_the_crawl_with_one_line(day: Any, name: str) -> None:
    settings, expected = WRONG[name]
    with day("ok") as today:
        crawled = today.crawl(pages(2), settings)
        assert today.lab.summary()["requests"] == 0
    said = crawled.lines("ERROR")
    assert len(said) == 1
    assert expected in said[0]
    assert "Traceback" not in crawled.log
    assert "canary-pa55" not in crawled.log
    assert crawled.stats["finish_reason"] == "resiproxy_setting_error"


def test_no_more_wait_than_there_is_room_for(day: Any) -> None:
    settings = {
        "RESIPROXY_WAITING_MAX": 5,
        "RESIPROXY_BACKOFF_BASE": 5,
        "RESIPROXY_BACKOFF_CAP": 5,
        "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
        "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
    }
    with day("flaky:p=1") as today:
        crawled = today.crawl(pages(30), settings)
    assert crawled.stats["resiproxy/waiting/max"] == 5
    assert len(crawled.good) + len(crawled.letters) == 30
    assert crawled.letters


BROWSER = """
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import HtmlResponse

class BrowserHandler(BaseDownloadHandler):
    # Stands for scrapy-playwright: it looks at its own meta keys only.
    lazy = False

    async def download_request(self, request):
        context = request.meta.get("playwright_context")
        proxy = (request.meta.get("playwright_context_kwargs") or {}).get("proxy") or {}
        body = f'<meta name="lab-page" content="good"><p>{context} {proxy.get("server")} {proxy.get("username")}</p>'
        return HtmlResponse(request.url, body=body.encode(), request=request)

    async def close(self):
        pass

class BrowserSpider(ProbeSpider):
    own = {}

    def request(self, url, **kwargs):
        return super().request(url, meta={"playwright": True, **self.own}, **kwargs)

    def parse(self, response):
        yield from super().parse(response)
        self.note("browser", seen=response.css("p::text").get().split(), left=[
            key for key in response.meta if key.startswith("playwright_")
        ])

class OwnContextSpider(BrowserSpider):
    own = {"playwright_context": "mine"}
"""


def test_a_browser_gets_its_proxy_its_own_way_and_never_goes_direct(day: Any) -> None:
    settings = {"DOWNLOAD_HANDLERS": {"http": "spider_under_test.BrowserHandler"}}
    with day("ok") as today:
        crawled = today.crawl(pages(3), settings, spider=BROWSER, name="BrowserSpider")
        refused = today.crawl(pages(2), settings, spider=BROWSER, name="OwnContextSpider")
        gateway = today.lab.gateway
    seen = [note for note in crawled.notes if note["kind"] == "browser"]
    assert len(seen) == 3
    for note in seen:
        context, server, user = note["seen"]
        assert context.startswith("resiproxy-")
        assert server == gateway
        assert user.startswith("lab-session-")
        assert note["left"] == []
    errors = [note for note in refused.notes if note["kind"] == "error"]
    assert [error["error"] for error in errors] == ["ResiproxyError"] * 2
    assert "would go direct" in errors[0]["text"]
    assert [(letter["reason"], letter["error"]["type"]) for letter in refused.letters] == [
        ("terminal", "scrapy_resiproxy.exceptions.ResiproxyError")
    ] * 2
    assert len([line for line in refused.lines("ERROR") if "would go direct. Not sent: <GET" in line]) == 2


def test_tunnels_end_with_their_session_and_are_counted(day: Any) -> None:
    with day("block403:pages=10") as today:
        crawled = today.crawl(
            pages(60, scheme="https"), {"RESIPROXY_PRICE_PER_GB": 4, "RESIPROXY_SESSIONS_PER_TARGET": 2}
        )
    assert len(crawled.good) == 60
    stats = crawled.stats
    assert stats["resiproxy/tunnel/opened_count"] >= 6
    assert stats["resiproxy/tunnel/reused_count"] > 20
    assert stats["resiproxy/session/retired_count"] >= 4
    reasons = {key.rpartition("/")[2]: value for key, value in stats.items() if "tunnel/close_reason_count" in key}
    assert reasons.get("session", 0) >= 4, reasons
    assert "Estimated cost" in crawled.log
