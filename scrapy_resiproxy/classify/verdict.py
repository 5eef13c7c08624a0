"""What a validator may say, besides yes and no."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from scrapy_resiproxy.outcome import OutcomeClass


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validator's judgement of an answer; made by the class methods, each with a reason in the user's words.

    The reason goes to the evidence of the outcome, shortened and on one line; it never becomes a stat key.
    """

    class_: OutcomeClass
    reason: str = ""
    wait: float | None = None
    """Seconds, for a rate limit only."""

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise ValueError(f"A verdict's reason must be text, not {self.reason!r}.")  # noqa: TRY004
        if self.wait is not None and not _is_span(self.wait):
            raise ValueError(f"A verdict's wait must be seconds, 0 or more, or None, not {self.wait!r}.")

    @classmethod
    def ok(cls) -> Self:
        """The answer is good."""
        return cls(OutcomeClass.OK)

    @classmethod
    def transient(cls, reason: str = "") -> Self:
        """Half an answer, or one that will be better soon: ask again, later, on the same session."""
        return cls(OutcomeClass.TRANSIENT, reason)

    @classmethod
    def identity(cls, reason: str = "") -> Self:
        """A soft block: ask again with a new session."""
        return cls(OutcomeClass.IDENTITY, reason)

    @classmethod
    def terminal(cls, reason: str = "") -> Self:
        """Asking again is of no use."""
        return cls(OutcomeClass.TERMINAL, reason)

    @classmethod
    def rate(cls, reason: str = "", wait: float | None = None) -> Self:
        """Too fast: slow the target down, and wait *wait* seconds where the page says how long."""
        return cls(OutcomeClass.RATE, reason, wait)


def _is_span(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
