from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.sessions.last_call import LastCall
from scrapy_resiproxy.sessions.pool import Lease, NoSession

LIST = tuple(f"http://acme:secretpw@p{number}.example:80" for number in range(3))


def called(*failures, give_up=100.0):
    """A list of a, b and c after *failures*: a name that fails, ``+`` for something carried, or a time to call at."""
    last_call, now = LastCall(3, give_up), 0.0
    for failure in failures:
        if failure == "+":
            last_call.carried()
        elif isinstance(failure, str):
            last_call.failed(failure, now, now)
        else:
            now = failure
            last_call.due(now)
    return last_call


@pytest.mark.parametrize(
    ("failures", "at"),
    [
        ("ab", math.inf),
        ("aabbab", math.inf),
        ("abc", 100.0),
        ("abcabc", 100.0),
        ("ab+c", math.inf),
        ("abc+", math.inf),
        ("abc+abc", 100.0),
        (["a", 50.0, "b", 70.0, "c"], 170.0),
        (["a", "b", "c", 70.0, "a", "b", "c"], 100.0),
    ],
)
def test_all_are_called_again_when_each_has_failed_and_none_has_carried_anything(failures, at):
    last_call = called(*failures)
    assert last_call.at == at
    assert not last_call.gone


@pytest.mark.parametrize(
    ("failures", "gone"),
    [
        ("", False),
        ("ab", False),
        ("aabb", False),
        ("cab", True),
        ("ab+c", False),
        ("abc+", True),
        ("+abc", False),
        ("+abcabc", False),
    ],
)
def test_a_list_is_gone_when_each_has_failed_again_after_the_last_call(failures, gone):
    assert called("a", "b", "c", 100.0, *failures).gone is gone


def test_what_was_sent_before_the_last_call_does_not_count_after_it():
    last_call = called("a", "b", "c", 100.0, "a", "b")
    last_call.failed("c", 99.9, 101.0)
    assert not last_call.gone
    last_call.failed("c", 100.0, 101.0)
    assert last_call.gone


def test_the_last_call_is_made_once():
    last_call = called("a", "b", "c")
    assert not last_call.due(99.0)
    assert last_call.due(100.0)
    assert not last_call.due(100.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0.0, 60.0)), max_size=60))
def test_a_list_is_never_gone_while_one_of_it_never_fails(events):
    last_call, now = LastCall(3, 100.0), 0.0
    for name, carries, passed in events:
        now += passed
        last_call.due(now)
        if carries:
            last_call.carried()
        elif name != "c":
            last_call.failed(name, now, now)
        assert not last_call.gone


def all_fail(shop):
    """Every endpoint of the list fails once by its own fault."""
    for _ in LIST:
        lease = shop.use()
        shop.retire(lease, "proxy_unreachable", blame=Blame.PROXY)
        shop.pool.last_call.failed(lease.session.url, shop.now, shop.now)


def test_at_the_last_call_nobody_rests_any_more(crawl):
    shop = crawl(LIST, session_quarantine=600, give_up=100.0)
    all_fail(shop)
    assert shop.ask() == NoSession(until=100.0)
    shop.now = 99.0
    assert shop.ask() == NoSession(until=100.0)
    shop.now = 100.0
    all_fail(shop)
    assert shop.pool.last_call.gone
    assert shop.ask() == NoSession(until=700.0)


def test_a_rest_that_ends_before_the_last_call_is_no_longer_than_it_was(crawl):
    shop = crawl(LIST, session_quarantine=50, give_up=100.0)
    all_fail(shop)
    assert shop.ask() == NoSession(until=50.0)
    shop.now = 50.0
    assert isinstance(shop.ask(), Lease)


def test_without_an_end_nobody_is_called(crawl):
    shop = crawl(LIST, session_quarantine=600)
    all_fail(shop)
    assert shop.ask() == NoSession(until=600.0)


def test_a_gateway_has_no_last_call(crawl):
    assert crawl().pool.last_call is None
