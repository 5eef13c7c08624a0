from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.tunnel.heads import ResponseHeads

GOOD = b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n  folded\r\n\r\n"
HEADS = [
    pytest.param(GOOD, GOOD, id="good as it is"),
    pytest.param(b"HTTP/1.1 200 OK\r\nbad line\r\nA: b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", id="no colon"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nbad\r\n more\r\nA: b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", id="no colon, folded"
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nA\r\n : b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA\r\n : b\r\n\r\n", id="colon in the fold"
    ),
    pytest.param(b"HTTP/1.1 200 OK\nbad\nA: b\n\n", b"HTTP/1.1 200 OK\nA: b\n\n", id="bare LF"),
    pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", id="no headers"),
    pytest.param(
        b"HTTP/1.1 103 Early\r\nbad\r\n\r\nHTTP/1.1 200 OK\r\nbad\r\n\r\n",
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        id="interim first",
    ),
]


@pytest.mark.parametrize(("raw", "clean"), HEADS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_bad_lines_are_left_out_whatever_the_pieces(raw, clean, size):
    heads = ResponseHeads()
    heads.expect()
    data = raw + b"bad\r\n\r\nbody"
    out = b"".join(heads.feed(data[i : i + size]) for i in range(0, len(data), size))
    assert out == clean + b"bad\r\n\r\nbody"
    assert not heads.expecting


@given(st.binary(max_size=200), st.integers(1, 50))
def test_a_body_passes_untouched(body, size):
    heads = ResponseHeads()
    heads.expect()
    heads.feed(GOOD)
    assert b"".join(heads.feed(body[i : i + size]) for i in range(0, len(body), size)) == body


def test_the_next_answer_has_a_head_again():
    heads = ResponseHeads()
    for _ in range(2):
        heads.expect()
        assert heads.feed(b"HTTP/1.1 200 OK\r\nbad\r\n\r\n") == b"HTTP/1.1 200 OK\r\n\r\n"


def test_what_is_held_back_is_given_up_at_the_end():
    heads = ResponseHeads()
    heads.expect()
    assert heads.feed(b"HTTP/1.1 200 OK\r\nA:") == b""
    assert heads.rest() == b"HTTP/1.1 200 OK\r\nA:"
    assert heads.rest() == b""


def test_an_endless_head_is_not_held_back():
    heads = ResponseHeads()
    heads.expect()
    raw = b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000
    assert heads.feed(raw) == raw


@pytest.mark.parametrize(
    ("head", "persistent", "promised"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True, None),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", False, None),
        (b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive, CLOSE\r\n\r\n", False, None),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5, max=100\r\n\r\n", True, 5.0),
        (b"HTTP/1.0 200 OK\r\n\r\n", False, None),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", True, None),
        (b"HTTP/1.1 200 OK\r\nX-Connection: close\r\n\r\n", True, None),
    ],
)
def test_what_the_origin_says_of_the_connection_is_noted(head, persistent, promised):
    heads = ResponseHeads()
    heads.expect()
    heads.feed(head)
    assert (heads.persistent, heads.idle_timeout) == (persistent, promised)
