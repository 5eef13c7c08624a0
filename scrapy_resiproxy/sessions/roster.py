"""Exits that are given: a list of endpoints, used in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_resiproxy.sessions.last_call import LastCall
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_resiproxy.sessions.endpoint import Endpoint
    from scrapy_resiproxy.sessions.exits import Wish
    from scrapy_resiproxy.sessions.ids import Hasher
    from scrapy_resiproxy.settings import SessionSettings


NEVER = float("-inf")


@dataclass(slots=True)
class _Turn:
    """Whose turn it is at one target, and which endpoints rest there (index → until)."""

    next: int
    resting: dict[int, float] | None = None


class Roster:
    """A list of endpoints, used in turn. One that was refused rests: at that target, or everywhere."""

    endpoint: str | None = None
    idle: float = math.inf
    named_ttl: float | None = None

    def __init__(
        self, endpoints: Sequence[Endpoint], settings: SessionSettings, hasher: Hasher, give_up: float
    ) -> None:
        self._endpoints = endpoints
        self.last_call = LastCall(len(endpoints), give_up)
        self._urls = [endpoint.url for endpoint in endpoints]
        self._index = {url: index for index, url in enumerate(self._urls)}
        self._hasher = hasher
        self._everywhere: dict[int, float] = {}
        self._turns: dict[str | None, _Turn] = {}
        self.capacity = len(endpoints)
        self.can_rotate = len(endpoints) > 1
        self.ttl = settings.session_ttl

    def country(self, asked: str | None) -> None:
        if asked:
            raise ValueError(f"country {asked!r}: a list of endpoints has no place for a country")

    def pick(self, wish: Wish, now: float) -> Endpoint | None:
        if self.last_call.due(now):
            self._everywhere.clear()
        turn = self._turn(None if wish.named else wish.owner)
        count = len(self._endpoints)
        for step in range(count):
            index = (turn.next + step) % count
            if self._urls[index] not in wish.taken and self._rests_until(index, turn) <= now:
                turn.next = index + 1
                return self._endpoints[index]
        return None

    def rest(self, url: str, target: str | None, until: float) -> None:
        index = self._index[url]
        if target is None:
            self._everywhere[index] = until
        else:
            turn = self._turn(target)
            turn.resting = {**(turn.resting or {}), index: until}

    def is_down(self, url: str, now: float) -> bool:
        return self._everywhere.get(self._index[url], now) > now

    def free_at(self, target: str | None, now: float) -> float:
        turn = self._turn(target)
        free = min(self._rests_until(index, turn) for index in range(len(self._endpoints)))
        return max(now, min(free, self.last_call.at))

    def forget(self, target: str, now: float) -> bool:
        turn = self._turn(target)
        if turn.resting and any(until > now for until in turn.resting.values()):
            return False
        del self._turns[target]
        return True

    def sample(self) -> str:
        return f"{counted(len(self._endpoints), 'proxy', 'proxies')}, the first is {self._endpoints[0].masked()}"

    def secrets(self) -> tuple[str, ...]:
        found = (endpoint.password or endpoint.username for endpoint in self._endpoints)
        return tuple(dict.fromkeys(secret for secret in found if secret))

    def _turn(self, target: str | None) -> _Turn:
        """Whose turn it is at *target* or, with None, among the named sessions."""
        turn = self._turns.get(target)
        if turn is None:
            # Targets begin at different endpoints, so that the first ones do not get all the work.
            turn = _Turn(self._hasher.number("turn", target) % len(self._endpoints))
            self._turns[target] = turn
        return turn

    def _rests_until(self, index: int, turn: _Turn) -> float:
        here = turn.resting.get(index, NEVER) if turn.resting else NEVER
        return max(here, self._everywhere.get(index, NEVER))
