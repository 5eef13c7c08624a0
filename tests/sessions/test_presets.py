from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.sessions.ids import HEX16, NUMBER, WORD, Hasher
from scrapy_resiproxy.sessions.pool import SessionPool
from scrapy_resiproxy.sessions.presets import PRESETS, find_preset
from scrapy_resiproxy.sessions.template import Template, parse_proxy
from scrapy_resiproxy.settings import SessionSettings

DAY = 86_400


def rendered(name: str, user: str, session: str, country: str | None, ttl: float | None) -> tuple[str, str]:
    preset = PRESETS[name]
    country = country and preset.country_form(country)
    endpoint = preset.wrap(parse_proxy(f"http://{user}:pw@gw.example:7000")).render(session, country, ttl)
    assert endpoint.bare == "http://gw.example:7000"
    return endpoint.username, endpoint.password


@pytest.mark.parametrize(
    ("name", "user", "session", "country", "ttl", "username", "password"),
    [
        pytest.param(
            "brightdata",
            "brd-customer-c-zone-my_zone-1",
            "ab12cd34",
            "DE",
            600,
            "brd-customer-c-zone-my_zone-1-country-de-session-ab12cd34",
            "pw",
            id="URL-01",
        ),
        pytest.param(
            "oxylabs",
            "acme",
            "ab12cd34",
            "de",
            600,
            "customer-acme-cc-DE-sessid-ab12cd34-sesstime-11",
            "pw",
            id="URL-02",
        ),
        pytest.param(
            "decodo",
            "user-acme",
            "ab12cd34",
            "us",
            601,
            "user-acme-country-us-session-ab12cd34-sessionduration-12",
            "pw",
            id="URL-03",
        ),
        pytest.param(
            "soax",
            "package-12",
            "ab12cd34",
            "us",
            600,
            "package-12-country-us-sessionid-ab12cd34-sessionlength-660",
            "pw",
            id="URL-04",
        ),
        pytest.param(
            "iproyal",
            "acme",
            "ab12cd34",
            "us",
            600,
            "acme",
            "pw_country-us_session-ab12cd34_lifetime-11m",
            id="URL-05 minutes",
        ),
        pytest.param("iproyal", "a", "ab12cd34", None, 3600, "a", "pw_session-ab12cd34_lifetime-2h", id="URL-05 hours"),
        pytest.param("iproyal", "a", "ab12cd34", None, DAY, "a", "pw_session-ab12cd34_lifetime-2d", id="URL-05 days"),
        pytest.param("netnut", "acme", "123456789", "gb", 600, "acme-res-uk-sid-123456789", "pw", id="URL-06"),
        pytest.param("netnut", "a", "123456789", None, 600, "a-res-any-sid-123456789", "pw", id="URL-06 any"),
        pytest.param("netnut", "a-dc-fr", "123456789", None, 600, "a-dc-fr-sid-123456789", "pw", id="URL-06 dc"),
        pytest.param("webshare", "acme", "123456789", "us", 600, "acme-us-123456789", "pw", id="URL-07"),
        pytest.param("webshare", "acme", "123456789", None, 600, "acme-123456789", "pw", id="URL-07 any"),
        pytest.param("rayobyte", "a-dc", "ab12cd34", "us", 600, "a-dc", "pw-country-US-session-ab12cd34", id="URL-08"),
        pytest.param(
            "proxyhat",
            "acme",
            "00112233aabbccdd",
            None,
            600,
            "acme-country-any-sid-00112233aabbccdd-ttl-11m",
            "pw",
            id="URL-09",
        ),
        pytest.param(
            "packetstream",
            "acme",
            "ab12cd34",
            "UnitedStates",
            600,
            "acme",
            "pw_country-UnitedStates_session-ab12cd34",
            id="URL-10",
        ),
        pytest.param("infatica", "acme", "ab12cd34", "us", 600, "acme_c_US_s_ab12cd34", "pw", id="URL-11"),
        pytest.param("dataimpulse", "acme", "ab12cd34", "au", 600, "acme__cr.au;sessid.ab12cd34", "pw", id="URL-12"),
        pytest.param("dataimpulse", "a", "ab12cd34", None, 600, "a__sessid.ab12cd34", "pw", id="URL-12 any"),
        pytest.param(
            "dataimpulse",
            "a__cr.us;city.x",
            "ab12cd34",
            None,
            600,
            "a__cr.us;city.x;sessid.ab12cd34",
            "pw",
            id="URL-12 begun",
        ),
        pytest.param(
            "evomi",
            "acme",
            "ab12cd34",
            "us",
            600,
            "acme",
            "pw_country-US_session-ab12cd34_lifetime-11",
            id="URL-14 Evomi",
        ),
        pytest.param(
            "geonode",
            "geonode_acme",
            "ab12cd34",
            "us",
            60,
            "geonode_acme-country-us-session-ab12cd34-lifetime-3",
            "pw",
            id="URL-14 Geonode",
        ),
        pytest.param(
            "thordata",
            "acme",
            "ab12cd34",
            "us",
            99_999,
            "td-customer-acme-country-us-sessid-ab12cd34-sesstime-90",
            "pw",
            id="URL-14 Thordata",
        ),
    ],
)
def test_writes_the_vendors_grammar(name, user, session, country, ttl, username, password):
    assert rendered(name, user, session, country, ttl) == (username, password)


