"""Retry budgets: how many retries the first attempts of a window have earned.

A retry is granted while ``retries + 1 <= max(floor, ratio * firsts)`` over the window; the retries are counted over
a little more than the window and the first attempts over a little less, which makes the bound exact at every grant.
It is charged when it is decided, so that a thousand retries in backoff cannot all leave together, and refunded if it
is never sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_resiproxy.guard.window import Ring

FIRSTS, OKS, TRANSIENT, IDENTITY = 0, 1, 2, 3
"""The series of a target's ring. Good answers are no budget's business, but one ring is smaller than two."""

BASIS_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One ratio, in basis points (integers: 0.15 must not become 0.167), and the floor."""

    basis_points: int
    floor: int

    @classmethod
    def of(cls, ratio: float, floor: int) -> Rule:
        return cls(round(ratio * BASIS_POINTS), floor)

    def grants(self, ring: Ring, series: int, now: float) -> bool:
        """Whether one more retry fits now. Changes nothing."""
        wanted = ring.at_most(series, now) + 1
        return wanted <= self.floor or BASIS_POINTS * wanted <= self.basis_points * ring.at_least(FIRSTS, now)


@dataclass(slots=True, eq=False)
class Charged:
    """One retry charged to one ring."""

    ring: Ring
    series: int
    bucket: int


@dataclass(slots=True, eq=False)
class Reservation:
    """A granted retry: what it was charged to. Given back at most once."""

    charges: tuple[Charged, ...] = ()

    def refund(self, now: float) -> None:
        for charge in self.charges:
            charge.ring.take_back(charge.series, charge.bucket, now)
        self.charges = ()


def reserve(wanted: tuple[tuple[Rule, Ring, int], ...], now: float) -> Reservation | None:
    """Charge one retry to every (rule, ring, series) of *wanted*, or to none: then None."""
    for _, ring, series in wanted:
        ring.widen(series + 1)
    if not all(rule.grants(ring, series, now) for rule, ring, series in wanted):
        return None
    return Reservation(tuple(Charged(ring, series, ring.add(series, now)) for _, ring, series in wanted))
