"""How many entries a list has by its own word: ``1-50 of 900``, ``10,001 to 10,050``, ``12 results``."""

from __future__ import annotations

import re
from typing import Final

# Thousands are grouped with a full stop, a comma, an apostrophe or a space that does not break (Unicode CLDR).
_MARKS: Final = ".,'\u2019\u00a0\u2009\u202f"
_NUMBER: Final = rf"[0-9]{{1,3}}(?:[{_MARKS}][0-9]{{3}})+(?![0-9])|[0-9]+"
# Spaces, and marks of the writing direction, which nobody sees.
_GAP: Final = r"[\s\u200b-\u200f\u2060-\u2069]*"
_TO: Final = r"[-\u2010-\u2015\u2212~\u301c\uff5e]|(?:to|bis|\u00e0|al?)\b"
_RANGE: Final = re.compile(
    rf"(?<![0-9])(?P<before>[0-9]+\ (?=[0-9]{{3}}(?![0-9])))?"
    rf"(?P<first>{_NUMBER}){_GAP}(?:{_TO}){_GAP}(?P<last>{_NUMBER})(?P<behind>[-{_MARKS}][0-9])?",
    re.IGNORECASE,
)
_COUNT: Final = re.compile(_NUMBER)
_LENGTH: Final = 4_000
"""Characters that are looked at: fewer than the digits that Python makes an integer of."""


def declared_count(text: str) -> int | None:
    """The number of entries that *text* declares; ``None`` where it declares none, or may be misread."""
    span = _RANGE.search(text, 0, _LENGTH)
    if span:
        # "10 001 - 10 004" may be grouped with plain spaces, "01-12-2026" is a date.
        is_clear = span["before"] is None and span["behind"] is None
        count = _number(span["last"]) - _number(span["first"]) + 1
        return count if is_clear and count > 0 else None
    numbers = [_number(number) for number in _COUNT.findall(text, 0, _LENGTH)]
    # "51 ile 100 / 900": a range in a language that we do not read.
    if not numbers or (len(numbers) > 2 and numbers[0] <= numbers[1] <= numbers[2]):
        return None
    return numbers[0]


def _number(digits: str) -> int:
    return int(re.sub(r"[^0-9]", "", digits))
