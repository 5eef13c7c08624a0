"""What a forward proxy must understand of HTTP/1.1: heads, and where a body ends. It looks into no body."""

from __future__ import annotations

import math
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

HEAD_END: Final = b"\r\n\r\n"
MAX_HEAD: Final = 65536
"""Bytes of a head beyond which a message is refused."""
PIECE: Final = 65536
"""Bytes read at once."""
_BODILESS: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request line and its header lines, as they came."""

    method: str
    target: str
    version: str
    lines: tuple[str, ...]

    def header(self, name: str) -> str | None:
        """Return the value of the first header `name` (lower case), or None."""
        for line in self.lines:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None


def parse_request_head(raw: bytes) -> RequestHead:
    """Return the head in `raw`; raises ValueError when its first line is not a request line."""
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError("not an HTTP/1 request line")
    return RequestHead(words[0], words[1], words[2], tuple(lines))


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What the gateway must know of an answer to find its end."""

    status: int
    length: int | None
    chunked: bool
    closes: bool


def parse_answer_head(raw: bytes) -> AnswerHead:
    """Return the answer head in `raw`; raises ValueError when it is none."""
    first, *lines = raw.decode("latin-1").lower().split("\r\n")
    headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    version, _, rest = first.partition(" ")
    length = headers.get("content-length")
    return AnswerHead(
        status=int(rest[:3]),
        length=None if length is None else int(length),
        chunked="chunked" in headers.get("transfer-encoding", ""),
        closes=version == "http/1.0" or "close" in headers.get("connection", ""),
    )


class Body:
    """Finds the end of a body that is fed to it piece by piece."""

    def __init__(self, length: float, *, chunked: bool = False) -> None:
        self._left = length
        self._chunks = _Chunks() if chunked else None

    @classmethod
    def of_request(cls, head: RequestHead) -> Body:
        """Return the body announced by `head`; raises ValueError when the length is no number."""
        if "chunked" in (head.header("transfer-encoding") or ""):
            return cls(0, chunked=True)
        return cls(int(head.header("content-length") or 0))

    @classmethod
    def of_answer(cls, head: AnswerHead, method: str) -> Body:
        if method == "HEAD" or head.status in _BODILESS:
            return cls(0)
        if head.chunked:
            return cls(0, chunked=True)
        return cls(math.inf if head.length is None else head.length)

    @property
    def wanted(self) -> int:
        """How many bytes may be read without reading past the end, where that is known."""
        return PIECE if self._chunks else int(min(PIECE, self._left))

    @property
    def done(self) -> bool:
        return self._chunks.done if self._chunks else self._left <= 0

    def feed(self, data: bytes) -> None:
        if self._chunks:
            self._chunks.feed(data)
        else:
            self._left -= len(data)


class _Chunks:
    """Follows chunk sizes up to the last chunk and the empty line after its trailers."""

    def __init__(self) -> None:
        self.done = False
        self._line = b""
        self._skip = 0
        self._last = False

    def feed(self, data: bytes) -> None:
        while data and not self.done:
            if self._skip:
                taken = min(self._skip, len(data))
                self._skip -= taken
                data = data[taken:]
                continue
            start, newline, data = data.partition(b"\n")
            self._line += start
            if newline:
                self._end_line(self._line.strip())
                self._line = b""

    def _end_line(self, line: bytes) -> None:
        if self._last:
            self.done = not line
        else:
            size = int(line.partition(b";")[0], 16)
            self._last = size == 0
            self._skip = size + 2 if size else 0


def reset(transport: asyncio.WriteTransport) -> None:
    """End the connection with RST, throwing away what was not sent."""
    if not transport.is_closing():
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
