"""The circuit of one target or proxy endpoint.

What may follow what is data, in ``TRANSITIONS``; everything that changes the state is in this file, and nothing else
is: it knows no target, no request and no clock.

A permit belongs to a generation; every change of state begins a new one, so that a late answer of an earlier one
changes nothing. A probe is a lease: one that is never answered is taken back when it expires.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.samples import Sample
from scrapy_resiproxy.guard.window import Ring

if TYPE_CHECKING:
    from random import Random

    from scrapy_resiproxy.settings import GuardSettings


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    RECOVERING = "recovering"


class Event(StrEnum):
    TRIPPED = "tripped"
    """Too many failures while closed."""
    COOLED = "cooled"
    """The open time is over."""
    PROBE_OK = "probe_ok"
    PROBE_FAILED = "probe_failed"
    PROBE_LOST = "probe_lost"
    """Three probes in a row told nothing."""
    RELAPSED = "relapsed"
    RECOVERED = "recovered"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.CLOSED, Event.TRIPPED): State.OPEN,
    (State.OPEN, Event.COOLED): State.HALF_OPEN,
    (State.HALF_OPEN, Event.PROBE_OK): State.RECOVERING,
    (State.HALF_OPEN, Event.PROBE_FAILED): State.OPEN,
    (State.HALF_OPEN, Event.PROBE_LOST): State.OPEN,
    (State.RECOVERING, Event.RELAPSED): State.OPEN,
    (State.RECOVERING, Event.RECOVERED): State.CLOSED,
}

WORSE = frozenset({Event.TRIPPED, Event.PROBE_FAILED, Event.RELAPSED})
"""Events that make the next open time longer."""


OKS, FAILURES, FRESH, FRESH_REFUSED = 0, 1, 2, 3
"""The series of a circuit's ring."""

OPEN_JITTER = 0.25
PROBES_WITHOUT_NEWS = 3
RECOVERING_SHARE = 0.1
"""The share of its usual rate at which a recovering target begins."""

RECOVERING_RATE = 1.0
RECOVERING_DOUBLINGS = 10
"""Where nothing is known of its rate it begins at one a second, and that is doubled so often in its recovery."""


