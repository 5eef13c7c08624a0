"""What a wall can be told by, read off a page's bytes: its title, its visible text, its form fields.

On bytes, because markers are ASCII and a guessed charset must not hide one; bounded, because it runs on every
page.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

SCAN: Final = 65_536
"""Bytes that are ever looked at: walls inline their CSS before the title."""
HEAD: Final = 4_096
"""Bytes of a large good page in which a wall would have shown itself."""
SMALL: Final = 8_192
"""Up to this length a page may be a stub."""

_TITLE_LENGTH: Final = 300
_UNSEEN: Final = re.compile(
    rb"<!--.*?-->|<(script|style|noscript|template|title|svg)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL
)
_FIELD: Final = re.compile(
    rb"<(?:textarea|select)\b|<input\b(?![^>]*\btype\s*=\s*[\"']?(?:hidden|submit|button|image|checkbox)\b)",
    re.IGNORECASE,
)
_SCRIPT: Final = re.compile(rb"<script\b", re.IGNORECASE)


def title_of(body: bytes) -> bytes:
    """The page's title, stripped, entities resolved, lower case; empty when there is none near the start."""
    start = body.find(b"<title", 0, SCAN)
    if start < 0:
        start = body.find(b"<TITLE", 0, SCAN)
    opened = body.find(b">", start, start + _TITLE_LENGTH) if start >= 0 else -1
    if opened < 0:
        return b""
    closed = body.find(b"<", opened, opened + _TITLE_LENGTH)
    title = body[opened + 1 : closed if closed >= 0 else opened + _TITLE_LENGTH].strip()
    if b"&" in title:
        title = unescape(title.decode("latin-1")).encode("latin-1", "replace")
    return title.lower()


def is_stub(body: bytes, *, text: int = 300) -> bool:
    """Whether a page is small, shows fewer than *text* bytes to a reader and asks for nothing but a click."""
    if len(body) > SMALL or _FIELD.search(body):
        return False
    return len(b" ".join(_UNSEEN.sub(b" ", body).split())) < text


def scripts_in(body: bytes) -> int:
    """How many script elements the first bytes of a page hold."""
    return len(_SCRIPT.findall(body, 0, SMALL))
