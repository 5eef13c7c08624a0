from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import Headers, HtmlResponse, JsonRequest, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.deadletter.record import encode, make_letter, read_letter, to_request
from scrapy_resiproxy.names import DEAD_LETTER_REASONS

CANARY = "hunter2canary"


def body_of(letter):
    return base64.b64decode(letter["request"]["body"])


def test_a_letter_holds_the_request_as_it_was(spider, letter):
    request = Request(
        "http://shop.example/p?q=1",
        method="POST",
        headers={"X-Two": ["1", "2"], "Accept-Language": "de"},
        body=b"\xff\x00",
        callback=spider.parse_page,
        errback=spider.failed,
        cb_kwargs={"page": 2, "ids": (1, 2)},
        meta={"depth": 3, "basket": {"a": 1}, "cookiejar": 7},
        priority=-4,
        flags=["f"],
    )
    assert letter(request)["request"] == {
        "url": "http://shop.example/p?q=1",
        "method": "POST",
        "headers": {"X-Two": ["1", "2"], "Accept-Language": ["de"]},
        "body": "/wA=",
        "encoding": "utf-8",
        "callback": "parse_page",
        "errback": "failed",
        "cb_kwargs": {"page": 2, "ids": [1, 2]},
        "meta": {"depth": 3, "basket": {"a": 1}, "cookiejar": 7},
        "priority": -4,
        "flags": ["f"],
        "_class": "scrapy.http.request.Request",
    }


def test_a_letter_says_when_where_and_why(letter):
    made = letter(not_before=1_767_229_200.5, spider_args={"category": "books"}, job="crawls/1", project="bot")
    assert made | {"id": "", "request": {}} == {
        "v": 1,
        "id": "",
        "time": "2026-01-01T00:00:00.000000Z",
        "spider": "shop",
        "spider_args": {"category": "books"},
        "job": "crawls/1",
        "project": "bot",
        "target": "shop.example",
        "class": "transient",
        "reason": "attempts_exhausted",
        "replayable": True,
        "obstacle": None,
        "not_before": "2026-01-01T01:00:00.500000Z",
        "replay_count": 0,
        "replay_of": None,
        "first_seen": "2025-12-31T23:59:00.000000Z",
        "key": "khttp://shop.example/1",
        "request": {},
        "response": None,
        "error": None,
        "attempts": [],
        "dropped": [],
        "redacted": [],
    }


def test_ids_differ(letter):
    assert letter()["id"] != letter()["id"]


RUN_TIME_META = {
    "_resiproxy": {"id": "x"},
    "_resiproxy_replay": {"id": "y"},
    "_resiproxy_scheduled": True,
    "resiproxy": {"attempts": []},
    "download_latency": 0.2,
    "download_slot": "shop.example",
    "download_timeout": 180.0,
    "retry_times": 2,
    "proxy": "http://gw.example:1",
    "_auth_proxy": "http://gw.example:1",
    "redirect_times": 1,
    "redirect_ttl": 19,
    "redirect_urls": ["http://old.example/"],
    "redirect_reasons": [302],
}


@pytest.mark.parametrize("key", RUN_TIME_META)
def test_what_the_crawl_adds_again_is_left_out_without_a_note(key, letter):
    made = letter(Request("http://shop.example/", meta={key: RUN_TIME_META[key], "depth": 1}))
    assert made["request"]["meta"] == {"depth": 1}
    assert (made["dropped"], made["redacted"]) == ([], [])


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        pytest.param({"download_slot": "mine"}, True, id="a slot that the user chose"),
        pytest.param({"download_slot": "group", "resiproxy_target": "group"}, False, id="the slot of its target"),
        pytest.param(
            {"download_slot": "old.example", "redirect_urls": ["http://old.example/"]},
            False,
            id="the slot before a redirect",
        ),
        pytest.param({"download_timeout": 5.0}, True, id="a timeout that the user chose"),
    ],
)
def test_users_slot_and_timeout_stay(meta, kept, letter):
    made = letter(Request("http://shop.example/", meta=meta))
    assert (next(iter(meta)) in made["request"]["meta"]) is kept


