"""The places that one target has for sessions, in one country."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_resiproxy.sessions.session import Session


@dataclass(slots=True)
class Place:
    """Room for one open session, and which span of time the last one belonged to."""

    index: int
    session: Session | None = None
    window: int | None = None
    turn: int = 0
    """How many sessions it has had before in this window."""
    last_url: str = ""

    def enter(self, window: int) -> None:
        """Count one more session for *window*."""
        self.turn = self.turn + 1 if window == self.window else 0
        self.window = window


WORST: Final = (True, True, math.inf, True)
"""More than the load of any session."""


class Places:
    """At most *capacity* open sessions; *phase* (0 to 1) is where in a time window the first place begins."""

    __slots__ = ("beside", "capacity", "country", "look_at", "phase", "places", "quiet_at")

    def __init__(self, capacity: int, phase: float, country: str | None = None, beside: Places | None = None) -> None:
        self.country = country
        self.capacity = capacity
        self.phase = phase
        self.beside = beside
        """Those of the same target in another country."""
        self.quiet_at = -math.inf
        """When the last window of any session here is over: ids may be derived anew then."""
        self.look_at = math.inf
        """Before this time no session here has had its time: nobody need look."""
        self.places: tuple[Place, ...] = ()

    def __iter__(self) -> Iterator[Session]:
        return (place.session for place in self.places if place.session)

    def choose(self, prefer: str | None, avoid: frozenset[str], *, fresh: bool = False) -> Session | None:
        """*prefer* if it is open, else the session with the fewest in flight, one with good answers first.

        Of equals it is the first: so few sessions carry what there is to carry, and their tunnels stay warm.

        With *fresh* one without any answer yet goes before the rest.
        """
        if prefer is None and not fresh:
            # None is better than such a one, and nearly always there is one.
            for place in self.places:
                session = place.session
                if session and session.use.answered and not session.use.in_flight and session.alias not in avoid:
                    return session
        best, least = None, WORST
        for place in self.places:
            session = place.session
            if session is None or session.alias in avoid:
                continue
            use = session.use
            load = fresh and use.answered, session.alias != prefer, use.in_flight, not use.answered
            if load < least:
                best, least = session, load
        return best

    def vacant(self) -> Place | None:
        """A place for one more session; None when all are taken."""
        for place in self.places:
            if place.session is None:
                return place
        if len(self.places) == self.capacity:
            return None
        place = Place(len(self.places))
        self.places += (place,)
        return place

    def seat(self, place: Place, session: Session, look_at: float) -> None:
        """Give *place* to *session*, which has not had its time before *look_at*."""
        place.session, place.last_url = session, session.url
        self.look_at = min(self.look_at, look_at)
        self.quiet_at = max(self.quiet_at, session.expires_at)

    def window(self, place: Place, ttl: float, now: float) -> tuple[int, float]:
        """The number of the time window at *place* and when it ends.

        Windows of *ttl* seconds follow one another, and those of different places end at different times.
        """
        phase = self.phase + place.index / self.capacity
        number = math.floor(now / ttl + phase)
        while (end := (number + 1 - phase) * ttl) <= now:
            number += 1  # what rounding took
        return number, end

    def leave(self, session: Session) -> None:
        """Free the place of *session*."""
        for place in self.places:
            if place.session is session:
                place.session = None
