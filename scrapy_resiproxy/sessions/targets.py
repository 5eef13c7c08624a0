"""The places of all targets, and which of the targets are looked at next to be forgotten."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.sessions.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_resiproxy.sessions.ids import Hasher
    from scrapy_resiproxy.sessions.session import Session


SWEPT_AT_ONCE: Final = 2
"""So many targets are looked at, and forgotten if their sessions are over, whenever a new one comes."""


class Targets:
    """Places by target and country. Nearly every target has one country only, so the others hang on the first."""

    def __init__(self, capacity: int, hasher: Hasher) -> None:
        self._capacity = capacity
        self._hasher = hasher
        self._places: dict[str, Places] = {}
        self._next: deque[str] = deque()

    def of(self, target: str) -> Iterator[Places]:
        """The places of *target* in every country."""
        places = self._places.get(target)
        while places is not None:
            yield places
            places = places.beside

    def find(self, target: str, country: str | None) -> Places | None:
        """The places of *target* in *country*, if there are any yet."""
        places = self._places.get(target)
        while places is not None and places.country != country:
            places = places.beside
        return places

    def add(self, target: str, country: str | None) -> Places:
        """New places for *target* in *country*."""
        beside = self._places.get(target)
        if beside is None:
            self._next.append(target)
        phase = self._hasher.number("phase", target, country) / 2**256
        places = self._places[target] = Places(self._capacity, phase, country, beside)
        return places

    def leave(self, session: Session) -> None:
        """Free the place of *session*."""
        for places in self.of(session.owner):
            places.leave(session)

    def sweep(self, most: int, is_over: Callable[[str], bool]) -> int:
        """Look at *most* targets, those first that were not looked at for longest, and forget those that are over;
        returns how many.
        """
        forgotten = 0
        for _ in range(min(most, len(self._next))):
            target = self._next.popleft()
            if is_over(target):
                del self._places[target]
                forgotten += 1
            else:
                self._next.append(target)
        return forgotten
