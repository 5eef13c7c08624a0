"""``incomplete_count``: what was not delivered, whether there is a letter of it or not."""

from __future__ import annotations

from typing import Any

import pytest
from days import pages

FAILING = {
    "RESIPROXY_MAX_ATTEMPTS": 1,
    "RESIPROXY_CIRCUIT_CONSECUTIVE": 1000,
    "RESIPROXY_CIRCUIT_MIN_REQUESTS": 1000,
}


@pytest.mark.parametrize("writes", [True, False], ids=["the feed cannot be written", "there is no feed"])
def test_what_left_no_letter_is_incomplete_all_the_same(day: Any, writes: bool) -> None:
    with day("flaky:p=1") as today:
        today.directory.mkdir()
        (today.directory / "deadletter").write_text("in the way of the folder")
        crawled = today.crawl(pages(7), {**FAILING, "RESIPROXY_DEADLETTER_ENABLED": writes})
    assert not crawled.good
    assert crawled.stats["resiproxy/incomplete_count"] == 7
    assert crawled.stats["resiproxy/deadletter/written_count"] == 0
    assert crawled.stats.get("resiproxy/deadletter/failed_write_count", 0) == (7 if writes else 0)
    assert len([line for line in crawled.lines("WARNING") if "7 requests failed and left no dead letter" in line]) == 1


@pytest.mark.parametrize("writes", [True, False], ids=["with a feed", "without one"])
def test_a_page_that_is_not_there_makes_nothing_incomplete(day: Any, writes: bool) -> None:
    with day("missing") as today:
        crawled = today.crawl(pages(7), {**FAILING, "RESIPROXY_DEADLETTER_ENABLED": writes})
    assert {error["status"] for error in crawled.errors} == {404}
    assert crawled.stats["resiproxy/incomplete_count"] == 0
    assert "left no dead letter" not in crawled.log
