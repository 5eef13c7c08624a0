"""How behaviours are written on a command line: ``flaky:p=0.2,seed=7``, joined with ``+``."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from inspect import getdoc
from textwrap import indent
from typing import TYPE_CHECKING, Final, TypeVar, get_type_hints

from scrapy_resiproxy.lab import faults, walls
from scrapy_resiproxy.lab.behaviours import Behaviour, Chain

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

BEHAVIOURS: Final[dict[str, type[Behaviour]]] = {
    "ok": faults.Ok,
    "down": faults.Down,
    "outage": faults.Outage,
    "flaky": faults.Flaky,
    "ratelimit": walls.RateLimit,
    "softblock": walls.SoftBlock,
    "block403": walls.Block403,
    "redirect": walls.RedirectBlock,
    "emptylist": faults.EmptyList,
    "shortlist": faults.ShortList,
    "truncated": faults.Truncated,
    "drip": faults.Drip,
    "unauthorized": faults.Unauthorized,
    "missing": faults.Missing,
}
"""The word for each behaviour."""

_SWITCH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse(text: str) -> Behaviour:
    """Return the behaviour that `text` spells; raises ValueError in one line that says what is allowed."""
    parts = tuple(_parse_one(part) for part in text.split("+"))
    return parts[0] if len(parts) == 1 else Chain(parts)


def _parse_one(text: str) -> Behaviour:
    word, _, options = text.strip().partition(":")
    if word not in BEHAVIOURS:
        raise ValueError(f"unknown behaviour {word!r}: choose from {', '.join(BEHAVIOURS)}")
    pairs = [option.partition("=")[::2] for option in options.split(",")] if options else []
    return build(BEHAVIOURS[word], word, pairs)


def build(kind: type[T], word: str, pairs: Iterable[tuple[str, str]]) -> T:
    """Return the dataclass `kind` made of options as text; `word` names it in errors.

    Raises ValueError in one line that names the option and what is allowed.
    """
    types = get_type_hints(kind)
    values: dict[str, object] = {}
    for name, value in pairs:
        if name not in types:
            raise ValueError(f"{word}: unknown option {name!r}: {_names(types)}")
        values[name] = _convert(word, name, value, types[name])
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def _names(types: dict[str, type]) -> str:
    return f"choose from {', '.join(types)}" if types else "it has none"


def _convert(word: str, name: str, value: str, kind: type) -> object:
    if kind is bool:
        if value.lower() not in _SWITCH:
            raise ValueError(f"{word}: {name}={value} is not true or false")
        return _SWITCH[value.lower()]
    try:
        converted: object = kind(value)
    except ValueError:
        raise ValueError(f"{word}: {name}={value} is not {_NUMBERS[kind]}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError(f"{word}: {name}={value} is not a finite number")
    return converted


_NUMBERS: Final[dict[type, str]] = {int: "a whole number", float: "a number"}


def spell(behaviour: Behaviour) -> str:
    """Return the text that :func:`parse` turns back into `behaviour`, without options at their default."""
    if isinstance(behaviour, Chain):
        return "+".join(map(spell, behaviour.parts))
    word = next((word for word, kind in BEHAVIOURS.items() if kind is type(behaviour)), None)
    if word is None:
        raise ValueError(f"{type(behaviour).__name__} has no word: choose from {', '.join(BEHAVIOURS)}")
    changed = [
        f"{field.name}={_spell_value(getattr(behaviour, field.name))}"
        for field in fields(behaviour)
        if getattr(behaviour, field.name) != field.default
    ]
    return f"{word}:{','.join(changed)}" if changed else word


def _spell_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # The sign of 1e+22 would be read as the joint between two behaviours.
    return str(value).replace("e+", "e")


def describe() -> str:
    """Return the help text: each word with its options, their defaults, and what it does."""
    lines = []
    for word, kind in BEHAVIOURS.items():
        options = ",".join(
            f"{field.name}={_spell_value(field.default)}" for field in fields(kind) if field.default is not MISSING
        )
        text = indent(getdoc(kind) or "", "      ")
        lines += [f"  {word}{':' if options else ''}{options}", text]
    return "\n".join(lines)
