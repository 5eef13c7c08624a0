"""A target that was forgotten gets the sessions that it would have had."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.sessions.pool import Lease, SessionPool
from scrapy_resiproxy.settings import SessionSettings

TEMPLATE = "http://u-{session}-{country}:p@gw.example:1"
TTL = 20.0

waits = st.sampled_from([0.0, 0.0, 0.5, 3.0, 9.0, 19.0, 41.0])
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("lease"),
            waits,
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([None, "de"]),
            st.booleans(),
        ),
        st.tuples(st.just("good"), waits, st.integers(0, 9)),
        st.tuples(st.just("release"), waits, st.integers(0, 9)),
        st.tuples(st.just("retire"), waits, st.integers(0, 9)),
    ),
    max_size=50,
)


class Both:
    """Two pools in the same world, one of which forgets all it may at every turn."""

    def __init__(self, **own):
        rules = SessionSettings(proxy=TEMPLATE, country="us", sessions_per_target=2, session_ttl=TTL, **own)
        self.elephant, self.sieve = (SessionPool(rules, random.Random(1), salt="salt") for _ in range(2))
        self.elephant.evict = lambda now, most=0: 0
        self.now = 0.0
        self.leases = []
        self.forgotten = 0

    @property
    def two(self):
        return self.elephant, self.sieve

    def live(self, steps):
        for kind, wait, *words in steps:
            self.now += wait
            self.forgotten += self.sieve.evict(self.now)
            getattr(self, f"_{kind}")(*words)
            assert self.elephant.opened_count == self.sieve.opened_count
            assert self.elephant.retired_count == self.sieve.retired_count

    def _lease(self, target, country, fresh):
        pair = [pool.lease(target, self.now, country=country, fresh=fresh) for pool in self.two]
        assert all(isinstance(lease, Lease) for lease in pair)
        assert pair[0] == pair[1]
        self.leases.append(pair)

    def _each(self, index, deed):
        if self.leases:
            pair = self.leases[index % len(self.leases)]
            told = [deed(pool, lease.session) for pool, lease in zip(self.two, pair, strict=True)]
            assert told[0] == told[1]

    def _good(self, index):
        self._each(index, lambda pool, session: pool.good(session, self.now))

    def _release(self, index):
        self._each(index, lambda pool, session: pool.release(session, self.now))

    def _retire(self, index):
        # A failure after its time: whether it had been taken down as expired by then is told by nothing but a count.
        if self.leases and self.now < self.leases[index % len(self.leases)][0].session.expires_at:
            self._each(index, lambda pool, session: pool.retire(session, "challenge", self.now))


@given(steps, st.sampled_from(["sticky", "rotate"]), st.sampled_from([None, 2]))
@settings(max_examples=200, deadline=None)
def test_nobody_can_tell_whether_a_target_was_forgotten(steps, mode, most):
    both = Both(session_mode=mode, session_max_requests=most)
    both.live(steps)
    both.now += TTL
    del both.elephant.evict
    for pool in both.two:
        pool.evict(both.now)
    assert both.elephant.expired_count == both.sieve.expired_count
    ended = [{session.alias for session in pool.take_closed()} for pool in both.two]
    assert ended[0] == ended[1]


def test_the_one_that_forgets_does_forget():
    both = Both()
    both.live([("lease", 50.0, target, country, False) for target in ("a", "b") for country in (None, "de")] * 3)
    assert both.forgotten == 11


def test_new_targets_push_out_those_whose_sessions_are_over(crawl):
    shop = crawl(session_ttl=100)
    for number in range(1000):
        shop.now += 1.0
        shop.use(f"shop{number}.example")
    assert shop.pool.evict(shop.now + 200.0) < 210
    assert shop.pool.expired_count == 1000
    assert len(shop.pool.take_closed()) == 1000


def test_a_target_that_is_pushed_out_while_its_session_carries_a_request_keeps_that(crawl):
    shop = crawl(session_ttl=100)
    old = shop.lease("old.example")
    shop.now = 200.0
    for number in range(3):
        shop.use(f"shop{number}.example")
    assert shop.pool.open_sessions("old.example") == 0
    assert old.session not in shop.pool.take_closed()
    shop.pool.release(old.session, shop.now)
    assert shop.pool.take_closed() == [old.session]
