from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.exceptions import DownloadFailedError
from scrapy.utils.log import failure_to_exc_info
from twisted.logger import Logger, STDLibLogObserver
from twisted.python.failure import Failure

from scrapy_resiproxy import redact
from scrapy_resiproxy.redact import (
    DEFAULT_REDACT,
    SECRETS,
    RedactedError,
    Secrets,
    install_log_redaction,
    redact_form,
    redact_mapping,
    redact_query,
    redact_text,
    redact_url,
)

SEC_01 = "407, message='Proxy Authentication Required', url='http://usr-session-s1:secretpw@127.0.0.1:1'"

CAUSE = "http://u:secretpw@h:1"


@pytest.fixture(autouse=True)
def no_secrets():
    SECRETS.clear()
    yield
    SECRETS.clear()


@pytest.fixture
def records():
    """A logger whose records are kept as they were made, with redaction installed and a secret known."""
    before = logging.getLogRecordFactory()
    install_log_redaction()
    SECRETS.register("secretpw")
    logger, kept = logging.Logger("tests.redact"), []  # noqa: LOG001 - apart from all others
    handler = logging.Handler()
    handler.emit = kept.append
    logger.addHandler(handler)
    yield logger, kept
    logging.setLogRecordFactory(before)


# URLs


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://u:p@gw.example:1", "http://***@gw.example:1"),
        ("http://KEY@gw.example:8011/", "http://***@gw.example:8011/"),
        ("http://u:p@[::1]:80", "http://***@[::1]:80"),
        ("socks5h://u:p@gw.example", "socks5h://***@gw.example"),
        ("u:p@gw.example:1", "***@gw.example:1"),
        ("//u:p@gw.example:1", "***@gw.example:1"),
        ("gw.example:7000:u:p", "gw.example:7000:***"),
        ("http://gw.example:7000:u:p@x", "http://***@x"),
        ("http://gw.example:7000:u:p", "http://gw.example:7000:***"),
        ("http://u:p@ss#x@gw.example:1", "http://***@gw.example:1"),
        ("http://u:a/b@gw.example:1", "http://***@gw.example:1"),
        ("http://u:12/b@gw.example:1", "http://***@gw.example:1"),
        ("http://u:12#b@gw", "http://***@gw"),
        ("http://u:#b@gw", "http://***@gw"),
        ("http://u:/b@gw", "http://***@gw"),
        ("http://u:p@ss/x@gw.example", "http://***@gw.example"),
        ("http://u:p@ss?x@gw.example", "http://***@gw.example"),
        ("http://u#x:p@gw.example:1", "http://***@gw.example:1"),
        ("u:p://w@gw.example:1", "***@gw.example:1"),
        ("http://u:p@shop.example/@joe?mail=a@b.example", "http://***@shop.example/@joe?mail=a@b.example"),
        ("https://u:p@localhost/@joe", "https://***@localhost/@joe"),
        ("https://u:p@[::1]/@joe", "https://***@[::1]/@joe"),
    ],
)
def test_a_url_is_shown_without_credentials(url, expected):
    assert redact_url(url) == expected
    assert redact_url(expected) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://gw.example:7000",
        "https://shop.example/@joe",
        "https://shop.example:8080/@joe/posts",
        "https://shop.example/?mail=a@b.example",
        "https://shop.example?mail=a@b.example",
        "https://shop.example/a:1:b:c",
        "data:,x",
        "/relative",
        "",
    ],
)
def test_a_url_without_credentials_is_left_alone(url):
    assert redact_url(url) == url
    assert redact_text(url) == url


raw_latin = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="<>\"'`"), min_size=1)


@given(user=raw_latin, password=raw_latin)
def test_no_raw_password_survives_before_a_proxys_port(user, password):
    url = f"http://{user}:{password}@gw.example:7000"
    assert redact_url(url) == redact_text(url) == "http://***@gw.example:7000"


