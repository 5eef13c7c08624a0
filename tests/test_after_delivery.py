"""The letter of a page that was delivered and then failed tells how it was got."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.deadletter.reading import read_letter

if TYPE_CHECKING:
    from pathlib import Path

STORY = {
    "key": "k",
    "first": 1_700_000_000.0,
    "session": "abcd",
    "attempts": [
        {"at": 1_700_000_000.0, "class": "transient", "reason": "timeout", "session": "abcd", "status": None},
        {"at": 1_700_000_009.0, "class": "ok", "reason": "ok", "session": "abcd", "status": 200},
    ],
}
CYCLE: dict[str, Any] = {}
CYCLE["itself"] = CYCLE
ERRORS = {
    "parse_error": lambda crawl, response: crawl.spider_error(Failure(RuntimeError("bug")), response),
    "item_error": lambda crawl, response: crawl.item_error(response, Failure(RuntimeError("bug"))),
}


def letter_of(directory: Path, reason: str, story: Any) -> dict[str, Any]:
    feed = directory / "letters.jsonl"
    crawler = get_crawler(Spider, {"RESIPROXY_DEADLETTER_FILE": str(feed), "LOG_ENABLED": False})
    crawler.spider = Spider.from_crawler(crawler, name="shop")
    request = Request("http://shop.example/1", meta={} if story is None else {"resiproxy": story})
    ERRORS[reason](Crawl.of(crawler), HtmlResponse(request.url, body=b"<html></html>", request=request))
    (line,) = feed.read_bytes().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("reason", ERRORS)
def test_a_failure_after_delivery_keeps_the_attempts(tmp_path: Path, reason: str) -> None:
    letter = letter_of(tmp_path, reason, STORY)
    assert letter["reason"] == reason
    assert letter["attempts"] == STORY["attempts"]
    assert letter["first_seen"] == "2023-11-14T22:13:20.000000Z"


@pytest.mark.parametrize(
    "story",
    [
        *(None, "text", 5, [], {"first": "once"}, {"first": 1.0}, {"first": 1.0, "attempts": "ab"}),
        *({"first": first} for first in (math.nan, math.inf, -math.inf, -1e12, 1e300, 10**400, 253_402_300_800)),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_story_of_ours_costs_no_letter(tmp_path: Path, story: Any) -> None:
    assert letter_of(tmp_path, "parse_error", story)["attempts"] == []


def test_only_attempts_are_taken_from_a_story(tmp_path: Path) -> None:
    story = {**STORY, "attempts": ["junk", STORY["attempts"][1], None]}
    assert letter_of(tmp_path, "parse_error", story)["attempts"] == [STORY["attempts"][1]]


@pytest.mark.parametrize(
    "value",
    [object(), {1}, b"bytes", math.nan, 10**400, CYCLE, [object()], {("a",): 1}],
    ids=["object", "set", "bytes", "no number", "a long number", "a cycle", "a list", "keys"],
)
def test_what_a_callback_wrote_into_an_attempt_costs_that_alone(tmp_path: Path, value: Any) -> None:
    good = STORY["attempts"][1]
    letter = letter_of(tmp_path, "parse_error", {**STORY, "attempts": [{**good, "mine": value}]})
    assert letter["attempts"] == [good]
    assert letter["dropped"] == ["attempts.0.mine"]
    assert read_letter(json.dumps(letter).encode()) == letter
