from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware

from scrapy_resiproxy.sessions.template import Endpoint, parse_proxy


def as_scrapy_reads(url: str, encoding: str = "latin-1") -> tuple[str, str | None]:
    """The proxy and the credentials that Scrapy's own middleware makes of *url*."""
    request = Request("https://site.example/", meta={"proxy": url})
    HttpProxyMiddleware(encoding).process_request(request)
    token = request.headers.get(b"Proxy-Authorization")
    credentials = base64.b64decode(token.removeprefix(b"Basic ")).decode(encoding) if token else None
    return request.meta["proxy"], credentials


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        pytest.param("http://u:p@ss#x@gw.example:1", "u:p@ss#x", id="URL-20 raw"),
        pytest.param("http://u:p%40ss%23x@gw.example:1", "u:p@ss#x", id="URL-20 encoded"),
        pytest.param("http://u:a/b@gw.example:1", "u:a/b", id="URL-20 slash"),
        pytest.param("http://u:50%off@gw.example:1", "u:50%off", id="URL-25 malformed percent"),
        pytest.param("http://u:a6%6q@gw.example:1", "u:a6%6q", id="URL-25 malformed hex"),
        pytest.param("http://u:a%2540@gw.example:1", "u:a%40", id="URL-25 decoded once"),
        pytest.param("http://u;sid=1:p@gw.example:1", "u;sid=1:p", id="URL-25 semicolon"),
        pytest.param("http://u+a.b,c=d:p@gw.example:1", "u+a.b,c=d:p", id="URL-25 signs"),
        pytest.param("http://u:pa:ss@gw.example:1", "u:pa:ss", id="colon in the password"),
        pytest.param("http://u:p?q@gw.example:1", "u:p?q", id="question mark"),
        pytest.param("http://u:p w@gw.example:1", "u:p w", id="space"),
        pytest.param("http://u:pé@gw.example:1", "u:pé", id="latin-1"),
        pytest.param("http://u:@gw.example:1", "u:", id="empty password"),
        pytest.param("http://gw.example:1", None, id="no credentials"),
        pytest.param("http://@gw.example:1", None, id="empty userinfo"),
    ],
)
def test_scrapy_reads_the_same_credentials_from_what_the_user_pasted_and_from_what_we_emit(text, credentials):
    assert as_scrapy_reads(text)[1] == credentials
    assert as_scrapy_reads(parse_proxy(text).url) == ("http://gw.example:1", credentials)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("http://KEY@gw.example:8011", Endpoint("http", "gw.example", 8011, "KEY"), id="URL-22"),
        pytest.param("gw.example:80", Endpoint("http", "gw.example", 80), id="host:port"),
        pytest.param("u:p@gw.example:80", Endpoint("http", "gw.example", 80, "u", "p"), id="no scheme"),
        pytest.param("//u:p@gw.example:80", Endpoint("http", "gw.example", 80, "u", "p"), id="only slashes"),
        pytest.param("gw.example:80:u:p", Endpoint("http", "gw.example", 80, "u", "p"), id="four parts"),
        pytest.param(
            "gw.example:80:u:p:%41@#/",
            Endpoint("http", "gw.example", 80, "u", "p:%41@#/"),
            id="four parts are literal",
        ),
        pytest.param(
            "socks5://gw.example:80:u:p", Endpoint("socks5", "gw.example", 80, "u", "p"), id="four with scheme"
        ),
        pytest.param(
            "http://user:1234:x:y@gw.example:80",
            Endpoint("http", "gw.example", 80, "user", "1234:x:y"),
            id="a password that looks like a port",
        ),
        pytest.param("http://u:p@[2001:db8::1]:80", Endpoint("http", "2001:db8::1", 80, "u", "p"), id="IPv6"),
        pytest.param("[::1]:80:u:p", Endpoint("http", "::1", 80, "u", "p"), id="IPv6 in four parts"),
        pytest.param("HTTP://u:p@gw.example/", Endpoint("http", "gw.example", 80, "u", "p"), id="http port"),
        pytest.param("https://gw.example", Endpoint("https", "gw.example", 443), id="https port"),
        pytest.param("socks5h://gw.example", Endpoint("socks5h", "gw.example", 1080), id="socks port"),
        pytest.param("  http://gw.example:80\n", Endpoint("http", "gw.example", 80), id="spaces around"),
    ],
)
def test_reads(text, expected):
    assert parse_proxy(text) == expected