@given(st.text())
def test_redacting_twice_is_redacting_once(text):
    for way in (redact_url, redact_text):
        assert way(way(text)) == way(text)


# Text


def test_sec_01_the_text_of_a_refused_connect_shows_no_credential():
    shown = redact_text(SEC_01)
    assert shown == "407, message='Proxy Authentication Required', url='http://***@127.0.0.1:1'"
    error = str(DownloadFailedError(SEC_01))
    assert "secretpw" not in redact_text(error)
    assert "usr-session-s1" not in redact_text(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("using proxy http://u:p@h:1 now", "using proxy http://***@h:1 now"),
        ("<GET http://u:p@a.example/x> (referer: http://k@b.example/)", None),
        ("a=http://u:p@h:1,http://v:q@i:2", "a=http://***@i:2"),
        ("Proxy-Authorization: Basic dTpw", "Proxy-Authorization: ***"),
        ("CONNECT a:443\r\nproxy-authorization:Basic dTpw\r\nHost: a", None),
        ("{b'Proxy-Authorization': [b'Basic dTpw'], b'Accept': [b'*/*']}", None),
        ('{"Authorization": "Bearer a.b.c", "x": 1}', '{"Authorization": "***", "x": 1}'),
        ("AUTHORIZATION=token dTpw; x", "AUTHORIZATION=***; x"),
        ('Authorization: Digest username="u", response="dTpw"\nHost: a', "Authorization: ***\nHost: a"),
        ("authorization of joe@shop.example failed", "authorization of joe@shop.example failed"),
        ("no url, mail to joe@shop.example", "no url, mail to joe@shop.example"),
    ],
)
def test_sec_02_text_is_shown_without_credentials(text, expected):
    shown = redact_text(text)
    assert "dTpw" not in shown
    assert "u:p" not in shown
    assert expected is None or shown == expected


def test_text_with_a_url_keeps_everything_around_it():
    text = "<GET http://u:p@a.example/x> (referer: http://k@b.example/)"
    assert redact_text(text) == "<GET http://***@a.example/x> (referer: http://***@b.example/)"
    headers = "{b'Proxy-Authorization': [b'Basic dTpw'], b'Accept': [b'*/*']}"
    assert redact_text(headers) == "{b'Proxy-Authorization': [b'***'], b'Accept': [b'*/*']}"


@pytest.mark.parametrize("word", ["a", "http://", "@", "authorization", "://@", "aGVsbG8"])
def test_a_text_of_megabytes_takes_no_more_than_one_look(word):
    SECRETS.register("secretpw")
    text = word * 300_000 + " secretpw"
    assert redact_text(text).endswith(" ***")


# Registered secrets

SECRET = "p@s/s w:ör%d'"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        quote(SECRET, safe="").lower(),
        repr(SECRET)[1:-1],
        json.dumps(SECRET)[1:-1],
        *(base64.b64encode(f"{'u' * n}:{SECRET}".encode()).decode() for n in range(1, 7)),
        *(base64.urlsafe_b64encode(f"{'u' * n}:{SECRET}".encode("latin-1")).decode() for n in range(1, 4)),
        *(base64.b64encode(f"{'u' * n}:{SECRET}, and more".encode()).decode() for n in range(1, 4)),
    ],
)
def test_a_registered_secret_is_found_in_every_form(form):
    SECRETS.register(SECRET)
    assert redact_text(f"x {form} y") == "x *** y"


def test_the_token_that_scrapy_sends_is_masked_whole():
    SECRETS.register("secretpw")
    request = Request("https://a.example", meta={"proxy": "http://user-session-ab12:secretpw@gw.example:1"})
    HttpProxyMiddleware().process_request(request)
    token = request.headers[b"Proxy-Authorization"].decode()
    assert redact_text(f"{token} {token}") == "Basic *** Basic ***"


