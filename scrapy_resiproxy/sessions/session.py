"""A session: one exit, used for a while, and the values that the pool answers with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Use:
    """What the pool keeps about one session. Nobody else writes it."""

    in_flight: int = 0
    leases: int = 0
    answered: bool = False
    """Whether a good answer came over it."""
    last: float = 0.0
    """When it was last used."""
    ended: bool = False
    """It is not leased any more; what is in flight on it may finish."""
    retired: bool = False
    """Its first failure was reported."""


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """One exit for a while. Its repr shows the alias only."""

    alias: str
    """Eight hexadecimal characters, salted: the only thing of it that may be shown."""
    url: str
    """The proxy's URL with the full credentials, as ``meta["proxy"]`` wants it."""
    bare: str
    """``scheme://host:port``."""
    generation: int
    """How many sessions had its place before it, in the same span of time."""
    cookies: bool
    """Whether it has a cookie jar of its own."""
    expires_at: float
    """Infinite for a named session whose vendor names no limit."""
    named: bool
    owner: str
    """The target that it serves; the name of a named session."""
    use: Use = field(default_factory=Use, compare=False)

    @property
    def jar(self) -> str | None:
        """The key of its cookie jar; None when cookies are not bound to sessions."""
        return f"resiproxy:{self.alias}" if self.cookies else None

    def __repr__(self) -> str:
        return f"Session({self.alias})"


@dataclass(frozen=True, slots=True)
class Lease:
    """A session to send one request over; it is to be given back with ``release``."""

    session: Session
    fresh: bool
    """No good answer came over it yet."""


@dataclass(frozen=True, slots=True)
class NoSession:
    """Nothing is free."""

    until: float
    """When to ask again."""


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The named session has ended; it is not replaced."""

    reason: str
    """A short fixed word: why it was retired, or ``session_limit`` (older than its vendor keeps any)."""
