"""What the proxy itself said: in a vendor's error header, in place of the target's answer, or to CONNECT."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from scrapy.http import Headers

from scrapy_resiproxy.classify import proxy_codes as codes
from scrapy_resiproxy.classify.retry_after import told_wait
from scrapy_resiproxy.outcome import Outcome, OutcomeClass

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

_CODE_HEADERS: Final = (
    "X-Brd-Err-Code",
    "X-Brd-Error-Code",
    "X-Luminati-Error-Code",
    "X-Crawlera-Error",
    "X-Webshare-Reason",
    "X-Thor-Error-Code",
)
_TEXT_HEADERS: Final = ("X-Brd-Err-Msg", "X-Brd-Error", "X-Luminati-Error")
_PLAIN_HEADERS: Final = ("X-Error-Description", "X-Squid-Error")
"""Names that anybody may use: believed where a proxy can have written them, outside TLS."""
_PROXY_STATUS: Final = "Proxy-Status"

# Names as Headers itself spells them, so that one set operation tells whether any of them is there.
_TELLING: Final = frozenset(
    Headers(dict.fromkeys((*_CODE_HEADERS, *_TEXT_HEADERS, *_PLAIN_HEADERS, _PROXY_STATUS), b""))
)
# Some put the message behind the code, and a second line is joined to the first.
_CODE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{1,39})(?:[\s:;,]|\Z)", re.ASCII)
_DETAILS: Final = re.compile(r"details=\"?((?:client|policy|peer|target)[_-]\d+)", re.ASCII)
_ERROR: Final = re.compile(r";\s*error=\"?([a-z_]{1,40})", re.ASCII)
_WORDS: Final = tuple((name, re.compile(pattern, re.IGNORECASE), outcome) for name, pattern, outcome in codes.WORDS)
_WORD: Final = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+|bandwidthlimit", re.ASCII)
_BODY: Final = 1_024
_SENTENCE: Final = 200
"""Longer text, or markup, is an error page and may hold any word."""


def judge_answer(request: Request, response: Response, *, now: float) -> Outcome | None:
    """The outcome of *response* where it is the proxy's and not the target's, else ``None``.

    For requests that went through a proxy. *now* is the wall clock in epoch seconds.
    """
    status, headers = response.status, response.headers
    if status != 407 and _TELLING.isdisjoint(headers):
        return None
    in_clear = request.url.startswith("http:")
    outcome = _by_code(headers, in_clear=in_clear)
    if outcome is None and status == 407:
        outcome = _by_text(response.body[:_BODY].decode("latin-1"), "body")
    if outcome is None:
        outcome = _by_presence(status, headers, response.body, in_clear=in_clear)
    if status == 407:
        outcome = _refused_credentials(outcome)
    if outcome is None:
        return None
    # Inside TLS the target could have written it.
    hearsay = not in_clear and outcome.class_ is OutcomeClass.TERMINAL
    return _with_wait(replace(outcome, weak=True) if hearsay else outcome, headers, now)


def judge_connect(status: int, headers: Headers, text: str = "", *, now: float) -> Outcome:
    """The outcome of a CONNECT that the proxy answered with *status*: never the target's, never ok.

    *text* is the reason phrase and whatever came of the body. *now* is the wall clock in epoch seconds.
    """
    outcome = (
        _by_code(headers, in_clear=True)
        or _by_proxy_status(headers)
        or _by_text(text[:_BODY], "connect")
        or _named(connect_status(status), f"connect:{status}")
    )
    if status == 407:
        outcome = _refused_credentials(outcome)
    return _with_wait(outcome, headers, now)


def connect_status(status: int) -> Outcome:
    """The outcome of a bare CONNECT *status*, without evidence."""
    if status in codes.CONNECT_STATUSES:
        return codes.CONNECT_STATUSES[status]
    if 400 <= status < 500:
        return codes.CONFIG
    return codes.FAULT if 500 <= status < 600 else codes.GARBAGE


def headers_of(pairs: Any) -> Headers:
    """*pairs*, a mapping or a sequence of pairs of bytes or text from any HTTP library, as Scrapy's headers.

    What is neither bytes nor text is left out.
    """
    items = pairs.items() if isinstance(pairs, Mapping) else pairs or ()
    headers = Headers()
    for item in items:
        if isinstance(item, tuple) and len(item) == 2 and all(isinstance(part, (bytes, str)) for part in item):
            headers.appendlist(*item)
    return headers


def _named(outcome: Outcome, evidence: str) -> Outcome:
    return replace(outcome, evidence=evidence)


def _with_wait(outcome: Outcome, headers: Headers, now: float) -> Outcome:
    if outcome.class_ is OutcomeClass.TERMINAL:
        return outcome
    wait = told_wait(headers, now=now)
    return outcome if wait is None else replace(outcome, wait=wait)


def _refused_credentials(outcome: Outcome | None) -> Outcome:
    """A 407 may say that there is no traffic left, or too many threads; no other reading is believed."""
    if outcome is None or outcome.class_ not in {OutcomeClass.TERMINAL, OutcomeClass.RATE}:
        return _named(codes.AUTH, "status:407")
    return outcome


def _value(headers: Headers, name: str) -> str:
    return b", ".join(headers.getlist(name)).decode("latin-1").strip()


def _by_code(headers: Headers, *, in_clear: bool) -> Outcome | None:
    for name in _CODE_HEADERS:
        outcome = _code(_value(headers, name), name)
        if outcome:
            return outcome
    details = _DETAILS.search(_value(headers, _PROXY_STATUS))
    if details:
        # The code proves whose answer it is, so that the standard's own word may be believed.
        by_error = None if details[1].replace("-", "_") in codes.CODES else _by_proxy_status(headers)
        return by_error or _code(details[1], _PROXY_STATUS)
    if not in_clear:
        return None
    squid = _code(_value(headers, "X-Squid-Error"), "X-Squid-Error")
    return squid or _by_text(_value(headers, "X-Error-Description"), "x-error-description")


def _code(value: str, header: str) -> Outcome | None:
    match = _CODE.match(value)
    if match is None:
        return None
    word = match[1].lower().replace("-", "_")
    outcome = codes.CODES.get(word)
    if outcome is None:
        outcome = next((outcome for prefix, outcome in codes.PREFIXES if word.startswith(prefix)), None)
    return outcome and _named(outcome, f"{header.lower()}:{word}")


def _by_text(text: str, where: str) -> Outcome | None:
    for word in _WORD.findall(text):
        outcome = codes.CODES.get(word.lower())
        if outcome:
            return _named(outcome, f"{where}:{word.lower()}")
    if len(text) > _SENTENCE or "<" in text:
        return None
    return next((_named(said, f"{where}:{name}") for name, word, said in _WORDS if word.search(text)), None)


def _by_proxy_status(headers: Headers) -> Outcome | None:
    error = _ERROR.search(_value(headers, _PROXY_STATUS))
    outcome = codes.PROXY_STATUS_ERRORS.get(error[1]) if error else None
    return outcome and error and _named(outcome, f"proxy-status:{error[1]}")


def _by_presence(status: int, headers: Headers, body: bytes, *, in_clear: bool) -> Outcome | None:
    """A vendor's error header that says nothing we know still says whose answer it is."""
    names = (*_CODE_HEADERS, *_TEXT_HEADERS, *(_PLAIN_HEADERS if in_clear else ()))
    name = next((name for name in names if name in headers), None)
    # On a good status with a page below it the header is a remark, not the answer.
    if name is None or (status < 400 and body):
        return None
    return _named(connect_status(status), f"{name.lower()}:{status}")
