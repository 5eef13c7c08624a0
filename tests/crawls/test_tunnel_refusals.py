"""What a proxy answers to CONNECT decides, in a whole crawl through our tunnels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from days import pages


def test_a_407_is_written_down_at_once_and_never_retried(day: Any) -> None:
    with day("ok") as today:
        proxy = today.lab.proxy("{session}").replace(":lab@", ":wrong@")
        crawled = today.crawl(pages(3, scheme="https"), {"RESIPROXY_PROXY": proxy})
        connects = today.lab.ledger()
    assert len(connects) <= 3
    assert {row["status"] for row in connects} == {407}
    assert len(crawled.letters) == 3
    assert {letter["reason"] for letter in crawled.letters} == {"proxy_refused"}
    assert crawled.stats["resiproxy/outcome_reason_count/terminal/proxy_auth"] == len(connects)


def test_a_429_waits_as_told_and_keeps_its_session(day: Any) -> None:
    with day("ok", connect_status=429, connect_retry_after=1) as today:
        crawled = today.crawl(pages(1, scheme="https"))
        connects = today.lab.ledger()
    assert len(connects) >= 2
    assert crawled.stats["resiproxy/outcome_reason_count/rate/proxy_rate"] == len(connects)
    assert min(later["t"] - earlier["t"] for earlier, later in pairwise(connects)) >= 1
    assert len({row["session"] for row in connects}) == 1
