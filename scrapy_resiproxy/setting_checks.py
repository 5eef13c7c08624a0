"""Checks for the values of settings: each returns the value as the code wants it, or raises ValueError with what is
allowed, so that one sentence can be made of it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from w3lib.url import safe_url_string

from scrapy_resiproxy.outcome import OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[Any], Any]


def number(low: float, high: float = math.inf, *, none: bool = False) -> Check:
    """A check for a float in [low, high]."""
    return _ranged(float, "a number", low, high, none=none)


def whole(low: float, high: float = math.inf, *, none: bool = False) -> Check:
    """A check for an integer in [low, high]."""
    return _ranged(int, "a whole number", low, high, none=none)


def _ranged(kind: type[float], what: str, low: float, high: float, *, none: bool) -> Check:
    bounds = (
        what
        if low == -math.inf
        else f"{what} of {low:g} or more"
        if high == math.inf
        else f"{what} from {low:g} to {high:g}"
    )
    allowed = f"{bounds}, or None" if none else bounds

    def check(value: Any) -> Any:
        if none and (value is None or value in {"", "None"}):
            return None
        try:
            result = kind(value)
            exact = not isinstance(value, bool) and (kind is float or float(value) == result)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(allowed) from None
        if not exact or not low <= result <= high:
            raise ValueError(allowed)
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


def text(value: Any) -> str | None:
    if value is None or (isinstance(value, (str, Path)) and str(value)):
        return None if value is None else str(value)
    raise ValueError("a non-empty string, or None")


def names(value: Any) -> tuple[Any, ...]:
    """A list, or a comma-separated string (``-s NAME=a,b``)."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError("a list")  # noqa: TRY004 - one kind of error for every wrong value
    return tuple(value)


def codes(value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(code) for code in names(value))
    except (TypeError, ValueError):
        raise ValueError("a list of HTTP status codes") from None


def paths(value: Any) -> tuple[str, ...]:
    return () if not value else (str(value),) if isinstance(value, (str, Path)) else names(value)


def mapping(value: Any) -> dict[Any, Any]:
    """A dict, or its JSON (``-s NAME='{…}'``)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if value is None or not hasattr(value, "items"):
        raise ValueError("a dict")
    return dict(value.items())


def status_classes(value: Any) -> dict[int, OutcomeClass]:
    try:
        return {int(code): OutcomeClass(word) for code, word in mapping(value).items()}
    except (TypeError, ValueError):
        words = ", ".join(repr(word.value) for word in OutcomeClass)
        raise ValueError(f"a dict of HTTP status to one of {words}") from None


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
