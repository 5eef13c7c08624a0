"""A look at the head of each response, before the HTTP parser sees it."""

from __future__ import annotations

import re
from typing import Final

_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_INTERIM: Final = re.compile(rb"HTTP/\d+(?:\.\d+)? +1(?!01)\d\d(?!\d)")
_CLOSE: Final = re.compile(rb"\nConnection:[^\n]*\bclose\b", re.IGNORECASE)
_KEEP: Final = re.compile(rb"\nConnection:[^\n]*\bkeep-alive\b", re.IGNORECASE)
_TOLD: Final = re.compile(rb"\nKeep-Alive:[^\n]*\btimeout=(\d{1,6})\b", re.IGNORECASE)
_MAX_HEAD: Final = 65_536


class ResponseHeads:
    """Bytes of a connection in, the same bytes out, but for header lines that the parser would choke on.

    A header line without a colon is left out, as browsers do. Each head is held back until it is complete (or longer
    than 64 kB), so that it can be read; bodies pass at once.
    """

    def __init__(self) -> None:
        self.expecting = False
        """True between a request and the end of its answer's head."""
        self.persistent = True
        """False once the origin has said that it will close."""
        self.idle_timeout: float | None = None
        """Seconds that the origin promises to keep an idle connection, where it says so."""
        self._buffer = bytearray()

    def expect(self) -> None:
        """A request is about to be sent: what comes next is a head."""
        self.expecting = True

    def feed(self, data: bytes) -> bytes:
        """Return what the parser may see of *data* and of what was held back."""
        if not self.expecting:
            return data
        searched = max(0, len(self._buffer) - 2)
        self._buffer += data
        out = b""
        while self.expecting:
            end = _END_OF_HEAD.search(self._buffer, searched)
            if end is None:
                self.expecting = len(self._buffer) <= _MAX_HEAD
                break
            head, searched = bytes(self._buffer[: end.end()]), 0
            del self._buffer[: end.end()]
            self.expecting = _INTERIM.match(head) is not None
            out += self._read(head)
        return out if self.expecting else out + self.rest()

    def rest(self) -> bytes:
        """Give up what is held back: the connection is lost, or this is no head."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _read(self, head: bytes) -> bytes:
        if _CLOSE.search(head) or (head.startswith(b"HTTP/1.0") and not _KEEP.search(head)):
            self.persistent = False
        told = _TOLD.search(head)
        if told:
            self.idle_timeout = float(told[1])
        return _without_bad_lines(head)


def _without_bad_lines(head: bytes) -> bytes:
    status, *lines = head.splitlines(keepends=True)
    fields: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and fields:
            fields[-1] += line
        else:
            fields.append(line)
    return status + b"".join(f for f in fields if b":" in f or not f.strip())
