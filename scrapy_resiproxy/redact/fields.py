"""Secrets told by the name under which they are kept: in headers, queries, forms, JSON and meta."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from scrapy_resiproxy.redact.shapes import MASK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

DEFAULT_REDACT: Final = (
    "authorization",
    "proxy-authorization",
    "cookie",
    "cookies",
    "set-cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "auth-token",
    "access-token",
    "refresh-token",
    "id-token",
    "session-token",
    "token",
    "jwt",
    "session-id",
    "sessionid",
    "phpsessid",
    "jsessionid",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "client-secret",
    "private-key",
)
"""Names whose values are never stored; ``-`` and ``_`` mean the same, as do capitals.

A bare ``session`` or ``key`` is not among them: too often it is an ordinary field without which a page cannot be
asked for again.
"""


def redact_mapping(data: Any, names: Collection[str] = DEFAULT_REDACT) -> tuple[Any, list[str]]:
    """A copy of *data* (nested dicts and lists) with ``***`` for the values of *names*, and where they were.

    Places read like ``headers.Authorization`` or ``items[0].token``. A list under such a name keeps its shape;
    empty values stay.
    """
    found: list[str] = []
    return _walk(data, {_key(name) for name in names}, "", found), found


def _walk(value: Any, wanted: set[str], path: str, found: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _item(key, item, wanted, path, found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, wanted, f"{path}[{index}]", found) for index, item in enumerate(value)]
    return value


def _item(key: Any, value: Any, wanted: set[str], path: str, found: list[str]) -> Any:
    name = key.decode("latin-1") if isinstance(key, bytes) else str(key)
    path = f"{path}.{name}" if path else name
    if _key(name) not in wanted:
        return _walk(value, wanted, path, found)
    if value in (None, "", b"", [], {}) or isinstance(value, bool):
        return value
    found.append(path)
    return [MASK] * len(value) if isinstance(value, (list, tuple)) else MASK


def redact_query(url: str, names: Collection[str] = DEFAULT_REDACT) -> tuple[str, list[str]]:
    """*url* with ``***`` for the values of *names* in its query and fragment, and their names."""
    url, hash_, fragment = url.partition("#")
    base, mark, query = url.partition("?")
    query, in_query = _mask_pairs(query, names)
    fragment, in_fragment = _mask_pairs(fragment, names)
    return f"{base}{mark}{query}{hash_}{fragment}", in_query + in_fragment


def redact_form(body: bytes, names: Collection[str] = DEFAULT_REDACT) -> tuple[bytes, list[str]]:
    """A URL-encoded form with ``***`` for the values of *names*, and their names; all else byte for byte."""
    text, found = _mask_pairs(body.decode("latin-1"), names)
    return text.encode("latin-1"), found


def _mask_pairs(text: str, names: Iterable[str]) -> tuple[str, list[str]]:
    wanted, found = {_key(name) for name in names}, []
    pieces = re.split("([&;])", text)
    for index, piece in enumerate(pieces):
        raw, equals, value = piece.partition("=")
        name = unquote_plus(raw)
        if equals and value and _key(name) in wanted:
            found.append(name)
            pieces[index] = f"{raw}={MASK}"
    return "".join(pieces), found


def _key(name: str) -> str:
    """*name* as it is compared; of ``user[password]`` the innermost."""
    return name.rstrip("]").rpartition("[")[2].strip().lower().replace("_", "-")
