from __future__ import annotations

import base64
import math
import random
import re
import subprocess
import sys
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware

from scrapy_resiproxy.sessions.places import Place, Places
from scrapy_resiproxy.sessions.pool import SessionPool
from scrapy_resiproxy.settings import SessionSettings

TEMPLATE = "http://acme-session-{session}:secretpw@gw.example:7000"
PLAIN = "http://acme:secretpw@gw.example:7000"


def test_requests_one_after_another_share_one_session(crawl):
    shop = crawl()
    assert len({shop.use().session.alias for _ in range(20)}) == 1
    assert shop.pool.opened_count == 1


def test_ses_09_another_session_is_opened_only_while_all_are_busy_and_never_more_than_allowed(crawl):
    shop = crawl(sessions_per_target=3)
    leases = [shop.lease() for _ in range(9)]
    assert [shop.pool.open_sessions(target) for target in ("shop.example", "other.example")] == [3, 0]
    assert len({lease.session.url for lease in leases}) == 3
    assert {lease.session.use.in_flight for lease in leases} == {3}
    for lease in leases:
        shop.pool.release(lease.session, 0.0)
    shop.use()
    assert shop.pool.opened_count == 3


def test_of_idle_sessions_one_with_good_answers_is_taken(crawl):
    shop = crawl()
    first, second = shop.lease(), shop.lease()
    assert (first.fresh, second.fresh) == (True, True)
    for lease in (first, second):
        shop.pool.release(lease.session, 0.0)
    shop.pool.good(second.session, 0.0)
    warm = shop.lease()
    assert warm.session == second.session
    assert not warm.fresh


def test_the_preferred_session_is_taken_busy_or_not_while_it_is_open(crawl):
    shop = crawl()
    first, second = shop.lease(), shop.lease()
    assert shop.lease(prefer=second.session.alias).session == second.session
    assert shop.lease(prefer="gone").session not in {first.session, second.session}
    shop.retire(second)
    assert shop.lease(prefer=second.session.alias).session != second.session


def test_avoided_sessions_are_passed_over_as_long_as_there_is_another(crawl):
    shop = crawl(sessions_per_target=2)
    first = shop.use()
    second = shop.use(avoid=frozenset({first.session.alias}))
    assert second.session != first.session
    both = frozenset({first.session.alias, second.session.alias})
    assert shop.use(avoid=both).session in {first.session, second.session}
    avoided = shop.use(avoid=frozenset({first.session.alias}), prefer=first.session.alias)
    assert avoided.session == second.session


def test_ses_07_only_the_first_of_eight_failures_in_flight_retires_the_session(crawl):
    shop = crawl(sessions_per_target=1)
    leases = [shop.lease() for _ in range(8)]
    assert len({lease.session.alias for lease in leases}) == 1
    assert [shop.retire(lease) for lease in leases] == [True] + 7 * [False]
    assert shop.pool.retired_count == 1


def test_a_failure_that_is_judged_after_the_request_was_given_back_counts_too(crawl):
    shop = crawl(session_max_requests=1)
    lease = shop.use()
    assert [session.alias for session in shop.pool.take_closed()] == [lease.session.alias]
    assert [shop.retire(lease), shop.retire(lease)] == [True, False]
    assert shop.pool.take_closed() == []


def test_ses_05_a_new_session_has_a_new_id_and_a_new_cookie_jar(crawl):
    shop = crawl()
    old = shop.use().session
    shop.pool.retire(old, "challenge", 0.0)
    new = shop.use().session
    assert old.jar == f"resiproxy:{old.alias}"
    assert new.jar != old.jar
    assert new.url != old.url
    assert (old.generation, new.generation) == (0, 1)


def test_no_jar_without_session_cookies(crawl):
    assert crawl(session_cookies=False).use().session.jar is None


