"""One dead letter: how it is made. :mod:`.reading` reads it back, :mod:`.rebuild` makes a request of it again.

The fields are described in ``schema.json`` beside this file. Times are ISO 8601 in UTC with a ``Z``.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.deadletter.describe import (
    Notes,
    describe_attempts,
    describe_error,
    describe_request,
    describe_response,
)
from scrapy_resiproxy.deadletter.hide import hide_values
from scrapy_resiproxy.deadletter.plain import plain_items
from scrapy_resiproxy.deadletter.reading import VERSION, LetterError, read_letter
from scrapy_resiproxy.deadletter.rebuild import to_request, to_response
from scrapy_resiproxy.deadletter.times import iso
from scrapy_resiproxy.names import META_SESSION, META_VALIDATOR
from scrapy_resiproxy.redact import DEFAULT_REDACT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scrapy import Request, Spider
    from scrapy.http import Response

__all__ = ["LetterError", "encode", "make_letter", "read_letter", "to_request", "to_response"]

COUNTING_REASONS: Final = frozenset({"terminal", "forbidden", "parse_error", "item_error", "validator_error"})
"""Faults of the page or of our code, that another replay will probably meet again. An outage is none."""


def make_letter(
    *,
    request: Request,
    spider: Spider,
    outcome_class: str,
    reason: str,
    target: str,
    key: str,
    now: float,
    first_seen: float,
    attempts: Sequence[Mapping[str, Any]],
    error: BaseException | None = None,
    said: str | None = None,
    response: Response | None = None,
    keep_page: bool = False,
    response_bytes: int = 2_000_000,
    not_before: float | None = None,
    redact: Collection[str] = (),
    spider_args: Mapping[str, Any] | None = None,
    job: str | None = None,
    project: str | None = None,
    replay: Mapping[str, Any] | None = None,
    named_session: bool = False,
    own_meta: Collection[str] = ("proxy",),
) -> dict[str, Any]:
    """The letter of *request*, a JSON-safe dict without secrets.

    *now*, *first_seen* and *not_before* are wall-clock seconds since the epoch. *redact* names what is secret
    besides the defaults. *replay* is ``meta["_resiproxy_replay"]`` of a request that was itself made from a letter.
    *said* goes in the place of what *error* says, where that are a stranger's words.
    *own_meta* names meta keys that we set and the user did not. *response_bytes* bounds the page, unpacked.
    """
    notes = Notes((*DEFAULT_REDACT, *redact))
    described = describe_request(request, spider, target, notes, own_meta)
    named = named_session or request.meta.get(META_SESSION) is not None
    why_not = obstacle(notes.dropped, notes.redacted, named_session=named)
    replay = replay or {}
    return {
        "v": VERSION,
        "id": secrets.token_hex(8),
        "time": iso(now),
        "spider": spider.name,
        "spider_args": hide_values(plain_items(spider_args or {}, "spider_args", notes.dropped), "spider_args", notes),
        "job": None if job is None else str(job),
        "project": None if project is None else str(project),
        "target": target,
        "class": str(outcome_class),
        "reason": reason,
        "replayable": why_not is None,
        "obstacle": why_not,
        "not_before": None if not_before is None else iso(not_before),
        "replay_count": int(replay.get("count", 0)) + (bool(replay) and reason in COUNTING_REASONS),
        "replay_of": replay.get("id"),
        "first_seen": replay.get("first_seen") or iso(first_seen),
        "key": key,
        "request": described,
        "response": None
        if response is None
        else describe_response(response, notes, keep_page=keep_page, limit=response_bytes),
        "error": None if error is None else describe_error(error, notes, said),
        "attempts": describe_attempts(attempts, notes),
        "dropped": sorted(set(notes.dropped)),
        "redacted": sorted(set(notes.redacted)),
    }


def obstacle(dropped: Sequence[str], redacted: Sequence[str], *, named_session: bool) -> str | None:
    """Why a request of which that was lost cannot be rebuilt, in a few words; None when it can."""
    fatal = ("request.callback", "request.errback", "request.cb_kwargs", f"request.meta.{META_VALIDATOR}")
    for path in dropped:
        if path.startswith(fatal):
            return f"dropped {path}"
    if redacted:
        return f"redacted {redacted[0]}"
    return "named session" if named_session else None


def encode(letter: Mapping[str, Any]) -> bytes:
    """One line of ASCII JSON and its newline. Raises ``ValueError`` or ``TypeError`` for what JSON cannot hold."""
    line = json.dumps(letter, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return line.encode("ascii") + b"\n"


def make_mark(letter_id: str, state: str, now: float, by: str | None = None) -> dict[str, Any]:
    """What says that a letter is ``done`` or ``superseded``; *by* names the replay or the newer letter."""
    return {"v": VERSION, "mark": letter_id, "state": state, "time": iso(now), "by": by}
