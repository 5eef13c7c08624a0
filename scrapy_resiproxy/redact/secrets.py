"""Secrets that were registered, found again in any form that libraries write them in."""

from __future__ import annotations

import base64
import json
import re
from typing import Final
from urllib.parse import quote

from scrapy_resiproxy.redact.shapes import MASK

SHORTEST: Final = 4
"""Characters of a secret at least; shorter ones stand in too many words."""

LONG_PIECE: Final = 6
"""Characters of a piece of a secret at least."""

_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


class Secrets:
    """Secrets to be found in any text, in the forms in which libraries write them. Holds the *limit* newest."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._known: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._plain: tuple[str, ...] = ()
        self._encoded: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._known)

    def register(self, text: str) -> None:
        """Remember *text*, a password for instance; fewer than four characters are no secret.

        Found again: as it is, percent-encoded, escaped as in ``repr`` or JSON, and inside any Basic token.
        """
        if len(text) < SHORTEST:
            return
        self._known.pop(text, None)
        self._known[text] = (_plain_forms(text), _base64_forms(text))
        while len(self._known) > self._limit:
            del self._known[next(iter(self._known))]
        plain = {form for forms, _ in self._known.values() for form in forms}
        self._plain = tuple(sorted(plain, key=len, reverse=True))
        self._encoded = tuple({form for _, forms in self._known.values() for form in forms})

    def scrub(self, text: str) -> str:
        """*text* with ``***`` for every secret; the same object when there is none."""
        for form in self._plain:
            if form in text:
                text = text.replace(form, MASK)
        for form in self._encoded:
            if form in text:
                text = _mask_base64(text, form)
        return text

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._plain = self._encoded = ()


SECRETS: Final = Secrets()
"""The secrets of this process."""


def _plain_forms(text: str) -> tuple[str, ...]:
    # A password that is no longer percent-encoded cuts a URL in pieces, and errors show a piece ("Invalid port: …").
    pieces = [piece for piece in re.split("[/?#@:]", text) if len(piece) >= LONG_PIECE]
    percent = [quote(text, safe=safe, errors="replace") for safe in ("", "/", "!$&'()*+,;=", "!$&'()*+,;=:")]
    lower = [re.sub("%..", lambda escape: escape[0].lower(), form) for form in percent]
    return tuple({text, *pieces, *percent, *lower, repr(text)[1:-1], json.dumps(text)[1:-1]})


def _base64_forms(text: str) -> tuple[str, ...]:
    """What all base64 texts have in common in which *text* stands, wherever it begins: three cases."""
    forms = set()
    for encoding in ("utf-8", "latin-1"):
        raw = text.encode(encoding, "replace")
        for offset, skip in enumerate((0, 2, 3)):
            whole = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
            form = whole[skip : len(whole) - bool((offset + len(raw)) % 3)]
            forms |= {form, form.replace("+", "-").replace("/", "_")}
    return tuple(form for form in forms if len(form) > SHORTEST)


def _mask_base64(text: str, form: str) -> str:
    """*text* with every run of base64 characters masked in which *form* stands."""
    pieces, done = [], 0
    while (start := text.find(form, done)) >= 0:
        end = start + len(form)
        while start > done and text[start - 1] in _BASE64:
            start -= 1
        while end < len(text) and (text[end] in _BASE64 or text[end] == "="):
            end += 1
        pieces += [text[done:start], MASK]
        done = end
    return "".join([*pieces, text[done:]])
