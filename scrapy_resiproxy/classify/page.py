"""What a wall can be told by, read off a page's bytes: its title, its visible text, its form fields.

On bytes, because markers are ASCII and a guessed charset must not hide one; bounded, because it runs on every
page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SCAN: Final = 65_536
"""Bytes that are ever looked at: walls inline their CSS before the title."""
HEAD: Final = 4_096
"""Bytes of a large good page in which a wall would have shown itself."""
SMALL: Final = 8_192
"""Up to this length a page may be a stub."""
UNSEEN: Final = frozenset({b"script", b"style", b"noscript", b"template", b"title"})
"""Elements whose insides are no part of what a reader sees."""

_TITLE_LENGTH: Final = 300
_WIDE: Final = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    **{bytes((character, 0)): "utf-16-le" for character in range(1, 128)},
    **{bytes((0, character)): "utf-16-be" for character in range(1, 128)},
}
"""How a page begins that is in UTF-16: with a byte order mark, or with an ASCII character, such as "<"."""
_NAME: Final = re.compile(rb"[a-z][a-z0-9]*")
_CLICKED: Final = re.compile(rb"\btype\s*=\s*[\"']?(?:hidden|submit|button|image|checkbox)\b")


@dataclass(frozen=True, slots=True)
class Survey:
    """What a reader sees of a page."""

    text: int
    """Bytes of visible text, white space counted once."""
    asks: bool
    """Whether there is a field to fill in."""
    scripts: int


def narrow(body: bytes) -> bytes:
    """*body* itself or, of one in UTF-16, its start in UTF-8: markers are ASCII."""
    start = body[:2]
    return body[: 2 * SCAN].decode(_WIDE[start], "replace").encode("utf-8", "replace") if start in _WIDE else body


def title_of(body: bytes) -> bytes:
    """The page's title, stripped, entities resolved, lower case; empty when there is none near the start."""
    start = body.find(b"<title", 0, SCAN)
    if start < 0:
        start = max(body.find(b"<TITLE", 0, SCAN), body.find(b"<Title", 0, SCAN))
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
    if len(body) > SMALL:
        return False
    seen = survey(body)
    return seen.text < text and not seen.asks


def survey(body: bytes) -> Survey:
    """What the first :data:`SMALL` bytes of a page hold, in one pass whose cost no page can drive up."""
    texts: list[bytes] = []
    asks, scripts = False, 0
    for text, tag, markup in pieces(body):
        texts += text.split()
        scripts += tag == b"script"
        asks = asks or _asks(tag, markup)
    return Survey(len(b" ".join(texts)), asks, scripts)


def pieces(body: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The first :data:`SMALL` bytes of a page in lower case, piece by piece: text, and the tag that follows it.

    Of a tag there are its name and its markup: a whole element where that is unseen, and no name where it is a
    comment or closes an element.
    """
    page = body[:SMALL].lower()
    at = 0
    while at < len(page):
        opened = page.find(b"<", at)
        if opened < 0:
            yield page[at:], b"", b""
            return
        name = _NAME.match(page, opened + 1)
        tag = name[0] if name else b""
        closed = _end(page, opened, tag)
        yield page[at:opened], tag, page[opened:closed]
        at = closed


def _end(page: bytes, opened: int, tag: bytes) -> int:
    """Where what begins at *opened* ends: a comment, an element that is not seen, or a tag."""
    if page.startswith(b"<!--", opened):
        end = page.find(b"-->", opened)
        end = end + 2 if end >= 0 else -1
    elif tag in UNSEEN:
        end = page.find(b"</" + tag, opened)
        end = page.find(b">", end) if end >= 0 else -1
    else:
        end = page.find(b">", opened)
    return end + 1 if end >= 0 else len(page)


def _asks(tag: bytes, text: bytes) -> bool:
    return tag in {b"textarea", b"select"} or (tag == b"input" and not _CLICKED.search(text))
