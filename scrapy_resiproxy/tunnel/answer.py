"""Reading a proxy's answer to CONNECT: bytes in, one :class:`Answer` out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, cast

MAX_HEAD: Final = 65_536
"""Bytes of answer, interim answers included, after which we stop listening."""

_MAGIC: Final = b"HTTP/"
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_STATUS_LINE: Final = re.compile(rb"HTTP/\d+(?:\.\d+)?[ \t]+(\d{3})(?!\d)[ \t]*([^\r\n]*)")


class BadAnswer(ValueError):  # noqa: N818
    """What came is no answer: ``reason`` is ``garbage`` or ``head_too_long``, ``status`` may be known."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer to a CONNECT."""

    status: int
    phrase: str
    """As long as it came, without control characters."""
    headers: list[tuple[bytes, bytes]]
    rest: bytes
    """What came after the head: the origin's first bytes, or the body of a refusal."""

    @property
    def granted(self) -> bool:
        """True for any 2xx; what its Content-Length says has no meaning then (RFC 9110, section 9.3.6)."""
        return 200 <= self.status < 300


class AnswerParser:
    """Takes the bytes of an answer as they come, in pieces of any size.

    Tolerant where proxies are sloppy: any HTTP version, a missing reason phrase, bare LF line ends, blank
    lines before the status line, interim 1xx answers (skipped; 101 is none). Strict where waiting cannot
    help: a first byte that cannot begin a status line, or more than *limit* bytes, raises
    :class:`BadAnswer` at once.
    """

    def __init__(self, limit: int = MAX_HEAD) -> None:
        self._limit = limit
        self._seen = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Answer | None:
        """Return the answer once it is complete, None before."""
        searched = max(0, len(self._buffer) - 2)
        self._buffer += data
        while True:
            self._skip_blank_lines()
            self._refuse_garbage()
            end = _END_OF_HEAD.search(self._buffer, searched)
            if end is None or self._seen + end.end() > self._limit:
                break
            answer = self._cut(end.end())
            if not 100 <= answer.status < 200 or answer.status == 101:
                return answer
            searched = 0
        if self._seen + len(self._buffer) > self._limit:
            raise BadAnswer("head_too_long", self.status)
        return None

    @property
    def status(self) -> int | None:
        """The status of the head being read, None while its first line has not come."""
        match = _STATUS_LINE.match(self._buffer)
        return int(match[1]) if match and b"\n" in self._buffer else None

    def _skip_blank_lines(self) -> None:
        if self._buffer.startswith((b"\r", b"\n")):
            stripped = self._buffer.lstrip(b"\r\n")
            self._seen += len(self._buffer) - len(stripped)
            self._buffer = stripped

    def _refuse_garbage(self) -> None:
        if not _MAGIC.startswith(bytes(self._buffer[: len(_MAGIC)])):
            raise BadAnswer("garbage")
        if b"\n" in self._buffer and self.status is None:
            raise BadAnswer("garbage")

    def _cut(self, size: int) -> Answer:
        head = bytes(self._buffer[:size])
        self._seen += size
        del self._buffer[:size]
        match = cast("re.Match[bytes]", _STATUS_LINE.match(head))
        return Answer(int(match[1]), _phrase(match[2]), _headers(head), bytes(self._buffer))


def _phrase(raw: bytes) -> str:
    return "".join(c if c.isprintable() else " " for c in raw.decode("latin-1")).strip()


def _headers(head: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for line in head.splitlines()[1:]:
        if line[:1] in (b" ", b"\t") and found:
            name, value = found[-1]
            found[-1] = (name, value + b" " + line.strip())
        elif b":" in line:
            name, _, value = line.partition(b":")
            found.append((name.strip(), value.strip()))
    return found
