from __future__ import annotations

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.sessions.pool import Lease, NoSession, SessionGone, SessionPool
from scrapy_resiproxy.settings import SessionSettings

LIST = tuple(f"http://u:p@p{number}.example:80" for number in range(3))
TEMPLATE = "http://u-{session}:p@gw.example:1"
PORTS = "http://u:p@gw.example:{port:10000-10005}"
TARGETS = st.sampled_from(["a.example", "b.example"])
NAMES = st.sampled_from(["login", "basket"])


class PoolMachine(RuleBasedStateMachine):
    """Random leases, releases, failures and pauses, against what a pool promises."""

    proxy: str | tuple[str, ...] = TEMPLATE
    mode = "sticky"
    limit: int | None = None

    flights = Bundle("flights")

    def __init__(self) -> None:
        super().__init__()
        self.pool = SessionPool(
            SessionSettings(
                proxy=self.proxy,
                session_mode=self.mode,
                session_max_requests=self.limit,
                sessions_per_target=2,
                session_ttl=20.0,
                session_quarantine=30.0,
            ),
            random.Random(1),
            salt="salt",
        )
        self.now = 0.0
        self.flying: dict[str, int] = {}
        self.seen: dict[str, object] = {}
        self.retired: set[str] = set()
        self.closed: set[str] = set()
        self.lost: set[str] = set()

    def take(self, answer, name=None):
        if isinstance(answer, NoSession):
            assert self.pool.is_list
            assert answer.until > self.now
            return multiple()
        if isinstance(answer, SessionGone):
            assert name in self.lost
            return multiple()
        assert isinstance(answer, Lease)
        session = answer.session
        assert session.alias not in self.retired, "a retired session was leased again"
        assert session.alias not in self.closed, "a closed session was leased again"
        assert self.seen.setdefault(session.alias, session) is session, "an alias came twice"
        assert self.now < session.expires_at
        self.flying[session.alias] = self.flying.get(session.alias, 0) + 1
        return session

    @rule(target=flights, to=TARGETS, prefer=st.none() | flights, avoid=st.lists(flights, max_size=2))
    def lease(self, to, prefer, avoid):
        alias = prefer.alias if prefer else None
        answer = self.pool.lease(to, self.now, prefer=alias, avoid=frozenset(s.alias for s in avoid))
        return self.take(answer)

    @rule(target=flights, to=TARGETS, name=NAMES)
    def lease_named(self, to, name):
        before = self.pool.lost(name, self.now)
        answer = self.pool.lease(to, self.now, name=name)
        assert isinstance(answer, SessionGone) is before
        return self.take(answer, name)

    @rule(session=consumes(flights), answered=st.booleans())
    def finish(self, session, answered):
        if answered:
            self.pool.good(session, self.now)
        self.pool.release(session, self.now)
        self.flying[session.alias] -= 1
        assert session.use.in_flight == self.flying[session.alias]

    @rule(session=flights, blame=st.sampled_from(Blame))
    def refuse(self, session, blame):
        first = self.pool.retire(session, "challenge", self.now, blame)
        assert first is (session.alias not in self.retired), "not exactly the first failure of a generation"
        self.retired.add(session.alias)
        if session.named:
            self.lost.add(session.owner)

    @rule(seconds=st.sampled_from([0.5, 5.0, 15.0, 40.0]))
    def pause(self, seconds):
        self.now += seconds

    @rule()
    def evict(self):
        self.pool.evict(self.now)

    @rule()
    def collect(self):
        for session in self.pool.take_closed():
            assert session.alias not in self.closed, "closed twice"
            assert self.flying[session.alias] == 0, "closed under a request"
            self.closed.add(session.alias)

    @precondition(lambda self: self.retired)
    @rule(data=st.data())
    def release_after_retire_is_harmless(self, data):
        key = data.draw(st.sampled_from(sorted(self.retired)))
        session = self.seen[key]
        if not self.flying[key]:
            self.pool.release(session, self.now)
            assert session.use.in_flight == 0

    @invariant()
    def counts_agree(self):
        assert self.pool.retired_count == len(self.retired)
        assert self.pool.opened_count == len(self.seen)
        assert all(session.use.in_flight == self.flying[key] >= 0 for key, session in self.seen.items())

    @invariant()
    def a_target_has_no_more_sessions_than_places(self):
        places = len(LIST) if self.pool.is_list else 2
        assert all(self.pool.open_sessions(host) <= places for host in ("a.example", "b.example"))


def machine(name, **attributes):
    case = type(name, (PoolMachine,), attributes).TestCase
    case.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
    return case


TestSticky = machine("Sticky")
TestRotate = machine("Rotate", mode="rotate")
TestList = machine("List", proxy=LIST)
TestLimited = machine("Limited", limit=2)
TestPorts = machine("Ports", proxy=PORTS)
TestPlain = machine("Plain", proxy="http://u:p@gw.example:1")


@settings(max_examples=100)
@given(
    host=st.text(max_size=30),
    country=st.sampled_from(["de", "us", "fr"]),
    other=st.sampled_from(["gb", "nl"]),
    salt=st.text(min_size=1, max_size=10),
    now=st.floats(0, 1e7),
)
def test_ids_are_the_vendors_the_same_in_every_pool_and_different_by_country(host, country, other, salt, now):
    def session_id(where):
        proxy = "http://u-{session}:{country}@gw.example:1"
        pool = SessionPool(SessionSettings(proxy=proxy, country=where), random.Random(), salt=salt)
        return pool.lease(host, now).session.url.partition("u-")[2].partition(":")[0]

    assert re.fullmatch("[a-z][a-z0-9]{7}", session_id(country))
    assert session_id(country) == session_id(country) != session_id(other)
