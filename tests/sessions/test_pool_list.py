from __future__ import annotations

import pytest

from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.sessions.pool import Lease, NoSession

LIST = tuple(f"http://acme:secretpw@p{number}.example:80" for number in range(4))


def test_all_endpoints_are_used_in_turn_whatever_the_limit_per_target(crawl):
    shop = crawl(LIST, sessions_per_target=1)
    urls = [shop.lease().session.url for _ in range(8)]
    assert sorted(urls[:4]) == sorted(LIST)
    assert sorted(urls) == sorted(2 * LIST)


def test_one_endpoint_is_kept_while_it_is_not_busy_and_its_time_is_not_over(crawl):
    shop = crawl(LIST, session_ttl=100)
    assert len({shop.use().session.url for _ in range(20)}) == 1
    shop.now = 100.0
    assert shop.use().session.url != shop.pool.take_closed()[0].url


def test_after_so_many_requests_comes_the_next_endpoint(crawl):
    shop = crawl(LIST, session_max_requests=1)
    urls = [shop.use().session.url for _ in range(8)]
    assert set(urls[:4]) == set(LIST)
    assert urls[:4] == urls[4:]


def test_targets_begin_at_different_endpoints(crawl):
    shop = crawl(LIST)
    assert len({shop.use(f"shop{number}.example").session.url for number in range(30)}) == 4


def test_targets_have_their_own_sessions_and_jars_on_one_endpoint(crawl):
    shop = crawl(LIST)
    sessions = [shop.use(f"shop{number}.example").session for number in range(30)]
    assert len({session.jar for session in sessions}) == len({session.alias for session in sessions}) == 30


def test_a_refused_endpoint_rests_at_that_target_only(crawl):
    shop = crawl(LIST, session_quarantine=50)
    lease = shop.use()
    assert shop.retire(lease)
    there = {shop.lease().session.url for _ in range(12)}
    elsewhere = {shop.lease("other.example").session.url for _ in range(12)}
    assert there == set(LIST) - {lease.session.url}
    assert elsewhere == set(LIST)
    shop.now = 50.0
    assert {shop.lease().session.url for _ in range(12)} == set(LIST)


def test_an_endpoint_that_is_at_fault_itself_rests_for_everybody_at_once(crawl):
    shop = crawl(LIST, session_quarantine=50)
    open_elsewhere = {lease.session.url: lease for lease in [shop.lease("other.example") for _ in range(4)]}
    lease = shop.use()
    assert shop.retire(lease, "proxy_unreachable", blame=Blame.PROXY)
    left = {shop.lease("other.example").session.url for _ in range(12)}
    assert left == set(LIST) - {lease.session.url}
    assert shop.pool.expired_count == 0
    late = open_elsewhere[lease.session.url]
    shop.pool.release(late.session, 1.0)
    assert shop.pool.take_closed() == [lease.session, late.session]


def test_ses_10_without_a_free_endpoint_it_says_when_to_ask_again(crawl):
    shop = crawl(LIST, session_quarantine=50)
    for _ in range(4):
        shop.retire(shop.use())
        shop.now += 1.0
    assert shop.ask() == NoSession(until=50.0)
    shop.now = 50.0
    assert isinstance(shop.ask(), Lease)


def test_no_quarantine_is_no_wait(crawl):
    shop = crawl(LIST, session_quarantine=0)
    for _ in range(12):
        shop.retire(shop.use())
    assert isinstance(shop.ask(), Lease)


def test_busy_endpoints_are_shared_while_others_rest(crawl):
    shop = crawl(LIST, session_quarantine=50)
    for _ in range(3):
        shop.retire(shop.use())
    assert len({shop.lease().session.url for _ in range(5)}) == 1


def test_an_avoided_endpoint_is_better_than_none(crawl):
    shop = crawl(LIST[:2], session_quarantine=50)
    shop.retire(shop.use())
    left = shop.use().session
    assert shop.use(avoid=frozenset({left.alias})).session == left


@pytest.mark.parametrize("late", [False, True])
def test_a_failure_counts_for_the_endpoint_even_after_its_session_expired(crawl, late):
    shop = crawl(LIST, session_ttl=10, session_quarantine=50)
    lease = shop.lease()
    shop.now = 10.0
    shop.use()
    if late:
        shop.pool.release(lease.session, shop.now)
    assert shop.retire(lease)
    assert lease.session.url not in {shop.lease().session.url for _ in range(12)}


def test_a_target_is_not_forgotten_while_an_endpoint_rests_there(crawl):
    shop = crawl(LIST, session_ttl=10, session_quarantine=50)
    shop.retire(shop.use())
    shop.now = 49.0
    assert shop.pool.evict(shop.now) == 0
    shop.now = 50.0
    assert shop.pool.evict(shop.now) == 1


def test_in_rotate_mode_every_request_goes_to_the_next_endpoint(crawl):
    shop = crawl(LIST, session_mode="rotate", session_quarantine=50)
    leases = [shop.lease() for _ in range(8)]
    assert len({lease.session.url for lease in leases[:4]}) == 4
    assert len({lease.session.alias for lease in leases}) == 8
    shop.retire(leases[0])
    assert leases[0].session.url not in {shop.lease().session.url for _ in range(8)}


def test_secrets_of_a_list_are_passwords_and_lone_keys(crawl):
    proxies = ("http://u:pw1@a.example:1", "http://v:pw1@b.example:1", "http://KEY@c.example:1", "d.example:1")
    assert crawl(proxies).pool.secrets() == ("pw1", "KEY")
