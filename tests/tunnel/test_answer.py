from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.tunnel.answer import MAX_HEAD, AnswerParser, BadAnswer

ANSWERS = [
    pytest.param(b"HTTP/1.1 200 Connection established\r\n\r\n", 200, "Connection established", id="plain"),
    pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", 200, "OK", id="http-1.0"),
    pytest.param(b"HTTP/2 200 OK\r\n\r\n", 200, "OK", id="http-2"),
    pytest.param(b"HTTP/1.1 200\r\n\r\n", 200, "", id="no-phrase"),
    pytest.param(b"HTTP/1.1 200 \r\n\r\n", 200, "", id="empty-phrase"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, "No Content", id="any-2xx"),
    pytest.param(b"HTTP/1.1 200 OK\n\n", 200, "OK", id="lf-only"),
    pytest.param(b"HTTP/1.1 200 OK\nVia: x\r\n\r\n", 200, "OK", id="lf-inside"),
    pytest.param(b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200, "OK", id="blank-lines-first"),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200, "OK", id="100-then-200"),
    pytest.param(
        b"HTTP/1.1 102 P\r\nA: b\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 407 Auth\r\n\r\n",
        407,
        "Auth",
        id="1xx-twice",
    ),
    pytest.param(b"HTTP/1.1 101 Switching\r\n\r\n", 101, "Switching", id="101-is-final"),
    pytest.param(b"HTTP/1.1 407 Proxy Auth\r\nProxy-Authenticate: Basic\r\n\r\n", 407, "Proxy Auth", id="407"),
    pytest.param(b"HTTP/1.1 451 " + b"x" * 3000 + b"\r\n\r\n", 451, "x" * 3000, id="long-phrase"),
    pytest.param(b"HTTP/1.1 502 a\x1b[31mb\xe9\r\n\r\n", 502, "a [31mbé", id="no-control-characters"),
]


@pytest.mark.parametrize(("raw", "status", "phrase"), ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_read_in_pieces_of_any_size(raw, status, phrase, size):
    parser = AnswerParser()
    pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
    results = [parser.feed(piece) for piece in pieces]
    assert results[:-1] == [None] * (len(pieces) - 1)
    assert (results[-1].status, results[-1].phrase) == (status, phrase)
    assert results[-1].granted == (200 <= status < 300)


def test_headers_keep_order_case_and_folded_lines():
    raw = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nX-Error:a\r\n  b\r\nnonsense\r\nx-error: c\r\n\r\nbody"
    answer = AnswerParser().feed(raw)
    assert answer.headers == [(b"Retry-After", b"7"), (b"X-Error", b"a b"), (b"x-error", b"c")]
    assert answer.rest == b"body"


@pytest.mark.parametrize(
    ("raw", "reason", "status"),
    [
        pytest.param(b"S", "garbage", None, id="first-byte"),
        pytest.param(b"\x05\x00", "garbage", None, id="socks"),
        pytest.param(b"HTTP-ish\r\n\r\n", "garbage", None, id="almost"),
        pytest.param(b"HTTP/1.1 OK\r\n", "garbage", None, id="no-status"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n", "garbage", None, id="four-digits"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"x" * MAX_HEAD, "head_too_long", 200, id="endless-header"),
        pytest.param(b"HTTP/1.1 " + b"2" * MAX_HEAD, "head_too_long", None, id="endless-line"),
        pytest.param(b"\r\n" * MAX_HEAD, "head_too_long", None, id="endless-blank-lines"),
        pytest.param(b"HTTP/1.1 100 C\r\n\r\n" * 5000, "head_too_long", 100, id="endless-interim"),
        pytest.param(
            b"HTTP/1.1 407 No\r\nA: " + b"x" * MAX_HEAD + b"\r\n\r\n",
            "head_too_long",
            407,
            id="complete-but-long",
        ),
    ],
)
def test_what_cannot_become_an_answer_is_refused_at_once(raw, reason, status):
    with pytest.raises(BadAnswer) as caught:
        AnswerParser().feed(raw)
    assert (caught.value.reason, caught.value.status) == (reason, status)


def test_the_status_is_known_as_soon_as_its_line_is_complete():
    parser = AnswerParser()
    parser.feed(b"HTTP/1.1 407 Pro")
    assert parser.status is None
    parser.feed(b"xy\r\n")
    assert parser.status == 407


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_any_bytes_in_any_pieces_give_one_result(data, cuts):
    def run(pieces):
        parser, answer = AnswerParser(), None
        try:
            for piece in pieces:
                answer = parser.feed(piece)
                if answer is not None:
                    return answer.status, answer.phrase, answer.headers
        except BadAnswer as error:
            return error.reason
        return answer

    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    assert run([*pieces, data[at:]]) == run([data])


@given(st.binary(max_size=200))
def test_any_tail_after_a_status_line_is_survived(tail):
    try:
        answer = AnswerParser().feed(b"HTTP/1.1 200 OK\r\n" + tail)
    except BadAnswer as error:
        raise AssertionError(tail) from error
    assert answer is None or answer.status == 200
