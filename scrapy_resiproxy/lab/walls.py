"""Behaviours of a site that defends itself: who asks too much is slowed, challenged or shut out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from scrapy_resiproxy.lab.behaviours import OK, Answer, Behaviour, Judge, PageKind, Visit

BLOCKED: Final = Answer(outcome="blocked", status=403, page=PageKind.BLOCKED)
BLOCK_PATH: Final = "/blocked"
LOOKS: Final = {
    "generic": PageKind.CHALLENGE,
    "cloudflare": PageKind.CLOUDFLARE,
    "validator-only": PageKind.LOOKALIKE,
}
"""How a soft block looks: a challenge of no vendor, one like Cloudflare's, or a page of the shop without its
data, which only a validator can tell."""


def _check_pages(pages: int) -> None:
    if pages < 0:
        raise ValueError(f"pages={pages} is below 0")


class _WornSession(Judge):
    """Serves `pages` pages to a session, and `answer` for ever after."""

    def __init__(self, pages: int, answer: Answer) -> None:
        self._pages = pages
        self._answer = answer
        self._served: Counter[str] = Counter()

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        if visit.path == BLOCK_PATH:
            return Answer(outcome="block-page", page=PageKind.BLOCKED)
        self._served[visit.session] += 1
        excess = self._served[visit.session] - self._pages
        if excess <= 0:
            return OK
        return replace(self._answer, block=True) if excess == 1 else self._answer


@dataclass(frozen=True)
class SoftBlock(Behaviour):
    """After `pages` pages a session gets a challenge at 200; look: generic, cloudflare or validator-only."""

    pages: int = 20
    look: str = "generic"

    def __post_init__(self) -> None:
        _check_pages(self.pages)
        if self.look not in LOOKS:
            raise ValueError(f"look={self.look!r} is not one of {', '.join(LOOKS)}")

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        return _WornSession(self.pages, Answer(outcome="challenge", page=LOOKS[self.look]))


@dataclass(frozen=True)
class Block403(Behaviour):
    """After `pages` pages a session gets 403 and a block page."""

    pages: int = 20

    def __post_init__(self) -> None:
        _check_pages(self.pages)

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        return _WornSession(self.pages, BLOCKED)


@dataclass(frozen=True)
class RedirectBlock(Behaviour):
    """After `pages` pages a session is redirected to /blocked, the same page for every URL."""

    pages: int = 20

    def __post_init__(self) -> None:
        _check_pages(self.pages)

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        # The site puts its own prefix before a Location that begins with a slash.
        answer = Answer(outcome="redirected", status=302, page=PageKind.ERROR, headers=(("Location", BLOCK_PATH),))
        return _WornSession(self.pages, answer)


@dataclass(frozen=True)
class RateLimit(Behaviour):
    """`rate` requests a second (token bucket over all sessions), then 429; who ignores or evades the wait is blocked.

    Each 429 announces a wait (Retry-After, whole seconds rounded up; announce=false: none).
    `block_ignorers` requests made during an announced wait, `grace` seconds after it was first announced,
    bring a block of `block` seconds, and so do `block_evaders` attempts to get round it: a refused path
    asked for again through another session before its time, or a session first seen while a wait is on. 0
    switches either off. scope=session counts waits and ignorers for each session; evaders always bring the
    block on everyone.
    """

    rate: float = 10.0
    burst: float = 10.0
    announce: bool = True
    block_ignorers: int = 20
    block_evaders: int = 20
    scope: str = "target"
    grace: float = 0.3
    block: float = 60.0

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"rate={self.rate} is not above 0")
        if self.burst < 1:
            raise ValueError(f"burst={self.burst} is below 1")
        if self.scope not in {"target", "session"}:
            raise ValueError(f"scope={self.scope!r} is not target or session")
        for name in ("block_ignorers", "block_evaders", "grace", "block"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is below 0")

    def begin(self, now: float) -> Judge:
        return _Limiter(self, now)


@dataclass(slots=True)
class _Scope:
    """What has been announced to whom, and how often it was ignored."""

    since: float = -math.inf
    until: float = -math.inf
    ignored: int = 0
    blocked_until: float = -math.inf

    def announce(self, now: float, until: float) -> None:
        if now >= self.until:
            self.since = now
        self.until = max(self.until, until)


@dataclass(slots=True)
class _Memory:
    everyone: _Scope = field(default_factory=_Scope)
    sessions: dict[str, _Scope] = field(default_factory=dict)
    refused: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Path → the session it was refused to, and until when."""
    evaded: int = 0


class _Limiter(Judge):
    def __init__(self, plan: RateLimit, now: float) -> None:
        self._plan = plan
        self._tokens = plan.burst
        self._filled = now
        self._memory = _Memory()

    def decide(self, visit: Visit, now: float) -> Answer:
        memory = self._memory
        newcomer = visit.session not in memory.sessions
        session = memory.sessions.setdefault(visit.session, _Scope())
        if now < max(memory.everyone.blocked_until, session.blocked_until):
            return BLOCKED
        scope = session if self._plan.scope == "session" else memory.everyone
        if self._ignores(scope, now):
            scope.ignored = 0
            scope.blocked_until = now + self._plan.block
            return replace(BLOCKED, block=True)
        if self._evades(visit, now, newcomer=newcomer):
            memory.evaded = 0
            memory.everyone.blocked_until = now + self._plan.block
            return replace(BLOCKED, block=True)
        if self._take_token(now):
            memory.refused.pop(visit.path, None)
            return OK
        return self._refuse(visit, session, now)

    def _ignores(self, scope: _Scope, now: float) -> bool:
        """Count a request made against the announcement; True when it was one too many."""
        if scope.since + self._plan.grace <= now < scope.until:
            scope.ignored += 1
        return 0 < self._plan.block_ignorers <= scope.ignored

    def _evades(self, visit: Visit, now: float, *, newcomer: bool) -> bool:
        """Count a request that goes round the announcement; True when it was one too many."""
        memory = self._memory
        told, until = memory.refused.get(visit.path, (visit.session, -math.inf))
        if (told != visit.session and now < until) or (newcomer and now < memory.everyone.until):
            memory.evaded += 1
        return 0 < self._plan.block_evaders <= memory.evaded

    def _take_token(self, now: float) -> bool:
        self._tokens = min(self._plan.burst, self._tokens + (now - self._filled) * self._plan.rate)
        self._filled = now
        # A sum of refills comes short of a whole token by a rounding error.
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens -= 1
        return True

    def _refuse(self, visit: Visit, session: _Scope, now: float) -> Answer:
        answer = Answer(outcome="limited", status=429, page=PageKind.ERROR)
        if not self._plan.announce:
            return answer
        wait = math.ceil((1 - self._tokens) / self._plan.rate)
        until = now + wait
        self._memory.everyone.announce(now, until)
        session.announce(now, until)
        self._memory.refused[visit.path] = (visit.session, until)
        return replace(answer, headers=(("Retry-After", str(wait)),))
