"""Reads a feed back. It may come from anywhere: every field that we use is checked, and none is trusted."""

from __future__ import annotations

import base64
import codecs
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.deadletter.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION: Final = 1
MARK_STATES: Final = ("done", "superseded")


class LetterError(ValueError):
    """A line that is no letter; the message is one line that names the field and what is allowed."""


def _is_time(value: Any) -> bool:
    try:
        parse_time(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value.encode("ascii"), validate=True)
    except (AttributeError, ValueError):
        return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_printable(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_name(value: Any) -> bool:
    return _is_printable(value) and value != ""


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_method(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z-]+", value) is not None


def _is_url(value: Any) -> bool:
    return _is_printable(value) and value.lower().startswith(("http://", "https://"))


def _is_headers(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_texts(values) and _latin1([name, *values]) for name, values in value.items()
    )


def _latin1(values: list[str]) -> bool:
    return all(ord(char) < 256 for value in values for char in value)


def _or_null(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


Shape = dict[str, tuple["Callable[[Any], bool]", str]]

NAME = (_is_name, "a non-empty string of printable characters")
URL = (_is_url, "an http or https URL")
TIME = (_is_time, "an ISO 8601 time")
OPTIONAL_TEXT = (_or_null(_is_text), "a string or null")
DICT = (_is_dict, "an object")
TEXTS = (_is_texts, "a list of strings")
HEADERS = (_is_headers, "an object of lists of latin-1 strings")

LETTER: Final[Shape] = {
    "id": NAME,
    "time": TIME,
    "spider": NAME,
    "spider_args": DICT,
    "target": (_is_printable, "a string of printable characters"),
    "class": NAME,
    "reason": NAME,
    "replayable": (lambda value: isinstance(value, bool), "true or false"),
    "not_before": (_or_null(_is_time), "an ISO 8601 time or null"),
    "replay_count": (_is_count, "a whole number of 0 or more"),
    "replay_of": OPTIONAL_TEXT,
    "first_seen": TIME,
    "key": NAME,
    "request": DICT,
    "response": (_or_null(_is_dict), "an object or null"),
    "dropped": TEXTS,
    "redacted": TEXTS,
}
REQUEST: Final[Shape] = {
    "url": URL,
    "method": (_is_method, "an HTTP method"),
    "headers": HEADERS,
    "body": (_or_null(_is_base64), "base64 or null"),
    "callback": OPTIONAL_TEXT,
    "errback": OPTIONAL_TEXT,
    "cb_kwargs": DICT,
    "meta": DICT,
    "priority": (_is_int, "a whole number"),
    "flags": TEXTS,
    "_class": (_is_text, "a string"),
}
RESPONSE: Final[Shape] = {
    "url": URL,
    "status": (_is_int, "a whole number"),
    "page": (_or_null(_is_dict), "an object or null"),
}
PAGE: Final[Shape] = {"headers": HEADERS, "body": (_is_base64, "base64")}
MARK: Final[Shape] = {
    "mark": NAME,
    "state": (lambda value: value in MARK_STATES, " or ".join(MARK_STATES)),
}


def _check(data: dict[str, Any], shape: Shape, path: str = "") -> None:
    for name, (is_right, allowed) in shape.items():
        if name not in data:
            raise LetterError(f"{path}{name} is missing; it must be {allowed}")
        if not is_right(data[name]):
            raise LetterError(f"{path}{name} is {_shown(data[name])}; it must be {allowed}")


def _shown(value: Any) -> str:
    """A value short enough for a log line, and never more of a text than shows what kind it is."""
    return ascii(value) if value is None or isinstance(value, (bool, int, float)) else type(value).__name__


def _no_constant(name: str) -> Any:
    raise LetterError(f"{name} is not JSON")


def read_line(line: bytes) -> dict[str, Any]:
    """A letter or a mark (it has the field ``mark``), checked. Raises :class:`LetterError`."""
    try:
        data = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except LetterError:
        raise
    except (ValueError, RecursionError) as error:
        raise LetterError(f"not JSON: {_reason(error)}") from None
    if not isinstance(data, dict):
        raise LetterError(f"{_shown(data)}; it must be an object")
    if not _is_int(data.get("v")) or not 1 <= data["v"] <= VERSION:
        raise LetterError(f"v is {_shown(data.get('v'))}; it must be {VERSION}")
    if "mark" in data:
        _check(data, MARK)
    else:
        _check_letter(data)
    return data


def _reason(error: BaseException) -> str:
    """What JSON's parser says, without the text that it was given."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deep or a number too long"


def _check_letter(data: dict[str, Any]) -> None:
    _check(data, LETTER)
    _check(data["request"], REQUEST, "request.")
    if data["response"] is not None:
        _check(data["response"], RESPONSE, "response.")
        if data["response"]["page"] is not None:
            _check(data["response"]["page"], PAGE, "response.page.")


def read_letter(line: bytes) -> dict[str, Any]:
    """The letter that *line* holds. Raises :class:`LetterError`, one line, for anything else."""
    data = read_line(line)
    if "mark" in data:
        raise LetterError("a mark, not a letter")
    return data


def read_lines(path: str | Path, upto: int | None = None) -> Iterator[tuple[int, int, bytes]]:
    """Number (from 1), offset and bytes of every line of *path* that is not blank, without the blanks round it.

    Lines end at a newline byte alone; reading stops at offset *upto*. Raises ``OSError``.
    """
    offset = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if upto is not None and offset >= upto:
                return
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
            if text:
                yield number, offset + line.index(text), text
            offset += len(line)


def read_feed(
    path: str | Path,
    *,
    upto: int | None = None,
    problem: Callable[[int, str], None] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and content of every letter and mark of *path*, in the order of the file.

    A line that is neither is passed over, and *problem* is called with its number and what is wrong with it.
    """
    for number, _, line in read_lines(path, upto):
        try:
            data = read_line(line)
        except LetterError as error:
            if problem is not None:
                problem(number, str(error))
        else:
            yield number, data
