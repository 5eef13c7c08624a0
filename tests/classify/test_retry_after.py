from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy.http import Headers

from scrapy_resiproxy.classify.retry_after import MAX_WAIT, parse_retry_after, told_wait

NOW = 1_767_225_600.0
"""Thu, 01 Jan 2026 00:00:00 GMT."""

TABLE = [
    ("1", "120", 120),
    ("2", "0", 0),
    ("3", " 120 ", 120),
    ("4", "\t120", 120),
    ("5", "00120", 120),
    ("6", "00", 0),
    ("7", "+120", 120),
    ("8", "-1", None),
    ("9", "-120", None),
    ("10", "-0", None),
    ("11", "1.5", 1.5),
    ("12", "0.503", 0.503),
    ("13", "1.", 1),
    ("14", "1e3", None),
    ("15", "1e400", None),
    ("16-inf", "inf", None),
    ("16-infinity", "Infinity", None),
    ("17", "nan", None),
    ("18", "60s", 60),
    ("19", "60 seconds", 60),
    ("20-minute", "1m", 60),
    ("20-hour", "1h", 3600),
    ("21", "120ms", 0.12),
    ("22", "PT60S", None),
    ("23", "0x10", None),
    ("24", "1_000", None),
    ("25", "120, 60", 120),
    ("26", "1,000", 1),
    ("27", "120;q=1", None),
    ("28", '"120"', 120),
    ("29", "\uff11\uff12\uff10", None),
    ("30", "\u0663", None),
    ("31", "\u00b2", None),
    ("32-empty", "", None),
    ("32-blank", "  ", None),
    ("33-abc", "abc", None),
    ("33-null", "null", None),
    ("33-html", "<html>", None),
    ("34", '{"s":1}', None),
    ("35", "9999999999", MAX_WAIT),
    ("36", "18446744073709551616", MAX_WAIT),
    ("37", "9" * 25, MAX_WAIT),
    ("38", "1" * 5000, None),
    ("39", "1767225660", 60),
    ("40", "1767225660.5", 60.5),
    ("41", "1767225660000", 60),
    ("42", "1767225540", 0),
    ("43", "Thu, 01 Jan 2026 00:02:00 GMT", 120),
    ("44", "Thursday, 01-Jan-26 00:02:00 GMT", 120),
    ("45", "Thu Jan  1 00:02:00 2026", 120),
    ("46", "Thu Jan  1 00:02:00 GMT 2026", 120),
    ("47", "Thu, 1 Jan 2026 00:02:00 GMT", 120),
    ("48-utc", "Thu, 01 Jan 2026 00:02:00 UTC", 120),
    ("48-z", "Thu, 01 Jan 2026 00:02:00 Z", 120),
    ("48-none", "Thu, 01 Jan 2026 00:02:00", 120),
    ("49", "Thu, 01 Jan 2026 00:02:00 +0000", 120),
    ("50", "Thu, 01 Jan 2026 01:02:00 +0100", 120),
    ("50-west", "Wed, 31 Dec 2025 18:32:00 -05:30", 120),
    ("51", "Wed, 31 Dec 2025 19:02:00 EST", 120),
    ("52", "Wed, 31 Dec 2025 16:02:00 PST", 120),
    ("53", "Thu, 01 Jan 2026 01:02:00 CET", None),
    ("54", "Thu, 01 Jan 2026 05:32:00 IST", None),
    ("55", "Thu, 01 Jan 2026 00:02:00 +2500", None),
    ("56", "Mon, 01 Jan 2026 00:02:00 GMT", 120),
    ("57", "thu, 01 jan 2026 00:02:00 gmt", 120),
    ("58", "01 Jan 2026 00:02:00 GMT", 120),
    ("59", "Thu, 01-Jan-2026 00:02:00 GMT", 120),
    ("60", "Thu,01 Jan 2026 00:02:00 GMT", 120),
    ("61", "Thu, 01 Jan 2026 00:02 GMT", 120),
    ("62", "2026-01-01T00:02:00Z", 120),
    ("63", "2026-01-01 00:02:00", 120),
    ("64", "Fri, 02 Jan 2026 00:02:00 GMT", MAX_WAIT),
    ("65", "Wed, 31 Dec 2025 23:58:00 GMT", 0),
    ("66", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ("67", "Sunday, 06-Nov-94 08:49:37 GMT", 0),
    ("68", "Thursday, 01-Jan-70 00:00:00 GMT", MAX_WAIT),
    ("69", "Friday, 01-Jan-99 00:00:00 GMT", 0),
    ("70", "Fri, 31 Dec 9999 23:59:59 GMT", MAX_WAIT),
    ("71", "Thu, 31 Dec 2025 23:59:60 GMT", 0),
    ("72", "Thu, 32 Jan 2026 00:02:00 GMT", None),
    ("73", "Thu, 29 Feb 2026 00:02:00 GMT", None),
    ("74", "Thu, 01 Jan 2026 24:02:00 GMT", None),
    ("75", "Thu, 01 Foo 2026 00:02:00 GMT", None),
    ("76", "Thu, 01 Jan 2026 00:02:00 GMT, Thu, 01 Jan 2026 00:03:00 GMT", None),
    ("77", "Thu, 01 Jan 2026 00:02:00 GMT\x00", None),
    ("RA-01", "Wed, 21 Oct 2099 07:28:00 GMT", MAX_WAIT),
    ("RA-02", "-5", None),
    ("RA-03", "9999999999", MAX_WAIT),
    ("RA-03-long", "99999999999999999999", MAX_WAIT),
    ("RA-05-rfc850", "Wednesday, 21-Oct-99 07:28:00 GMT", 0),
    ("RA-05-asctime", "Wed Oct 21 07:28:00 2099", MAX_WAIT),
    ("RA-07-list", "120, 60", 120),
    ("RA-08-float", "1.5", 1.5),
    ("RA-08-exponent", "1e3", None),
    ("RA-08-arabic", "\u0663", None),
    ("RA-08-blank", "", None),
    ("RA-08-soon", "soon", None),
    ("a-zero-year", "0000-01-01 00:00:00", None),
    ("an-unknown-unit", "5 parsecs", None),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_one_header_is_read_as_the_table_says(text: str, expected: float | None) -> None:
    assert parse_retry_after([text], now=NOW) == expected
    assert parse_retry_after([text.encode()], now=NOW) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(["10", "60"], 60, id="78"),
        pytest.param(["60", "junk"], 60, id="79"),
        pytest.param(["10", "Thu, 01 Jan 2026 00:02:00 GMT"], 120, id="80"),
        pytest.param([b"120", b"60"], 120, id="RA-07"),
        pytest.param([], None, id="none"),
    ],
)
def test_of_several_headers_the_longest_readable_one_counts(values: list[str], expected: float | None) -> None:
    assert parse_retry_after(values, now=NOW) == expected