def test_url_22_a_key_without_password_can_be_sent():
    assert as_scrapy_reads(parse_proxy("http://KEY@gw.example:8011").url)[1] == "KEY:"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("http://ключ:secretpw@gw.example:1", "user name holds a character", id="URL-23 user"),
        pytest.param("http://u:secretключ@gw.example:1", "password holds a character", id="URL-23 password"),
        pytest.param("http://u:secret%E9@gw.example:1", "password holds a character", id="URL-23 not UTF-8"),
        pytest.param("ftp://u:secretpw@gw.example:1", "scheme must be one of http, https, socks5", id="scheme"),
        pytest.param("secretuser://p@gw.example:1", "scheme must be one of", id="a user that looks like a scheme"),
        pytest.param("http://u:secretpw@gw.example:0", "port is 0", id="port 0"),
        pytest.param("http://u:secretpw@gw.example:65536", "port is 65536", id="port too big"),
        pytest.param("http://u:secretpw@gw.example:x", "not host:port", id="port no number"),
        pytest.param("http://gw.example:1@u:secretpw", "not host:port", id="wrong way round"),
        pytest.param("u:secretpw", "not host:port", id="host missing"),
        pytest.param("secretpw", "not host:port", id="one word"),
        pytest.param("", "not host:port", id="empty"),
        pytest.param("http://u:secretpw@gw.example:1/x", "not host:port", id="path"),
        pytest.param("http://u:secretpw@::1:80", "not host:port", id="IPv6 without brackets"),
        pytest.param("http://u:secretpw@[::g]:80", "not an IPv6 address", id="IPv6 wrong"),
        pytest.param("http://u:secretpw@gwé.example:80", "host name", id="host not ASCII"),
        pytest.param("http://:secretpw@gw.example:80", "no user name", id="no user"),
        pytest.param("http://u%3Asecretpw@gw.example:80", "holds a colon", id="colon in user"),
        pytest.param("http://u:secret\npw@gw.example:80", "control character", id="newline"),
    ],
)
def test_refuses_in_one_line_that_shows_no_credential(text, why):
    with pytest.raises(ValueError, match=why) as caught:
        parse_proxy(text)
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert "ключ" not in message
    assert caught.value.__context__ is None


@pytest.mark.parametrize(("encoding", "fine"), [("utf-8", True), (None, True), ("latin-1", False), ("nonsense", False)])
def test_url_23_credentials_are_checked_against_the_setting_at_start(encoding, fine):
    text = "http://ключ:pw@gw.example:1"
    if fine:
        assert as_scrapy_reads(parse_proxy(text, encoding).url, "utf-8")[1] == "ключ:pw"
    else:
        with pytest.raises(ValueError, match=f"HTTPPROXY_AUTH_ENCODING '{encoding}'"):
            parse_proxy(text, encoding)


def test_sec_02_nothing_but_the_url_shows_the_credentials():
    endpoint = parse_proxy("http://user:secretpw@gw.example:7000")
    shown = f"{endpoint!r} {endpoint} {endpoint.bare} {endpoint.address} {endpoint.masked()}"
    assert "secretpw" not in shown
    assert "user" not in shown
    assert endpoint.masked() == "http://***:***@gw.example:7000"
    assert parse_proxy("http://gw.example:7000").masked() == "http://gw.example:7000"


latin = st.text(st.characters(max_codepoint=255, min_codepoint=32, exclude_characters="\x7f"), min_size=1)


@given(user=latin.filter(lambda text: ":" not in text), password=latin)
def test_any_credentials_survive_the_way_through_scrapy(user, password):
    endpoint = Endpoint("http", "gw.example", 7000, user, password)
    assert as_scrapy_reads(endpoint.url) == ("http://gw.example:7000", f"{user}:{password}")
    assert parse_proxy(endpoint.url) == endpoint


@given(st.text())
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        endpoint = parse_proxy(text)
    except ValueError as error:
        message = str(error)
    else:
        message = "none"
        assert parse_proxy(endpoint.url) == endpoint
    assert len(message.splitlines()) == 1
