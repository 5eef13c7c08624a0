from __future__ import annotations

import asyncio
import pickle
import re
from functools import partial

import pytest
from classify_kit import answer
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Spider
from scrapy.http import Headers, HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse
from twisted.internet.defer import Deferred, fail, succeed

from scrapy_resiproxy.classify.check import CheckOfMany
from scrapy_resiproxy.classify.checks import _MarkupCheck
from scrapy_resiproxy.classify.combined import _Combined
from scrapy_resiproxy.classify.counts import declared_count
from scrapy_resiproxy.classify.reasons import REASONS
from scrapy_resiproxy.classify.validators import (
    Verdict,
    all_of,
    any_of,
    check_name,
    content_type_is,
    expect_count,
    has_css,
    has_text,
    has_xpath,
    interpret,
    json_has,
    lacks_text,
    min_items,
    min_length,
    not_stub,
    resolve,
    url_lacks,
    validate,
    validate_now,
    validated_by,
    validators_of,
)
from scrapy_resiproxy.outcome import OK, Blame, OutcomeClass

URL = "https://t.example/"


def page(body: str | bytes, url: str = URL, **headers: str) -> HtmlResponse:
    raw = body.encode() if isinstance(body, str) else body
    return HtmlResponse(url, body=raw, headers=Headers({k.replace("_", "-"): v for k, v in headers.items()}))


PNG = Response(URL, body=b"\x89PNG...", headers={"Content-Type": "image/png"})
DATA = JsonResponse(URL, body=b'{"data": {"items": [{"id": 1}], "none": null}}')
ROWS_12 = "<b>1-50 of 900</b>" + "<tr><td>x" * 12


def said(validator, response):
    outcome, error = validate_now(validator, response)
    assert error is None
    return outcome


CHECKS = [
    ("css", has_css("h1.a"), page("<h1 class=a>"), True),
    ("css-absent", has_css("h1.a"), page("<h1>"), False),
    ("css-xml", has_css("item"), XmlResponse(URL, body=b"<rss><item/></rss>"), True),
    ("css-plain-text", has_css("h1"), TextResponse(URL, body=b"<h1>x</h1>"), True),
    ("xpath", has_xpath("//h1"), page("<h1>x"), True),
    ("xpath-absent", has_xpath("//h1"), page("<p>x"), False),
    ("text", has_text("Basket"), page("<p>Basket"), True),
    ("text-absent", has_text("Basket"), page("<p>basket"), False),
    ("lacks", lacks_text("Robot"), page("<p>page"), True),
    ("lacks-not", lacks_text("Robot"), page("<p>Robot"), False),
    ("length", min_length(3), page("abc"), True),
    ("length-short", min_length(4), page("abc"), False),
    ("items", min_items("li", 2), page("<li>a<li>b"), True),
    ("items-few", min_items("li", 3), page("<li>a<li>b"), False),
    ("json", json_has("data.items.0.id"), DATA, True),
    ("json-null-is-there", json_has("data.none"), DATA, True),
    ("json-no-key", json_has("data.total"), DATA, False),
    ("json-no-position", json_has("data.items.1"), DATA, False),
    ("json-no-container", json_has("data.items.0.id.x"), DATA, False),
    ("json-position-by-name", json_has("data.items.first"), DATA, False),
    ("json-got-html", json_has("data"), page("<html>"), False),
    ("type", content_type_is("text/csv"), page("x", Content_Type="text/csv; charset=utf-8"), True),
    ("type-family", content_type_is("text/csv", "image/"), PNG, True),
    ("VFN-08-type", content_type_is("text/csv"), page("<html>", Content_Type="text/html"), False),
    ("type-unnamed", content_type_is("text/csv"), page("x"), True),
    ("url", url_lacks("/login"), page("x", f"{URL}item/7"), True),
    ("CLS-24", url_lacks("/signin", "/login"), page("<form action=/login>", f"{URL}login?next=/item/7"), False),
    ("VFN-09", lacks_text("<session-expired"), XmlResponse(URL, body=b"<session-expired/>"), False),
    ("VFN-15", not_stub(), page("<html><script>var arg1='...';</script></html>"), False),
    ("stub-refresh", not_stub(), page("<meta http-equiv=refresh content='0;/x'>"), False),
    ("stub-not-with-text", not_stub(), page("<p>0 results</p>"), True),
    ("stub-not-with-a-form", not_stub(), page("<form><input name=q></form>"), True),
    ("stub-not-long", not_stub(), page("<script>" + "x" * 3000 + "</script>"), True),
    ("stub-not-json", not_stub(), JsonResponse(URL, body=b"{}"), True),
    (
        "VFP-08",
        any_of(has_css(".hits li"), has_css(".count")),
        page("<p class=count>0 results</p><ul class=hits></ul>"),
        True,
    ),
    ("any-none", any_of(has_css(".hits li"), has_css(".count")), page("<p>x"), False),
    ("all", all_of(has_css("p"), min_length(3)), page("<p>x"), True),
    ("all-one-fails", all_of(has_css("p"), min_length(300)), page("<p>x"), False),
    ("count-exact", expect_count("tr", "b"), page("<b>12 results</b>" + "<tr><td>x" * 12), True),
    ("count-range", expect_count("tr", "b"), page("<b>1\u201312 of 900</b>" + "<tr><td>x" * 12), True),
    ("count-undeclared", expect_count("tr", "b"), page("<tr>"), True),
    ("count-grouped", expect_count("tr", "b"), page("<b>1,200 results</b><tr>"), False),
    ("count-with-a-decimal", expect_count("tr", "b"), page("<b>4.5 stars</b>" + "<tr><td>x" * 4), True),
]


