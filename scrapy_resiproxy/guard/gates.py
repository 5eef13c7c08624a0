"""The gates of all targets and endpoints, and which of the targets are looked at next to be forgotten."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.gate import Gate
from scrapy_resiproxy.guard.open_gate import OpenGate
from scrapy_resiproxy.guard.outage import OutageWatch
from scrapy_resiproxy.guard.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from scrapy_resiproxy.guard.answers import GuardEvent
    from scrapy_resiproxy.settings import GuardSettings

SWEPT_AT_ONCE = 2
"""So many targets are looked at, and forgotten if nothing would be lost, whenever a new one comes."""


class Gates:
    """Every target's gate, from its first request until nothing is to be remembered of it, and every endpoint's."""

    def __init__(
        self,
        settings: GuardSettings,
        rng: Random,
        overrides: Mapping[str, GuardSettings],
        events: list[GuardEvent],
    ) -> None:
        self._terms = Terms(settings, rng, events)
        self._overrides = {name: Terms(own, rng, events) for name, own in overrides.items()}
        self._endpoint_terms = Terms(settings, rng, events, kind="endpoint")
        self.targets: dict[str, OpenGate] = {}
        self.endpoints: dict[str, Gate] = {}
        self._next: deque[str] = deque()

    def terms_of(self, target: str) -> Terms:
        """The terms of *target*, its overrides included."""
        return self._overrides.get(target) or self._overrides.get("*", self._terms)

    def target(self, name: str) -> OpenGate:
        """The gate of the target *name*."""
        gate = self.targets.get(name)
        if gate is None:
            gate = self.targets[name] = OpenGate(self.terms_of(name))
            self._next.append(name)
        return gate

    def troubled(self, name: str) -> Gate:
        """The gate of the target *name*, which has something wrong with it."""
        gate = self.target(name)
        if not isinstance(gate, Gate):
            gate = self.targets[name] = Gate.instead_of(gate, name)
        return gate

    def endpoint(self, name: str) -> Gate:
        """The gate of the endpoint *name*."""
        gate = self.endpoints.get(name)
        if gate is None:
            gate = self.endpoints[name] = Gate(name, self._endpoint_terms)
        return gate

    def forget(self, now: float, most: int) -> int:
        """Look at *most* targets, those first that were not looked at for longest, and forget the ones of which nothing
        that matters would be lost; returns how many.
        """
        forgotten = 0
        for _ in range(min(most, len(self._next))):
            name = self._next.popleft()
            gate = self.targets[name]
            if gate.forgettable(now) and not OutageWatch.remembers(gate, now):
                del self.targets[name]
                forgotten += 1
            else:
                self._next.append(name)
        return forgotten
