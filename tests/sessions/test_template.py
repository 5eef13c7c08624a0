from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware

from scrapy_resiproxy.sessions.template import Endpoint, Template, parse_proxy, read_proxies


def credentials_in_scrapy(url: str) -> str:
    request = Request("https://site.example/", meta={"proxy": url})
    HttpProxyMiddleware().process_request(request)
    return base64.b64decode(request.headers[b"Proxy-Authorization"].removeprefix(b"Basic ")).decode("latin-1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "http://user-a-session-{session}:pw@gw.example:1",
            Endpoint("http", "gw.example", 1, "user-a-session-s1", "pw"),
            id="user",
        ),
        pytest.param(
            "http://u:pw_session-{session}_country-{country}@geo.example:12321",
            Endpoint("http", "geo.example", 12321, "u", "pw_session-s1_country-de"),
            id="URL-29 password",
        ),
        pytest.param("http://u:pw@{country}.gw.example:1", Endpoint("http", "de.gw.example", 1, "u", "pw"), id="host"),
        pytest.param(
            "http://u:pw@gw.example:{port:10000-20000}",
            Endpoint("http", "gw.example", 12345, "u", "pw"),
            id="URL-28 port",
        ),
        pytest.param(
            "gw.example:{port:10000-20000}:u-{port:10000-20000}:p%41",
            Endpoint("http", "gw.example", 12345, "u-12345", "p%41"),
            id="four parts",
        ),
        pytest.param(
            "http://u%7Bx%7D-{session}:p%40{w@gw.example:1",
            Endpoint("http", "gw.example", 1, "u{x}-s1", "p@{w"),
            id="braces",
        ),
        pytest.param(
            "http://u{session}{country}:pw@gw.example:1",
            Endpoint("http", "gw.example", 1, "us1de", "pw"),
            id="two in a row",
        ),
    ],
)
def test_placeholders_are_filled_wherever_they_stand(text, expected):
    assert Template.parse(text).render("s1", "de", 12345) == expected


@pytest.mark.parametrize(
    ("text", "session", "country", "ports"),
    [
        ("http://u:p@gw.example:1", False, False, None),
        ("http://u-{session}:p@gw.example:1", True, False, None),
        ("http://u:p-{country}@gw.example:1", False, True, None),
        ("http://u:p@gw.example:{port:1-65535}", False, False, (1, 65535)),
    ],
)
def test_says_which_placeholders_it_has(text, session, country, ports):
    template = Template.parse(text)
    assert (template.has_session, template.has_country, template.ports) == (session, country, ports)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("http://u-{sesion}:secretpw@gw.example:1", "the user holds an unknown placeholder", id="typo"),
        pytest.param(
            "http://u:secret{pw}@gw.example:1", "the password holds an unknown placeholder", id="in the password"
        ),
        pytest.param("http://u:secretpw@{x}.gw.example:1", "the host holds an unknown placeholder", id="in the host"),
        pytest.param("http://u:secretpw@gw.example:{session}", "not host:port", id="session as port"),
        pytest.param("http://u:secretpw@gw.example:{port}", "needs its range", id="port without range"),
        pytest.param("http://u:secretpw@gw.example:{port:9-1}", "{port:9-1} is not one range", id="backwards"),
        pytest.param("http://u:secretpw@gw.example:{port:0-9}", "{port:0-9} is not", id="from 0"),
        pytest.param("http://u:secretpw@gw.example:{port:1-70000}", "is not one range", id="too far"),
        pytest.param(
            "http://u{port:1-2}:secretpw@gw.example:{port:1-3}", "{port:1-2}, {port:1-3} is not", id="two ranges"
        ),
        pytest.param("http://u-{session}:secretключ@gw.example:1", "holds a character", id="URL-23"),
    ],
)
def test_refuses_in_one_line_that_shows_no_credential(text, why):
    with pytest.raises(ValueError, match=why.replace("{", r"\{")) as caught:
        Template.parse(text)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "gateway"),
    [
        ("http://u-{session}:p@gw.example:1", "http://gw.example:1"),
        ("http://u:p@gw.example:{port:1-9}", "http://gw.example"),
        ("http://u:p@{country}.gw.example:1", None),
    ],
)
def test_names_the_gateway_that_all_sessions_share(text, gateway):
    assert Template.parse(text).gateway == gateway


@pytest.mark.parametrize(
    ("text", "sample"),
    [
        (
            "http://customer-acme-cc-{country}-sessid-{session}-sesstime-10:pw@gw.example:1",
            "http://customer-***-cc-de-sessid-ab12-sesstime-***:***@gw.example:1",
        ),
        ("http://acme_{session}:pw@gw.example:{port:5-9}", "http://***_ab12:***@gw.example:5"),
        ("http://u:pw_session-{session}@gw.example:1", "http://***:***@gw.example:1"),
        ("http://gw.example:1", "http://gw.example:1"),
    ],
)
def test_url_29_a_sample_shows_the_grammar_but_no_customer_and_nothing_of_a_password(text, sample):
    assert Template.parse(text).sample("ab12", "de") == sample


def test_its_secrets_are_the_fixed_pieces_of_the_password_or_of_a_lone_key():
    assert Template.parse("http://u:p%40w_{session}_x@gw.example:1").secrets() == ("p@w_", "_x")
    assert Template.parse("gw.example:1:u:p%40w").secrets() == ("p%40w",)
    assert Template.parse("http://KEY-{session}@gw.example:1").secrets() == ("KEY-",)
    assert Template.parse("http://gw.example:1").secrets() == ()


def test_its_repr_shows_nothing():
    assert repr(Template.parse("http://user:secretpw@gw.example:1")) == "Template(http://***)"


@given(
    session=st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1),
    password=st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="{}%"), min_size=1),
)
def test_scrapy_reads_what_was_rendered(session, password):
    template = Template.parse(f"http://u-{{session}};x=1:{password}@gw.example:1")
    url = template.render(session, None, None).url
    assert credentials_in_scrapy(url) == f"u-{session};x=1:{password}"


def test_a_string_is_a_template_and_so_is_a_list_of_one_line():
    text = "http://u-{session}:p@gw.example:1"
    assert read_proxies(text) == read_proxies(["# ours", "", text]) == Template.parse(text)


def test_a_list_is_endpoints_without_comments_blanks_and_doubles():
    lines = ["# dc", "http://u:p@a.example:1", "", "  b.example:2:u:p ", "http://u:p@a.example:1", "#x"]
    assert read_proxies(lines) == [
        parse_proxy("http://u:p@a.example:1"),
        parse_proxy("http://u:p@b.example:2"),
    ]


def test_bad_lines_are_named_by_number_without_their_text():
    lines = ["http://u:p@a.example:1", "# no", "http://u:secretpw@a.example:x", "u-{session}:secretpw@a.example:1"]
    with pytest.raises(ValueError, match=r"line 3: .*not host:port.*; line 4: .*belong into a single") as caught:
        read_proxies(lines)
    assert "secret" not in str(caught.value)
    assert "line 1" not in str(caught.value)


def test_a_thousand_bad_lines_are_one_line():
    with pytest.raises(ValueError, match=r"line 5: .* \(and 995 more\)$"):
        read_proxies(["secretpw"] * 1000)


def test_a_list_needs_a_proxy():
    with pytest.raises(ValueError, match="list of proxies is empty"):
        read_proxies(["", "# nothing"])
