"""Checks for the values of settings: each returns the value as the code wants it, or raises ValueError with what is
allowed, so that one sentence can be made of it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from w3lib.url import safe_url_string

from scrapy_resiproxy.outcome import OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[Any], Any]

MOST: Final = 10**19
"""No number is larger: infinity and what overflows is no span of time and no count."""


def number(low: float, high: float = MOST, *, none: bool = False) -> Check:
    """A check for a float in [low, high]."""
    return _ranged(float, "a number", low, high, none=none)


def whole(low: float, high: float = MOST, *, none: bool = False) -> Check:
    """A check for an integer in [low, high]."""
    return _ranged(_integer, "a whole number", low, high, none=none)


def _integer(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    return int(value)


def _ranged(kind: Callable[[Any], float], what: str, low: float, high: float, *, none: bool) -> Check:
    from_to = f"{what} from {low:g} to {high:g}"
    bounds = what if low == -math.inf else f"{what} of {low:g} or more" if high >= MOST else from_to

    def check(value: Any) -> Any:
        if none and (value is None or (isinstance(value, str) and value in {"", "None"})):
            return None
        result = math.nan
        with suppress(TypeError, ValueError, OverflowError):
            result = math.nan if isinstance(value, bool) else kind(value)
        if not low <= result <= high:
            said = from_to if result > high else bounds
            raise ValueError(f"{said}, or None" if none else said)
        return result

    return check


def flag(value: Any) -> bool:
    """A check for a boolean, with the spellings that Scrapy's ``getbool`` takes."""
    spellings = {True: True, False: False, "1": True, "0": False}
    spellings |= {"True": True, "true": True, "False": False, "false": False}
    try:
        return spellings[value]
    except (KeyError, TypeError):
        raise ValueError("True or False") from None


def log_level(value: Any) -> str | int:
    """The name of a level, or its number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    levels = logging.getLevelNamesMapping()
    if not isinstance(value, str) or value not in levels:
        raise ValueError(f"one of {', '.join(levels)}, or a whole number")
    return value


def one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(" or ".join(repr(word) for word in words))
        return str(value)

    return check


def is_text(value: Any) -> bool:
    """Whether *value* is a string that says something, and can be shown on one line."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def text(value: Any) -> str | None:
    """A string, or None; on the command line (``-s NAME=None``) too."""
    value = str(value) if isinstance(value, Path) else value
    if value is None or value == "None":
        return None
    if not is_text(value):
        raise ValueError("a non-empty, printable string, or None")
    return str(value)


def path(value: Any) -> str:
    """The path of a file."""
    if not isinstance(value, (str, Path)) or not is_text(str(value)):
        raise ValueError("a path")
    return str(value)


def feed_path(value: Any) -> str:
    """The path of the dead-letter feed, which has a switch of its own: no ``None``, from the command line neither."""
    try:
        return path(None if value == "None" else value)
    except ValueError as error:
        raise ValueError(f"{error} (RESIPROXY_DEADLETTER_ENABLED = False is for no feed at all)") from None


def url_path(value: Any) -> str | None:
    """What a request line may hold as its target, or None."""
    if value is None or value == "None":
        return None
    if not isinstance(value, str) or not re.fullmatch(r"/[!-~]*", value):
        raise ValueError("a path that begins with '/', in ASCII and without spaces, or None")
    return value


def many(value: Any) -> tuple[Any, ...]:
    """A list, or a comma-separated string (``-s NAME=a,b``)."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError("a list")  # noqa: TRY004 - one kind of error for every wrong value
    return tuple(value)


def names(value: Any) -> tuple[str, ...]:
    """A list of strings."""
    return _all_of(value, is_text, "a list of names")


def dotted_names(value: Any) -> tuple[str, ...]:
    """A list of such names as Python's modules and classes have."""
    return _all_of(value, _is_dotted, "a list of dotted names, such as 'package.ErrorClass'")


def exceptions(value: Any) -> tuple[Any, ...]:
    """A list of exceptions, each by its dotted name or as a class."""
    return _all_of(value, _is_exception, "a list of dotted names or exception classes")


def texts(value: Any) -> tuple[str, ...]:
    """A list of strings. They may hold commas, so no string stands for a list; an empty one would be everywhere."""
    allowed = "a list of texts that are not empty"
    if isinstance(value, str):
        raise ValueError(allowed)  # noqa: TRY004
    return _all_of(() if value is None else value, lambda each: isinstance(each, str) and bool(each.strip()), allowed)


