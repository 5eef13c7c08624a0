"""What happened: every request the site saw and every event at the gateway, as rows in a file and as counts.

A row is one JSON object a line with ``t`` (seconds since the lab's start) and ``event``: ``request`` rows
come from the site (and from the gateway for a host that refuses connections), all others from the gateway.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_resiproxy.lab.behaviours import Answer, Visit
    from scrapy_resiproxy.lab.exits import Exit


@dataclass(slots=True)
class Rate:
    """The most that ever fell into one second."""

    peak: int = 0
    _recent: deque[float] = field(default_factory=deque)

    def count(self, now: float) -> None:
        self._recent.append(now)
        while self._recent[0] <= now - 1:
            self._recent.popleft()
        self.peak = max(self.peak, len(self._recent))


@dataclass(slots=True)
class HostCounts:
    """One host's share."""

    requests: int = 0
    blocks: int = 0
    bytes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    rate: Rate = field(default_factory=Rate)
    paths: set[str] = field(default_factory=set)

    def summary(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "urls": len(self.paths),
            "outcomes": dict(self.outcomes),
            "peak_per_second": self.rate.peak,
            "blocks": self.blocks,
            "bytes": self.bytes,
        }


@dataclass(slots=True)
class SessionCounts:
    """One proxy session's share; bytes as the client of the gateway sent and got them."""

    exit: str = ""
    """The address it last went out from."""
    exits: int = 0
    requests: int = 0
    """Plain http requests; those inside a tunnel are not seen."""
    connects: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    def goes_out_from(self, address: str) -> None:
        if address != self.exit:
            self.exit = address
            self.exits += 1


@dataclass(slots=True)
class _Counts:
    hosts: dict[str, HostCounts] = field(default_factory=dict)
    sessions: dict[str, SessionCounts] = field(default_factory=dict)
    rate: Rate = field(default_factory=Rate)
    connects: int = 0
    tunnels_opened: int = 0
    refusals: Counter[str] = field(default_factory=Counter)


class Traffic(NamedTuple):
    """One session's meter."""

    ledger: Ledger
    session: str

    def up(self, size: int) -> None:
        self.ledger.session(self.session).bytes_up += size

    def down(self, size: int) -> None:
        self.ledger.session(self.session).bytes_down += size


class Ledger:
    """Keeps counts in memory and rows in the file at `path`; `now` gives seconds since the lab's start."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self.path = path
        self.open_tunnels = 0
        """How many there are now, whatever has been reset."""
        self._now = now
        self._counts = _Counts()
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._encode = json.JSONEncoder(separators=(",", ":")).encode

    def request(self, host: str, visit: Visit, answer: Answer, *, via: str, session: str, size: int) -> None:
        """Note a request, as soon as its answer of `size` bytes is decided; `via` http, connect or direct."""
        now = self._now()
        counts = self._counts.hosts.setdefault(host, HostCounts())
        counts.requests += 1
        counts.blocks += answer.block
        counts.bytes += size
        counts.outcomes[answer.outcome] += 1
        counts.paths.add(visit.path)
        counts.rate.count(now)
        self._counts.rate.count(now)
        self._write(
            now,
            "request",
            host=host,
            method=visit.method,
            path=visit.path,
            status=answer.status,
            outcome=answer.outcome,
            session=session,
            exit=visit.session,
            via=via,
            bytes=size,
        )

    def connect(self, exit_: Exit, host: str, port: str, status: int) -> None:
        """Note a CONNECT and the status it was answered with; 200 opens a tunnel."""
        self._counts.connects += 1
        self.session(exit_.session).connects += 1
        if status == 200:
            self._counts.tunnels_opened += 1
            self.open_tunnels += 1
        else:
            self._counts.refusals[str(status)] += 1
        self._write(self._now(), "connect", host=host, port=port, status=status, **exit_._asdict())

    def tunnel_closed(self, exit_: Exit, host: str, *, seconds: float, up: int, down: int, by: str) -> None:
        """Note the end of a tunnel, its bytes, and who ended it: client, site, idle or gateway."""
        self.open_tunnels -= 1
        details = {"seconds": round(seconds, 3), "up": up, "down": down, "by": by}
        self._write(self._now(), "tunnel_closed", host=host, **details, **exit_._asdict())

    def refused(self, exit_: Exit, method: str, target: str, status: int, why: str) -> None:
        """Note a plain http request that the gateway answered itself."""
        self._counts.refusals[str(status)] += 1
        details = {"method": method, "target": target, "status": status, "why": why}
        self._write(self._now(), "refused", **details, **exit_._asdict())

    def session(self, name: str) -> SessionCounts:
        """Return the counts of the session `name`: to be added to, not to be kept, for a reset replaces them."""
        return self._counts.sessions.setdefault(name, SessionCounts())

    def _write(self, now: float, event: str, **details: object) -> None:
        self._file.write(self._encode({"t": round(now, 6), "event": event, **details}) + "\n")

    def summary(self) -> dict[str, object]:
        """Return all counts as JSON-ready values."""
        counts = self._counts
        hosts = counts.hosts.values()
        sessions = counts.sessions.values()
        return {
            "seconds": round(self._now(), 3),
            "requests": sum(host.requests for host in hosts),
            "urls": sum(len(host.paths) for host in hosts),
            "outcomes": dict(sum((host.outcomes for host in hosts), Counter())),
            "peak_per_second": counts.rate.peak,
            "blocks": sum(host.blocks for host in hosts),
            "bytes": sum(host.bytes for host in hosts),
            "hosts": {name: host.summary() for name, host in counts.hosts.items()},
            "gateway": {
                "connects": counts.connects,
                "tunnels_open": self.open_tunnels,
                "tunnels_opened": counts.tunnels_opened,
                "refused": dict(counts.refusals),
                "bytes_up": sum(session.bytes_up for session in sessions),
                "bytes_down": sum(session.bytes_down for session in sessions),
                "sessions": {name: asdict(session) for name, session in counts.sessions.items()},
            },
        }

    def reset(self) -> None:
        """Forget all counts and empty the file."""
        self._counts = _Counts()
        self._file.truncate(0)

    def close(self) -> None:
        self._file.close()
