"""A session that pings keep warm is not idle for the pool of sessions either."""

from __future__ import annotations

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler
from tunnel_kit import World, a_route

from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.flow import Flight

VENDORS_IDLE_TIME = 60.0
SETTINGS = {
    "RESIPROXY_PROXY": "http://me:pw@gate.example:7000",
    "RESIPROXY_PROVIDER": "decodo",
    "RESIPROXY_SESSION_TTL": 86_400,
    "RESIPROXY_SESSIONS_PER_TARGET": 1,
}


def test_each_answered_ping_tells_its_session(pki):
    w, told = World(pki.good, idle_timeout=9.0), []
    w.transport.pinged = told.append
    w.get(a_route(session="warm"))
    w.advance(3.1)
    w.advance(3.1)
    assert told == ["warm", "warm"]
    w.silent = True
    w.advance(3.1)
    w.advance(3.1)
    assert told == ["warm", "warm"]


@pytest.fixture
def sessions(monkeypatch):
    """The sessions of a crawl whose vendor forgets one after a minute without a byte, and a hand on its clock."""
    crawler = get_crawler(Spider, SETTINGS)
    crawler.spider = crawler._create_spider("x")
    monkeypatch.setattr(crawler, "get_downloader_middleware", lambda cls: None)
    crawl = Crawl.of(crawler)
    clock = [1000.0]
    crawl.runtime.now = lambda: clock[0]

    def use():
        request = Request("https://shop.example/")
        flight = Flight({"id": "1"}, "shop.example", "shop.example", False)
        assert crawl.sessions.board(request, flight, clock[0]) is None
        crawl.runtime.pool.release(flight.lease.session, clock[0])
        return flight.lease.session.alias

    return crawl.sessions, use, clock


def test_a_pinged_session_outlives_the_vendors_idle_time(sessions):
    boarding, use, clock = sessions
    first = use()
    for _ in range(5):
        clock[0] += VENDORS_IDLE_TIME - 1
        boarding.touch(first)
    assert use() == first


def test_a_session_that_nobody_pings_does_not(sessions):
    _, use, clock = sessions
    first = use()
    clock[0] += VENDORS_IDLE_TIME + 1
    assert use() != first


def test_a_session_that_has_ended_is_not_kept(sessions):
    boarding, use, clock = sessions
    first = use()
    clock[0] += VENDORS_IDLE_TIME + 1
    second = use()
    boarding.bury_closed()
    boarding.touch(first)
    assert list(boarding._open) == [second]