def _all_of(value: Any, fits: Callable[[Any], bool], allowed: str) -> tuple[Any, ...]:
    with suppress(ValueError):
        found = many(value)
        if all(map(fits, found)):
            return found
    raise ValueError(allowed)


def _is_dotted(value: Any) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _is_exception(value: Any) -> bool:
    return _is_dotted(value) or (isinstance(value, type) and issubclass(value, BaseException))


status: Final = whole(100, 999)
"""The check for one HTTP status; some servers use such as no standard knows."""


def codes(value: Any) -> tuple[int, ...]:
    try:
        return tuple(status(code) for code in many(value))
    except ValueError:
        raise ValueError("a list of HTTP status codes, each from 100 to 999") from None


def paths(value: Any) -> tuple[str, ...]:
    """The path of a file, or a list of them."""
    if value is None or value == "":
        return ()
    try:
        return tuple(path(each) for each in ([value] if isinstance(value, (str, Path)) else many(value)))
    except ValueError:
        raise ValueError("a path, or a list of paths") from None


def mapping(value: Any) -> dict[Any, Any]:
    """A dict, or its JSON (``-s NAME='{…}'``)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise ValueError("a dict")  # noqa: TRY004
    return dict(value)


def status_classes(value: Any) -> dict[int, OutcomeClass]:
    try:
        return {status(code): OutcomeClass(word) for code, word in mapping(value).items()}
    except ValueError:
        words = ", ".join(repr(word.value) for word in OutcomeClass)
        raise ValueError(f"a dict of HTTP status (100 to 999) to one of {words}") from None


HOST = "a host name or an IP address, without scheme, port and path, or '*' for every other host"
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")


def host(value: Any) -> str:
    """A host as URLs name it: lower case, without a dot at its end, IDNA as Scrapy spells it; or ``*``."""
    if value == "*":
        return "*"
    address = ipv6(value) if isinstance(value, str) else None
    if address is not None:
        return address
    if not isinstance(value, str) or re.search(r"[\s/?#@:\\\[\]%]", value):
        raise ValueError(HOST)
    try:
        name = plain_host(urlsplit(safe_url_string(f"http://{value}/")).hostname or "")
    except ValueError:  # No IDNA can be made of it.
        name = ""
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(HOST)
    return name


def ipv6(text: str) -> str | None:
    """The shortest form of an IPv6 address, with brackets or without; None for what is none."""
    try:
        return IPv6Address(text[1:-1] if text[:1] == "[" and text[-1] == "]" else text).compressed
    except ValueError:
        return None


def plain_host(hostname: str) -> str:
    """*hostname*, which came out of a URL, in the one form in which targets are named."""
    if ":" in hostname:
        return ipv6(hostname) or hostname
    return hostname.removesuffix(".")


PROXIES = "a proxy URL, a template, a list of URLs or the path of a file"
LIST_SUFFIXES = frozenset({".cfg", ".conf", ".csv", ".ini", ".json", ".list", ".lst", ".tsv", ".txt"})
_HOST_AND_PORT = re.compile(r"(?:^(?://)?|@)(?:\[[^\]]*\]|[^/\\:@]+):(?:\d|\{port)")


def proxies(value: Any) -> str | tuple[str, ...] | None:
    """A URL or template, a list of them, or the path of a file with one per line."""
    if value is None or value == "":
        return None
    if isinstance(value, (list, tuple)) and value and all(isinstance(line, str) for line in value):
        return tuple(value)
    if not isinstance(value, (str, Path)):
        raise ValueError(PROXIES)  # noqa: TRY004
    if "://" not in str(value) and _is_file(Path(value)):
        return _lines(Path(value))
    if isinstance(value, Path) or _looks_like_a_path(value):
        raise ValueError(f"{PROXIES}; it looks like a path, and there is no such file (looked for in {Path.cwd()})")
    return value


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # Too long for a name, and the error would show it.
        return False


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise ValueError(f"{PROXIES}, a file in UTF-8") from None
    except OSError as error:
        raise ValueError(f"{PROXIES}, and this file cannot be read: {error.strerror}") from None


def _looks_like_a_path(text: str) -> bool:
    if "://" in text or _HOST_AND_PORT.search(text):
        return False
    return Path(text).suffix.lower() in LIST_SUFFIXES or "/" in text or os.sep in text or ":" not in text
