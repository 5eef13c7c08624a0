"""Counts of one crawl, for the whole and by target: what the stats, the report and the tables are made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_resiproxy.outcome import Outcome


@dataclass(slots=True)
class Counts:
    """What happened to one target, or to all.

    ``requests`` are attempts that left for the wire, ``firsts`` those that were no retry, ``asked`` the retries
    that were wanted (granted, denied or given up for lack of budget), bytes are response bodies as they came.
    """

    requests: int = 0
    firsts: int = 0
    retries: int = 0
    asked: int = 0
    denied: int = 0
    judged: int = 0
    valid: int = 0
    bytes_ok: int = 0
    bytes_bad: int = 0
    letters: int = 0
    fresh: int = 0
    fresh_refused: int = 0
    last_first: float = 0.0
    reasons: dict[tuple[str, str, str], int] | None = None
    """(class, reason, blame) of failures."""
    bytes_by_class: dict[str, int] | None = None

    def judge(self, outcome: Outcome, size: int, *, fresh: bool) -> None:
        """Count one judged attempt."""
        self.judged += 1
        self.fresh += fresh
        if outcome.ok:
            self.valid += 1
            self.bytes_ok += size
            return
        self.bytes_bad += size
        self.fresh_refused += fresh and outcome.class_ == "identity"
        if self.reasons is None:
            self.reasons, self.bytes_by_class = Counter(), Counter()
        assert self.bytes_by_class is not None
        self.reasons[outcome.class_.value, outcome.reason, outcome.blame.value] += 1
        self.bytes_by_class[outcome.class_.value] += size

    def add(self, other: Counts) -> None:
        """Add the counts of *other* to these."""
        for name in ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("reasons", "bytes_by_class"):
            theirs = getattr(other, name)
            if theirs:
                setattr(self, name, Counter(getattr(self, name) or {}) + Counter(theirs))

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


ADDED = tuple(entry.name for entry in fields(Counts) if entry.type == "int")


@dataclass(slots=True)
class Tally:
    """The counts of one crawl."""

    total: Counts = field(default_factory=Counts)
    targets: dict[str, Counts] = field(default_factory=dict)

    def of(self, target: str) -> Counts:
        counts = self.targets.get(target)
        if counts is None:
            counts = self.targets[target] = Counts()
        return counts

    def departed(self, target: str, now: float, *, retry: bool) -> None:
        """Count one attempt that leaves for the wire. *now* is monotonic."""
        total, counts = self.total, self.targets.get(target) or self.of(target)
        total.requests += 1
        counts.requests += 1
        if retry:
            total.retries += 1
            counts.retries += 1
        else:
            total.firsts += 1
            counts.firsts += 1
            counts.last_first = now

    def judged(self, target: str, outcome: Outcome, size: int, *, fresh: bool) -> None:
        """Count one judged attempt, whose body had *size* bytes."""
        both = self.total, self.targets.get(target) or self.of(target)
        if not outcome.ok:
            for counts in both:
                counts.judge(outcome, size, fresh=fresh)
            return
        for counts in both:
            counts.judged += 1
            counts.valid += 1
            counts.bytes_ok += size
            counts.fresh += fresh

    def both(self, target: str) -> tuple[Counts, Counts]:
        return self.total, self.of(target)

    def worst(self, most: int) -> list[str]:
        """The *most* targets with the most wasted work: failures, then wasted bytes."""
        return sorted(
            self.targets,
            key=lambda name: (
                self.targets[name].valid - self.targets[name].judged,
                -self.targets[name].bytes_bad,
                name,
            ),
        )[:most]