def test_text_without_a_secret_comes_back_as_the_same_object():
    secrets, text = Secrets(), "nothing of interest"
    assert not secrets
    assert secrets.scrub(text) is text
    secrets.register("secretpw")
    assert secrets
    assert secrets.scrub(text) is text


def test_short_words_are_no_secrets():
    SECRETS.register("abc")
    assert not SECRETS
    assert redact_text("abc") == "abc"


def test_a_secret_that_holds_another_is_masked_whole():
    SECRETS.register("user")
    SECRETS.register("user:secretpw")
    assert redact_text("x user:secretpw user") == "x *** ***"


def test_the_newest_secrets_are_kept():
    secrets = Secrets(limit=2)
    for text in ("first-one", "second-one", "first-one", "third-one"):
        secrets.register(text)
    assert secrets.scrub("first-one second-one third-one") == "*** second-one ***"


@given(secret=st.text(min_size=4), before=st.text(), after=st.text())
def test_any_secret_is_found_in_any_text(secret, before, after):
    secrets = Secrets()
    secrets.register(secret)
    assert secret not in secrets.scrub(before + secret + after).replace("***", "\0")


# Log records


class Unprintable:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Shy:
    """Shows the secret only in its repr."""

    def __str__(self):
        return "shy"

    def __repr__(self):
        return "Shy(secretpw)"


@pytest.mark.parametrize(
    ("message", "args", "expected"),
    [
        ("using http://u:secretpw@h:1", (), "using http://***@h:1"),
        ("using %s", ("http://u:secretpw@h:1",), "using http://***@h:1"),
        ("%(n)d %(proxy)s", ({"n": 5, "proxy": "http://u:x@h:1"},), "5 http://***@h:1"),
        ("%d %s %r", (5, DownloadFailedError(SEC_01), "x"), None),
        ("failed: %r", (Shy(),), "failed: 'shy'"),
        ("%s", ({"deep": ["secretpw"]},), None),
        ("http%s", ("://u:secretpw@h:1",), "http://***@h:1"),
        ("http%s", ("://u:other@h:1",), "http://***@h:1"),
        ("%s//u:%s@h:1 %d%%", ("http:", "other", 3), "http://***@h:1 3%"),
        (DownloadFailedError(SEC_01), (), None),
    ],
)
def test_t21_every_way_to_log_is_scrubbed(records, message, args, expected):
    logger, kept = records
    logger.error(message, *args)
    [record] = kept
    assert expected is None or record.getMessage() == expected
    assert "secretpw" not in f"{record.getMessage()} {record.msg} {record.args}"
    assert "usr-session-s1" not in record.getMessage()


def test_arguments_that_the_message_does_not_show_are_scrubbed_too(records):
    logger, kept = records
    logger.info("%(status)d", {"status": 200, "proxy": "http://u:secretpw@h:1"})
    assert kept[0].args == {"status": 200, "proxy": "http://***@h:1"}


def test_numbers_keep_their_type_beside_a_secret(records):
    logger, kept = records
    logger.info("%d %.1f %s", 5, 2.5, "secretpw")
    assert kept[0].args == (5, 2.5, "***")


def test_a_record_without_a_secret_is_not_touched(records):
    logger, kept = records
    message, args = "Crawled (%(status)s) %(request)s", {"status": 200, "request": Request("https://a.example")}
    logger.info(message, args, exc_info=ValueError("harmless"))
    [record] = kept
    assert record.msg is message
    assert record.args is args
    assert record.exc_info[0] is ValueError
    assert record.exc_text is None


def test_sec_01_tracebacks_are_scrubbed_in_every_formatter(records):
    logger, kept = records
    error = DownloadFailedError(SEC_01)
    error.__cause__ = OSError(CAUSE)
    logger.error("failed", exc_info=error, stack_info=True)
    [record] = kept
    shown = logging.Formatter().format(record)
    assert "direct cause of the following exception" in shown
    assert shown.count("http://***@") == 2
    record.exc_text = None
    for text in (shown, logging.Formatter().format(record)):
        assert "secretpw" not in text
        assert "DownloadFailedError" in text
    assert record.exc_info[0] is RedactedError
    assert str(record.exc_info[1]).startswith("scrapy.exceptions.DownloadFailedError: 407")


