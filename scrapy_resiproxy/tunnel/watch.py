"""Seeing tunnels come and go from outside: the kernel's table of established connections, once a second."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.wording import counted, over

if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED: Final = "01"

Connection = tuple[str, str]
"""Local and remote end, as the kernel writes them."""


def addresses_of(host: str) -> set[str]:
    """The addresses of *host*, in the notation of :func:`connections_to`. Raises ``OSError``."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {_plain(str(info[4][0])) for info in found}


def _plain(address: str) -> str:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)


def connections_to(addresses: set[str], port: int, tables: Iterable[Path] = _TABLES) -> set[Connection]:
    """The established connections to *port* of one of *addresses*, of all processes on this machine."""
    found = set()
    for table in tables:
        if not table.exists():
            continue
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            _, local, remote, state, *_ = line.split()
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                address = _decode(remote.rpartition(":")[0])
                if address in addresses:
                    found.add((local, remote))
    return found


def _decode(text: str) -> str:
    """An address as ``/proc/net/tcp`` writes it: 32-bit words in the machine's byte order."""
    raw = b"".join(int(text[i : i + 8], 16).to_bytes(4, "little") for i in range(0, len(text), 8))
    return _plain(str(ipaddress.ip_address(raw)))


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample."""

    open: int
    opened: int
    closed: int


@dataclass(slots=True)
class Churn:
    """Adds up samples; *now* is in seconds. The connections of the first one have an unknown age."""

    _since: dict[Connection, float | None] = field(default_factory=dict)
    _lives: list[float] = field(default_factory=list)
    _start: float | None = None
    _now: float = 0.0
    opened: int = 0
    closed: int = 0

    def sample(self, connections: set[Connection], now: float) -> Tick:
        first = self._start is None
        if first:
            self._start = now
        self._now = now
        new = connections - self._since.keys()
        gone = self._since.keys() - connections
        for connection in gone:
            since = self._since.pop(connection)
            if since is not None:
                self._lives.append(now - since)
        for connection in new:
            self._since[connection] = None if first else now
        if first:
            return Tick(len(connections), 0, 0)
        self.opened += len(new)
        self.closed += len(gone)
        return Tick(len(connections), len(new), len(gone))

    @property
    def typical_life(self) -> float | None:
        """The median life of the connections that were seen to open and to close; None before the first."""
        lives = sorted(self._lives)
        return lives[len(lives) // 2] if lives else None

    def summary(self) -> str:
        """One line: how many came, and how long they stayed."""
        seconds = self._now - (self._start or 0.0)
        line = f"{self.opened} opened and {self.closed} closed {over(self.opened, seconds)}"
        life = self.typical_life
        if life is None:
            return f"{line}; none was seen from its opening to its close."
        return (
            f"{line}; the churn period is {life:.0f} s (the median life of {counted(len(self._lives), 'connection')})."
        )
