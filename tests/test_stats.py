"""What the extension writes into a crawl's stats about its targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.extension import ResiproxyExtension
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.schedule.waiting import Waiting
from scrapy_resiproxy.sessions.pool import Lease

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)


class Crawl:
    """An extension, its tally and its crawler's stats."""

    def __init__(self, most: int, **more: Any) -> None:
        settings = {"RESIPROXY_STATS_MAX_TARGETS": most, "LOG_ENABLED": False, **more}
        self.crawler = get_crawler(Spider, settings)
        self.crawler.spider = Spider.from_crawler(self.crawler, name="shop")
        self.extension = ResiproxyExtension.from_crawler(self.crawler)

    def answer(self, target: str, outcome: Outcome, times: int = 1) -> None:
        tally = self.extension.runtime.tally
        for _ in range(times):
            tally.departed(target, 1.0, retry=False)
            tally.judged(target, outcome, 10, fresh=False)

    def published(self) -> dict[str, Any]:
        self.extension.publish()
        assert self.crawler.stats is not None
        return {key.removeprefix("resiproxy/"): value for key, value in self.crawler.stats.get_stats().items()}


@pytest.fixture
def crawl() -> Crawl:
    return Crawl(most=2)


def test_the_worst_have_their_own_stats_and_the_rest_are_summed(crawl: Crawl) -> None:
    for number in range(5):
        crawl.answer(f"good{number}", OK, times=number)
    crawl.answer("bad", REFUSED)
    stats = crawl.published()
    assert {key.split("/")[1] for key in stats if key.startswith("targets/")} == {"bad", "good1", "other"}
    assert stats["targets/other/valid_count"] == 2 + 3 + 4


def test_a_target_that_is_no_longer_among_the_worst_counts_once(crawl: Crawl) -> None:
    for target, times in (("a", 1), ("b", 2), ("c", 1)):
        crawl.answer(target, REFUSED, times)
    before = crawl.published()
    crawl.answer("c", REFUSED, times=5)
    after = crawl.published()
    assert {"targets/a/request_count", "circuit/state/a"} <= before.keys()
    assert not any(key.startswith(("targets/a/", "circuit/state/a")) for key in after)
    by_target = [value for key, value in after.items() if key.startswith("targets/") and key.endswith("/request_count")]
    assert sum(by_target) == after["request_count"] == 9


def test_sessions_that_are_over_are_taken_down_at_every_turn_whether_anything_is_fetched_or_not() -> None:
    settings = {
        "RESIPROXY_PROXY": "http://u-{session}:p@127.0.0.1:1",
        "RESIPROXY_SESSION_COOKIES": False,
        "LOGSTATS_INTERVAL": 0,
        "LOG_ENABLED": False,
    }
    extension = ResiproxyExtension.from_crawler(get_crawler(settings_dict=settings))
    runtime = extension.runtime
    now, closed = 0.0, []
    runtime.now = lambda: now
    runtime.on_session_closed.append(closed.append)
    assert runtime.pool is not None
    lease = runtime.pool.lease("shop.example", now)
    assert isinstance(lease, Lease)
    runtime.pool.release(lease.session, now)
    extension.turn()
    assert closed == []
    now = lease.session.expires_at
    extension.turn()
    assert closed == [lease.session.alias]


def test_a_target_has_the_same_tails_as_the_crawl(tmp_path: Path) -> None:
    feed = str(tmp_path / "letters.jsonl")
    crawl = Crawl(2, RESIPROXY_PROXY="http://u-{session}:p@127.0.0.1:1", RESIPROXY_DEADLETTER_FILE=feed)
    runtime = crawl.extension.runtime
    send = crawl.crawler.signals.send_catch_log
    for number, target in enumerate(("a", "b", "c")):
        crawl.answer(target, REFUSED, times=4 - number)
        for _ in range(number + 1):
            send(signals.circuit_opened, target=target)
            send(signals.session_retired, target=target, session="x", reason="forbidden")
            runtime.room.park(Waiting(f"{target}{_}", object(), target, 5.0, "backoff", 1))
            crawl.extension.crawl.office.bury(Request(f"http://{target}/"), "terminal", target=target)
    send(signals.circuit_opened, target=runtime.endpoint)
    runtime.room.remove("b0")
    stats = crawl.published()
    for tail in ("circuit/opened_count", "session/retired_count", "waiting/parked_count"):
        assert [stats[f"targets/{target}/{tail}"] for target in ("a", "b", "other")] == [1, 2, 3]
    counted = [stats[f"targets/{target}/deadletter/reason_count/terminal"] for target in ("a", "b", "other")]
    assert counted == [1, 2, 3]
    assert [stats[f"targets/{target}/waiting/max"] for target in ("a", "b")] == [1, 2]
    assert "targets/other/waiting/max" not in stats