RANGES = [
    ("10,001-10,004 of 10,004", 4),
    ("20.001 - 20.007", 7),
    ("100,001\u2013100,003", 3),
    ("1,001-1,050 of 9,000", 50),
    ("951-1,000", 50),
    ("1'001 \u2014 1'050", 50),
    ("1\u2019001 \u2012 1\u2019050", 50),
    ("1\u202f001\u202f\u2013\u202f1\u202f050 sur 9\u202f000", 50),
    ("1\u00a0001\u00a0- 1\u00a0050", 50),
    ("1\u2009001 \u2212 1\u2009050", 50),
    ("1,000,001-1,000,050", 50),
    ("Items 1\u201150 of 900", 50),
    ("1\u201050", 50),
    ("1\u201450 of 900", 50),
    ("1~50 / 900", 50),
    ("\u200e10001\u200f\u2013\u200e10050\u200f", 50),
    ("Showing 10,001 to 10,050 of 20,000", 50),
    ("1 \u00e0 50 sur 900", 50),
    ("51 bis 100 von 900", 50),
    ("1 - 50 900 results", 50),
    ("(901-950)", 50),
]
"""What a page says of its list, and how many entries it means."""


@pytest.mark.parametrize(("declared", "count"), RANGES, ids=[ascii(row[0]) for row in RANGES])
def test_a_range_is_read_however_its_numbers_are_written(declared: str, count: int) -> None:
    check = expect_count("tr", "b")
    assert said(check, page(f"<b>{declared}</b>" + "<tr><td>x" * count)) is OK
    assert said(check, page(f"<b>{declared}</b>" + "<tr><td>x" * (count - 1))).evidence.endswith(
        f"{count - 1} of {count}"
    )


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param("10 001 - 10 004 of 10 004", id="plain-spaces"),
        pytest.param("951 - 1 000", id="a-plain-space-at-the-end"),
        pytest.param("10 001 to 10 004", id="plain-spaces-and-a-word"),
        pytest.param("51 ile 100 / 900", id="an-unknown-word"),
        pytest.param("10001...10004 (10004)", id="an-unknown-sign"),
        pytest.param("2026-01-01", id="a-date"),
        pytest.param("01-12-2026", id="a-date-the-other-way"),
        pytest.param("50-1", id="backwards"),
        pytest.param("No results", id="no-number"),
    ],
)
def test_a_range_that_may_be_misread_refuses_nothing(declared: str) -> None:
    assert said(expect_count("tr", "b"), page(f"<b>{declared}</b><tr><td>x")) is OK


@given(st.text("019.,-\u2013 \u00a0to/", max_size=40))
def test_no_text_that_counts_makes_it_raise(declared: str) -> None:
    count = declared_count(declared)
    assert count is None or count >= 0


def test_nor_does_a_number_of_thousands_of_digits() -> None:
    assert said(expect_count("tr", "b"), page(f"<b>{'9' * 5000}</b>")).reason == "validator_transient"


@given(start=st.integers(0, 2_000_000), rows=st.integers(1, 30), mark=st.sampled_from(",.'\u2019\u00a0\u202f"))
def test_the_size_of_the_numbers_does_not_count(start: int, rows: int, mark: str) -> None:
    first, last = (f"{number:,}".replace(",", mark) for number in (start, start + rows - 1))
    response = page(f"<b>{first} - {last} of {last}</b>" + "<tr><td>x" * rows)
    assert said(expect_count("tr", "b"), response) is OK


@pytest.mark.parametrize(("check", "response", "good"), [row[1:] for row in CHECKS], ids=[row[0] for row in CHECKS])
def test_a_ready_made_check_judges_a_page(check, response, good: bool) -> None:
    assert said(check, response).ok is good