def test_the_exception_itself_is_left_as_it_is(records):
    logger, _ = records
    error = DownloadFailedError(SEC_01)
    logger.error("failed %s", error, exc_info=error)
    assert str(error) == SEC_01


def test_failures_that_scrapy_and_twisted_log_are_scrubbed(records):
    logger, kept = records
    failure = Failure(DownloadFailedError(SEC_01))
    logger.error("Error downloading %(request)s", {"request": 1}, exc_info=failure_to_exc_info(failure))
    observer = STDLibLogObserver("tests.redact")
    observer.logger = logger
    Logger(observer=observer).failure("x {why}", failure, why=CAUSE)
    assert len(kept) == 2
    for record in kept:
        assert "secretpw" not in logging.Formatter().format(record)


def test_the_source_line_that_holds_the_secret_is_scrubbed(records):
    logger, kept = records
    try:
        print("secretpw" + None)
    except TypeError:
        logger.exception("failed")
    shown = logging.Formatter().format(kept[0])
    assert "Traceback (most recent call last)" in shown
    assert "secretpw" not in shown
    assert kept[0].exc_info[2] is None, "whoever formats it anew would show the source again"


def test_stack_info_is_scrubbed(records):
    logger, kept = records
    logger.info("secretpw", stack_info=True)
    assert "secretpw" not in logging.Formatter().format(kept[0])


@pytest.mark.parametrize("args", [(Unprintable(), "secretpw"), ("secretpw",), ("secretpw", 1, 2)])
def test_a_record_that_cannot_be_formatted_raises_nothing_and_leaks_nothing(records, args):
    logger, kept = records
    logger.info("%s %s", *args)
    [record] = kept
    assert "secretpw" not in [arg for arg in record.args if isinstance(arg, str)]


def test_an_exception_that_cannot_be_shown_raises_nothing(records):
    logger, kept = records

    class UnshownError(Exception):
        @property
        def __notes__(self):
            raise RuntimeError("no")

    logger.info("x", exc_info=UnshownError())
    logger.info("x", exc_info=True)  # noqa: LOG014 - people do
    assert kept[0].exc_info[0] is UnshownError
    assert kept[1].exc_info == (None, None, None)


def test_nothing_is_scrubbed_before_the_first_secret(records):
    logger, kept = records
    SECRETS.clear()
    args = ("http://u:p@h:1",)
    logger.info("%s", *args)
    assert kept[0].args == args


def test_it_is_installed_once_and_chained_onto_the_factory_that_was_there(records):
    logger, kept = records
    ours = logging.getLogRecordFactory()
    install_log_redaction()
    assert logging.getLogRecordFactory() is ours

    def theirs(*args, **kwargs):
        record = ours(*args, **kwargs)
        record.crawl = "mine"
        return record

    logging.setLogRecordFactory(theirs)
    install_log_redaction()
    logger.info("secretpw")
    assert (kept[0].crawl, kept[0].getMessage()) == ("mine", "***")


# Named values


