"""Requests on their way, on disk, so that a kill at any moment loses none that has left Scrapy's queue.

One SQLite file in JOBDIR (WAL). A row is written and committed before a request is sent or waits, and deleted at the
request's final outcome; deletions ride on the next commit, because losing one only means that a request is fetched
once more. Requests are stored as Scrapy's own disk queues store them (pickled ``to_dict``), in
the same directory and with the same trust.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GRACE = 5.0
"""Seconds for which a finished request is kept: its callback and its items need time too, and nothing tells when they
have had it. A kill in between means that the page is fetched again.
"""

FILE_NAME = "resiproxy.sqlite"


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """One row: *due* is wall-clock time in seconds, *released* whether it was in Scrapy's scheduler."""

    id: str
    due: float
    released: bool
    request: dict[str, Any]
    extra: dict[str, Any]


class WaitingStore:
    """The rows of one JOBDIR. Not shared between processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        # NORMAL survives a killed process; only a power cut may lose the last commits.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS waiting "
            "(id TEXT PRIMARY KEY, due REAL NOT NULL, released INTEGER NOT NULL, request BLOB NOT NULL, "
            "extra BLOB NOT NULL)"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL)")
        self._ids = {row[0] for row in self._db.execute("SELECT id FROM waiting")}
        self._open = False
        self._finished: deque[tuple[float, str]] = deque()

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def put(
        self, entry_id: str, due: float, request: dict[str, Any], extra: dict[str, Any], *, released: bool = False
    ) -> None:
        """Write one request and commit; *released* when Scrapy has it at present.

        Raises what pickling raises (TypeError, AttributeError, pickle.PicklingError) when it cannot be stored.
        """
        row = (entry_id, due, released, pickle.dumps(request, protocol=4), pickle.dumps(extra, protocol=4))
        self._begin()
        self._db.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?)", row)
        self._ids.add(entry_id)
        self.commit()

    def release(self, entry_id: str) -> None:
        """The request was handed to Scrapy's scheduler; it stays here until it is finished."""
        if entry_id in self._ids:
            self._begin()
            self._db.execute("UPDATE waiting SET released = 1 WHERE id = ?", (entry_id,))

    def take_back(self) -> None:
        """Nothing is in the hands of Scrapy's scheduler any more."""
        self._begin()
        self._db.execute("UPDATE waiting SET released = 0")

    def finish(self, entry_id: str, now: float) -> None:
        """The request has its final outcome (*now* in seconds of any clock): its row goes soon."""
        if entry_id in self._ids:
            self._finished.append((now, entry_id))
        while self._finished and self._finished[0][0] <= now - GRACE:
            self._delete(self._finished.popleft()[1])

    def _delete(self, entry_id: str) -> None:
        self._ids.discard(entry_id)
        self._begin()
        self._db.execute("DELETE FROM waiting WHERE id = ?", (entry_id,))

    def fact(self, name: str) -> Any:
        """What :meth:`remember` kept under *name*; None when nothing."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return pickle.loads(row[0]) if row else None  # noqa: S301 - as JOBDIR's own queues

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value with the job, and commit."""
        self._begin()
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, pickle.dumps(value, protocol=4)))
        self.commit()

    def load(self) -> Iterator[StoredRequest]:
        """Every row, those due first first."""
        rows = self._db.execute("SELECT id, due, released, request, extra FROM waiting ORDER BY due").fetchall()
        for entry_id, due, released, request, extra in rows:
            yield StoredRequest(
                entry_id,
                due,
                bool(released),
                pickle.loads(request),  # noqa: S301
                pickle.loads(extra),  # noqa: S301
            )

    def _begin(self) -> None:
        if not self._open:
            self._db.execute("BEGIN")
            self._open = True

    def commit(self) -> None:
        """Make everything so far durable."""
        if self._open:
            self._db.execute("COMMIT")
            self._open = False

    def close(self) -> None:
        """Write everything that is known, after the last callback has ended."""
        while self._finished:
            self._delete(self._finished.popleft()[1])
        self.commit()
        self._db.close()
