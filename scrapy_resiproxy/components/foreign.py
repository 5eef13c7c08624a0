"""Tells what we wrote into a request's meta from what looks like it: meta is anybody's, and is copied by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeGuard

from scrapy_resiproxy.names import DEAD_LETTER_REASONS, META_REPLAY
from scrapy_resiproxy.outcome import Blame, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_resiproxy.components.flow import State

CLASSES: Final = frozenset(class_.value for class_ in OutcomeClass)
BLAMES: Final = frozenset(blame.value for blame in Blame)
WHEN: Final = (int, float)
NAME: Final = (str, type(None))
STATE: Final[dict[str, type | tuple[type, ...]]] = {
    "id": str,
    "first": WHEN,
    "sent": int,
    "free": int,
    "base": int,
    "log": (list, tuple),
    "prefer": NAME,
    "session": NAME,
    "avoid": NAME,
    "slot": NAME,
    "verdict": str,
    "not_before": WHEN,
}
"""What each entry of a state may be, where it matters; those that are yes or no may be anything."""
COUNTS: Final = ("sent", "free", "base")
FACTS: Final[dict[str, type | tuple[type, ...]]] = {
    "outcome": str,
    "reason": str,
    "blame": str,
    "evidence": str,
    "session": NAME,
    "error": str,
    "status": int,
    "wait": WHEN,
}
"""The same of each attempt."""
STAMP: Final[dict[str, type | tuple[type, ...]]] = {"id": str, "by": str, "count": int}


def is_state(value: Any) -> TypeGuard[State]:
    """Whether *value* can be a :class:`~scrapy_resiproxy.components.flow.State` that was carried by a request."""
    if not isinstance(value, dict) or "id" not in value:
        return False
    for key, entry in value.items():
        if not isinstance(entry, STATE.get(key, object)):
            return False
    return (
        all(value.get(key, 0) >= 0 for key in COUNTS)
        and value.get("verdict", "shutdown") in DEAD_LETTER_REASONS
        and all(map(_is_attempt, value.get("log", ())))
        # A retry that is still to be counted has been sent before.
        and ("uncounted" not in value or (bool(value.get("log")) and bool(value.get("sent"))))
    )


def _is_attempt(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    at, facts = value
    if not isinstance(at, WHEN) or not isinstance(facts, dict):
        return False
    if not all(isinstance(entry, FACTS.get(key, object)) for key, entry in facts.items()):
        return False
    return facts.get("outcome") in CLASSES and "reason" in facts and facts.get("blame", "target") in BLAMES


def stamp_of(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a replay wrote on a request that it made of a letter; None on every other request."""
    stamp = meta.get(META_REPLAY)
    if not isinstance(stamp, dict) or not all(isinstance(stamp.get(key), kind) for key, kind in STAMP.items()):
        return None
    return stamp