def test_ses_13_a_session_is_reported_closed_once_when_nothing_is_in_flight_on_it(crawl):
    shop = crawl(sessions_per_target=1)
    first, second = shop.lease(), shop.lease()
    shop.retire(first)
    shop.pool.release(first.session, 0.0)
    assert shop.pool.take_closed() == []
    shop.pool.release(second.session, 0.0)
    shop.pool.release(second.session, 0.0)
    assert shop.pool.take_closed() == [first.session]
    assert shop.pool.take_closed() == []


def test_ses_10_retired_sessions_are_replaced_without_a_wait(crawl):
    shop = crawl(sessions_per_target=5)
    leases = [shop.lease() for _ in range(5)]
    assert all(shop.retire(lease) for lease in leases)
    assert shop.lease().session not in {lease.session for lease in leases}


def test_a_session_ends_with_its_window_and_what_is_in_flight_may_finish(crawl):
    shop = crawl(session_ttl=100)
    lease = shop.lease()
    assert 0 < lease.session.expires_at <= 100
    shop.now = math.nextafter(lease.session.expires_at, 0)
    assert shop.use(prefer=lease.session.alias).session == lease.session
    shop.now = lease.session.expires_at
    later = shop.lease()
    assert later.session.url != lease.session.url
    assert later.session.expires_at == pytest.approx(lease.session.expires_at + 100)
    assert shop.pool.expired_count == 1
    assert shop.retire(lease)


def test_windows_of_one_target_end_at_different_times(crawl):
    shop = crawl(session_ttl=100, sessions_per_target=4)
    ends = sorted(shop.lease().session.expires_at for _ in range(4))
    assert [later - sooner for sooner, later in pairwise(ends)] == pytest.approx([25] * 3)


def test_targets_do_not_rotate_together(crawl):
    shop = crawl(session_ttl=100)
    ends = [shop.lease(f"shop{number}.example").session.expires_at for number in range(50)]
    assert len({round(end) for end in ends}) > 25


@given(ttl=st.floats(0.01, 1e6), now=st.floats(-1e9, 1e9), phase=st.floats(0, 1), index=st.integers(0, 7))
def test_a_window_ends_after_now_and_not_later_than_its_length(ttl, now, phase, index):
    _, end = Places(8, phase).window(Place(index), ttl, now)
    assert now < end <= now + ttl * 1.01 + 1e-6


def test_a_window_lost_to_rounding_is_the_next_one():
    places, place = Places(1, 0.0), Place(0)
    lost = [n * 0.1 for n in range(1, 1000) if math.floor(n * 0.1 / 0.1) < n]
    numbers = [places.window(place, 0.1, now)[0] for now in lost]
    assert lost
    assert all(later > sooner for sooner, later in pairwise(numbers))


def test_a_session_is_given_up_after_so_many_requests(crawl):
    shop = crawl(session_max_requests=3, sessions_per_target=1)
    sessions = [shop.use().session for _ in range(7)]
    assert [sessions.index(session) for session in sessions] == [0, 0, 0, 3, 3, 3, 6]
    assert shop.pool.expired_count == 2


def test_a_session_that_the_vendor_dropped_for_idleness_is_not_used_again(crawl):
    shop = crawl(PLAIN, provider="oxylabs", session_ttl=86_400)
    first = shop.use().session
    shop.now = 60.0
    assert shop.use().session == first
    shop.now = 120.5
    assert shop.use().session != first
    assert shop.pool.expired_count == 1


def test_a_session_in_use_or_kept_warm_is_not_idle(crawl):
    shop = crawl(PLAIN, provider="oxylabs", session_ttl=86_400)
    lease = shop.lease()
    shop.now = 1000.0
    assert shop.lease(prefer=lease.session.alias).session == lease.session
    for _ in range(2):
        shop.pool.release(lease.session, shop.now)
    shop.now = 1050.0
    third = shop.lease()
    assert third.session == lease.session
    shop.now = 2000.0
    shop.pool.release(third.session, shop.now)
    shop.now = 2059.0
    shop.pool.touch(lease.session, shop.now)
    shop.now = 2118.0
    assert shop.use().session == lease.session


