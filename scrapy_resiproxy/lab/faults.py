"""Behaviours of a site that is ill: it fails, stalls, breaks off or comes back empty, whoever asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from scrapy_resiproxy.lab.behaviours import OK, Answer, Behaviour, How, Judge, PageKind, Visit

LIST_PATHS: Final = ("/list", "/api/items")
"""The paths whose pages are lists; only these can come back empty or short."""


def failure(how: str, retry_after: int = 0) -> Answer:
    """Return the answer for `how`: a status as digits, or ``reset``, ``close``, ``hang``, ``refuse``.

    Raises ValueError for anything else.
    """
    if how in {How.RESET, How.CLOSE, How.HANG, How.REFUSE}:
        outcome = "refused" if how == How.REFUSE else how
        return Answer(outcome=outcome, status=0, page=PageKind.ERROR, how=How(how))
    if how.isdecimal() and 400 <= int(how) <= 599:
        headers = (("Retry-After", str(retry_after)),) if retry_after else ()
        return Answer(outcome=f"fail-{how}", status=int(how), page=PageKind.ERROR, headers=headers)
    raise ValueError(f"how={how!r} is not a status from 400 to 599 or one of reset, close, hang, refuse")


def check_chance(p: float) -> None:
    """Raise ValueError unless `p` is a probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"p={p} is not between 0 and 1")


def check_not_negative(**values: float) -> None:
    """Raise ValueError for the first of `values` that is below 0."""
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name}={value} is below 0")


def chance(path: str, seed: int, attempt: int = 0) -> float:
    """Return a number in [0, 1) that is always the same for the same arguments."""
    digest = blake2b(f"{seed} {attempt} {path}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


@dataclass(frozen=True)
class Ok(Behaviour):
    """Good pages, `latency` late and `padding` bytes longer."""

    latency: float = 0.0
    padding: int = 0

    def __post_init__(self) -> None:
        check_not_negative(latency=self.latency, padding=self.padding)

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        return Answer(delay=self.latency, padding=self.padding)


@dataclass(frozen=True)
class Down(Behaviour):
    """Every request fails: a status, reset, close, hang or refuse."""

    how: str = "503"
    retry_after: int = 0

    def __post_init__(self) -> None:
        failure(self.how)
        check_not_negative(retry_after=self.retry_after)

    def reachable(self, now: float) -> bool:  # noqa: ARG002
        return self.how != How.REFUSE

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        return failure(self.how, self.retry_after)


@dataclass(frozen=True)
class Outage(Behaviour):
    """Down for `duration` seconds, from `start` after the first request (since=first) or the lab's start."""

    start: float = 0.0
    duration: float = 30.0
    how: str = "503"
    retry_after: int = 0
    since: str = "first"

    def __post_init__(self) -> None:
        failure(self.how)
        check_not_negative(start=self.start, duration=self.duration, retry_after=self.retry_after)
        if self.since not in {"first", "start"}:
            raise ValueError(f"since={self.since!r} is not first or start")

    def begin(self, now: float) -> Judge:
        return _Outage(self, now if self.since == "start" else None)


class _Outage(Judge):
    def __init__(self, plan: Outage, zero: float | None) -> None:
        self._plan = plan
        self._zero = zero

    def _is_down(self, now: float) -> bool:
        if self._zero is None:
            self._zero = now
        return self._plan.start <= now - self._zero < self._plan.start + self._plan.duration

    def reachable(self, now: float) -> bool:
        return not self._is_down(now) or self._plan.how != How.REFUSE

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        return failure(self._plan.how, self._plan.retry_after) if self._is_down(now) else OK


class Spoiler(Judge):
    """Gives `answer` for a share `p` of the paths: at their first visit, or (once=False) anew at each."""

    def __init__(self, answer: Answer, p: float, *, once: bool, seed: int, lists_only: bool = False) -> None:
        self._answer = answer
        self._p = p
        self._once = once
        self._seed = seed
        self._lists_only = lists_only
        self._visits: Counter[str] = Counter()

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        if self._lists_only and visit.path.partition("?")[0] not in LIST_PATHS:
            return OK
        attempt = self._visits[visit.path]
        self._visits[visit.path] += 1
        if self._once and attempt:
            return OK
        return self._answer if chance(visit.path, self._seed, attempt) < self._p else OK


@dataclass(frozen=True)
class Flaky(Behaviour):
    """A share p of the paths fails, once (the same ones in every run) or each time anew."""

    p: float = 0.2
    how: str = "503"
    once: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_chance(self.p)
        if failure(self.how).how is How.REFUSE:
            raise ValueError("how='refuse' is not for single paths; use down or outage")

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        return Spoiler(failure(self.how), self.p, once=self.once, seed=self.seed)


@dataclass(frozen=True)
class EmptyList(Behaviour):
    """A share p of the list pages comes at 200 with no item."""

    p: float = 0.2
    once: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_chance(self.p)

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        answer = Answer(outcome="empty", page=PageKind.EMPTY)
        return Spoiler(answer, self.p, once=self.once, seed=self.seed, lists_only=True)


@dataclass(frozen=True)
class ShortList(Behaviour):
    """A share p of the list pages comes at 200 with three items only."""

    p: float = 0.2
    once: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_chance(self.p)

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        answer = Answer(outcome="short", page=PageKind.SHORT)
        return Spoiler(answer, self.p, once=self.once, seed=self.seed, lists_only=True)


@dataclass(frozen=True)
class Truncated(Behaviour):
    """A share p of the bodies breaks off half way."""

    p: float = 1.0
    once: bool = True
    chunked: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_chance(self.p)

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        how = How.TRUNCATE_CHUNKED if self.chunked else How.TRUNCATE
        return Spoiler(Answer(outcome="truncated", how=how), self.p, once=self.once, seed=self.seed)


@dataclass(frozen=True)
class Drip(Behaviour):
    """The body trickles in over `seconds`."""

    seconds: float = 6.0

    def __post_init__(self) -> None:
        check_not_negative(seconds=self.seconds)

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        return Answer(outcome="drip", how=How.DRIP, drip=self.seconds)


@dataclass(frozen=True)
class Unauthorized(Behaviour):
    """401, with WWW-Authenticate (a login) or without (a wall)."""

    challenge: bool = True

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        headers = (("WWW-Authenticate", 'Basic realm="members"'),) if self.challenge else ()
        return Answer(outcome="unauthorized", status=401, page=PageKind.ERROR, headers=headers)


@dataclass(frozen=True)
class Missing(Behaviour):
    """404 for every path."""

    def decide(self, visit: Visit, now: float) -> Answer:  # noqa: ARG002
        return Answer(outcome="missing", status=404, page=PageKind.ERROR)