READY_MADE = [
    has_css("h1"),
    has_xpath("//h1"),
    has_text("x"),
    lacks_text("y"),
    min_length(9),
    min_items("li", 3),
    expect_count("li", "b"),
    json_has("a.0"),
    not_stub(),
    content_type_is("text/csv"),
    url_lacks("/login"),
    all_of(has_css("h1"), min_length(9)),
    any_of(has_css("h1"), all_of(has_text("x"))),
]


@pytest.mark.parametrize("check", READY_MADE, ids=repr)
def test_a_ready_made_check_is_a_value_that_prints_as_it_was_written(check) -> None:
    assert eval(repr(check)) == check
    assert pickle.loads(pickle.dumps(check)) == check
    assert hash(check) == hash(pickle.loads(pickle.dumps(check)))
    assert resolve(check) is check
    assert check_name(check) == repr(check)[:80]


TEXT_CHECKS = READY_MADE[:9]


@pytest.mark.parametrize("check", TEXT_CHECKS, ids=repr)
def test_what_is_no_text_passes_unseen(check) -> None:
    """VFP-11."""
    assert said(check, PNG) is OK


@pytest.mark.parametrize(
    "check", [has_css("h1"), has_xpath("//h1"), min_items("li", 1), expect_count("li", "b")], ids=repr
)
@pytest.mark.parametrize(
    "type_",
    [
        "application/json",
        "application/problem+json",
        "application/vnd.api+json",
        "application/octet-stream",
        "text/javascript",
        "text/plain",
        None,
    ],
)
@pytest.mark.parametrize("body", ['{"a": 1}', " [1]", "[" * 50_000 + "]" * 50_000], ids=["object", "list", "deep"])
def test_json_passes_the_checks_of_elements_unseen(check, body: str, type_: str | None) -> None:
    response = answer(200, body, **({"content_type": type_} if type_ else {}))
    assert isinstance(response, TextResponse)
    assert said(check, response) is OK


@pytest.mark.parametrize("check", [has_css("h1"), has_xpath("//h1"), min_items("li", 1)], ids=repr)
@pytest.mark.parametrize("body", ["<p>x", "", "a,b", "cb({})", "42", "[x](/y)"])
def test_a_text_that_is_no_json_is_looked_into(check, body: str) -> None:
    assert said(check, answer(200, body, content_type="text/plain")).reason == "soft_block"


def test_json_that_says_so_may_be_a_number() -> None:
    assert said(has_css("h1"), answer(200, "42", content_type="application/problem+json")) is OK


def test_json_too_deep_to_read_has_no_path() -> None:
    response = JsonResponse(URL, body=b"[" * 100_000 + b"]" * 100_000)
    assert said(json_has("a"), response).reason == "soft_block"


BAD_ARGUMENTS = [
    (lambda: has_css("h1["), "has_css('h1[')"),
    (lambda: has_css(""), "has_css('')"),
    (lambda: has_css("a::what"), "a::what"),
    (lambda: has_xpath("//h1["), "//h1["),
    (lambda: has_xpath(3), "has_xpath(3)"),
    (lambda: has_text(""), "has_text('')"),
    (lambda: lacks_text(None), "lacks_text(None)"),
    (lambda: min_length(-1), "min_length(-1)"),
    (lambda: min_items("li", True), "min_items('li', True)"),
    (lambda: min_items("li", 1.5), "min_items('li', 1.5)"),
    (lambda: json_has(""), "json_has('')"),
    (lambda: expect_count("tr[", "b"), "tr["),
    (lambda: all_of(), "all_of()"),
    (lambda: any_of("h1"), "any_of()"),
    (lambda: content_type_is("csv"), "'csv'"),
    (lambda: url_lacks(""), "url_lacks()"),
    (lambda: Verdict.transient(3), "3"),
    (lambda: Verdict.rate(wait=-1), "-1"),
    (lambda: Verdict.rate(wait=float("nan")), "nan"),
    (lambda: Verdict.rate(wait=True), "True"),
    (lambda: Verdict.rate(wait="30"), "'30'"),
    (lambda: resolve(3), "3"),
    (lambda: resolve("no.such.module.validator"), "'no.such.module.validator'"),
    (lambda: resolve("nodots"), "'nodots'"),
    (lambda: resolve("os.path.nosuch"), "'os.path.nosuch'"),
    (lambda: resolve("os.sep"), "'os.sep'"),
    (lambda: resolve(lambda response: True), "cannot be pickled"),
    (lambda: validated_by(), "validated_by()"),
    (lambda: validated_by(3), "3"),
    (lambda: interpret(3, check="c"), "int"),
]


