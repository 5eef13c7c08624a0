"""A crawl without Scrapy: the governor, sites that misbehave, and virtual time.

The client obeys as the components do: it asks for a permit, waits as a hold says, reports, decides, reserves budget,
and releases what waits for budget in the tail of a target.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from random import Random

from hypothesis import settings

from scrapy_resiproxy.guard.decide import Deliver, GiveUp, History, decide
from scrapy_resiproxy.guard.governor import GivenUp, Governor, Hold
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.settings import GuardSettings

UNAVAILABLE = Outcome(OutcomeClass.TRANSIENT, "unavailable")
TIMEOUT = Outcome(OutcomeClass.TRANSIENT, "timeout")
NO_NAME = Outcome(OutcomeClass.TRANSIENT, "dns_not_found", weak=True)
NO_NETWORK = Outcome(OutcomeClass.TRANSIENT, "network_down", Blame.LOCAL)
NOT_FOUND = Outcome(OutcomeClass.TERMINAL, "not_found")
REFUSED = Outcome(OutcomeClass.IDENTITY, "challenge", Blame.SESSION)
FORBIDDEN = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION, weak=True)
SLOWED = Outcome(OutcomeClass.RATE, "too_many_requests")
PROXY_DOWN = Outcome(OutcomeClass.TRANSIENT, "proxy_unreachable", Blame.PROXY)
PROXY_AUTH = Outcome(OutcomeClass.TERMINAL, "proxy_auth", Blame.PROXY)
PROXY_RATE = Outcome(OutcomeClass.RATE, "proxy_rate", Blame.PROXY)
SESSION_RATE = Outcome(OutcomeClass.RATE, "proxy_rate", Blame.SESSION)


def examples(count):
    """So many random examples, each as slow as it likes: other work on the machine is no failure."""
    return settings(max_examples=count, deadline=None)


def slowed(wait):
    return Outcome(OutcomeClass.RATE, "too_many_requests", wait=wait)


# Sites --------------------------------------------------------------------------------------------------------


class Site:
    """Answers every request: ``serve(now, url)`` gives (seconds until the answer, outcome)."""

    def __init__(self, rtt=0.05):
        self.rtt = rtt

    def serve(self, now, url):
        return self.rtt, self.answer(now + self.rtt / 2, url)

    def answer(self, now, url):
        return OK


class TokenBucket(Site):
    """So many a second, with a burst; ``rate`` may be a function of time. ``Retry-After`` in whole seconds."""

    def __init__(self, rate, burst, rtt=0.01, *, tells=True):
        super().__init__(rtt)
        self.rate = rate if callable(rate) else lambda now: rate
        self.burst, self.tells = burst, tells
        self.tokens, self.at = float(burst), 0.0

    def answer(self, now, url):
        rate = self.rate(now)
        self.tokens = min(self.burst, self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return OK
        return slowed(float(math.ceil((1.0 - self.tokens) / rate))) if self.tells else SLOWED


class FixedWindow(Site):
    """So many in every span of seconds that begins at a multiple of it."""

    def __init__(self, most, span, rtt=0.01):
        super().__init__(rtt)
        self.most, self.span = most, span
        self.window, self.count = -1, 0

    def answer(self, now, url):
        window = int(now / self.span)
        if window != self.window:
            self.window, self.count = window, 0
        self.count += 1
        return OK if self.count <= self.most else slowed(float(math.ceil((window + 1) * self.span - now)))


class Down(Site):
    """Fails from ``start`` to ``end``."""

    def __init__(self, end=math.inf, rtt=0.05, start=0.0, outcome=UNAVAILABLE):
        super().__init__(rtt)
        self.start, self.end, self.outcome = start, end, outcome

    def answer(self, now, url):
        return self.outcome if self.start <= now < self.end else OK


class FailsOnce(Site):
    """A share of the URLs fails at the first attempt."""

    def __init__(self, share, rng, rtt=0.05):
        super().__init__(rtt)
        self.share, self.rng, self.seen = share, rng, set()

    def answer(self, now, url):
        if url in self.seen:
            return OK
        self.seen.add(url)
        return UNAVAILABLE if self.rng.random() < self.share else OK


class Cold(Site):
    """Down from ``start`` to ``end``; then it can do a fifth of ``capacity`` a second, and warms up in ``warm``."""

    def __init__(self, capacity, start, end, warm=60.0, rtt=0.1):
        super().__init__(rtt)
        self.capacity, self.start, self.end, self.warm = capacity, start, end, warm
        self.tokens, self.at = 0.0, 0.0

    def answer(self, now, url):
        if self.start <= now < self.end:
            return UNAVAILABLE
        warmth = 1.0 if now < self.start else min(1.0, 0.2 + 0.8 * (now - self.end) / self.warm)
        able = self.capacity * warmth
        self.tokens = min(max(1.0, able / 10), self.tokens + (now - self.at) * able)
        self.at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return OK
        return UNAVAILABLE


# The client ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Url:
    target: str
    number: int
    sent: int = 0
    charge: object = None
    reservation: object = None


@dataclass
class Sent:
    at: float
    target: str
    url: Url
    outcome: Outcome
    answered: float


@dataclass
class Crawl:
    """One simulated crawl; :meth:`run` it, then read the counts."""

    sites: dict
    urls: int
    settings: GuardSettings = field(default_factory=GuardSettings)
    concurrency: int = 8
    """For each target."""
    max_attempts: int = 4
    seed: int = 1
    interval: float = 0.0
    """Seconds between two first attempts of a target becoming available: a demand that is limited."""
    tail_places: int = 8

    def __post_init__(self):
        self.rng = Random(self.seed)
        self.governor = Governor(self.settings, self.rng)
        self.now = 1000.0
        self.firsts = {name: deque(Url(name, n) for n in range(self.urls)) for name in self.sites}
        self.due = defaultdict(deque)
        self.unfunded = defaultdict(deque)
        self.tail = defaultdict(set)
        self.in_flight = Counter()
        self.log: list[Sent] = []
        self.delivered, self.lost = Counter(), Counter()
        self.denied = Counter()
        self.reasons = Counter()
        self.events = []
        self.ended = self.now
        self._heap, self._sequence = [], itertools.count()
        self._awake = {}
        self._released = Counter()
        self.start = self.now

    # What a test asks -----------------------------------------------------------------------------------------

    def sent(self, target=None):
        return sum(target in {None, sent.target} for sent in self.log)

    def count(self, class_):
        return sum(sent.outcome.class_ == class_ for sent in self.log)

    @property
    def seconds(self):
        return self.ended - self.start

    def kinds(self, target=None):
        return Counter(event.kind for event in self.events if target in {None, event.target})

    def inside_waits(self, grace=0.3):
        """Requests that were sent inside a wait later than *grace* after it had been announced."""
        waits = [
            (s.answered, s.answered - self.sites[s.target].rtt / 2 + s.outcome.wait, s.target)
            for s in self.log
            if s.outcome.wait
        ]
        return [
            s
            for s in self.log
            if any(at + grace < s.at < until - 1e-6 for at, until, target in waits if target == s.target)
        ]

    def admissions(self, begin, end):
        return sum(begin <= sent.at < end for sent in self.log)

    # The clockwork --------------------------------------------------------------------------------------------

    def at(self, when, action):
        heapq.heappush(self._heap, (when, next(self._sequence), action))

    def run(self, until=math.inf):
        for target in self.sites:
            self.at(self.now, lambda target=target: self.pump(target))
        self.at(self.now + 1.0, self.budget_turn)
        while self._heap and self._heap[0][0] <= self.start + until:
            self.now, number, action = heapq.heappop(self._heap)
            assert number < 1_000_000, "the crawl goes round in circles"
            action()
        self.events += self.governor.take_events()
        return self

    def pump(self, target):
        if self._awake.get(target) is not None and self._awake[target] <= self.now:
            self._awake[target] = None
        while self.in_flight[target] < self.concurrency:
            url = self._next(target)
            if url is None:
                return
            answer = self.governor.admit(target, self.now, retry=url.sent > 0)
            if isinstance(answer, GivenUp):
                self._take(target)
                self._lose(url, answer.reason)
            elif isinstance(answer, Hold):
                self.denied[target] += 1
                self._wake(target, answer.until)
                return
            else:
                self._take(target)
                self._send(url, answer)

    def _next(self, target):
        if self.due[target]:
            return self.due[target][0]
        firsts = self.firsts[target]
        if firsts and self.interval:
            free = self.start + self._released[target] * self.interval
            if self.now < free:
                self._wake(target, free)
                return None
        return firsts[0] if firsts else None

    def _take(self, target):
        if self.due[target]:
            self.due[target].popleft()
        else:
            self.firsts[target].popleft()
            self._released[target] += 1

    def _wake(self, target, when):
        """One timer for each target, at the earliest of what was asked for."""
        assert when > self.now, "a hold must end later than now"
        known = self._awake.get(target)
        if known is None or when < known:
            self._awake[target] = when
            self.at(when, lambda: self.pump(target))

    def _send(self, url, permit):
        url.sent += 1
        url.reservation = None
        self.in_flight[url.target] += 1
        latency, outcome = self.sites[url.target].serve(self.now, url.number)
        self.log.append(Sent(self.now, url.target, url, outcome, self.now + latency))
        self.at(self.now + latency, lambda: self._answered(url, permit, outcome))

    def _answered(self, url, permit, outcome):
        target = url.target
        self.ended = self.now
        self.in_flight[target] -= 1
        self.tail[target].discard(url)
        self.governor.report(permit, outcome, self.now, fresh=True)
        self.events += self.governor.take_events()
        history = History(
            url.sent,
            self.max_attempts,
            healthy=self.governor.healthy(target, self.now),
            own_outage=self.governor.own_outage,
        )
        decision = decide(outcome, history, self.settings, self.rng)
        if isinstance(decision, Deliver):
            self.delivered[target] += 1
        elif isinstance(decision, GiveUp):
            self._lose(url, decision.reason)
        else:
            url.charge = decision.charge
            url.reservation = self.governor.reserve(target, decision.charge, self.now)
            self.at(self.now + decision.delay, lambda: self._due(url))
        self._awake[target] = None
        self.pump(target)

    def _due(self, url):
        if url.reservation is None:
            url.reservation = self.governor.reserve(url.target, url.charge, self.now)
        if url.reservation is None:
            self.unfunded[url.target].append(url)
            return
        self.due[url.target].append(url)
        self._awake[url.target] = None
        self.pump(url.target)

    def budget_turn(self):
        for target, waiting in self.unfunded.items():
            self.governor.still(target, self.now)
            while waiting:
                url = waiting[0]
                url.reservation = self.governor.reserve(target, url.charge, self.now)
                if url.reservation is None and not self._into_tail(target, url):
                    break
                self.due[target].append(waiting.popleft())
            self.pump(target)
        if self._heap:
            self.at(self.now + 1.0, self.budget_turn)

    def _into_tail(self, target, url):
        if self.firsts[target] or len(self.tail[target]) >= self.tail_places:
            return False
        if not self.governor.tail_open(target, self.now):
            return False
        self.tail[target].add(url)
        return True

    def _lose(self, url, reason):
        self.tail[url.target].discard(url)
        self.lost[url.target] += 1
        self.reasons[reason] += 1
        self.ended = self.now