class Circuit:
    """One circuit. Times are monotonic seconds.

    What time alone does happens in :meth:`tick`: call it before anything else is asked or told.
    """

    __slots__ = (
        "_failed_in_row",
        "_free_at",
        "_leases",
        "_level",
        "_level_at",
        "_newsless",
        "_ring",
        "_rng",
        "_settings",
        "_walled",
        "_went_well",
        "generation",
        "gone_since",
        "row",
        "since",
        "state",
        "until",
        "usual_rate",
    )

    def __init__(self, settings: GuardSettings, rng: Random, now: float, earlier_oks: int) -> None:
        self._settings = settings
        self._rng = rng
        self._ring = Ring(settings.circuit_window, 4)
        self._ring.add(OKS, now, earlier_oks)
        self.state = State.CLOSED
        self.since = now
        self.until = now
        self.generation = 0
        self.gone_since: float | None = None
        """Since when it has been open, or half-open, without recovering in between."""
        self.row = 0
        """How many failures in a row opened it; 0 where it was a share of all answers."""
        self.usual_rate = 0.0
        """Good answers per second before it opened; 0 when too few were seen to tell."""
        self._level = 0
        self._level_at = now
        self._walled = False
        """Whether refusals opened it."""
        self._failed_in_row = 0
        self._newsless = 0
        self._went_well = 0
        self._free_at = now
        self._leases: dict[object, float] = {}

    # May one go? --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> Event | None:
        """What time alone does: the end of an open time or of a recovery, and leases that expire."""
        if self.state is State.CLOSED:
            return None
        if self.state is State.OPEN:
            return self._go(Event.COOLED, now) if now >= self.until else None
        lost = [permit for permit, until in self._leases.items() if until <= now]
        for permit in lost:
            del self._leases[permit]
        if self.state is State.HALF_OPEN:
            return self._no_news(len(lost), now)
        over = self.since + self._settings.circuit_recovery
        return self._go(Event.RECOVERED, now) if now >= over else None

    def places(self, now: float) -> int | None:
        """How many may go now; None for any number."""
        if self.state is State.CLOSED:
            return None
        if self.state is State.OPEN:
            return 0
        if self.state is State.HALF_OPEN:
            return max(0, self._settings.circuit_probes - len(self._leases))
        # One by one, at the pace of the ramp, and no more out than went well: all at once overloads what just came up.
        return int(now >= self._free_at and len(self._leases) <= self._went_well)

    def ask_again_at(self, now: float) -> float:
        """When an answer other than the present "no" is possible without any news."""
        if self.state is State.OPEN:
            return self.until
        if self.state is State.HALF_OPEN:
            return min(self._leases.values())
        over = self.since + self._settings.circuit_recovery
        return min(over, self._free_at if now < self._free_at else min(self._leases.values()))

    def _ramp(self, now: float) -> float:
        """The pace of a recovery, per second."""
        share = (now - self.since) / self._settings.circuit_recovery
        if self.usual_rate:
            return self.usual_rate * max(RECOVERING_SHARE, share)
        return RECOVERING_RATE * float(2.0 ** (share * RECOVERING_DOUBLINGS))

    def claim(self, permit: object, lease_until: float, now: float) -> None:
        """*permit* goes: a probe, or one of a recovering target's."""
        if self.state is State.CLOSED:
            return
        self._leases[permit] = lease_until
        if self.state is State.RECOVERING:
            self._free_at = max(self._free_at, now) + 1.0 / self._ramp(now)

    # What came of it ----------------------------------------------------------------------------------------

    def report(self, permit: object, generation: int, sample: Sample, now: float, *, fresh: bool) -> Event | None:
        """Count one answer; what it did to the state, if anything. One of an earlier generation does nothing."""
        leased = self._leases.pop(permit, None) is not None
        if generation != self.generation:
            return None
        if self.state is State.HALF_OPEN:
            return self._probed(sample, now) if leased else None
        self._count(sample, now, fresh=fresh)
        if not self._trips(sample, now):
            return None
        if self.state is State.RECOVERING:
            return self._go(Event.RELAPSED, now)
        self._walled = sample is Sample.REFUSED
        return self._go(Event.TRIPPED, now)

    def _count(self, sample: Sample, now: float, *, fresh: bool) -> None:
        if sample is Sample.OK:
            self._ring.add(OKS, now)
            self._failed_in_row = 0
            self._went_well += 1
            self._calm_down(now)
        elif sample is Sample.FAILED:
            self._ring.add(FAILURES, now)
            self._failed_in_row += 1
        if fresh and (sample is Sample.OK or sample is Sample.REFUSED):
            self._ring.add(FRESH, now)
            if sample is Sample.REFUSED:
                self._ring.add(FRESH_REFUSED, now)

    def _calm_down(self, now: float) -> None:
        """The level falls by one for every quiet window, not at closing: a target that flaps keeps its history."""
        while self.state is State.CLOSED and self._level and now - self._level_at >= self._settings.circuit_window:
            self._level -= 1
            self._level_at += self._settings.circuit_window

    def _trips(self, sample: Sample, now: float) -> bool:
        settings = self._settings
        if sample is Sample.FAILED:
            in_row = self._failed_in_row >= self._telling_row(now)
            self.row = self._failed_in_row if in_row else 0
            return in_row or self.failure_ratio(now) >= settings.circuit_failure_ratio
        if sample is Sample.REFUSED:
            return self._ratio(FRESH_REFUSED, self._ring.at_most(FRESH, now), now) >= settings.circuit_identity_ratio
        return False

    def _telling_row(self, now: float) -> int:
        """So many failures in a row are no chance: ``circuit_consecutive`` where nothing else fails.

        Up to ``circuit_min_requests`` where nearly so many fail that it would open: of answers that fail by chance
        three times in ten, five in a row are nothing special.
        """
        settings, row = self._settings, self._failed_in_row
        others = max(0, self._ring.at_most(FAILURES, now) - row)
        answers = max(settings.circuit_min_requests, others + self._ring.at_most(OKS, now))
        share = others / answers / settings.circuit_failure_ratio
        return settings.circuit_consecutive + int(
            share * max(0, settings.circuit_min_requests - settings.circuit_consecutive)
        )

    def failure_ratio(self, now: float) -> float:
        """Failures per answer over the window; 0 below ``circuit_min_requests``."""
        return self._ratio(FAILURES, self._ring.at_most(FAILURES, now) + self._ring.at_most(OKS, now), now)

    def _ratio(self, part: int, whole: int, now: float) -> float:
        return self._ring.at_most(part, now) / whole if whole >= self._settings.circuit_min_requests else 0.0

    def _probed(self, sample: Sample, now: float) -> Event | None:
        if sample is Sample.NOTHING:
            return self._no_news(1, now)
        if sample is Sample.SLOWED:
            return self._go(Event.PROBE_LOST, now)
        # A refusal proves that a target is up that had stopped answering.
        is_up = sample is Sample.OK or (sample is Sample.REFUSED and not self._walled)
        return self._go(Event.PROBE_OK if is_up else Event.PROBE_FAILED, now)

    def _no_news(self, probes: int, now: float) -> Event | None:
        self._newsless += probes
        return self._go(Event.PROBE_LOST, now) if self._newsless >= PROBES_WITHOUT_NEWS else None

    # The state ----------------------------------------------------------------------------------------------

    def _go(self, event: Event, now: float) -> Event:
        self.state = TRANSITIONS[self.state, event]
        self.since = now
        self.generation += 1
        self._leases.clear()
        self._newsless = self._went_well = self._failed_in_row = 0
        if self.state is State.OPEN:
            self._open(now, worse=event in WORSE)
        elif self.state is not State.HALF_OPEN:
            self.gone_since = None
        if self.state is State.RECOVERING:
            self._ring = Ring(self._settings.circuit_window, 4)
        self._level_at = now
        return event

    def _open(self, now: float, *, worse: bool) -> None:
        """Stay open for a time that doubles with every level up to the cap, and is spread upwards."""
        most = self._settings.circuit_cooldown_max
        if worse and self._wait() < most:
            self._level += 1
        wait = min(most, self._wait())
        self.until = now + wait + self._rng.uniform(0.0, OPEN_JITTER * wait)
        if self.gone_since is None:
            self.gone_since = now

    def _wait(self) -> float:
        return float(self._settings.circuit_cooldown * 2.0 ** max(self._level - 1, 0))
