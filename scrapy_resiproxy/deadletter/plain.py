"""What of a value JSON can hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEPTH_MAX: Final = 100
INT_BITS_MAX: Final = 1024
"""Python refuses to read integers of more than 4,300 digits back, JSON readers elsewhere far fewer."""


class NotPlainError(TypeError):
    """Raised for a value that would not come back from JSON as it was."""


def plain(value: Any, depth: int = 0) -> Any:
    """*value* out of str, int, finite float, bool, None, lists and dicts alone.

    Tuples become lists and integer keys strings. Raises :class:`NotPlainError` for anything else, cycles too.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if depth < DEPTH_MAX:
        if isinstance(value, (list, tuple)):
            return [plain(entry, depth + 1) for entry in value]
        if isinstance(value, dict):
            return {_key(key): plain(entry, depth + 1) for key, entry in value.items()}
    raise NotPlainError(type(value).__name__)


def _number(value: float) -> float:
    if isinstance(value, int):
        if value.bit_length() <= INT_BITS_MAX:
            return int(value)
    elif math.isfinite(value):
        return float(value)
    raise NotPlainError(f"a number that JSON does not hold: {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    raise NotPlainError(f"a key of type {type(key).__name__}")


def plain_items(data: Mapping[Any, Any], path: str, dropped: list[str]) -> dict[str, Any]:
    """The plain items of *data*; the path of each other one is added to *dropped*."""
    kept = {}
    for key, value in data.items():
        try:
            kept[_key(key)] = plain(value)
        except NotPlainError:
            dropped.append(f"{path}.{key}")
    return kept
