"""What an attempt came to: the value that every part of the package speaks of.

An :class:`Outcome` says what happened (its class), why (a short fixed word), whose fault it was and by what
evidence. It holds no URL, no body text and no secret, so it may be logged, counted and stored as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class OutcomeClass(StrEnum):
    """The five answers to "what now?"."""

    OK = "ok"
    """The body was validated: deliver."""
    TRANSIENT = "transient"
    """A passing fault: back off and retry."""
    RATE = "rate"
    """Too fast: wait as told, on the same session, and slow the whole target."""
    IDENTITY = "identity"
    """The session was refused: retire it and retry with a new one."""
    TERMINAL = "terminal"
    """No retry can succeed: surface."""


class Blame(StrEnum):
    """Who is charged with a failure."""

    TARGET = "target"
    SESSION = "session"
    PROXY = "proxy"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One judged attempt."""

    class_: OutcomeClass
    reason: str
    """A short fixed word, safe as a stat key; one of those documented in the reference of outcome reasons."""
    blame: Blame = Blame.TARGET
    evidence: str = ""
    """The name of the marker that decided, never text of the page."""
    wait: float | None = None
    """Seconds that the server told us to wait; None when it said nothing usable."""
    weak: bool = False
    """True when the evidence may be something else: a bare 403 or 401 may be an honest answer, and what came inside TLS
    the target's own words.
    """

    ok: bool = field(init=False, repr=False, compare=False)
    """Whether its class is that of a good answer. Not computed at each look: there are five for every answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.class_ is OutcomeClass.OK)


OK: Final = Outcome(OutcomeClass.OK, "ok")
"""The outcome of a delivered answer."""
