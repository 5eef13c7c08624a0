"""How long a server told us to wait: ``Retry-After`` in every form seen, and the headers of the same kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from scrapy_resiproxy.classify.http_date import parse_date

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_WAIT: Final = 21_600.0
"""Six hours: nothing longer is believed (the cap of curl and urllib3)."""

_MAX_LENGTH: Final = 64
_NUMBER: Final = re.compile(r"\+?(\d+(?:\.\d*)?)\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_UNITS: Final = {
    "ms": 0.001,
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
# A number this large is a moment, not a span: 1e9 s are 31 years. From 1e12 on it counts milliseconds.
_EPOCH_SECONDS: Final = 1e9
_EPOCH_MILLISECONDS: Final = 1e12
_NEVER: Final = 1e15

_MILLISECOND_HEADERS: Final = ("Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After")
_RESET_HEADERS: Final = (
    ("X-Ratelimit-Remaining", "X-Ratelimit-Reset"),
    ("Ratelimit-Remaining", "Ratelimit-Reset"),
    ("X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
)
_EXHAUSTED: Final = re.compile(r";\s*r=0+(?![\d.])", re.ASCII)
_RESET_IN: Final = re.compile(r";\s*t=(\d{1,10})(?![\d.])", re.ASCII)
_QUOTED: Final = re.compile(r'"[^"]*"')


class HeaderLists(Protocol):
    """What is needed of a response's headers: every value of a name, as ``scrapy.http.Headers`` has it."""

    def getlist(self, key: str) -> Sequence[bytes | str]: ...


def parse_retry_after(
    values: Sequence[bytes | str],
    *,
    now: float,
    date: bytes | str | None = None,
    age: bytes | str | None = None,
) -> float | None:
    """Seconds to wait by the ``Retry-After`` headers *values*: ``None``, or between 0 and :data:`MAX_WAIT`.

    The longest of several readable values counts; what cannot be read is left out, and ``None`` means that
    nothing could. *now* is the wall clock in epoch seconds. A date or an epoch counts from the response's own
    ``Date`` (*date*) and ``Age`` (*age*), where there is one, so that a wrong clock on either side changes
    nothing. A moment that has passed gives 0. Never raises.
    """
    texts = [_text(value) for value in values]
    if not texts:
        return None
    base = _base(now, date, age)
    return max((wait for text in texts for wait in _waits(text, base)), default=None)


def told_wait(headers: HeaderLists, *, now: float) -> float | None:
    """Seconds that *headers* ask us to wait: ``None``, or between 0 and :data:`MAX_WAIT`. Never raises.

    In this order: ``Retry-After``; its millisecond kin of Azure and AWS; ``RateLimit`` (IETF draft) with
    nothing remaining, unless a cache has aged the answer; ``X-RateLimit-Reset`` and its older spellings with
    nothing remaining.
    """
    date, age = _first(headers, "Date"), _first(headers, "Age")
    wait = parse_retry_after(headers.getlist("Retry-After"), now=now, date=date, age=age)
    if wait is None:
        wait = _milliseconds(headers)
    if wait is None and not _age(age):
        wait = _rate_limit(headers)
    if wait is None:
        wait = _reset(headers, _base(now, date, age))
    return wait


def _waits(text: str, base: float) -> Iterator[float]:
    if len(text) > _MAX_LENGTH:
        return
    moment = parse_date(text, now=base)
    if moment is not None:
        yield _clamp(moment - base)
        return
    for part in text.split(","):
        wait = _number(part.strip(" \t"), base)
        if wait is not None:
            yield wait


def _number(text: str, base: float) -> float | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    number, unit = float(match[1]), match[2].lower()
    if unit:
        return _clamp(number * _UNITS[unit]) if unit in _UNITS else None
    return _clamp(_span(number, base))


def _span(number: float, base: float) -> float:
    if _EPOCH_SECONDS <= number < _EPOCH_MILLISECONDS:
        return number - base
    if _EPOCH_MILLISECONDS <= number < _NEVER:
        return number / 1000 - base
    return number


def _milliseconds(headers: HeaderLists) -> float | None:
    for name in _MILLISECOND_HEADERS:
        match = _NUMBER.fullmatch(_text(_first(headers, name)))
        if match and not match[2] and len(match[1]) <= _MAX_LENGTH:
            return _clamp(float(match[1]) / 1000)
    return None


def _rate_limit(headers: HeaderLists) -> float | None:
    members = (
        member
        for value in headers.getlist("Ratelimit")
        for member in _QUOTED.sub("", _text(value)[:1000]).split(",")
        if _EXHAUSTED.search(member)
    )
    resets = (match for match in map(_RESET_IN.search, members) if match)
    return max((_clamp(float(match[1])) for match in resets), default=None)


def _reset(headers: HeaderLists, base: float) -> float | None:
    for remaining, reset in _RESET_HEADERS:
        left, when = _text(_first(headers, remaining)), _text(_first(headers, reset))
        match = _NUMBER.fullmatch(when) if len(when) <= _MAX_LENGTH else None
        if left.strip("0") == "" != left and match and not match[2] and float(match[1]) < _NEVER:
            return _clamp(_span(float(match[1]), base))
    return None


def _base(now: float, date: bytes | str | None, age: bytes | str | None) -> float:
    sent = parse_date(_text(date)[:_MAX_LENGTH], now=now)
    return now if sent is None else sent + _age(age)


def _age(age: bytes | str | None) -> int:
    text = _text(age)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def _first(headers: HeaderLists, name: str) -> bytes | str | None:
    values = headers.getlist(name)
    return values[0] if values else None


def _text(value: bytes | str | None) -> str:
    if value is None:
        return ""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    text = text.strip(" \t")
    return text[1:-1].strip(" \t") if len(text) > 1 and text[0] == text[-1] == '"' else text


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_WAIT)
