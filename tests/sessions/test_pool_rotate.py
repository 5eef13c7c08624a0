from __future__ import annotations

PLAIN = "http://acme:secretpw@gw.example:7000"


def test_every_request_has_a_new_id_and_a_new_jar(crawl):
    shop = crawl(session_mode="rotate")
    leases = [shop.lease() for _ in range(100)]
    for part in ("alias", "url", "jar"):
        assert len({getattr(lease.session, part) for lease in leases}) == 100
    assert all(lease.fresh for lease in leases)
    assert shop.pool.open_sessions("shop.example") == 0
    assert shop.pool.opened_count == 100
    assert shop.pool.expired_count == 0


def test_where_the_vendor_rotates_by_connection_the_session_is_new_and_the_url_is_not(crawl):
    shop = crawl(PLAIN, session_mode="rotate")
    leases = [shop.lease() for _ in range(10)]
    assert {lease.session.url for lease in leases} == {PLAIN}
    assert len({lease.session.alias for lease in leases}) == 10


def test_a_session_is_over_with_its_request(crawl):
    shop = crawl(session_mode="rotate")
    lease = shop.lease()
    assert shop.pool.take_closed() == []
    shop.pool.release(lease.session, 0.0)
    assert shop.pool.take_closed() == [lease.session]


def test_a_refused_session_is_retired_once(crawl):
    shop = crawl(session_mode="rotate")
    lease = shop.use()
    assert [shop.retire(lease), shop.retire(lease)] == [True, False]
    assert shop.pool.retired_count == 1


def test_ids_do_not_repeat_after_a_restart_with_the_same_salt(crawl):
    urls = set()
    for seed in (1, 2):
        shop = crawl(session_mode="rotate")
        shop.pool._rng.seed(seed)
        urls |= {shop.use().session.url for _ in range(10)}
    assert len(urls) == 20


def test_idle_targets_are_forgotten(crawl):
    shop = crawl(session_mode="rotate", session_ttl=100)
    shop.use()
    shop.now = 100.0
    assert shop.pool.evict(shop.now) == 1
