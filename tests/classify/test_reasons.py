"""Whatever comes, it is judged, and by a reason of the table."""

from __future__ import annotations

from classify_kit import AKAMAI, CF_BLOCK, judge
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_resiproxy.classify.reasons import REASONS, one_line

BODIES = st.binary(max_size=300) | st.sampled_from(
    [
        AKAMAI.encode(),
        CF_BLOCK.encode(),
        b"<title>",
        b"<TITLE>Just a moment...</TITLE>",
        b'{"appId":"PX"',
        b"error code: 1015",
        b"TRAFFIC_EXHAUSTED",
    ]
)
NAMES = st.sampled_from(
    [
        "Content-Type",
        "cf-mitigated",
        "x-brd-err-code",
        "x-brd-error",
        "Proxy-Status",
        "Retry-After",
        "X-Squid-Error",
        "X-Error-Description",
        "x-dd-b",
        "Date",
        "Server",
    ]
) | st.text(alphabet="abcXYZ-", min_size=1, max_size=12)
VALUES = st.binary(max_size=60) | st.sampled_from(
    [b"text/html", b"application/json", b"client_1", b"120", b"challenge", b"cloudflare", b"session failed"]
)


@settings(max_examples=200)
@given(
    status=st.integers(-10, 1200) | st.sampled_from([200, 403, 407, 503]),
    headers=st.dictionaries(NAMES, VALUES, max_size=5),
    body=BODIES,
    via_proxy=st.booleans(),
    markers=st.lists(st.text(min_size=1, max_size=10), max_size=2),
    url=st.sampled_from(["http://t.example/", "https://t.example/captcha?x"]),
)
def test_no_answer_makes_it_raise(status, headers, body, via_proxy, markers, url) -> None:
    given_headers = Headers(headers)
    cls = responsetypes.from_args(headers=given_headers, url=url, body=body)
    response = cls(url, status=status, headers=given_headers, body=body)
    request = Request(url, meta={"redirect_urls": ["https://t.example/"]})
    outcome = judge(response, request, via_proxy=via_proxy, markers=markers)
    assert outcome.evidence.isascii()
    assert len(outcome.evidence) <= 80
    assert outcome.wait is None or 0 <= outcome.wait <= 21_600


@given(text=st.text(), limit=st.integers(1, 50))
def test_a_line_is_one_and_short(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert line.isprintable()
    assert len(line) <= limit


def test_no_reason_has_two_meanings_but_the_users_own() -> None:
    words = [word for reasons in REASONS.values() for word in reasons]
    assert sorted({word for word in words if words.count(word) > 1}) == ["status_class"]
    assert all(reasons == tuple(sorted(reasons)) for reasons in REASONS.values())