@pytest.mark.parametrize(("build", "named"), BAD_ARGUMENTS, ids=[str(n) for n in range(len(BAD_ARGUMENTS))])
def test_a_bad_argument_gets_one_clear_line(build, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as caught:
        build()
    assert "\n" not in str(caught.value)


INTERPRETED = [
    (True, "ok", "ok", ""),
    (None, "ok", "ok", ""),
    (Verdict.ok(), "ok", "ok", ""),
    (False, "identity", "soft_block", "check"),
    ("", "identity", "soft_block", "check"),
    ("the shop's own wall", "identity", "soft_block", "check: the shop's own wall"),
    (Verdict.identity(), "identity", "soft_block", "check"),
    (Verdict.transient("short list"), "transient", "validator_transient", "check: short list"),
    (Verdict.terminal("gone"), "terminal", "validator_terminal", "check: gone"),
    (Verdict.rate("slow down", wait=30), "rate", "validator_rate", "check: slow down"),
]


@pytest.mark.parametrize(("result", "class_", "reason", "evidence"), INTERPRETED)
def test_what_a_validator_returns_means(result, class_, reason, evidence) -> None:
    outcome = interpret(result, check="check")
    assert (outcome.class_, outcome.reason, outcome.evidence) == (class_, reason, evidence)
    assert outcome.reason in REASONS[outcome.class_]
    assert outcome.wait == (30 if class_ == "rate" else None)


def test_the_users_words_stay_on_one_short_line() -> None:
    outcome = interpret("line\nline\x00" + "x" * 1000, check="check")
    assert outcome.evidence.startswith("check: line line x")
    assert len(outcome.evidence) == 160


def test_a_refused_session_is_blamed_for_a_soft_block_alone() -> None:
    assert interpret(False, check="c").blame is Blame.SESSION
    assert interpret(Verdict.transient(), check="c").blame is Blame.TARGET


def test_vfn_10_half_a_list_is_transient() -> None:
    outcome = said(expect_count("tr", "b"), page(ROWS_12))
    assert (outcome.class_, outcome.reason) == (OutcomeClass.TRANSIENT, "validator_transient")
    assert outcome.evidence == "expect_count('tr', 'b'): 12 of 50"


def broken(response):
    raise KeyError("price")


async def broken_later(response):
    raise KeyError("price")


def cancelled(response):
    raise asyncio.CancelledError


async def cancelled_later(response):
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def exits_later(response):
    raise GeneratorExit


def returns_nonsense(response):
    return 5


@pytest.mark.parametrize(
    ("validator", "raised"),
    [
        (broken, KeyError),
        (broken_later, KeyError),
        (returns_nonsense, ValueError),
        (lambda response: fail(KeyError("x")), KeyError),
        (cancelled, asyncio.CancelledError),
        (cancelled_later, asyncio.CancelledError),
        (all_of(cancelled_later), asyncio.CancelledError),
        (exits_later, GeneratorExit),
    ],
    ids=["sync", "async", "nonsense", "deferred", "cancelled", "cancelled-later", "cancelled-inside", "exits"],
)
def test_a_validator_that_raises_is_a_bug_of_ours_and_its_exception_is_kept(validator, raised) -> None:
    outcome, error = asyncio.run(validate(validator, page("<p>")))
    assert (outcome.class_, outcome.reason, outcome.blame) == (OutcomeClass.TERMINAL, "validator_error", Blame.LOCAL)
    assert isinstance(error, raised)
    assert outcome.evidence.endswith(f": {raised.__name__}")
    assert error.__traceback__ is not None


async def looks_good(response):
    await asyncio.sleep(0)
    return b"good" in response.body


@pytest.mark.parametrize(("body", "ok"), [("good", True), ("bad", False)])
@pytest.mark.parametrize(
    "validator",
    [
        looks_good,
        lambda response: succeed(b"good" in response.body),
        all_of(looks_good, has_css("p")),
        all_of(has_css("p"), looks_good),
        any_of(looks_good, has_css("h1")),
        all_of(looks_good, any_of(looks_good, looks_good)),
    ],
    ids=["coroutine", "deferred", "all-first", "all-last", "any", "nested"],
)
def test_an_asynchronous_validator_is_awaited(validator, body: str, ok: bool) -> None:
    outcome, error = asyncio.run(validate(validator, page(f"<p>{body}")))
    assert error is None
    assert outcome.ok is ok


def test_a_synchronous_validator_makes_nobody_wait() -> None:
    assert validate_now(has_css("p"), page("<p>")) == (OK, None)
    assert asyncio.run(validate(has_css("p"), page("<p>"))) == (OK, None)


def test_an_asynchronous_one_hands_back_something_to_await() -> None:
    async def ask():
        return await validate_now(looks_good, page("good"))

    assert asyncio.run(ask()) == (OK, None)


def test_a_deferred_that_fires_later_is_awaited() -> None:
    async def ask():
        waiting = Deferred()
        judgement = validate_now(lambda response: waiting, page("x"))
        waiting.callback(False)
        return await judgement

    outcome, _ = asyncio.run(ask())
    assert outcome.reason == "soft_block"


def soft(response):
    return False


def wordy(response):
    return "a wall"


def busy(response):
    return Verdict.rate(wait=9)


def hurried(response):
    return Verdict.transient("half")


@pytest.mark.parametrize(
    ("check", "class_", "evidence"),
    [
        pytest.param(all_of(has_css("p"), soft, busy), "identity", "soft", id="the-first-refusal-counts"),
        pytest.param(any_of(wordy, soft), "identity", "wordy: a wall", id="any-tells-the-first"),
        pytest.param(all_of(busy, soft), "rate", "busy", id="a-verdict-keeps-its-class"),
        pytest.param(all_of(hurried), "transient", "hurried: half", id="and-its-reason"),
        pytest.param(all_of(lambda response: Verdict.ok(), soft), "identity", "soft", id="an-ok-verdict-is-good"),
    ],
)
def test_combined_checks_name_the_one_that_refused(check, class_, evidence) -> None:
    outcome = interpret(check(page("<p>")), check="all")
    assert (outcome.class_, outcome.evidence) == (class_, f"all: {evidence}")
    assert outcome.wait == (9 if class_ == "rate" else None)


def test_nonsense_inside_a_combination_is_still_a_bug() -> None:
    outcome, error = validate_now(all_of(returns_nonsense), page("<p>"))
    assert outcome.reason == "validator_error"
    assert isinstance(error, ValueError)


class Shop(Spider):
    name = "shop"

    @validated_by(has_css("h1"))
    def parse(self, response):
        yield {}

    @validated_by(min_length(9))
    @validated_by(f"{__name__}.soft")
    async def parse_later(self, response):
        return None

    def parse_plain(self, response):
        return None

    def looks_right(self, response):
        return bool(response.css("h1"))


def test_a_callback_is_marked_and_stays_what_it_is(monkeypatch) -> None:
    spider = Shop()
    assert validators_of(spider.parse) == (has_css("h1"),)
    assert validators_of(Shop.parse) == (has_css("h1"),)
    assert list(spider.parse(None)) == [{}]
    assert asyncio.iscoroutinefunction(spider.parse_later)
    assert validators_of(spider.parse_plain) == ()
    assert validators_of(None) == ()


def test_marks_add_up_and_a_dotted_path_is_loaded() -> None:
    first, second = validators_of(Shop().parse_later)
    assert first == min_length(9)
    assert second(None) is False


def test_a_callback_may_be_marked_with_a_function_that_cannot_be_pickled() -> None:
    def local(response):
        return True

    @validated_by(local)
    def parse(response):
        return None

    assert validators_of(parse) == (local,)


def test_a_spiders_method_is_a_validator() -> None:
    assert said(Shop().looks_right, page("<h1>x")).ok


def test_a_dotted_path_stands_for_its_object() -> None:
    assert resolve("scrapy_resiproxy.classify.validators.not_stub") is not_stub
    assert resolve(None) is None


class Unhashable:
    __hash__ = None

    def __call__(self, response):
        return True

    def __reduce__(self):
        return Unhashable, ()


def test_a_validator_that_cannot_be_hashed_is_accepted() -> None:
    validator = Unhashable()
    assert resolve(validator) is validator


def test_a_name_is_short_and_tells_the_check() -> None:
    def local(response):
        return True

    assert check_name(local) == "local"
    assert check_name(partial(soft, 1)) == "soft"
    assert check_name(Shop().looks_right) == "Shop.looks_right"
    assert check_name(Unhashable()) == "Unhashable"
    assert check_name(all_of(soft, has_css("h1"))) == "all_of(soft, has_css('h1'))"
    assert len(check_name(has_text("x" * 500))) == 80


@pytest.mark.parametrize(
    "call",
    [
        lambda: CheckOfMany("x"),
        lambda: _Combined(soft)(page("x")),
        lambda: _MarkupCheck().test(page("x")),
    ],
    ids=["accept", "steps", "test"],
)
def test_the_bases_are_no_checks(call) -> None:
    with pytest.raises(NotImplementedError):
        call()