def test_named_values_are_replaced_at_any_depth_and_told():
    data = {
        "headers": {"Authorization": ["Bearer x"], b"X-API-Key": "k", "Accept": ["*/*"]},
        "items": [{"Token": "t", "n": 1}, {"access_token": {"deep": 1}}],
        "pair": ({"passwd": "p"},),
        "empty": {"token": None, "password": "", "cookies": {}, "secret": True},
        7: {"jwt": 5},
    }
    hidden, found = redact_mapping(data)
    assert hidden == {
        "headers": {"Authorization": ["***"], b"X-API-Key": "***", "Accept": ["*/*"]},
        "items": [{"Token": "***", "n": 1}, {"access_token": "***"}],
        "pair": [{"passwd": "***"}],
        "empty": {"token": None, "password": "", "cookies": {}, "secret": True},
        7: {"jwt": "***"},
    }
    assert found == [
        "headers.Authorization",
        "headers.X-API-Key",
        "items[0].Token",
        "items[1].access_token",
        "pair[0].passwd",
        "7.jwt",
    ]
    assert data["headers"]["Authorization"] == ["Bearer x"], "the original is left alone"


@pytest.mark.parametrize("name", ["X-API-Key", "x_api_key", "API_KEY", "apikey", "user[password]", "Set-Cookie"])
def test_names_match_whatever_their_case_and_their_dashes(name):
    assert redact_mapping({name: "x"}) == ({name: "***"}, [name])


@pytest.mark.parametrize("name", ["session", "resiproxy_session", "key", "tokens", "passwordless", "author"])
def test_ordinary_fields_are_no_secrets(name):
    assert redact_mapping({name: "x"}) == ({name: "x"}, [])


def test_the_users_own_names_are_taken():
    assert redact_mapping({"x-mine": "x", "token": "x"}, ["X_Mine"]) == ({"x-mine": "***", "token": "x"}, ["x-mine"])


@pytest.mark.parametrize(
    ("url", "expected", "names"),
    [
        ("http://a.example/?q=1&token=x%26y&b", "http://a.example/?q=1&token=***&b", ["token"]),
        ("http://a.example/?API%5Fkey=x;q=a+b", "http://a.example/?API%5Fkey=***;q=a+b", ["API_key"]),
        ("http://a.example/#access_token=x&q=1", "http://a.example/#access_token=***&q=1", ["access_token"]),
        ("http://a.example/?token=&q=%7E+~", "http://a.example/?token=&q=%7E+~", []),
        ("http://a.example/token=x", "http://a.example/token=x", []),
    ],
)
def test_a_query_is_changed_only_where_it_holds_a_secret(url, expected, names):
    assert redact_query(url) == (expected, names)


@pytest.mark.parametrize(
    ("body", "expected", "names"),
    [
        (b"user=joe&password=a%20b&x=%FF", b"user=joe&password=***&x=%FF", ["password"]),
        (b"login[passwd]=x&a=1", b"login[passwd]=***&a=1", ["login[passwd]"]),
        (b"\xff\x00=\x80&&=;", b"\xff\x00=\x80&&=;", []),
        (b"", b"", []),
    ],
)
def test_a_form_is_changed_only_where_it_holds_a_secret(body, expected, names):
    assert redact_form(body) == (expected, names)


@given(st.binary())
def test_any_body_without_a_secret_stays_byte_for_byte(body):
    assert redact_form(body, ["nothing"]) == (body, [])


def test_the_built_in_names_are_written_as_they_are_compared():
    assert all(redact_mapping({name: "x"})[1] for name in DEFAULT_REDACT)
    assert len(set(DEFAULT_REDACT)) == len(DEFAULT_REDACT)


def test_everything_public_can_be_imported_from_one_place():
    assert all(hasattr(redact, name) for name in redact.__all__)


def test_it_needs_neither_scrapy_nor_twisted():
    code = "import sys, scrapy_resiproxy.redact; print({'scrapy', 'twisted'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


@pytest.mark.parametrize("said", ["Invalid port: 'canary'", "no such host: wordword", "canary/wordword is odd"])
def test_a_long_piece_between_the_marks_of_a_url_is_hidden_too(said):
    secrets = Secrets()
    secrets.register("canary/wordword@12345:x")
    hidden = secrets.scrub(f"{said} at 12345:x")
    assert "canary" not in hidden
    assert "wordword" not in hidden
    assert hidden.endswith(" at 12345:x")
