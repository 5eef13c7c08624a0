"""What a ledger says about a span of work, and how two spans compare."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from scrapy_resiproxy.wording import SHORTEST_FOR_A_RATE, over

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_resiproxy.tunnel.ledger import Row


@dataclass(frozen=True, slots=True)
class Span:
    """Sums over the tunnels of one ledger."""

    tunnels: int
    seconds: float
    """From the first opening to the last close."""
    lived: float
    """Seconds that all tunnels were open, added up."""
    requests: int
    pings: int
    resumed: int
    wire_bytes: int
    payload_bytes: int
    reasons: dict[str, int]
    """Tunnels by who closed them and why."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Span:
        """Raises ``ValueError`` when there is no row."""
        found = list(rows)
        if not found:
            raise ValueError("no tunnel in it")
        reasons: dict[str, int] = {}
        for row in found:
            name = f"{row.closed_by}: {row.reason}"
            reasons[name] = reasons.get(name, 0) + 1
        first = min(datetime.fromisoformat(row.opened) for row in found)
        last = max(datetime.fromisoformat(row.closed) for row in found)
        return cls(
            tunnels=len(found),
            seconds=(last - first).total_seconds(),
            lived=sum(row.seconds for row in found),
            requests=sum(row.requests for row in found),
            pings=sum(row.pings for row in found),
            resumed=sum(row.resumed for row in found),
            wire_bytes=sum(row.bytes_up + row.bytes_down for row in found),
            payload_bytes=sum(row.payload_bytes for row in found),
            reasons=dict(sorted(reasons.items(), key=lambda item: -item[1])),
        )

    @property
    def per_hour(self) -> float:
        return self.tunnels * 3600 / self.seconds if self.seconds else float(self.tunnels)

    @property
    def seconds_each(self) -> float:
        return self.lived / self.tunnels

    @property
    def bytes_each(self) -> float:
        return self.wire_bytes / self.tunnels

    @property
    def requests_each(self) -> float:
        return self.requests / self.tunnels

    @property
    def overhead(self) -> float:
        """The share of all bytes that was neither request nor response."""
        return 1 - self.payload_bytes / self.wire_bytes if self.wire_bytes else 0.0

    @property
    def bytes_per_request(self) -> float:
        """All bytes, for one request: what the same work costs."""
        return self.wire_bytes / self.requests if self.requests else 0.0


def describe(span: Span) -> list[str]:
    """The lines that a person reads."""
    return [
        f"tunnels            {span.tunnels:>12,}   {over(span.tunnels, span.seconds)}",
        f"seconds each       {span.seconds_each:>12,.1f}",
        f"bytes each         {span.bytes_each:>12,.0f}",
        f"requests each      {span.requests_each:>12,.1f}",
        f"overhead           {span.overhead:>12.1%}   of {span.wire_bytes:,} bytes",
        f"bytes per request  {span.bytes_per_request:>12,.0f}",
        f"pings              {span.pings:>12,}",
        f"TLS resumed        {span.resumed:>12,}",
        *(f"closed by {name:<28} {count:>6,}" for name, count in span.reasons.items()),
    ]


def compare(before: Span, after: Span) -> list[str]:
    """How the later span did against the earlier, for the same work."""
    long_enough = min(before.seconds, after.seconds) >= SHORTEST_FOR_A_RATE
    return [
        *([_change("tunnels per hour", before.per_hour, after.per_hour)] if long_enough else []),
        _change("tunnels per 1,000 requests", _per_thousand(before), _per_thousand(after)),
        _change("seconds each", before.seconds_each, after.seconds_each),
        _change("bytes each", before.bytes_each, after.bytes_each),
        _change("bytes per request", before.bytes_per_request, after.bytes_per_request),
        _change("overhead in percent", 100 * before.overhead, 100 * after.overhead),
    ]


def _per_thousand(span: Span) -> float:
    return 1000 * span.tunnels / span.requests if span.requests else 0.0


def _change(name: str, before: float, after: float) -> str:
    times = f"x {after / before:.2f}" if before else ""
    return f"{name:<28} {before:>12,.1f} -> {after:>12,.1f}   {times}".rstrip()