@pytest.mark.parametrize(
    ("meta", "headers", "kept", "replayable"),
    [
        pytest.param({"proxy": "http://own.example:3"}, {}, {"proxy": "http://own.example:3"}, True, id="open"),
        pytest.param({"proxy": None}, {}, {"proxy": None}, True, id="direct"),
        pytest.param({"proxy": f"http://u:{CANARY}@own.example:3"}, {}, {}, False, id="with userinfo"),
        pytest.param({"proxy": "http://own.example:3"}, {"Proxy-Authorization": CANARY}, {}, False, id="with a header"),
    ],
)
def test_a_proxy_of_the_users_own_stays_unless_it_needs_credentials(meta, headers, kept, replayable, letter):
    made = letter(Request("http://shop.example/", meta=meta, headers=headers), own_meta=())
    assert made["request"]["meta"] == kept
    assert made["replayable"] is replayable
    assert CANARY not in json.dumps(made)


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        pytest.param({"callback": lambda response: None}, "dropped request.callback", id="a lambda"),
        pytest.param({"callback": NO_CALLBACK}, "dropped request.callback: NO_CALLBACK", id="of a pipeline"),
        pytest.param({"errback": lambda failure: None}, "dropped request.errback", id="a lambda as errback"),
        pytest.param(
            {"cb_kwargs": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "dropped request.cb_kwargs.at", id="an object"
        ),
        pytest.param({"meta": {"resiproxy_session": "login"}}, "named session", id="a named session"),
        pytest.param(
            {"meta": {"resiproxy_validator": len}}, "dropped request.meta.resiproxy_validator", id="a validator"
        ),
        pytest.param(
            {"headers": {"Authorization": "Bearer x"}}, "redacted request.headers.Authorization", id="a header"
        ),
        pytest.param({"cookies": {"sid": "x"}}, "redacted request.cookies", id="cookies"),
        pytest.param({"url": "http://shop.example/?token=x"}, "redacted request.url", id="a query argument"),
        pytest.param({"url": "http://u:p@shop.example/"}, "redacted request.url", id="userinfo"),
        pytest.param({"cb_kwargs": {"password": "x"}}, "redacted request.cb_kwargs.password", id="a callback argument"),
        pytest.param({"meta": {"deep": {"api_key": "x"}}}, "redacted request.meta.deep.api_key", id="a meta value"),
    ],
)
def test_a_request_that_cannot_be_rebuilt_is_not_replayable(change, obstacle, letter):
    made = letter(Request(**({"url": "http://shop.example/"} | change)))
    assert (made["replayable"], made["obstacle"]) == (False, obstacle)


def test_dropped_meta_is_named_and_does_not_stop_a_replay(letter):
    made = letter(Request("http://shop.example/", meta={"page": object(), "depth": 1}))
    assert made["request"]["meta"] == {"depth": 1}
    assert (made["dropped"], made["replayable"]) == (["request.meta.page"], True)


def test_a_validator_that_is_a_method_is_kept_by_name(spider, letter):
    made = letter(Request("http://shop.example/", meta={"resiproxy_validator": spider.is_good}))
    assert made["request"]["meta"] == {"resiproxy_validator": "is_good"}


def test_named_session_comes_from_the_caller_too(letter):
    assert letter(named_session=True)["obstacle"] == "named session"


@pytest.mark.parametrize(
    ("make", "hidden"),
    [
        pytest.param(
            lambda: FormRequest("http://shop.example/", formdata={"user": "u", "password": CANARY}),
            ["request.body.password"],
            id="form",
        ),
        pytest.param(
            lambda: JsonRequest("http://shop.example/", data={"user": "u", "auth": {"token": CANARY}}),
            ["request.body.auth.token"],
            id="json",
        ),
        pytest.param(
            lambda: Request("http://shop.example/", method="POST", body=f'{{"password": "{CANARY}"}}'),
            ["request.body.password"],
            id="json without a content type",
        ),
        pytest.param(
            lambda: Request(
                "http://shop.example/",
                method="POST",
                headers={"Content-Type": "multipart/form-data; boundary=x"},
                body=f'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\n{CANARY}\r\n--x--',
            ),
            ["request.body"],
            id="multipart",
        ),
    ],
)
def test_secrets_in_a_body_are_hidden(make, hidden, letter):
    made = letter(make())
    assert made["redacted"] == hidden
    assert not made["replayable"]
    assert CANARY.encode() not in body_of(made)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"Content-Type": "application/json"}, b"{not json", id="broken json"),
        pytest.param({"Content-Type": "application/json"}, b'{"q": [1, 2.50]}', id="json without secrets"),
        pytest.param({"Content-Type": "application/x-www-form-urlencoded"}, b"q=1&q=2&x=%20+", id="form"),
        pytest.param({"Content-Type": "multipart/form-data; boundary=x"}, b'--x\r\nname="q"\r\n\r\n1', id="multipart"),
        pytest.param({"Content-Type": "application/octet-stream"}, b"password=\xff", id="anything else"),
        pytest.param({}, b"\x00\x01", id="bytes without a type"),
    ],
)
def test_a_body_without_secrets_is_kept_to_the_byte(headers, body, letter):
    made = letter(Request("http://shop.example/", method="POST", headers=headers, body=body))
    assert body_of(made) == body
    assert made["replayable"]


