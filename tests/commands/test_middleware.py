"""The replay's middleware where a crawl as in test_replay.py cannot bring it."""

from __future__ import annotations

import asyncio

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.replay import ReplaySpiderMiddleware
from scrapy_resiproxy.deadletter.replay import Filter
from scrapy_resiproxy.names import META_REPLAY
from scrapy_resiproxy.runtime import Runtime


@pytest.fixture
def replaying(project, monkeypatch):
    """The middleware with one letter that was sent, the letter's id and its page."""
    path = str(project.folder / project.lose("/1"))
    crawler = get_crawler(settings_dict={"RESIPROXY_REPLAY": path})
    crawler.spider = Spider.from_crawler(crawler, name="shop")
    monkeypatch.setattr(crawler, "get_spider_middleware", lambda cls: None)
    runtime = Runtime.of(crawler)
    middleware = ReplaySpiderMiddleware(crawler, runtime, Filter())
    middleware.choose(runtime)
    (entry,) = middleware.selection.entries
    middleware.ledger.sent(entry)
    meta = {META_REPLAY: {"id": entry.id, "by": middleware.name, "count": 0}}
    yield middleware, Response("http://shop.example/", request=Request("http://shop.example/", meta=meta))
    middleware._engine_stopped()


async def yielding(*outputs):
    for output in outputs:
        yield output


def read(middleware, response, *outputs):
    async def collect():
        return [output async for output in middleware.process_spider_output(response, yielding(*outputs))]

    return asyncio.run(collect())


def test_items_are_awaited_and_nothing_is_no_item(replaying):
    middleware, response = replaying
    assert read(middleware, response, {"x": 1}, None) == [{"x": 1}, None]
    assert middleware.summary.done == 0
    middleware._item_passed(response)
    assert middleware.summary.done == 1


def test_output_in_the_place_of_an_exception_counts_with_what_came_before(replaying):
    middleware, response = replaying
    read(middleware, response, {"x": 1})
    read(middleware, response, {"x": 2})
    middleware._item_passed(response)
    assert middleware.summary.done == 0
    middleware._item_passed(response)
    assert middleware.summary.done == 1


def test_without_httperror_middleware_every_status_is_a_page(replaying):
    middleware, response = replaying
    read(middleware, response.replace(status=503))
    assert middleware.summary.done == 1


def test_output_that_is_not_read_to_its_end_is_not_done(replaying):
    middleware, response = replaying

    async def read_one():
        outputs = middleware.process_spider_output(response, yielding({"x": 1}, {"x": 2}))
        await anext(outputs)
        await outputs.aclose()

    asyncio.run(read_one())
    middleware._item_passed(response)
    assert middleware.summary.done == 0


def test_items_of_other_pages_are_not_counted(replaying):
    middleware, response = replaying
    other = Response("http://shop.example/other")
    middleware._item_passed(other)
    middleware._item_failed(other)
    middleware._item_failed(None)
    read(middleware, response)
    assert middleware.summary.done == 1
