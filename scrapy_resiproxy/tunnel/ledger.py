"""A line for every tunnel: when, how long, how many bytes for what, who ended it and why. A rotated TSV file."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_resiproxy.tunnel.connection import Tunnel

MAX_BYTES: Final = 10_000_000
KEPT: Final = 5
"""Files kept beside the one that is written: ``ledger.tsv.1`` is the youngest of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One tunnel. Bytes are TCP payload; a row holds no credential."""

    opened: str
    """UTC, ISO 8601; the moment the TLS handshake was done."""
    closed: str
    seconds: float
    bytes_up: int
    bytes_down: int
    handshake_bytes: int
    """Of both directions, CONNECT and TLS together."""
    payload_bytes: int
    """Requests and responses as TLS carried them, without pings."""
    ping_bytes: int
    requests: int
    pings: int
    resumed: int
    """1 when TLS was resumed."""
    closed_by: str
    """``us``, ``origin`` (it ended TLS or said that it would close) or ``peer`` (proxy or origin: no telling)."""
    reason: str
    proxy: str
    session: str
    origin: str

    @classmethod
    def of(cls, tunnel: Tunnel, now: float, wall: float) -> Row:
        """The row of a tunnel that is gone at *now* on the reactor's clock, at *wall* in epoch seconds."""
        lasted = now - (now if tunnel.opened is None else tunnel.opened)
        return cls(
            opened=_iso(wall - lasted),
            closed=_iso(wall),
            seconds=round(lasted, 3),
            bytes_up=tunnel.traffic.up,
            bytes_down=tunnel.traffic.down,
            handshake_bytes=tunnel.handshake_bytes,
            payload_bytes=tunnel.payload_bytes,
            ping_bytes=tunnel.ping_bytes,
            requests=tunnel.requests,
            pings=tunnel.pings,
            resumed=int(tunnel.tls.resumed),
            closed_by=tunnel.closed_by,
            reason=tunnel.close_reason or "",
            proxy=tunnel.key.proxy,
            session=tunnel.key.session,
            origin=tunnel.key.origin,
        )

    def line(self) -> str:
        values = (str(getattr(self, name)) for name in COLUMNS)
        return "\t".join(" ".join(value.split()) for value in values) + "\n"

    @classmethod
    def parse(cls, line: str) -> Row:
        """Raises ``ValueError`` for what is no row."""
        values = line.rstrip("\n").split("\t")
        if len(values) != len(COLUMNS):
            raise ValueError(f"{len(values)} fields instead of {len(COLUMNS)}")
        return cls(**{name: _TYPES[name](value) for name, value in zip(COLUMNS, values, strict=True)})


COLUMNS: Final = tuple(field.name for field in fields(Row))
_TYPES: Final = get_type_hints(Row)
_HEADER: Final = "\t".join(COLUMNS) + "\n"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


class Ledger:
    """Appends rows to *path*, readable for the owner alone, and starts a new file at *max_bytes*.

    Raises ``OSError`` where the path cannot be written.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()

    def _open(self) -> IO[str]:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        file = os.fdopen(descriptor, "a", encoding="utf-8")
        if file.tell() == 0:
            file.write(_HEADER)
            file.flush()
        return file

    def write(self, row: Row) -> None:
        self._file.write(row.line())
        self._file.flush()
        if self._file.tell() >= self._max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(KEPT - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._file = self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path) -> Iterator[Row | ValueError]:
    """The rows of a ledger file; for a line that is none, the error that names its number."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line == _HEADER:
                continue
            try:
                yield Row.parse(line)
            except ValueError as error:
                yield ValueError(f"{path}, line {number}: {error}")