def test_no_credential_is_in_any_field(spider, letter):
    request = FormRequest(
        f"http://user:{CANARY}@shop.example/?access_token={CANARY}&q=1",
        method="POST",
        formdata={"password": CANARY},
        headers={
            "Authorization": f"Bearer {CANARY}",
            "Proxy-Authorization": f"Basic {CANARY}",
            "X-Api-Key": CANARY,
            "Cookie": f"sid={CANARY}",
            "X-Mine": CANARY,
            "Referer": f"http://user:{CANARY}@shop.example/",
        },
        cookies={"sid": CANARY},
        meta={
            "proxy": f"http://user:{CANARY}@gw.example:8000",
            "_auth_proxy": f"http://user:{CANARY}@gw.example:8000",
            "nested": [{"token": CANARY}],
            "note": f"via http://user:{CANARY}@gw.example:8000",
        },
        cb_kwargs={"secret": CANARY},
        callback=spider.parse_page,
    )
    response = HtmlResponse(
        f"http://shop.example/?token={CANARY}",
        headers={"Set-Cookie": f"sid={CANARY}", "X-Fine": "1"},
        body=b"<p>page</p>",
        request=request,
    )
    made = letter(
        request,
        response=response,
        keep_page=True,
        error=RuntimeError(f"407, url='http://usr-session-s1:{CANARY}@127.0.0.1:1'"),
        attempts=[{"error": f"http://u:{CANARY}@gw:1 refused", "token": CANARY}],
        spider_args={"password": CANARY, "category": "books"},
        redact=["x-mine"],
        key="k",
    )
    assert CANARY not in encode(made).decode()
    assert CANARY.encode() not in body_of(made)
    assert made["response"]["page"]["headers"] == {"X-Fine": ["1"]}
    assert made["spider_args"]["category"] == "books"
    assert "spider_args.password" in made["redacted"]
    assert "request.headers.X-Mine" in made["redacted"]
    assert "request.headers.Cookie" not in made["redacted"], "the jar writes it again"


def test_a_cookie_header_that_no_jar_writes_is_the_users_secret():
    crawler = get_crawler(Spider, {"COOKIES_ENABLED": False})
    spider = Spider.from_crawler(crawler, name="s")
    made = one(spider, Request("http://shop.example/", headers={"Cookie": "sid=1"}))
    assert made["redacted"] == ["request.headers.Cookie"]


def test_dont_merge_cookies_means_that_no_jar_writes_it(spider):
    request = Request("http://shop.example/", headers={"Cookie": "sid=1"}, meta={"dont_merge_cookies": True})
    assert one(spider, request)["redacted"] == ["request.headers.Cookie"]


@pytest.mark.parametrize("where", ["attributes", "settings"])
def test_the_authorization_that_scrapy_writes_again_is_left_out(where):
    settings = {"HTTPAUTH_USER": "u", "HTTPAUTH_PASS": "p", "HTTPAUTH_DOMAIN": None} if where == "settings" else {}
    spider = Spider.from_crawler(get_crawler(Spider, settings), name="s")
    if where == "attributes":
        spider.http_user, spider.http_pass = "u", "p"
    made = one(spider, Request("http://shop.example/", headers={"Authorization": "Basic dTpw"}))
    assert (made["request"]["headers"], made["redacted"], made["replayable"]) == ({}, [], True)


def one(spider, request):
    return make_letter(
        request=request,
        spider=spider,
        outcome_class="transient",
        reason="attempts_exhausted",
        target="shop.example",
        key="k",
        now=0.0,
        first_seen=0.0,
        attempts=[],
    )


def test_a_spider_without_a_crawler_can_have_letters():
    assert one(Spider("bare"), Request("http://shop.example/", headers={"Cookie": "a=1"}))["redacted"] == []


@pytest.mark.parametrize(
    ("reason", "count"),
    [
        (reason, 1 + (reason in {"terminal", "forbidden", "parse_error", "item_error", "validator_error"}))
        for reason in DEAD_LETTER_REASONS
    ],
)
def test_only_a_fault_of_the_page_or_the_code_raises_the_replay_count(reason, count, letter):
    replay = {"id": "old", "file": "f", "count": 1, "by": "r", "first_seen": "2025-01-01T00:00:00.000000Z"}
    made = letter(reason=reason, replay=replay)
    assert (made["replay_count"], made["replay_of"]) == (count, "old")
    assert made["first_seen"] == "2025-01-01T00:00:00.000000Z"


def test_the_first_failure_of_a_page_counts_no_replay(letter):
    assert letter(reason="parse_error")["replay_count"] == 0


def test_attempts_are_the_last_ten(letter):
    made = letter(attempts=[{"at": number, "bad": object()} for number in range(13)])
    assert [attempt["at"] for attempt in made["attempts"]] == list(range(3, 13))
    assert "attempts.0.bad" in made["dropped"]


