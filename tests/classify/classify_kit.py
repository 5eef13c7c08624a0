"""What the tests of answers share: a response as Scrapy would make it, and its judgement."""

from __future__ import annotations

from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from scrapy_resiproxy.classify.classifier import Classifier
from scrapy_resiproxy.classify.reasons import REASONS

NOW = 1_767_225_600.0
"""Thu, 01 Jan 2026 00:00:00 GMT."""

TRANSIENT, RATE, IDENTITY, TERMINAL = "transient", "rate", "identity", "terminal"


def answer(
    status: int = 200, body: str | bytes = b"", url: str = "https://t.example/", flags=None, **headers: str
) -> Response:
    """A response of the class that Scrapy would choose; in header names ``_`` stands for ``-``."""
    raw = body.encode() if isinstance(body, str) else body
    given = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    cls = responsetypes.from_args(headers=given, url=url, body=raw)
    return cls(url, status=status, headers=given, body=raw, flags=flags)


def judge(response: Response, request: Request | None = None, *, via_proxy: bool = True, **options):
    """The outcome of *response*, whose reason must be one of the table."""
    request = request or Request(response.url)
    outcome = Classifier().judge_response(request, response, now=NOW, via_proxy=via_proxy, **options)
    assert outcome.reason in REASONS[outcome.class_]
    return outcome


HTML = "text/html"
JSON = "application/json"
BEARER = {"Authorization": "Bearer x"}

CF_BLOCK = (
    "<title>Access denied | t.example used Cloudflare to restrict access</title> Error 1015 "
    "<script src=/cdn-cgi/challenge-platform/x></script>"
)
CF_PAGE = '<span class=cf-error-type>Error</span> <span class="cf-error-code">{}</span> Cloudflare Ray ID: x'
AKAMAI = "<HTML><HEAD><TITLE>Access Denied</TITLE></HEAD><BODY>Reference&#32;&#35;18&#46;53071002</BODY></HTML>"
FILL = "<p>" + "A sentence of the page. " * 400 + "</p>"
