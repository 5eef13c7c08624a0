"""The pool of sessions: which exit a request goes through, and when an exit has had its time.

Sticky sessions have places: ``sessions_per_target`` of them for each target and country. The id of a
session is derived from target, place, time window, its turn in that window, country and salt, so that
nothing needs to be stored to find the same exit again. Another session is opened only when all open ones
are busy. A session ends with its window (before the vendor ends it), after ``session_max_requests``,
after the vendor's idle time, or with its first failure; what is in flight on it may finish. In ``rotate``
mode every lease is a new session.

Endpoints of a list serve as sessions in turn; one that was refused rests for ``session_quarantine``
seconds at that target, and everywhere when the proxy is to blame. Named sessions belong to no target:
they keep one exit until it is lost, and a lost one stays lost.

The work of a lease grows with the places of one target, never with the number of targets.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.sessions.exits import Wish, build_exits, check_settings
from scrapy_resiproxy.sessions.ids import Hasher
from scrapy_resiproxy.sessions.named import NamedSessions
from scrapy_resiproxy.sessions.roster import Roster
from scrapy_resiproxy.sessions.session import Lease, NoSession, Session, SessionGone
from scrapy_resiproxy.sessions.targets import SWEPT_AT_ONCE, Targets

if TYPE_CHECKING:
    import random

    from scrapy_resiproxy.sessions.places import Places
    from scrapy_resiproxy.settings import SessionSettings

__all__ = ["Lease", "NoSession", "Session", "SessionGone", "SessionPool"]

NOBODY: Final[frozenset[str]] = frozenset()


class SessionPool:
    """All sessions of one crawl. Times are monotonic seconds.

    *salt* is secret and random; the same salt gives the same ids in another process. *encoding* is
    ``HTTPPROXY_AUTH_ENCODING``; *give_up* is for how many seconds all endpoints of a list may fail. Raises
    :class:`ValueError`, one line that shows no credential, for anything in *settings* that cannot be used.
    """

    def __init__(
        self,
        settings: SessionSettings,
        rng: random.Random,
        *,
        salt: str,
        encoding: str | None = "latin-1",
        give_up: float = math.inf,
    ) -> None:
        check_settings(settings)
        self._settings = settings
        self._rng = rng
        self._hasher = Hasher(salt)
        self._exits = build_exits(settings, self._hasher, encoding, give_up)
        self.last_call = self._exits.last_call if isinstance(self._exits, Roster) else None
        """Whether any endpoint of a list still carries anything; None where the exits are no list."""
        self._rotates = settings.session_mode == "rotate"
        self._most = 1 if self._rotates else settings.session_max_requests or math.inf
        self._targets = Targets(self._exits.capacity, self._hasher)
        self._named = NamedSessions()
        self._usual_country = self._exits.country(None)
        self.closed: list[Session] = []
        """The sessions that have ended and were not taken yet: nothing is in flight on them, their jars can go."""
        self.opened_count = 0
        self.retired_count = 0
        self.expired_count = 0
        """Sessions that ended by age, idleness or ``session_max_requests``."""

    @property
    def is_list(self) -> bool:
        """Whether the exits are the endpoints of a list."""
        return self.last_call is not None

    @property
    def can_rotate(self) -> bool:
        """Whether a refused request can get another exit. If not, its refusal surfaces at once."""
        return self._exits.can_rotate or self.rotates_by_connection

    @property
    def rotates_by_connection(self) -> bool:
        """Whether nothing but another connection gives another exit."""
        return self._rotates and not self.is_list and not self._exits.can_rotate

    def check_country(self, country: str) -> None:
        """Raises :class:`ValueError`, one line, when *country* cannot be had."""
        self._exits.country(country)

    @property
    def endpoint(self) -> str | None:
        """``scheme://host:port`` of the gateway, without a port that varies; None where there is none."""
        return self._exits.endpoint

    @property
    def ttl(self) -> float:
        """Seconds after which a session is rotated: ``session_ttl``, or less where the vendor allows less."""
        return self._exits.ttl

    def sample(self) -> str:
        """One made-up session for the start log: no customer's name, no password, no id that is in use."""
        return self._exits.sample()

    def secrets(self) -> tuple[str, ...]:
        """The passwords (and keys that stand for one), decoded, for the redaction of logs."""
        return self._exits.secrets()

    def lease(
        self,
        target: str,
        now: float,
        *,
        name: str | None = None,
        country: str | None = None,
        prefer: str | None = None,
        avoid: frozenset[str] = NOBODY,
        fresh: bool = False,
    ) -> Lease | NoSession | SessionGone:
        """A session for one request to *target* or, with *name*, the session of that name.

        It is to be given back with :meth:`release`. *country* goes before ``RESIPROXY_COUNTRY``; a named
        session keeps that of its first lease. *prefer* (an alias) is taken if it is open. *avoid*
        (aliases) are passed over as long as there is any other; with *fresh* a new session is opened if there
        is a place, because one that has served for a while may be worn too. Raises :class:`ValueError`, one line,
        when *country* cannot be had.
        """
        country = self._usual_country if country is None else self._exits.country(country)
        if name is not None:
            return self._lease_named(name, country, now)
        places = self._targets.find(target, country)
        if places is None:
            self.evict(now, SWEPT_AT_ONCE)
            places = self._targets.add(target, country)
        self._expire(places, now)
        session = None if fresh else places.choose(prefer, avoid)
        if session is None or (session.use.in_flight and session.alias != prefer):
            session = self._open(places, target, country, now) or session
            session = session or places.choose(prefer, avoid, fresh=fresh) or places.choose(None, NOBODY)
        if session is None:
            return NoSession(self._exits.free_at(target, now))
        return self._lend(session, now)

    def release(self, session: Session, now: float) -> None:
        """The request on *session* is over. More releases than leases do no harm."""
        use = session.use
        if use.in_flight:
            use.in_flight -= 1
            use.last = now
            self._close_if_over(session)

    def touch(self, session: Session, now: float) -> None:
        """Something else than a request went over *session*: the vendor's idle time begins anew."""
        session.use.last = now

    def good(self, session: Session, now: float) -> None:  # noqa: ARG002 - every report carries its time
        """A good answer came over *session*: it is not fresh any more."""
        session.use.answered = True

    def retire(self, session: Session, reason: str, now: float, blame: Blame = Blame.SESSION) -> bool:
        """A request failed by the fault of *session*, which is not leased again.

        True for its first failure, False for the others that were in flight on it; it may come before or
        after ``release``. A named session is lost. An endpoint of a list rests, for everybody if *blame*
        is the proxy's.
        """
        if session.use.retired:
            return False
        session.use.retired = True
        self.retired_count += 1
        until = now + self._settings.session_quarantine
        if session.named:
            self._named.lose(session, reason)
        if blame is Blame.PROXY:
            self._exits.rest(session.url, None, until)
        elif not session.named:
            self._exits.rest(session.url, session.owner, until)
        self._end(session)
        return True

    def lost(self, name: str, now: float) -> bool:
        """Whether the session *name* has ended; it stays so."""
        return self._named.gone(name, now) is not None

    def take_closed(self) -> list[Session]:
        """The sessions that ended since the last call: all of :attr:`closed`."""
        closed, self.closed = self.closed, []
        return closed

    def open_sessions(self, target: str) -> int:
        """How many sessions of *target* can be leased again; the named ones belong to no target."""
        return sum(1 for places in self._targets.of(target) for _ in places)

    def evict(self, now: float, most: int = 10_000) -> int:
        """Look at *most* targets and forget those whose sessions are all over; returns how many. A few are looked at
        whenever a new target comes.
        """
        return self._targets.sweep(most, lambda target: self._is_over(target, now) and self._exits.forget(target, now))

    def _is_over(self, target: str, now: float) -> bool:
        """Whether all time windows at *target* are over, and its sessions with them: ids may be derived anew then."""
        over = True
        for places in self._targets.of(target):
            self._expire(places, now)
            over = over and places.quiet_at <= now
        return over

    def _open(self, places: Places, target: str, country: str | None, now: float) -> Session | None:
        """A new session in a vacant place; None when there is no place or no endpoint."""
        place = places.vacant()
        if place is None:
            return None
        window, end = places.window(place, self._exits.ttl, now)
        place.enter(window)
        turn = self._rng.getrandbits(64) if self._rotates else place.turn
        seed = ("target", target, country, place.index, window, turn)
        taken = frozenset(session.url for session in places)
        wish = Wish(target, country, seed, self._exits.ttl, taken, place.last_url)
        session = self._make(wish, place.turn, now, end)
        if session is not None:
            places.seat(place, session, min(session.expires_at, now + self._exits.idle))
        return session

    def _open_named(self, name: str, country: str | None, now: float) -> Session | None:
        end = math.inf if self._exits.named_ttl is None else now + self._exits.named_ttl
        session = self._make(Wish(name, country, ("name", name, country), None), 0, now, end)
        if session is not None:
            self._named.put(session)
        return session

    def _make(self, wish: Wish, generation: int, now: float, end: float) -> Session | None:
        endpoint = self._exits.pick(wish, now)
        if endpoint is None:
            return None
        self.opened_count += 1
        return Session(
            alias=self._hasher.alias(*wish.seed),
            url=endpoint.url,
            bare=sys.intern(endpoint.bare),
            generation=generation,
            cookies=self._settings.session_cookies,
            expires_at=end,
            named=wish.named,
            owner=wish.owner,
        )

    def _lease_named(self, name: str, country: str | None, now: float) -> Lease | NoSession | SessionGone:
        session = self._named.get(name)
        if reason := self._named.gone(name, now):
            if session is not None and not session.use.ended:
                self.expired_count += 1
                self._end(session)
            return SessionGone(reason)
        session = session or self._open_named(name, country, now)
        return self._lend(session, now) if session else NoSession(self._exits.free_at(None, now))

    def _lend(self, session: Session, now: float) -> Lease:
        use = session.use
        use.in_flight += 1
        use.leases += 1
        use.last = now
        if use.leases >= self._most and not session.named:
            self.expired_count += not self._rotates
            self._end(session)
        return Lease(session, fresh=not use.answered)

    def _expire(self, places: Places, now: float) -> None:
        """End the sessions at *places* that have had their time, and those whose endpoint is down."""
        is_list = self.last_call is not None
        if now < places.look_at and not is_list:
            return
        places.look_at = math.inf
        for session in list(places):
            stale_at = math.inf if session.use.in_flight else session.use.last + self._exits.idle
            if now > stale_at or now >= session.expires_at:
                self.expired_count += 1
                self._end(session)
            elif is_list and self._exits.is_down(session.url, now):
                self._end(session)
            else:
                # What is in flight, or used again, is stale later than it would be now.
                places.look_at = min(places.look_at, session.expires_at, session.use.last + self._exits.idle)

    def _end(self, session: Session) -> None:
        if session.use.ended:
            return
        session.use.ended = True
        if not session.named:
            self._targets.leave(session)
        self._close_if_over(session)

    def _close_if_over(self, session: Session) -> None:
        if session.use.ended and not session.use.in_flight:
            self.closed.append(session)
