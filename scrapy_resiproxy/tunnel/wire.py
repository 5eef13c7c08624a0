"""Counting what passes over one TCP connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zope.interface import directlyProvides, providedBy  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twisted.internet.interfaces import IReactorTime


class Traffic:
    """Bytes of TCP payload in both directions, and when the last one passed (the clock's seconds)."""

    __slots__ = ("_clock", "down", "last_at", "up")

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.up = 0
        self.down = 0
        self.last_at = clock.seconds()

    @property
    def total(self) -> int:
        return self.up + self.down

    def sent(self, size: int) -> None:
        self.up += size
        self.last_at = self._clock.seconds()

    def received(self, size: int) -> None:
        self.down += size
        self.last_at = self._clock.seconds()


class CountedTransport:
    """A TCP transport whose writes are counted; everything else is the transport's own."""

    def __init__(self, transport: Any, traffic: Traffic) -> None:
        self._transport = transport
        self._traffic = traffic
        # Called six times for every response: not by way of __getattr__.
        self.pauseProducing, self.resumeProducing = transport.pauseProducing, transport.resumeProducing
        directlyProvides(self, providedBy(transport))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._traffic.sent(len(data))
        self._transport.write(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        self.write(b"".join(data))