@pytest.mark.parametrize(
    ("name", "username", "password"),
    [
        ("oxylabs", "customer-acme-sessid-ab12cd34-sesstime-1440", "pw"),
        ("iproyal", "acme", "pw_session-ab12cd34_lifetime-7d"),
        ("evomi", "acme", "pw_session-ab12cd34_lifetime-120"),
        ("proxyhat", "acme-country-any-sid-ab12cd34", "pw"),
        ("brightdata", "acme-session-ab12cd34", "pw"),
    ],
)
def test_a_session_without_an_end_asks_for_the_longest_life_that_the_vendor_names(name, username, password):
    assert rendered(name, "acme", "ab12cd34", None, None) == (username, password)


@pytest.mark.parametrize(
    ("name", "ttl", "ours"),
    [
        ("oxylabs", 600, 600),
        ("oxylabs", 10 * DAY, DAY - 60),
        ("dataimpulse", 3600, 1740),
        ("thordata", 3600, 3600),
        ("brightdata", 10 * DAY, 10 * DAY),
    ],
)
def test_our_clock_is_faster_than_the_vendors(name, ttl, ours):
    assert PRESETS[name].clamp_ttl(ttl) == ours


def test_a_very_short_limit_keeps_nine_tenths():
    assert replace(PRESETS["oxylabs"], ttl_max=100.0).clamp_ttl(600) == 90


@pytest.mark.parametrize(
    ("name", "proxy"),
    [
        ("brightdata", "http://brd-customer-c-zone-z-session-x1:secretpw@gw.example:1"),
        ("oxylabs", "http://customer-a-sessid_oneip-x1:secretpw@gw.example:1"),
        ("decodo", "http://user-a-sessionduration-10:secretpw@gw.example:1"),
        ("iproyal", "http://a:secretpw_session-ab12cd34@gw.example:1"),
        ("netnut", "http://a-res-us-sid-12345:secretpw@gw.example:1"),
        ("webshare", "http://a-7:secretpw@gw.example:1"),
        ("webshare", "http://a-rotate:secretpw@gw.example:1"),
        ("dataimpulse", "http://a__cr.us;sessid.1:secretpw@gw.example:1"),
        ("infatica", "http://a_s_1:secretpw@gw.example:1"),
        ("evomi", "http://a:secretpw_hardsession-1234567@gw.example:1"),
        ("brightdata", "http://a-{session}:secretpw@gw.example:1"),
    ],
)
def test_session_words_that_are_there_already_are_refused_in_one_line(name, proxy):
    with pytest.raises(ValueError, match="names a session already; give the bare URL") as caught:
        PRESETS[name].wrap(parse_proxy(proxy))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["http://gw.example:1", "http://KEY@gw.example:1"])
