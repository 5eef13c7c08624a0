from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.lab.wire import Body, parse_answer_head, parse_request_head


def feed_in_pieces(body: Body, data: bytes, cuts: list[int]) -> None:
    """Feed all but the last byte in pieces, then the last; the body must end there and not before."""
    edges = [0, *sorted({cut % len(data) for cut in cuts}), len(data) - 1, len(data)]
    for start, end in pairwise(edges):
        assert not body.done
        body.feed(data[start:end])


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    trailer=st.sampled_from([b"", b"X-Sum: 1\r\n"]),
    cuts=st.lists(st.integers(0, 10**4), max_size=8),
)
@settings(max_examples=200)
def test_a_chunked_body_ends_at_its_last_byte_however_it_is_cut(chunks, trailer, cuts):
    sizes = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body = Body.of_answer(parse_answer_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"), "GET")
    feed_in_pieces(body, sizes + b"0\r\n" + trailer + b"\r\n", cuts)
    assert body.done


@given(size=st.integers(1, 200), cuts=st.lists(st.integers(0, 10**4), max_size=8))
@settings(max_examples=50)
def test_a_body_with_a_length_ends_at_its_last_byte(size, cuts):
    head = parse_request_head(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size)
    body = Body.of_request(head)
    assert body.wanted == size
    feed_in_pieces(body, b"x" * size, cuts)
    assert body.done


@pytest.mark.parametrize(
    ("head", "method", "done"),
    [
        pytest.param(b"HTTP/1.1 204 No Content", "GET", True, id="204"),
        pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9", "GET", True, id="304"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9", "HEAD", True, id="HEAD"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0", "GET", True, id="empty"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9", "GET", False, id="length"),
        pytest.param(b"HTTP/1.1 200 OK", "GET", False, id="until the end"),
    ],
)
def test_an_answer_may_have_no_body(head, method, done):
    assert Body.of_answer(parse_answer_head(head), method).done is done


@pytest.mark.parametrize(
    ("head", "closes"),
    [
        (b"HTTP/1.1 200 OK", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Close", True),
        (b"HTTP/1.0 200 OK", True),
    ],
)
def test_an_answer_says_whether_the_connection_goes_on(head, closes):
    assert parse_answer_head(head).closes is closes


def test_a_request_without_a_length_has_no_body_and_a_chunked_one_has():
    assert Body.of_request(parse_request_head(b"GET / HTTP/1.1\r\n\r\n")).done
    chunked = Body.of_request(parse_request_head(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
    assert not chunked.done
    assert chunked.wanted > 0


@pytest.mark.parametrize("line", [b"", b"GET /", b"GET / FTP/1", b"\x16\x03\x01 hello there", b"GET  / HTTP/1.1"])
def test_a_line_that_is_no_request_line_is_refused(line):
    with pytest.raises(ValueError, match="not an HTTP/1 request line"):
        parse_request_head(line + b"\r\n\r\n")


def test_headers_are_found_whatever_their_case():
    head = parse_request_head(b"GET / HTTP/1.1\r\nX-A: 1\r\nHOST:  shop.example \r\n\r\n")
    assert (head.header("host"), head.header("cookie")) == ("shop.example", None)
