from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy.http import Response

from scrapy_resiproxy.deadletter.feed import read_feed
from scrapy_resiproxy.deadletter.reading import LetterError, read_letter, read_line
from scrapy_resiproxy.deadletter.record import encode, make_mark
from scrapy_resiproxy.deadletter.times import iso, parse_time


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"", "not JSON: Expecting value at character 1", id="empty"),
        pytest.param(b'{"id":"x","te', "not JSON: Unterminated string starting at at character 11", id="torn"),
        pytest.param(b"[1]", "list; it must be an object", id="a list"),
        pytest.param(b'{"v":1,"x":NaN}', "NaN is not JSON", id="nan"),
        pytest.param(b'{"v":1,"x":-Infinity}', "-Infinity is not JSON", id="infinity"),
        pytest.param(b'{"v":1,"x":"\xff"}', "not JSON: not UTF-8", id="not utf-8"),
        pytest.param(
            b'{"v":1,"x":' + b"9" * 5000 + b"}", "not JSON: nested too deep or a number too long", id="a long number"
        ),
        pytest.param(b"[" * 100_000, "not JSON: nested too deep or a number too long", id="deep"),
        pytest.param(b"{}", "v is None; it must be 1", id="no version"),
        pytest.param(b'{"v":true}', "v is True; it must be 1", id="a version that is none"),
        pytest.param(b'{"v":2}', "v is 2; it must be 1", id="a newer version"),
        pytest.param(b'{"v":1}', "id is missing; it must be a non-empty string of printable characters", id="no field"),
        pytest.param(b'{"v":1,"mark":"x","state":"gone"}', "state is str; it must be done or superseded", id="a mark"),
        pytest.param(
            b'{"v":1,"mark":"x","state":[]}', "state is list; it must be done or superseded", id="a mark of a list"
        ),
    ],
)
def test_what_is_no_letter_is_refused_in_one_line(line, message):
    with pytest.raises(LetterError) as caught:
        read_line(line)
    assert str(caught.value) == message