class OddError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("x"), "ValueError"), (OddError("x"), f"{OddError.__module__}.OddError")],
    ids=["builtin", "any other"],
)
def test_an_error_has_its_type_and_text(error, kind, letter):
    assert letter(error=error)["error"] == {"type": kind, "text": "x"}


def test_a_long_error_is_cut(letter):
    assert len(letter(error=ValueError("x" * 5000))["error"]["text"]) == 1000


@pytest.mark.parametrize(("status", "phrase"), [(503, "Service Unavailable"), (999, "")])
def test_a_response_has_url_status_and_phrase_and_no_page_unless_asked(status, phrase, letter):
    made = letter(response=Response("http://shop.example/", status=status, body=b"x"))
    assert made["response"] == {"url": "http://shop.example/", "status": status, "reason": phrase, "page": None}


def test_a_page_is_packed(letter):
    body = b"<p>\xe4</p>" * 1000
    page = letter(response=Response("http://shop.example/", body=body), keep_page=True)["response"]["page"]
    assert zlib.decompress(base64.b64decode(page["body"])) == body
    assert page["size"] == 8000
    assert len(page["body"]) < 200


@pytest.mark.parametrize(("limit", "kept"), [(10, True), (9, False), (0, False)])
def test_a_page_over_the_limit_is_dropped_by_name(limit, kept, letter):
    made = letter(response=Response("http://shop.example/", body=b"x" * 10), keep_page=True, response_bytes=limit)
    assert (made["response"]["page"] is not None) is kept
    assert made["dropped"] == ([] if kept else ["response.page"])


class AliasSpider(Spider):
    name = "alias"

    def _inner(self, response): ...

    outer = _inner

    def __hidden(self, response): ...

    def hidden(self):
        return self.__hidden


def test_a_method_is_found_under_an_alias_or_a_mangled_name():
    spider = AliasSpider()
    del AliasSpider._inner
    try:
        assert one(spider, Request("http://a.example/", callback=spider.outer))["request"]["callback"] == "outer"
        mangled = one(spider, Request("http://a.example/", callback=spider.hidden()))["request"]["callback"]
        assert mangled == "_AliasSpider__hidden"
    finally:
        AliasSpider._inner = AliasSpider.outer


def test_a_method_of_something_else_is_no_callback(spider):
    made = one(spider, Request("http://a.example/", callback=OddError("x").with_traceback))
    assert made["dropped"] == ["request.callback"]
    made = one(spider, Request("http://a.example/", callback=AliasSpider().hidden()))
    assert made["dropped"] == ["request.callback"]


def test_header_values_may_be_any_latin_1(letter, spider):
    made = letter(Request("http://shop.example/", headers=Headers({b"X": [bytes(range(32, 256))]})))
    rebuilt = to_request(read_letter(encode(made)), spider)
    assert rebuilt.headers.getlist("X") == [bytes(range(32, 256))]


texts = st.text(max_size=20)


@given(
    body=st.binary(max_size=40),
    kwargs=st.dictionaries(texts, st.integers() | texts | st.lists(texts, max_size=2), max_size=3),
    meta=st.dictionaries(st.text(alphabet="abcxyz_", min_size=1, max_size=8), st.none() | texts, max_size=3),
    priority=st.integers(-(10**9), 10**9),
    value=st.binary(max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_a_replayable_letter_gives_the_same_request_back(body, kwargs, meta, priority, value):
    spider = Spider("s")
    request = Request(
        "http://shop.example/a%20b?x=1",
        method="POST",
        headers={b"X-Any": [value], b"Content-Type": b"application/octet-stream"},
        body=body,
        cb_kwargs=kwargs,
        meta=meta,
        priority=priority,
        callback=spider.parse,
    )
    line = encode(one(spider, request))
    assert line.count(b"\n") == 1
    assert line.isascii()
    made = read_letter(line)
    if made["redacted"] or made["dropped"]:
        return
    rebuilt = to_request(made, spider)
    for name in ("url", "method", "headers", "body", "cb_kwargs", "priority", "callback"):
        assert getattr(rebuilt, name) == getattr(request, name)
    assert rebuilt.meta == {key: value for key, value in meta.items() if not key.startswith("_resiproxy")}


@pytest.mark.parametrize(
    "text", ["a\u2028b\x85c", "\ud800", "\x00\r\n"], ids=["line separators", "surrogate", "controls"]
)
def test_no_text_breaks_a_line(text, letter):
    line = encode(letter(Request("http://shop.example/", cb_kwargs={"text": text})))
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    assert read_letter(line)["request"]["cb_kwargs"] == {"text": text}
