"""Counts of one crawl, for the whole and by target: what the stats, the report and the tables are made from."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_resiproxy.outcome import Outcome


class Counts:
    """What happened to a target that has only ever been well. There may be a hundred thousand of them, so what is 0 for
    each is kept for none: see :class:`AllCounts`.

    ``requests`` are attempts that left for the wire, ``firsts`` those that were no retry, ``asked`` the retries
    that were wanted (granted, denied or given up for lack of budget), ``opened`` how often the circuit was, ``retired``
    the sessions that a failure there has ended, bytes are response bodies as they came.
    """

    __slots__ = ("bytes_ok", "firsts", "fresh", "valid")

    retries: int = 0
    asked: int = 0
    denied: int = 0
    failed: int = 0
    bytes_bad: int = 0
    letters: int = 0
    opened: int = 0
    retired: int = 0
    fresh_refused: int = 0
    reasons: dict[tuple[str, str, str], int] | None = None
    """(class, reason, blame) of failures."""
    letter_reasons: dict[str, int] | None = None
    bytes_by_class: dict[str, int] | None = None

    def __init__(self) -> None:
        self.firsts = self.valid = self.bytes_ok = self.fresh = 0

    @property
    def requests(self) -> int:
        """Attempts that were sent."""
        return self.firsts + self.retries

    @property
    def judged(self) -> int:
        """Attempts that were judged."""
        return self.valid + self.failed

    @property
    def retry_ratio(self) -> float:
        """Retries sent per first attempt."""
        return self.retries / self.firsts if self.firsts else 0.0

    @property
    def retry_demand_ratio(self) -> float:
        """Retries wanted per first attempt: the alarm, because the budget caps the ratio that is sent."""
        return self.asked / self.firsts if self.firsts else 0.0

    @property
    def valid_ratio(self) -> float:
        """Good answers per judged attempt."""
        return self.valid / self.judged if self.judged else 0.0

    def top_reason(self) -> tuple[str, str, str] | None:
        """The (class, reason, blame) that failed most often."""
        return max(self.reasons, key=self.reasons.__getitem__) if self.reasons else None


@dataclass(slots=True)
class AllCounts(Counts):
    """What happened to one target, or to all."""

    firsts: int = 0
    valid: int = 0
    bytes_ok: int = 0
    fresh: int = 0
    retries: int = 0
    asked: int = 0
    denied: int = 0
    failed: int = 0
    bytes_bad: int = 0
    letters: int = 0
    opened: int = 0
    retired: int = 0
    fresh_refused: int = 0
    last_first: float = 0.0
    """When the last attempt that was no retry left, monotonic seconds; not much later, where all was well then."""
    reasons: dict[tuple[str, str, str], int] = field(default_factory=Counter)
    letter_reasons: dict[str, int] = field(default_factory=Counter)
    bytes_by_class: dict[str, int] = field(default_factory=Counter)

    def judge(self, outcome: Outcome, size: int, *, fresh: bool) -> None:
        """Count one judged attempt, whose body had *size* bytes."""
        self.fresh += fresh
        if outcome.ok:
            self.valid += 1
            self.bytes_ok += size
            return
        self.failed += 1
        self.bytes_bad += size
        self.fresh_refused += fresh and outcome.class_ == "identity"
        self.reasons[outcome.class_.value, outcome.reason, outcome.blame.value] += 1
        self.bytes_by_class[outcome.class_.value] += size

    def less(self, others: Iterable[Counts]) -> AllCounts:
        """What is left of these without those of *others*."""
        left = AllCounts(**{name: getattr(self, name) for name in NUMBERS})
        left.reasons, left.bytes_by_class = Counter(self.reasons), Counter(self.bytes_by_class)
        left.letter_reasons = Counter(self.letter_reasons)
        for other in others:
            for name in NUMBERS:
                setattr(left, name, getattr(left, name) - getattr(other, name))
            left.reasons -= Counter(other.reasons)
            left.bytes_by_class -= Counter(other.bytes_by_class)
            left.letter_reasons -= Counter(other.letter_reasons)
        return left


NUMBERS = tuple(entry.name for entry in fields(AllCounts) if entry.type == "int")


@dataclass(slots=True)
class Tally:
    """The counts of one crawl."""

    total: AllCounts = field(default_factory=AllCounts)
    targets: dict[str, Counts] = field(default_factory=dict)
    _latest: float = 0.0
    """When the last first attempt of any target left."""

    def _known(self, target: str) -> Counts:
        counts = self.targets.get(target)
        if counts is None:
            counts = self.targets[target] = Counts()
        return counts

    def of(self, target: str) -> AllCounts:
        """The counts of *target*, all of them to be written."""
        counts = self._known(target)
        if not isinstance(counts, AllCounts):
            whole = AllCounts(counts.firsts, counts.valid, counts.bytes_ok, counts.fresh, last_first=self._latest)
            counts = self.targets[target] = whole
        return counts

    def departed(self, target: str, now: float, *, retry: bool) -> None:
        """Count one attempt that leaves for the wire. *now* is monotonic."""
        if retry:
            for counts in self.both(target):
                counts.retries += 1
            return
        self._latest = now
        self.total.firsts += 1
        first = self.targets.get(target) or self._known(target)
        first.firsts += 1
        if type(first) is AllCounts:
            first.last_first = now

    def recalled(self, target: str, *, retry: bool) -> None:
        """One that was counted as departed never came to the wire: the cache had it, or somebody ignored it."""
        if retry:
            for counts in self.both(target):
                counts.retries -= 1
            return
        self.total.firsts -= 1
        self._known(target).firsts -= 1

    def judged(self, target: str, outcome: Outcome, size: int, *, fresh: bool) -> None:
        """Count one judged attempt, whose body had *size* bytes."""
        if not outcome.ok:
            for counts in self.both(target):
                counts.judge(outcome, size, fresh=fresh)
            return
        total, good = self.total, self.targets.get(target) or self._known(target)
        total.valid += 1
        total.bytes_ok += size
        good.valid += 1
        good.bytes_ok += size
        if fresh:
            total.fresh += 1
            good.fresh += 1

    def wanted(self, target: str, *, denied: bool = False) -> None:
        """Count one retry that is wanted, and perhaps *denied* by the budget."""
        for counts in self.both(target):
            counts.asked += 1
            counts.denied += denied

    def both(self, target: str) -> tuple[AllCounts, AllCounts]:
        """The counts of all and of *target*, to be written."""
        return self.total, self.of(target)

    def worst(self, most: int) -> list[str]:
        """The *most* targets with the most wasted work: failures, then wasted bytes."""
        targets = self.targets
        return heapq.nsmallest(most, targets, key=lambda name: (-targets[name].failed, -targets[name].bytes_bad, name))
