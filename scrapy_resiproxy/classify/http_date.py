"""Reading the dates that servers really send: RFC 9110's three forms, their misspellings and ISO 8601.

The standard library reads unknown zones as UTC, accepts the 32nd of January and pivots two-digit years at
1970, so the parsing is done here.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Final

_MONTHS: Final = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_ZONES: Final = {
    "": 0, "gmt": 0, "utc": 0, "ut": 0, "z": 0,
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
}  # fmt: skip
"""Hours east of Greenwich. CET or IST are not here: a zone we may misread is worse than none."""

_DAY: Final = r"(?P<day>\d{1,2})"
_MONTH: Final = r"(?P<month>[a-z]{3,9})"
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?"
_ZONE: Final = r"(?P<zone>[a-z]{1,5}|[+-]\d\d:?\d\d)?"
_FORMS: Final = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        # IMF-fixdate, RFC 850, and both with the weekday missing or other separators.
        rf"(?:[a-z]+,?\s*)?{_DAY}[ -]{_MONTH}[ -](?P<year>\d{{4}}|\d\d)\s+{_CLOCK}\s*{_ZONE}",
        # asctime, and `date` with its zone before the year.
        rf"(?:[a-z]+,?\s+)?{_MONTH}\s+{_DAY}\s+{_CLOCK}\s+(?:{_ZONE}\s+)?(?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[t ]{_CLOCK}\s*{_ZONE}",
    )
)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECONDS_A_YEAR: Final = 31_556_952


def parse_date(text: str, *, now: float) -> float | None:
    """Epoch seconds of the date in *text*, or ``None`` when it is not one that can be read safely.

    *now* (epoch seconds) settles two-digit years: one more than 50 years ahead is of the past century
    (RFC 9110, 5.6.7). Never raises.
    """
    for form in _FORMS:
        match = form.fullmatch(text)
        if match:
            return _seconds(match, now)
    return None


def _seconds(match: re.Match[str], now: float) -> float | None:
    year, month, day = _year(match["year"], now), _month(match["month"]), int(match["day"])
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    offset = _offset(match["zone"] or "")
    if offset is None or not (1 <= month <= 12 and 1 <= year <= 9999):
        return None
    # Second 60 is a leap second, and legal.
    if not (1 <= day <= monthrange(year, month)[1] and hour < 24 and minute < 60 and second <= 60):
        return None
    days = date(year, month, day).toordinal() - _EPOCH
    return float(days * 86_400 + hour * 3_600 + minute * 60 + second - offset)


def _year(digits: str, now: float) -> int:
    year = int(digits)
    if len(digits) == 4:
        return year
    this = 1970 + int(now // _SECONDS_A_YEAR)
    year += this - this % 100
    return year - 100 if year > this + 50 else year


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.get(text[:3].lower(), 0)


def _offset(zone: str) -> int | None:
    if zone[:1] in {"+", "-"}:
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        seconds = hours * 3_600 + minutes * 60
        return None if hours > 23 or minutes > 59 else -seconds if zone[0] == "-" else seconds
    hours_east = _ZONES.get(zone.lower())
    return None if hours_east is None else hours_east * 3_600
