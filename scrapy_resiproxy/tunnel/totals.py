"""What the tunnels of a crawl came to, in numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_resiproxy.tunnel.connection import Tunnel

_HOUR = 3600.0


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

    def overhead(self, open_tunnels: Iterable[Tunnel]) -> int:
        """Bytes that were neither request nor response: CONNECT, handshakes, TLS records, pings."""
        sums = self._with(open_tunnels)
        return sums["wire"] - sums["payload"]

    def _with(self, open_tunnels: Iterable[Tunnel]) -> Counter[str]:
        sums = Counter(self._sums)
        for tunnel in open_tunnels:
            if tunnel.opened is not None:
                sums.update(_count(tunnel))
        return sums

    def stats(self, now: float, open_tunnels: Iterable[Tunnel], most_open: int) -> dict[str, float]:
        """The numbers by their short names, as documented under ``resiproxy/tunnel/``; ratios only where defined."""
        sums = self._with(open_tunnels)
        found: dict[str, float] = {
            "opened_count": sums["opened"],
            "reused_count": self.reused,
            "resumed_count": sums["resumed"],
            "replaced_count": self.replaced,
            "ping_count": sums["pings"],
            "active_max": most_open,
        }
        found |= {f"close_reason_count/{reason}": count for reason, count in self._reasons.items()}
        found |= {f"connect_status_count/{status}": count for status, count in self._statuses.items()}
        if now > self._start:
            found["per_hour"] = round(sums["opened"] * _HOUR / (now - self._start), 1)
        if sums["opened"]:
            found["bytes_per_tunnel"] = round(sums["wire"] / sums["opened"])
        if sums["wire"]:
            found["overhead_ratio"] = round(1 - sums["payload"] / sums["wire"], 4)
        return found


def _count(tunnel: Tunnel) -> dict[str, int]:
    return {
        "opened": 1,
        "resumed": int(tunnel.tls.resumed),
        "pings": tunnel.pings,
        "wire": tunnel.traffic.total,
        "payload": tunnel.payload_bytes,
    }
