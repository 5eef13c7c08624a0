"""The circuit of one target or proxy endpoint.

What may follow what is data, in ``TRANSITIONS``; everything that changes the state is in this file, and nothing else
is: it knows no target, no request and no clock.

A permit belongs to a generation; every change of state begins a new one, so that a late answer of an earlier one
changes no state. A probe is a lease: one that is never answered is taken back when it expires.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

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


class Sample(StrEnum):
    """What one answer means for a circuit."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    """A fresh session was refused at its first answer."""
    SLOWED = "slowed"
    """A rate signal: the pacer's business, but no proof of health for a probe."""
    NOTHING = "nothing"
    """Says nothing about it: cancelled, somebody else's fault."""


OKS, FAILURES, FRESH, FRESH_REFUSED = 0, 1, 2, 3
"""The series of a circuit's ring."""

OPEN_JITTER = 0.25
PROBES_WITHOUT_NEWS = 3
RELAPSE_ROW = 2
RELAPSE_SAMPLES = 3
RECOVERING_PLACES = 32
"""Places that a recovering target has at the end of its recovery; it begins with one."""


class Circuit:
    """One circuit. Times are monotonic seconds."""

    __slots__ = (
        "_failed_in_row",
        "_leases",
        "_level_at",
        "_newsless",
        "_refused_by",
        "_ring",
        "_settings",
        "_tried",
        "_went_well",
        "generation",
        "gone_since",
        "level",
        "since",
        "state",
        "until",
    )

    def __init__(self, settings: GuardSettings, now: float, earlier_oks: int = 0) -> None:
        self._settings = settings
        self._ring = Ring(settings.circuit_window, 4)
        if earlier_oks:
            self._ring.add(OKS, now, earlier_oks)
        self.state = State.CLOSED
        self.since = now
        self.until = now
        self.generation = 0
        self.level = 0
        self._level_at = now
        self.gone_since: float | None = None
        self._failed_in_row = 0
        self._refused_by = False
        self._newsless = 0
        self._tried = self._went_well = 0
        self._leases: dict[object, float] = {}

    # May one go? --------------------------------------------------------------------------------------------

    def places(self, now: float) -> int | None:
        """How many may go now; None for any number. Changes the state only as time alone does."""
        self.tick(now)
        if self.state is State.CLOSED:
            return None
        if self.state is State.OPEN:
            return 0
        return max(0, self._most_out(now) - self._out(now))

    def tick(self, now: float) -> Event | None:
        """What time alone does to the state."""
        if self.state is State.OPEN and now >= self.until:
            return self._go(Event.COOLED, now)
        if self.state is State.RECOVERING and now - self.since >= self._settings.circuit_recovery:
            return self._go(Event.RECOVERED, now)
        return None

    def ask_again_at(self, now: float) -> float:
        """When an answer other than the present "no" is possible without any news."""
        if self.state is State.OPEN:
            return self.until
        return min([*self._leases.values(), now + self._settings.circuit_cooldown_max])

    def claim(self, permit: object, lease_until: float) -> None:
        """*permit* goes: a probe, or one of a recovering target's."""
        if self.state is not State.CLOSED:
            self._leases[permit] = lease_until

    def _most_out(self, now: float) -> int:
        if self.state is State.HALF_OPEN:
            return self._settings.circuit_probes
        # A ramp by time and by good answers: all at once at reopening overloads what has just come up.
        share = (now - self.since) / max(self._settings.circuit_recovery, 1e-9)
        return 1 + min(self._went_well, int(share * RECOVERING_PLACES) + 1)

    def _out(self, now: float) -> int:
        lost = [permit for permit, until in self._leases.items() if until <= now]
        for permit in lost:
            del self._leases[permit]
            self._no_news(now)
        return len(self._leases)

    # What came of it ----------------------------------------------------------------------------------------

    def report(self, permit: object, generation: int, sample: Sample, now: float, *, fresh: bool) -> Event | None:
        """Count one answer; what it did to the state, if anything."""
        self.tick(now)
        mine = self._leases.pop(permit, None) is not None
        self._count(sample, now, fresh=fresh)
        if generation != self.generation:
            return None
        if self.state is State.HALF_OPEN:
            return self._probed(sample, now) if mine else None
        if self.state is State.RECOVERING:
            return self._recovering(sample, now)
        if self.state is State.CLOSED and self._tripped(sample, now):
            return self._go(Event.TRIPPED, now)
        return None

    def _count(self, sample: Sample, now: float, *, fresh: bool) -> None:
        if sample is Sample.OK:
            self._ring.add(OKS, now)
            self._failed_in_row = 0
            self.gone_since = None
            if self.state is State.CLOSED:
                self._calm_down(now)
        elif sample is Sample.FAILED:
            self._ring.add(FAILURES, now)
            self._failed_in_row += 1
        if fresh and sample in {Sample.OK, Sample.REFUSED}:
            self._ring.add(FRESH, now)
            if sample is Sample.REFUSED:
                self._ring.add(FRESH_REFUSED, now)
        if sample in {Sample.FAILED, Sample.REFUSED} and self.gone_since is None:
            self.gone_since = now

    def _calm_down(self, now: float) -> None:
        """The level falls by one for every quiet window, not at closing: a target that flaps keeps its history."""
        while self.level and now - self._level_at >= self._settings.circuit_window:
            self.level -= 1
            self._level_at += self._settings.circuit_window

    def _tripped(self, sample: Sample, now: float) -> bool:
        settings = self._settings
        if sample is Sample.FAILED:
            self._refused_by = False
            return (
                self._failed_in_row >= settings.circuit_consecutive
                or self.failure_ratio(now) >= settings.circuit_failure_ratio
            )
        if sample is Sample.REFUSED:
            self._refused_by = True
            return self._share(FRESH_REFUSED, FRESH, now) >= settings.circuit_identity_ratio
        return False

    def failure_ratio(self, now: float) -> float:
        """Failures per answer over the window; 0 below ``circuit_min_requests``."""
        failures = self._ring.at_most(FAILURES, now)
        answers = failures + self._ring.at_most(OKS, now)
        return failures / answers if answers >= self._settings.circuit_min_requests else 0.0

    def _share(self, part: int, whole: int, now: float) -> float:
        count = self._ring.at_most(whole, now)
        return self._ring.at_most(part, now) / count if count >= self._settings.circuit_min_requests else 0.0

    def _probed(self, sample: Sample, now: float) -> Event | None:
        if sample is Sample.SLOWED:
            return self._go(Event.PROBE_LOST, now)
        if sample is Sample.OK or (sample is Sample.REFUSED and not self._refused_by):
            # A refusal proves that a target is up that had stopped answering.
            return self._go(Event.PROBE_OK, now)
        if sample is Sample.NOTHING:
            return self._no_news(now)
        return self._go(Event.PROBE_FAILED, now)

    def _no_news(self, now: float) -> Event | None:
        if self.state is not State.HALF_OPEN:
            return None
        self._newsless += 1
        return self._go(Event.PROBE_LOST, now) if self._newsless >= PROBES_WITHOUT_NEWS else None

    def _recovering(self, sample: Sample, now: float) -> Event | None:
        bad = sample is Sample.FAILED or (sample is Sample.REFUSED and self._refused_by)
        if not bad and sample is not Sample.OK:
            return None
        self._tried += 1
        self._went_well += not bad
        failed = self._tried - self._went_well
        if bad and (
            self._failed_in_row >= RELAPSE_ROW or (self._tried >= RELAPSE_SAMPLES and 2 * failed >= self._tried)
        ):
            return self._go(Event.RELAPSED, now)
        return None

    # The state ----------------------------------------------------------------------------------------------

    def _go(self, event: Event, now: float) -> Event:
        self.state = TRANSITIONS[self.state, event]
        self.since = now
        self.generation += 1
        self._leases.clear()
        self._newsless = self._tried = self._went_well = self._failed_in_row = 0
        if event in WORSE:
            self.level += 1
        if self.state is State.CLOSED:
            self._level_at = now
            self.gone_since = None
            self._ring = Ring(self._settings.circuit_window, 4)
        return event

    def open_until(self, rng: Random, not_before: float) -> None:
        """Set the end of an open time that has just begun: doubled with every level, spread upwards, capped."""
        settings = self._settings
        doubled = settings.circuit_cooldown * 2.0 ** min(max(self.level - 1, 0), 30)
        wait = min(settings.circuit_cooldown_max, doubled)
        self.until = max(self.since + wait + rng.uniform(0.0, OPEN_JITTER * wait), not_before)