@pytest.mark.parametrize(
    ("text", "date", "age", "expected"),
    [
        pytest.param("Thu, 01 Jan 2026 01:02:00 GMT", "Thu, 01 Jan 2026 01:00:00 GMT", None, 120, id="81"),
        pytest.param("Thu, 01 Jan 2026 01:02:00 GMT", "Thu, 01 Jan 2026 01:00:00 GMT", b"30", 90, id="82"),
        pytest.param("Thu, 01 Jan 2026 00:02:00 GMT", b"garbage", None, 120, id="83"),
        pytest.param("120", "Thu, 01 Jan 2026 05:00:00 GMT", None, 120, id="84"),
        pytest.param("1767229260", "Thu, 01 Jan 2026 01:00:00 GMT", "junk", 60, id="epoch"),
    ],
)
def test_a_moment_counts_from_the_responses_own_date(text, date, age, expected) -> None:
    assert parse_retry_after([text], now=NOW, date=date, age=age) == expected


@pytest.mark.parametrize("shift", [-86_400.0, -1.0, 0.0, 3_600.0])
def test_our_own_clock_changes_nothing_when_the_server_sent_its_own(shift: float) -> None:
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    values = ["Thu, 01 Jan 2026 00:02:00 GMT"]
    assert parse_retry_after(values, now=NOW + shift, date=date) == 120


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"Retry-After": "30", "Retry-After-Ms": "9000"}, 30, id="retry-after-wins"),
        pytest.param({"Retry-After": "soon", "Retry-After-Ms": "9000"}, 9, id="unreadable-falls-through"),
        pytest.param({"X-Ms-Retry-After-Ms": "1500"}, 1.5, id="azure"),
        pytest.param({"X-Amz-Retry-After": "250"}, 0.25, id="aws"),
        pytest.param({"Retry-After-Ms": "5 s"}, None, id="milliseconds-take-no-unit"),
        pytest.param({"Retry-After-Ms": "1" * 5000}, None, id="milliseconds-bounded"),
        pytest.param({"RateLimit": '"default";r=0;t=30'}, 30, id="ratelimit-empty"),
        pytest.param({"RateLimit": '"default";r=50;t=30'}, None, id="ratelimit-left"),
        pytest.param({"RateLimit": '"a";r=0;t=10, "b,;r=0;t=99";r=5;t=50, "c"; r=0; t=20'}, 20, id="ratelimit-list"),
        pytest.param({"RateLimit": '"a";r=0'}, None, id="ratelimit-without-t"),
        pytest.param({"RateLimit": '"a";r=0;t=30', "Age": "5"}, None, id="ratelimit-aged"),
        pytest.param(
            {"RateLimit": '"a";r=0;t=30', "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"},
            30,
            id="ratelimit-before-x",
        ),
        pytest.param({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "45"}, 45, id="reset-delta"),
        pytest.param({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225660"}, 60, id="reset-epoch"),
        pytest.param({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225660000"}, 60, id="reset-epoch-ms"),
        pytest.param({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225540"}, 0, id="reset-past"),
        pytest.param(
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225660000000000"}, None, id="reset-nanoseconds"
        ),
        pytest.param({"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "45"}, None, id="reset-left"),
        pytest.param({"X-RateLimit-Reset": "45"}, None, id="reset-alone"),
        pytest.param({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1" * 5000}, None, id="reset-bounded"),
        pytest.param({"RateLimit-Remaining": "0", "RateLimit-Reset": "45"}, 45, id="older-draft"),
        pytest.param({"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": "45"}, 45, id="dashed"),
    ],
)
def test_related_headers_are_heard_in_their_order(headers: dict[str, str], expected: float | None) -> None:
    assert told_wait(Headers(headers), now=NOW) == expected


NUMBERISH = st.text(alphabet="0123456789 .,:;+-eExhmsinfaGMTJThuPST\"'\x00\u0663\uff11", max_size=70)


@settings(max_examples=200)
@given(
    values=st.lists(st.text() | st.binary() | NUMBERISH, max_size=4),
    date=st.none() | st.text() | st.binary() | NUMBERISH,
    age=st.none() | st.text() | st.binary() | NUMBERISH,
    now=st.floats(min_value=-1e10, max_value=1e11),
)
def test_it_never_raises_and_stays_in_bounds(values, date, age, now) -> None:
    wait = parse_retry_after(values, now=now, date=date, age=age)
    assert wait is None or 0 <= wait <= MAX_WAIT


HEADER_NAMES = [
    "Retry-After",
    "Retry-After-Ms",
    "RateLimit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "Date",
    "Age",
]


@settings(max_examples=100)
@given(headers=st.dictionaries(st.sampled_from(HEADER_NAMES), st.binary() | NUMBERISH))
def test_told_wait_never_raises_and_stays_in_bounds(headers) -> None:
    wait = told_wait(Headers(headers), now=NOW)
    assert wait is None or 0 <= wait <= MAX_WAIT


@given(
    values=st.lists(st.sampled_from(["10", "60", "junk", "1.5"]), min_size=1, max_size=3),
    more=st.sampled_from(["5", "x", "90"]),
)
def test_one_more_header_never_shortens_the_wait(values: list[str], more: str) -> None:
    before = parse_retry_after(values, now=NOW)
    after = parse_retry_after([*values, more], now=NOW)
    assert before is None or (after is not None and after >= before)