def test_a_preset_needs_user_name_and_password(proxy):
    with pytest.raises(ValueError, match="needs the user name and the password"):
        PRESETS["decodo"].wrap(parse_proxy(proxy))


@pytest.mark.parametrize(
    ("name", "country", "why"),
    [
        ("oxylabs", "germany", "not a two-letter code"),
        ("oxylabs", "d-", "not a two-letter code"),
        ("packetstream", "us", "a country's name in one word"),
    ],
)
def test_a_country_that_the_vendor_cannot_read_is_refused(name, country, why):
    with pytest.raises(ValueError, match=why):
        PRESETS[name].country_form(country)


def test_url_13_zyte_is_refused_with_what_to_use_instead():
    with pytest.raises(ValueError, match=r"^RESIPROXY_PROVIDER 'Zyte': .*scrapy-zyte-smartproxy") as caught:
        find_preset("Zyte")
    assert "\n" not in str(caught.value)


def test_url_03_the_old_brand_is_not_taken_for_either_of_its_products():
    with pytest.raises(ValueError, match="'decodo'"):
        find_preset("smartproxy")


def test_an_unknown_provider_gets_the_list():
    with pytest.raises(ValueError, match="must be one of brightdata, oxylabs, decodo, soax"):
        find_preset("brightdate")
    assert find_preset(" Oxylabs ") is PRESETS["oxylabs"]


def test_every_preset_says_where_it_comes_from():
    assert {preset.source for preset in PRESETS.values()} == {"documented", "public code"}
    unverified = {name for name, preset in PRESETS.items() if not preset.documented}
    assert unverified == {"rayobyte", "proxyhat", "packetstream", "infatica"}


@pytest.mark.parametrize("name", PRESETS)
@given(target=st.text(max_size=20), salt=st.text(min_size=1, max_size=8))
def test_ids_are_always_in_the_vendors_alphabet_and_length(name, target, salt):
    ids = PRESETS[name].ids
    session = ids.spell(Hasher(salt).number("target", target))
    assert re.fullmatch({WORD: "[a-z][a-z0-9]{7}", NUMBER: "[1-9][0-9]{8}", HEX16: "[0-9a-f]{16}"}[ids], session)


@pytest.mark.parametrize(
    ("name", "ids"), [("netnut", NUMBER), ("webshare", NUMBER), ("proxyhat", HEX16), ("iproyal", WORD)]
)
def test_url_14_numbers_and_hex_only_for_those_who_want_them(name, ids):
    assert PRESETS[name].ids is ids


def test_url_26_a_users_key_is_hashed_never_passed_through():
    pool = SessionPool(SessionSettings(proxy="http://u-{session}:pw@gw.example:1"), random.Random(1), salt="salt")
    lease = pool.lease("shop.example", 0.0, name="shop-a.example/7")
    assert re.fullmatch(r"http://u-[a-z][a-z0-9]{7}:pw@gw\.example:1", lease.session.url)


def test_nothing_of_a_wrapped_endpoint_shows_its_credentials():
    wrapped = PRESETS["decodo"].wrap(parse_proxy("http://acme:secretpw@gw.example:7000"))
    assert repr(wrapped) == "Wrapped(decodo, http://gw.example:7000)"
    sample = wrapped.sample("ab12cd34", "de", 600)
    assert sample == "http://user-***-country-de-session-ab12cd34-sessionduration-11:***@gw.example:7000"


def test_url_29_a_sample_of_a_session_in_the_password_hides_the_whole_password():
    wrapped = PRESETS["iproyal"].wrap(parse_proxy("http://acme:secretpw@gw.example:7000"))
    sample = wrapped.sample("ab12cd34", "de", 600)
    assert sample == "http://***:***@gw.example:7000 (the session is in the password)"


def test_a_template_needs_no_preset_for_a_flag_such_as_a_strict_session():
    template = Template.parse("http://brd-customer-c-zone-z-session-{session}-const:pw@gw.example:1")
    assert template.render("ab12", None, None).username == "brd-customer-c-zone-z-session-ab12-const"
