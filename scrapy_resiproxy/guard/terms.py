"""What all gates with the same settings share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_resiproxy.guard.budget import Rule

if TYPE_CHECKING:
    from random import Random

    from scrapy_resiproxy.guard.answers import GuardEvent
    from scrapy_resiproxy.settings import GuardSettings


@dataclass(slots=True, eq=False)
class Terms:
    """Settings, the budget rules made of them, dice, and the list where events go."""

    settings: GuardSettings
    rng: Random
    events: list[GuardEvent]
    kind: str = "target"
    """``target`` or ``endpoint``."""
    paces: bool = field(init=False)
    """Whether refusals for being too fast are learned from. An endpoint's say nothing about any one target."""
    transient: Rule = field(init=False)
    identity: Rule = field(init=False)
    _second: int = 0

    def __post_init__(self) -> None:
        self.paces = self.settings.pacing_enabled and self.kind == "target"
        self.transient = Rule.of(self.settings.budget_ratio, self.settings.budget_min_retries)
        self.identity = Rule.of(self.settings.budget_identity_ratio, self.settings.budget_min_retries)

    def one_for_all(self, second: int) -> int:
        """*second*, as the one object that all gates share."""
        if second != self._second:
            self._second = second
        return self._second
