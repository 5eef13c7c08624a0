"""What only a broken file, a second look or an odd order of events brings about."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.commands import deadletter
from scrapy_resiproxy.commands.runs import _error
from scrapy_resiproxy.components import offline
from scrapy_resiproxy.components.ledger import Ledger
from scrapy_resiproxy.components.replay import NoStart, stored_response
from scrapy_resiproxy.deadletter.feed import DeadLetterFeed, read_feed
from scrapy_resiproxy.deadletter.index import index
from scrapy_resiproxy.deadletter.progress import Delivery, Summary
from scrapy_resiproxy.names import META_REPLAY


class Feeds:
    late = failed = False
    flushes = 0

    def flush(self):
        self.flushes += 1


@pytest.fixture
def replay(project):
    """A ledger with two letters that were sent, and their entries."""
    path = str(project.folder / project.lose("/1", "/2"))
    ledger = Ledger("run", Summary("shop"), Feeds(), lambda: 0.0)
    ledger.lock([path])
    entries = index([path]).entries
    for entry in entries:
        ledger.sent(entry)
    yield ledger, entries
    ledger.crawl_ended("")


def marks(entries):
    return [(data["mark"], data["state"]) for _, data in read_feed(entries[0].file) if "mark" in data]


def test_a_letter_is_settled_once(replay):
    ledger, entries = replay
    ledger.passed(Delivery(entries[0].id))
    ledger.passed(Delivery(entries[0].id))
    ledger.superseded(entries[0].id, "newer")
    assert marks(entries) == [(entries[0].id, "done")]
    assert (ledger.summary.done, ledger.summary.again, ledger.summary.open) == (1, 0, 1)


def test_items_are_handed_to_the_kernel_before_the_mark(replay):
    ledger, entries = replay
    ledger.passed(Delivery(entries[0].id))
    assert ledger._feeds.flushes == 1


def test_what_waits_for_the_end_and_fails_before_is_not_done(replay):
    ledger, entries = replay
    for entry in entries:
        ledger.passed(Delivery(entry.id, follow_ups=1))
    ledger.superseded(entries[0].id, "newer")
    assert marks(entries) == [(entries[0].id, "superseded")]
    ledger.crawl_ended("finished")
    assert marks(entries) == [(entries[0].id, "superseded"), (entries[1].id, "done")]


@pytest.mark.parametrize(("reason", "failed"), [("shutdown", False), ("finished", True)])
def test_a_bad_end_settles_nothing(reason, failed, replay):
    ledger, entries = replay
    ledger._feeds.failed = failed
    ledger.passed(Delivery(entries[0].id, follow_ups=1))
    ledger.crawl_ended(reason)
    assert marks(entries) == []


def test_a_letter_that_cannot_be_marked_stays_open_and_is_said_once(replay, monkeypatch, caplog):
    ledger, entries = replay

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DeadLetterFeed, "mark", full)
    with caplog.at_level(logging.ERROR):
        for entry in entries:
            ledger.passed(Delivery(entry.id))
    assert caplog.messages == [f"{entries[0].file} cannot be written: No space left on device. Its letters stay open."]
    assert (ledger.summary.done, ledger.summary.open) == (0, 2)


def test_if_one_feed_cannot_be_locked_none_is(project, monkeypatch):
    path = str(project.folder / project.lose("/1"))
    ledger = Ledger("run", Summary("shop"), Feeds(), lambda: 0.0)
    with pytest.raises(FileNotFoundError):
        ledger.lock([path, "gone"])
    with pytest.raises(AssertionError, match="released"):
        ledger._locks[path].read(0, 1)


def test_a_page_is_given_out_once_and_only_for_what_was_sent(replay, caplog):
    ledger, entries = replay
    request = Request("http://shop.example/", meta={META_REPLAY: {"id": entries[0].id, "by": "run", "count": 0}})
    assert ledger.page("unknown", request) is None
    assert ledger.page(entries[0].id, request) is None, "this letter has no page"


def test_a_page_that_cannot_be_read_is_left_with_a_line(replay, monkeypatch, caplog):
    ledger, entries = replay
    with Path(entries[0].file).open("r+b") as file:
        file.write(b"oops")
    with caplog.at_level(logging.WARNING):
        assert ledger.page(entries[0].id, Request("http://shop.example/")) is None
    assert caplog.messages == [f"{entries[0].file}:1 is left: not JSON: Expecting value at character 1"]


class Shelf:
    def page(self, letter_id, request):
        return Response(request.url, body=letter_id.encode())


def test_only_requests_of_an_offline_replay_get_a_stored_page():
    ours = Request("http://shop.example/", meta={META_REPLAY: {"id": "x", "by": "run", "count": 0}})
    theirs = Request("http://shop.example/", meta={META_REPLAY: {"id": "x", "by": "another", "count": 0}})
    assert stored_response(ours) is None
    offline.put_up("run", Shelf())
    try:
        assert stored_response(ours).body == b"x"
        assert stored_response(theirs) is None
        assert stored_response(Request("http://shop.example/")) is None
        handler = offline.StoredPageHandler.from_crawler(get_crawler())
        assert asyncio.run(handler.download_request(ours)).body == b"x"
        with pytest.raises(IgnoreRequest, match="an offline replay sends no request"):
            asyncio.run(handler.download_request(theirs))
    finally:
        offline.take_down("run")
        offline.take_down("run")
    assert stored_response(ours) is None


@pytest.mark.parametrize("generator", [True, False])
def test_a_replay_that_cannot_run_runs_no_start_requests_either(generator):
    async def start():
        yield Request("http://shop.example/")

    class Iterator:
        def __aiter__(self):
            raise AssertionError("read")

    async def collect():
        return [request async for request in NoStart().process_start(start() if generator else Iterator())]

    assert asyncio.run(collect()) == []


def test_a_cancelled_crawl_has_failed():
    async def cancelled():
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await asyncio.wait([task])
        return _error(task)

    assert isinstance(asyncio.run(cancelled()), asyncio.CancelledError)


def test_a_feed_that_is_rewritten_while_it_is_listed_is_passed_over(replay):
    _, entries = replay
    with Path(entries[0].file).open("r+b") as file:
        file.write(b"oops")
    assert [entry for entry, _ in deadletter._letters(entries)] == entries[1:]
