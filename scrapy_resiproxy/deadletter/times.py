"""Dates as the feed spells them: ISO 8601 in UTC with a ``Z``, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float) -> str:
    """*seconds* since the epoch as ``2026-01-31T12:00:00.000000Z``."""
    text = datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00") + "Z"


def parse_time(text: str) -> float:
    """Seconds since the epoch of any ISO 8601 date or time; one without a zone is in UTC.

    Raises ``ValueError``.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
