"""What every ready-made check is: a value that is called with a response, and whose text is its name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

_NAME: Final = 80


class Check:
    """A validator as a value: it can be compared, pickled and printed, and prints as it was written."""

    def __repr__(self) -> str:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        members = (part for value in values for part in (value if isinstance(value, tuple) else (value,)))
        return f"{type(self).__name__}({', '.join(map(_shown, members))})"


@dataclass(frozen=True, init=False, repr=False)
class CheckOfMany(Check):
    """A check that is built of any number of parts, at least one."""

    parts: tuple[Any, ...]

    def __init__(self, *parts: Any) -> None:
        if not parts:
            raise ValueError(f"{type(self).__name__}() needs at least one argument.")
        for part in parts:
            self._accept(part)
        object.__setattr__(self, "parts", parts)

    def _accept(self, part: Any) -> None:
        """Raise ValueError where *part* is of no use."""
        raise NotImplementedError


def check_name(validator: Any) -> str:
    """The short name by which *validator* is reported: at most 80 characters, on one line."""
    if isinstance(validator, Check):
        text = repr(validator)
    else:
        # A partial is named by what it calls.
        named = getattr(validator, "func", validator)
        text = getattr(named, "__qualname__", "") or type(validator).__qualname__
    return " ".join(text.rpartition("<locals>.")[2].split())[:_NAME]


def _shown(value: object) -> str:
    return check_name(value) if callable(value) else repr(value)
