"""Named sessions: a login or a basket keeps its exit, and is never given another one silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_resiproxy.sessions.session import Session

LIMIT = "session_limit"
"""The reason of a named session that is older than its vendor keeps any."""


class NamedSessions:
    """The named sessions of a crawl; one small record for each name that was ever used."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lost: dict[str, str] = {}

    def get(self, name: str) -> Session | None:
        return self._sessions.get(name)

    def put(self, session: Session) -> None:
        self._sessions[session.owner] = session

    def gone(self, name: str, now: float) -> str | None:
        """Why *name* has ended; None while it has not."""
        session = self._sessions.get(name)
        if session is not None and now >= session.expires_at:
            return self._lost.setdefault(name, LIMIT)
        return self._lost.get(name)

    def lose(self, session: Session, reason: str) -> None:
        """*session* is lost."""
        self._lost.setdefault(session.owner, reason)
