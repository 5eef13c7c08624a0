"""What a set of feeds holds: a short entry for each letter, and what became of it."""

from __future__ import annotations

import glob
import json
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.deadletter.reading import LetterError, read_letter, read_line, read_lines
from scrapy_resiproxy.deadletter.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_resiproxy.deadletter.lock import Lock

Identity = tuple[str, str, str, str | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """What must be known of a letter to choose it; the letter itself stays in its file until it is run."""

    file: str
    line: int
    offset: int
    size: int
    id: str
    time: float
    spider: str
    spider_args: str
    """The arguments as JSON with sorted keys."""
    key: str
    callback: str | None
    class_: str
    reason: str
    target: str
    replay_count: int
    not_before: float | None
    replayable: bool
    offline: bool
    """Whether its page is stored, and all that a callback needs beside it."""
    proxied: bool
    """Whether an attempt went through a session of the proxy."""

    @property
    def identity(self) -> Identity:
        """Letters that are alike in this are about the same piece of work."""
        return self.spider, self.spider_args, self.key, self.callback

    def read(self) -> dict[str, Any]:
        """The letter, from the file at its path. Raises as :meth:`load`."""
        with Path(self.file).open("rb") as file:
            file.seek(self.offset)
            return read_letter(file.read(self.size))

    def load(self, lock: Lock) -> dict[str, Any]:
        """The letter, from the file that *lock* holds, wherever that is now.

        Raises ``OSError``, and :class:`~.reading.LetterError` when the file was rewritten.
        """
        return read_letter(lock.read(self.offset, self.size))


def canonical(spider_args: Mapping[str, Any]) -> str:
    """The same text for the same spider arguments."""
    return json.dumps(spider_args, sort_keys=True)


@dataclass(slots=True)
class Index:
    """The letters of some feeds in the order of their lines, and the last mark of each that has one."""

    entries: list[Entry] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    """Letter id -> ``done`` or ``superseded``."""
    problems: list[str] = field(default_factory=list)
    """``FILE:LINE: what is wrong``, a line each."""

    def newest(self) -> dict[Identity, list[Entry]]:
        """The letters by what they are about, each list with the newest last."""
        chains: dict[Identity, list[Entry]] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.time):
            chains.setdefault(entry.identity, []).append(entry)
        return chains

    def open(self) -> list[list[Entry]]:
        """What is not done yet, oldest first: lists of letters about the same work with the newest last."""
        chains = [chain for chain in self.newest().values() if chain[-1].id not in self.marks]
        return sorted(chains, key=lambda chain: chain[-1].time)


def expand(paths: Iterable[str]) -> list[str]:
    """The files that *paths* name, wildcards resolved, each once.

    Raises ``ValueError``, one line, for a path that names no file.
    """
    found: dict[str, None] = {}
    for path in paths:
        names = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]  # noqa: PTH207
        files = [name for name in names if Path(name).is_file()]
        if not files:
            raise ValueError(f"{path!r} names no file; it must be the path or a pattern of a feed")
        found.update(dict.fromkeys(files))
    return list(found)


def index(files: Iterable[str]) -> Index:
    """Read *files*, each to the size it has when it is opened. Raises ``OSError``."""
    result = Index()
    for name in files:
        for number, offset, line in read_lines(name, Path(name).stat().st_size):
            try:
                data = read_line(line)
            except LetterError as error:
                result.problems.append(f"{name}:{number}: {error}")
                continue
            if "mark" in data:
                result.marks[data["mark"]] = data["state"]
            else:
                result.entries.append(_entry(name, number, offset, len(line), data))
    return result


def _entry(name: str, number: int, offset: int, size: int, letter: dict[str, Any]) -> Entry:
    return Entry(
        file=name,
        line=number,
        offset=offset,
        size=size,
        id=letter["id"],
        time=parse_time(letter["time"]),
        spider=intern(letter["spider"]),
        spider_args=intern(canonical(letter["spider_args"])),
        key=letter["key"],
        callback=letter["request"]["callback"],
        class_=intern(letter["class"]),
        reason=intern(letter["reason"]),
        target=intern(letter["target"]),
        replay_count=letter["replay_count"],
        not_before=None if letter["not_before"] is None else parse_time(letter["not_before"]),
        replayable=letter["replayable"],
        offline=runs_offline(letter),
        proxied=_had_session(letter.get("attempts")),
    )


def _had_session(attempts: Any) -> bool:
    """*attempts* are there for people: nobody has checked them."""
    return isinstance(attempts, list) and any(isinstance(each, dict) and each.get("session") for each in attempts)


def runs_offline(letter: Mapping[str, Any]) -> bool:
    """Whether *letter* has all that a replay needs that sends nothing.

    A callback on a stored page needs no header, no body and no session, but all that it was handed.
    """
    handed = ("request.callback", "request.errback", "request.cb_kwargs", "request.meta")
    lost = [path for path in (*letter["dropped"], *letter["redacted"]) if path.startswith(handed)]
    return not lost and (letter["response"] or {}).get("page") is not None
