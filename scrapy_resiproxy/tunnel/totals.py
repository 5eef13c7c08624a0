"""What the tunnels of a crawl came to, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_resiproxy.tunnel.connection import Tunnel

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums that a person wants to see. Bytes are TCP payload of both directions."""

    opened: int
    seconds: float
    """Since the crawl began."""
    wire_bytes: int
    payload_bytes: int
    """Requests and responses as TLS carried them, without pings."""
    ping_bytes: int

    @property
    def handshake_bytes(self) -> int:
        """CONNECT, TLS handshakes, tickets, and what TLS adds to each record."""
        return self.wire_bytes - self.payload_bytes - self.ping_bytes

    @property
    def per_hour(self) -> float:
        """Tunnels opened in an hour, at the rate so far."""
        return self.opened * _HOUR / self.seconds if self.seconds > 0 else float(self.opened)

    @property
    def bytes_each(self) -> float:
        return self.wire_bytes / self.opened if self.opened else 0.0

    @property
    def overhead_ratio(self) -> float:
        """The share of all bytes that was neither request nor response."""
        return self.share(self.handshake_bytes + self.ping_bytes)

    def share(self, part: int) -> float:
        """What *part* bytes are of all."""
        return part / self.wire_bytes if self.wire_bytes else 0.0


class Totals:
    """Sums over the tunnels that are gone; those still open are added when the numbers are asked for."""

    def __init__(self, now: float) -> None:
        self._start = now
        self._sums: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self.reused = 0
        self.replaced = 0

    def refused(self, status: int) -> None:
        """The proxy answered a CONNECT with *status*."""
        self._statuses[status] += 1

    def gone(self, tunnel: Tunnel) -> None:
        self._sums.update(_count(tunnel))
        self._reasons[tunnel.close_reason or "unknown"] += 1

    def figures(self, now: float, open_tunnels: Iterable[Tunnel]) -> Figures:
        return self._figures(now, self._with(open_tunnels))

    def _figures(self, now: float, sums: Counter[str]) -> Figures:
        return Figures(sums["opened"], now - self._start, sums["wire"], sums["payload"], sums["ping_bytes"])

    def _with(self, open_tunnels: Iterable[Tunnel]) -> Counter[str]:
        sums = Counter(self._sums)
        for tunnel in open_tunnels:
            if tunnel.opened is not None:
                sums.update(_count(tunnel))
        return sums

    def stats(self, now: float, open_tunnels: Iterable[Tunnel], most_open: int) -> dict[str, float]:
        """The numbers by their short names, as documented under ``resiproxy/tunnel/``; ratios only where defined."""
        sums = self._with(open_tunnels)
        figures = self._figures(now, sums)
        found: dict[str, float] = {
            "opened_count": figures.opened,
            "reused_count": self.reused,
            "resumed_count": sums["resumed"],
            "replaced_count": self.replaced,
            "ping_count": sums["pings"],
            "active_max": most_open,
        }
        found |= {f"close_reason_count/{reason}": count for reason, count in self._reasons.items()}
        found |= {f"connect_status_count/{status}": count for status, count in self._statuses.items()}
        if figures.seconds > 0:
            found["per_hour"] = round(figures.per_hour, 1)
        if figures.opened:
            found["bytes_per_tunnel"] = round(figures.bytes_each)
            found["overhead_ratio"] = round(figures.overhead_ratio, 4)
        return found


def _count(tunnel: Tunnel) -> dict[str, int]:
    return {
        "opened": 1,
        "resumed": int(tunnel.tls.resumed),
        "pings": tunnel.pings,
        "ping_bytes": tunnel.ping_bytes,
        "wire": tunnel.traffic.total,
        "payload": tunnel.payload_bytes,
    }
