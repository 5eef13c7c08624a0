"""What it is for a host to behave in some way: the words that faults and walls are made of.

A behaviour is a frozen description (``Flaky(p=0.2)``). :meth:`Behaviour.begin` turns it into a
:class:`Judge`, which holds what that host remembers and decides about one :class:`Visit` at a time. Nothing
here or in the modules of behaviours reads a clock or rolls dice: ``now`` comes in as seconds, and chance is
a hash of the path and a seed, so that the same URLs fail in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class How(StrEnum):
    """What the site does with the connection once it has decided."""

    SEND = "send"
    RESET = "reset"
    """RST instead of an answer."""
    CLOSE = "close"
    """FIN instead of an answer."""
    HANG = "hang"
    """Nothing, until the client gives up."""
    REFUSE = "refuse"
    """The gateway cannot reach the site at all: it answers 502 itself, to CONNECT too."""
    TRUNCATE = "truncate"
    """Half of the announced body, then FIN."""
    TRUNCATE_CHUNKED = "truncate-chunked"
    """Half of the body in chunks without a last one, then FIN."""
    DRIP = "drip"
    """The body in small pieces, spread over :attr:`Answer.drip` seconds."""


class PageKind(StrEnum):
    """Which page goes out."""

    GOOD = "good"
    EMPTY = "empty"
    SHORT = "short"
    CHALLENGE = "challenge"
    CLOUDFLARE = "cloudflare"
    LOOKALIKE = "lookalike"
    BLOCKED = "blocked"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as a site sees it."""

    path: str
    """With the query, without the host."""
    session: str
    """The address it came from: all by which a site tells visitors apart."""
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the site does about one visit."""

    outcome: str = "ok"
    """The word under which the ledger counts it."""
    status: int = 200
    page: PageKind = PageKind.GOOD
    how: How = How.SEND
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    """Seconds before the answer begins."""
    drip: float = 0.0
    """Seconds over which the body is spread."""
    padding: int = 0
    """Bytes added to the body."""
    block: bool = False
    """True for the request that earned a block."""


OK: Final = Answer()


class Judge:
    """One host's memory and mood."""

    def reachable(self, now: float) -> bool:  # noqa: ARG002
        """Whether a connection to the host succeeds at all."""
        return True

    def decide(self, visit: Visit, now: float) -> Answer:
        """Answer `visit`, made at `now` (seconds, never going back), and remember it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Behaviour(Judge):
    """What a host is told to do; without memory it is its own judge."""

    def begin(self, now: float) -> Judge:  # noqa: ARG002
        """Return a fresh judge that starts at `now`."""
        return self

    def __add__(self, other: Behaviour) -> Chain:
        return Chain((self, other))


@dataclass(frozen=True)
class Chain(Behaviour):
    """Several behaviours in a row: the first that is not content decides, delays and padding add up."""

    parts: tuple[Behaviour, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a chain needs at least one behaviour")

    def begin(self, now: float) -> Judge:
        return _Chain([part.begin(now) for part in self.parts])


class _Chain(Judge):
    def __init__(self, judges: list[Judge]) -> None:
        self._judges = judges

    def reachable(self, now: float) -> bool:
        return all(judge.reachable(now) for judge in self._judges)

    def decide(self, visit: Visit, now: float) -> Answer:
        answer, delay, padding = OK, 0.0, 0
        for judge in self._judges:
            answer = judge.decide(visit, now)
            delay += answer.delay
            padding += answer.padding
            if answer.outcome != "ok":
                break
        return replace(answer, delay=delay, padding=padding)