def test_ses_03_another_country_is_another_id(crawl):
    shop = crawl("http://u-{country}-{session}:secretpw@gw.example:1", country="de")
    german, french = shop.use().session, shop.use(country="fr").session
    assert german.url.startswith("http://u-de-")
    assert french.url.startswith("http://u-fr-")
    assert german.url.partition("de-")[2] != french.url.partition("fr-")[2]
    assert shop.pool.open_sessions("shop.example") == 2


def test_ses_04_another_salt_is_another_id(crawl):
    assert crawl(salt="eu").use().session.url != crawl(salt="us").use().session.url


def test_the_same_salt_gives_the_same_ids_in_another_process(crawl):
    shop = crawl()
    ours = [shop.lease().session.url for _ in range(3)]
    code = f"""
import random
from scrapy_resiproxy.sessions.pool import SessionPool
from scrapy_resiproxy.settings import SessionSettings
pool = SessionPool(SessionSettings(proxy={TEMPLATE!r}), random.Random(7), salt="salt")
print([pool.lease("shop.example", 0.0).session.url for _ in range(3)])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == repr(ours)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        pytest.param({}, {"country": "de"}, id="template without country"),
        pytest.param({"provider": "decodo", "proxy": PLAIN}, {"country": "germany"}, id="vendor's form"),
        pytest.param(
            {"provider": "decodo", "proxy": "http://user-a-country-us:secretpw@gw.example:1"},
            {"country": "de"},
            id="one is there already",
        ),
        pytest.param({"proxy": ("http://a.example:1", "http://b.example:1")}, {"country": "de"}, id="list"),
        pytest.param(
            {"proxy": "http://u-{country}:p@gw.example:1", "country": "us"}, {"country": "d-e"}, id="separator"
        ),
    ],
)
def test_a_country_that_cannot_be_had_is_an_error_not_another_country(crawl, settings, options):
    with pytest.raises(ValueError, match=r"^country '[a-z-]+'[: ]"):
        crawl(**settings).ask(**options)


@pytest.mark.parametrize(
    ("proxy", "provider", "takes"),
    [
        (TEMPLATE, None, False),
        ("http://u-{country}:p@gw.example:1", None, True),
        (PLAIN, "decodo", True),
        ("http://user-a-country-us:secretpw@gw.example:1", "decodo", False),
        (("http://a.example:1", "http://b.example:1"), None, False),
    ],
)
def test_says_whether_a_country_can_be_asked_for(crawl, proxy, provider, takes):
    country = "us" if provider is None and "{country}" in proxy else None
    pool = crawl(proxy, provider=provider, country=country).pool
    with nullcontext() if takes else pytest.raises(ValueError, match=r"^country 'de': "):
        pool.check_country("de")


def test_a_single_url_is_one_session_that_cannot_rotate(crawl):
    shop = crawl(PLAIN)
    assert not shop.pool.can_rotate
    leases = [shop.lease() for _ in range(5)]
    assert {lease.session.url for lease in leases} == {PLAIN}
    assert shop.pool.opened_count == 1
    shop.retire(leases[0])
    after = shop.lease()
    assert after.session.url == PLAIN
    assert after.session.jar != leases[0].session.jar


@pytest.mark.parametrize(
    ("proxy", "settings", "expected"),
    [
        (TEMPLATE, {}, True),
        ("http://u:p@gw.example:{port:10000-20000}", {}, True),
        (PLAIN, {"provider": "decodo"}, True),
        (PLAIN, {}, False),
        (PLAIN, {"session_mode": "rotate"}, True),
        (("http://a.example:1", "http://b.example:1"), {}, True),
        (("http://a.example:1", "http://a.example:1"), {}, False),
    ],
)
def test_says_whether_a_refused_request_can_get_another_exit(crawl, proxy, settings, expected):
    assert crawl(proxy, **settings).pool.can_rotate is expected


def test_url_28_a_session_may_be_a_port(crawl):
    shop = crawl("http://u:secretpw@gw.example:{port:10000-10007}", sessions_per_target=8)
    leases = [shop.lease() for _ in range(8)]
    ports = {int(lease.session.bare.rpartition(":")[2]) for lease in leases}
    assert len(ports) > 5
    assert ports <= set(range(10000, 10008))
    assert shop.pool.endpoint == "http://gw.example"


def test_url_28_a_retired_port_does_not_come_straight_back(crawl):
    shop = crawl("http://u:secretpw@gw.example:{port:10000-10002}", sessions_per_target=1)
    for _ in range(50):
        lease = shop.use()
        shop.retire(lease)
        assert shop.use().session.url != lease.session.url


def test_url_28_sessions_that_outnumber_the_ports_share_them(crawl):
    shop = crawl("http://u:secretpw@gw.example:{port:10000-10000}", sessions_per_target=3)
    assert {shop.lease().session.bare for _ in range(3)} == {"http://gw.example:10000"}
    assert shop.pool.opened_count == 3


@pytest.mark.parametrize(
    ("proxy", "endpoint"),
    [
        (TEMPLATE, "http://gw.example:7000"),
        (PLAIN, "http://gw.example:7000"),
        (("http://a.example:1", "http://b.example:1"), None),
    ],
)
def test_names_the_gateway_of_all_sessions(crawl, proxy, endpoint):
    shop = crawl(proxy)
    assert shop.pool.endpoint == endpoint
    assert shop.pool.is_list is (endpoint is None)


def test_a_gateway_is_never_out_of_exits(crawl):
    exits = crawl().pool._exits
    assert exits.free_at("shop.example", 5.0) == 5.0
    assert not exits.is_down(TEMPLATE, 5.0)


def test_the_vendors_limit_shortens_our_clock(crawl):
    assert crawl(PLAIN, provider="dataimpulse", session_ttl=9999).pool.ttl == 1740
    assert crawl(session_ttl=9999).pool.ttl == 9999


def test_targets_that_rest_are_forgotten_and_their_retired_ids_never_come_back(crawl):
    shop = crawl(session_ttl=100)
    retired = set()
    for number in range(100):
        lease = shop.use(f"shop{number}.example")
        shop.retire(lease)
        retired.add(lease.session.url)
    assert shop.pool.evict(shop.now) == 0
    busy = shop.lease("busy.example")
    shop.now = 100.0
    assert shop.pool.evict(shop.now) == 101
    assert shop.pool.open_sessions("busy.example") == 0
    shop.pool.release(busy.session, shop.now)
    assert shop.pool.take_closed()[-1] == busy.session
    assert not retired & {shop.use(f"shop{number}.example").session.url for number in range(100)}


def test_a_target_with_an_open_session_is_not_forgotten(crawl):
    shop = crawl(session_ttl=100)
    first = shop.use().session
    shop.now = math.nextafter(first.expires_at, 0)
    assert shop.pool.evict(shop.now) == 0
    assert shop.use().session == first


def test_a_late_failure_of_a_forgotten_target_retires_nothing_new(crawl):
    shop = crawl(session_ttl=100)
    old = shop.lease()
    shop.now = 200.0
    shop.pool.evict(shop.now)
    new = shop.use()
    assert shop.retire(old)
    assert shop.use().session == new.session


def test_sec_02_a_session_shows_its_alias_only(crawl):
    shop = crawl()
    lease = shop.lease()
    assert re.fullmatch(r"Session\([0-9a-f]{8}\)", repr(lease.session))
    assert "secretpw" not in repr(lease)
    assert "acme" not in f"{lease} {lease.session} {shop.pool.sample()}"
    assert lease.session.alias not in lease.session.url
    assert shop.pool.secrets() == ("secretpw",)


@pytest.mark.parametrize(
    ("settings", "sample"),
    [
        ({"proxy": PLAIN, "provider": "decodo"}, r"http://user-\*\*\*-session-[a-z0-9]{8}-sessionduration-11:"),
        ({"proxy": TEMPLATE}, r"http://\*\*\*-session-[a-z][a-z0-9]{7}:\*\*\*@gw\.example:7000$"),
        ({"proxy": (PLAIN, "http://b.example:1")}, r"2 proxies, the first is http://\*\*\*:\*\*\*@gw"),
    ],
)
def test_sec_08_the_start_log_gets_a_sample_without_any_secret(crawl, settings, sample):
    pool = crawl(**settings).pool
    assert re.match(sample, pool.sample())
    assert not [secret for secret in (*pool.secrets(), "acme") if secret in pool.sample()]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"proxy": None}, "RESIPROXY_PROXY is not set"),
        ({"proxy": ()}, "list of proxies is empty"),
        ({"proxy": "http://u:secretpw@gw.example:x"}, "not host:port"),
        ({"session_mode": "random"}, "RESIPROXY_SESSION_MODE is 'random'; it must be sticky or rotate"),
        ({"session_ttl": 0}, "RESIPROXY_SESSION_TTL is 0"),
        ({"session_ttl": math.inf}, "RESIPROXY_SESSION_TTL is inf"),
        ({"session_max_requests": 0}, "RESIPROXY_SESSION_MAX_REQUESTS is 0; it must be None or at least 1"),
        ({"sessions_per_target": 0}, "RESIPROXY_SESSIONS_PER_TARGET is 0"),
        ({"session_quarantine": -1}, "RESIPROXY_SESSION_QUARANTINE is -1"),
        ({"provider": "nobody"}, "RESIPROXY_PROVIDER 'nobody': it must be one of"),
        ({"provider": "decodo"}, "writes the session itself"),
        ({"provider": "decodo", "proxy": "http://u:secretpw@gw.example:{port:1-2}"}, "writes the session"),
        ({"provider": "decodo", "proxy": ("http://a:secretpw@b:1", "c:1")}, "needs one URL, .* has 2"),
        ({"country": "de"}, "RESIPROXY_PROXY has no place for it"),
        ({"country": "de", "proxy": ("a:1", "b:1")}, "list of endpoints has no place"),
        ({"proxy": "http://u-{country}:secretpw@gw.example:1"}, "RESIPROXY_COUNTRY must say the default"),
        ({"provider": "decodo", "proxy": PLAIN, "country": "xx1"}, "not a two-letter code"),
    ],
)
def test_settings_that_cannot_be_used_stop_the_start_in_one_line(settings, why):
    with pytest.raises(ValueError, match=why) as caught:
        SessionPool(SessionSettings(**{"proxy": TEMPLATE, **settings}), random.Random(1), salt="salt")
    assert "secret" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_sec_05_scrapy_never_keeps_the_credentials_of_the_session_before(crawl):
    shop = crawl()
    request, middleware = Request("https://shop.example/"), HttpProxyMiddleware()
    tokens = []
    for _ in range(3):
        lease = shop.use()
        request.meta["proxy"] = lease.session.url
        middleware.process_request(request)
        tokens.append(base64.b64decode(request.headers[b"Proxy-Authorization"].removeprefix(b"Basic ")))
        assert request.meta["proxy"] == lease.session.bare
        shop.retire(lease)
    assert len(set(tokens)) == 3


def test_the_pool_needs_neither_scrapy_nor_twisted():
    code = "import sys, scrapy_resiproxy.sessions.pool; print({'scrapy', 'twisted'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_ids_need_a_salt():
    with pytest.raises(ValueError, match="the salt of the sessions is empty"):
        SessionPool(SessionSettings(proxy=TEMPLATE), random.Random(1), salt="")


def test_a_file_of_one_line_may_be_the_url_of_a_provider(crawl):
    shop = crawl(("# from the dashboard", PLAIN), provider="decodo")
    assert shop.use().session.url.startswith("http://user-acme-session-")


def test_a_lease_costs_the_same_with_ten_thousand_other_targets(crawl):
    def calls_of_a_lease(targets):
        shop, calls = crawl(), []
        for number in range(targets):
            shop.use(f"shop{number}.example")
        sys.setprofile(lambda frame, event, arg: calls.append(event))
        shop.use("shop0.example")
        sys.setprofile(None)
        return len(calls)

    assert calls_of_a_lease(1) == calls_of_a_lease(10_000)