WRONG = [
    ("id", "", "id is str; it must be a non-empty string of printable characters"),
    ("spider", "a\x1b[31m", "spider is str; it must be a non-empty string of printable characters"),
    ("time", "yesterday", "time is str; it must be an ISO 8601 time"),
    ("time", 5, "time is 5; it must be an ISO 8601 time"),
    ("spider_args", [], "spider_args is list; it must be an object"),
    ("target", "a\n", "target is str; it must be a string of printable characters"),
    ("replayable", 1, "replayable is 1; it must be true or false"),
    ("not_before", "x", "not_before is str; it must be an ISO 8601 time or null"),
    ("replay_count", -1, "replay_count is -1; it must be a whole number of 0 or more"),
    ("replay_count", True, "replay_count is True; it must be a whole number of 0 or more"),
    ("dropped", [1], "dropped is list; it must be a list of strings"),
    ("request", None, "request is None; it must be an object"),
    ("response", "x", "response is str; it must be an object or null"),
    ("request.url", "file:///etc/passwd", "request.url is str; it must be an http or https URL"),
    ("request.url", "http://a.example/\x1b", "request.url is str; it must be an http or https URL"),
    ("request.method", "GET /\r\n", "request.method is str; it must be an HTTP method"),
    ("request.method", None, "request.method is None; it must be an HTTP method"),
    ("request.body", "***", "request.body is str; it must be base64 or null"),
    ("request.body", 1, "request.body is 1; it must be base64 or null"),
    ("request.headers", {"X": "1"}, "request.headers is dict; it must be an object of lists of latin-1 strings"),
    ("request.headers", {"X": ["\u20ac"]}, "request.headers is dict; it must be an object of lists of latin-1 strings"),
    ("request.headers", {"\u20ac": []}, "request.headers is dict; it must be an object of lists of latin-1 strings"),
    ("request.priority", 1.5, "request.priority is 1.5; it must be a whole number"),
    ("request.callback", 1, "request.callback is 1; it must be a string or null"),
    ("request._class", None, "request._class is None; it must be a string"),
    ("response.status", "200", "response.status is str; it must be a whole number"),
    ("response.page.body", "!", "response.page.body is str; it must be base64"),
    ("response.page.headers", None, "response.page.headers is None; it must be an object of lists of latin-1 strings"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[f"{path}={value!r:.12}" for path, value, _ in WRONG])
def test_each_wrong_field_is_named_and_its_value_is_not_shown(path, value, message, letter):
    made = letter(response=Response("http://shop.example/", body=b"x"), keep_page=True)
    inner = made
    *folders, name = path.split(".")
    for folder in folders:
        inner = inner[folder]
    inner[name] = value
    with pytest.raises(LetterError) as caught:
        read_letter(json.dumps(made).encode())
    assert str(caught.value) == message


def test_a_mark_is_no_letter():
    with pytest.raises(LetterError, match="a mark, not a letter"):
        read_letter(encode(make_mark("x", "done", 0.0)))


def test_marks_validate(schema):
    for state in ("done", "superseded"):
        mark = make_mark("x", state, 0.0, "y")
        schema.validate(mark)
        assert read_line(encode(mark)) == mark


def test_fields_of_a_later_day_are_passed_over(letter):
    made = letter() | {"new": 1}
    assert read_letter(encode(made)) == made


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,v1eINa\\u', max_size=30).map(str.encode))
@settings(max_examples=150)
def test_no_line_raises_anything_else(line):
    with pytest.raises(LetterError, match=r"\A[^\n]*\Z"):
        read_letter(line)


@pytest.fixture
def read(tmp_path):
    def reading(data: bytes, **given):
        path = tmp_path / "feed.jsonl"
        path.write_bytes(data)
        problems: list[tuple[int, str]] = []
        lines = list(read_feed(path, problem=lambda number, text: problems.append((number, text)), **given))
        return [(number, data.get("id")) for number, data in lines], problems

    return reading


def test_a_byte_order_mark_crlf_and_blank_lines_are_passed_over(read, letter):
    first, second = letter(), letter()
    lines, problems = read(b"\xef\xbb\xbf" + encode(first)[:-1] + b"\r\n\r\n   \n" + encode(second))
    assert lines == [(1, first["id"]), (4, second["id"])]
    assert problems == []


def test_only_a_newline_byte_ends_a_line(read, letter):
    made = letter() | {"note": "a\u2028b\u2029c\x85d"}
    assert read(json.dumps(made, ensure_ascii=False).encode() + b"\n") == ([(1, made["id"])], [])


def test_a_torn_last_line_costs_nothing_else(read, letter):
    made = [letter(), letter()]
    data = b"".join(encode(each) for each in made)
    lines, problems = read(data[:-40])
    assert lines == [(1, made[0]["id"])]
    assert [number for number, _ in problems] == [2]


def test_a_broken_line_is_reported_by_number_and_passed_over(read, letter):
    made = letter()
    lines, problems = read(b"oops\n" + encode(made) + b'{"v":1,"x":NaN}\n')
    assert lines == [(2, made["id"])]
    assert problems == [(1, "not JSON: Expecting value at character 1"), (3, "NaN is not JSON")]


def test_reading_stops_at_the_size_that_it_is_given(read, letter):
    first, second = letter(), letter()
    line = encode(first)
    lines, _ = read(line + encode(second), upto=len(line))
    assert lines == [(1, first["id"])]


def test_problems_may_go_unheard(tmp_path):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"oops\n")
    assert list(read_feed(path)) == []


@given(st.floats(0, 4e9))
@settings(max_examples=100)
def test_times_come_back_to_the_microsecond(seconds):
    assert parse_time(iso(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T00:01:00", 60),
        ("1970-01-01T01:01:00+01:00", 60),
        ("1970-01-02", 86_400),
    ],
)
def test_any_iso_8601_time_is_read(text, seconds):
    assert parse_time(text) == seconds
