"""Which tunnels are open, idle, busy, and whose; every question is answered in constant time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from scrapy_resiproxy.tunnel.route import TunnelKey


class Keyed(Protocol):
    @property
    def key(self) -> TunnelKey: ...


T = TypeVar("T", bound=Keyed)


class Shelf(Generic[T]):
    """The tunnels of one key."""

    __slots__ = ("busy", "idle")

    def __init__(self) -> None:
        self.idle: list[T] = []
        """The most recently used one last."""
        self.busy = 0


class Registry(Generic[T]):
    """Holds every open tunnel once: at work, or idle. What is dropped leaves nothing behind."""

    def __init__(self) -> None:
        self._shelves: dict[TunnelKey, Shelf[T]] = {}
        self._sessions: dict[str, dict[T, None]] = {}
        self._cold: dict[T, None] = {}
        """The idle ones, the longest idle first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, tunnel: T) -> None:
        """A new tunnel, at work."""
        self._size += 1
        self._sessions.setdefault(tunnel.key.session, {})[tunnel] = None
        self._shelves.setdefault(tunnel.key, Shelf()).busy += 1

    def take(self, tunnel: T) -> None:
        """Put an idle tunnel to work."""
        shelf = self._shelves[tunnel.key]
        shelf.idle.remove(tunnel)
        del self._cold[tunnel]
        shelf.busy += 1

    def put(self, tunnel: T) -> None:
        """A tunnel at work has become idle."""
        shelf = self._shelves[tunnel.key]
        shelf.busy -= 1
        shelf.idle.append(tunnel)
        self._cold[tunnel] = None

    def drop(self, tunnel: T) -> None:
        """Forget a tunnel, idle or at work; one that is not here is no error."""
        session = self._sessions.get(tunnel.key.session, {})
        if tunnel not in session:
            return
        del session[tunnel]
        if not session:
            del self._sessions[tunnel.key.session]
        self._size -= 1
        shelf = self._shelves[tunnel.key]
        if tunnel in self._cold:
            del self._cold[tunnel]
            shelf.idle.remove(tunnel)
        else:
            shelf.busy -= 1
        if not shelf.idle and not shelf.busy:
            del self._shelves[tunnel.key]

    def idle(self, key: TunnelKey) -> list[T]:
        """The idle tunnels of *key*, the most recently used one last."""
        shelf = self._shelves.get(key)
        return shelf.idle if shelf else []

    def busy(self, key: TunnelKey) -> int:
        shelf = self._shelves.get(key)
        return shelf.busy if shelf else 0

    def knows(self, key: TunnelKey) -> bool:
        return key in self._shelves

    def coldest(self) -> T | None:
        """The tunnel that has been idle for longest."""
        return next(iter(self._cold), None)

    def of_session(self, session: str) -> list[T]:
        return list(self._sessions.get(session, ()))

    def everything(self) -> list[T]:
        return [tunnel for tunnels in self._sessions.values() for tunnel in tunnels]
