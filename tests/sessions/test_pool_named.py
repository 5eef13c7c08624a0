from __future__ import annotations

import pytest

from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.sessions.pool import Lease, NoSession, SessionGone

PLAIN = "http://acme:secretpw@gw.example:7000"
LIST = tuple(f"http://acme:secretpw@p{number}.example:80" for number in range(4))


def test_a_named_session_keeps_one_exit_over_all_hosts_and_outlives_the_ttl(crawl):
    shop = crawl(session_ttl=10, session_max_requests=2)
    first = shop.use("shop.example", name="login").session
    for step in range(100):
        shop.now = step * 1000.0
        assert shop.use(f"cdn{step}.example", name="login").session == first
    assert first.named
    assert first.owner == "login"


def test_a_named_session_is_no_place_of_a_target(crawl):
    shop = crawl()
    named = shop.lease(name="login").session
    assert shop.pool.open_sessions("shop.example") == 0
    assert shop.lease().session != named
    assert shop.lease("login").session != named


def test_a_named_session_keeps_the_country_of_its_first_request(crawl):
    shop = crawl("http://u-{country}-{session}:secretpw@gw.example:1", country="de")
    first = shop.use(name="login", country="fr").session
    assert shop.use(name="login").session == first
    assert first.url.startswith("http://u-fr-")


def test_a_named_session_is_never_replaced_silently(crawl):
    shop = crawl()
    first, second = shop.lease(name="login"), shop.lease(name="login")
    assert not shop.pool.lost("login", 0.0)
    assert [shop.retire(first, "challenge"), shop.retire(second, "block")] == [True, False]
    assert shop.pool.lost("login", 0.0)
    assert shop.ask(name="login") == SessionGone("challenge")
    assert shop.ask(name="login") == SessionGone("challenge")
    assert isinstance(shop.ask(name="other"), Lease)
    assert isinstance(shop.ask(), Lease)


def test_a_named_session_ends_with_the_vendors_longest_life(crawl):
    shop = crawl(PLAIN, provider="dataimpulse")
    session = shop.use(name="login").session
    shop.now = 1799.0
    assert shop.use(name="login").session == session
    shop.now = 1800.0
    assert shop.pool.lost("login", shop.now)
    assert shop.ask(name="login") == shop.ask(name="login") == SessionGone("session_limit")
    assert shop.pool.take_closed() == [session]
    assert shop.pool.expired_count == 1


def test_a_named_session_asks_the_vendor_for_its_longest_life(crawl):
    shop = crawl(PLAIN, provider="decodo", session_ttl=600)
    assert shop.use(name="login").session.url.endswith("-sessionduration-1440:secretpw@gw.example:7000")


def test_a_name_keeps_its_endpoint_of_a_list(crawl):
    shop = crawl(LIST, session_ttl=10)
    first = shop.use(name="login").session
    shop.now = 1000.0
    assert {shop.use(f"shop{number}.example", name="login").session for number in range(9)} == {first}


@pytest.mark.parametrize(("blame", "rests"), [(Blame.SESSION, False), (Blame.PROXY, True)])
def test_a_lost_name_rests_its_endpoint_only_when_the_proxy_is_to_blame(crawl, blame, rests):
    shop = crawl(LIST)
    lease = shop.use(name="login")
    shop.retire(lease, blame=blame)
    for target in ("shop.example", "login"):
        urls = {shop.lease(target).session.url for _ in range(12)}
        assert (lease.session.url not in urls) is rests


def test_a_name_waits_for_an_endpoint_when_all_rest(crawl):
    shop = crawl(LIST[:2], session_quarantine=50)
    for _ in range(2):
        shop.retire(shop.use(), blame=Blame.PROXY)
    assert shop.ask(name="login") == NoSession(until=50.0)


def test_names_work_in_rotate_mode_too(crawl):
    shop = crawl(session_mode="rotate")
    assert shop.use(name="login").session == shop.use(name="login").session
    assert shop.use().session != shop.use().session
