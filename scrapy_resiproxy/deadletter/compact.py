"""Takes out of a feed what is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from scrapy_resiproxy.deadletter.lock import Lock
from scrapy_resiproxy.deadletter.reading import LetterError, read_line, read_lines

MODE: Final = 0o600


def compact(path: str | Path) -> tuple[int, int]:
    """Rewrite the feed at *path* without the letters that have a mark, and without the marks.

    Returns how many lines were kept and how many dropped. Lines that cannot be read are kept: they may be a newer
    version's. The file is replaced in one step and has mode 0600; what other processes append meanwhile is kept.
    Raises ``LockedError`` while the feed is being replayed, and ``OSError``.
    """
    path = Path(path)
    with Lock(path) as lock:
        size = path.stat().st_size
        kept, dropped = _sorted_out(path, size)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            _write(draft, lock, kept)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        if late := lock.rest(size):
            with path.open("ab", buffering=0) as file:
                file.write(late)
    return len(kept), dropped


def _sorted_out(path: Path, size: int) -> tuple[list[tuple[int, int]], int]:
    """Offset and size of each line to keep, and the number of the others."""
    places: list[tuple[int, int, str | None]] = []
    letters: set[str] = set()
    marked: set[str] = set()
    for _, offset, line in read_lines(path, size):
        try:
            data = read_line(line)
        except LetterError:
            places.append((offset, len(line), None))
            continue
        subject = data.get("mark") or data["id"]
        (marked if "mark" in data else letters).add(subject)
        places.append((offset, len(line), subject))
    # A mark whose letter lies in another file stays.
    settled = letters & marked
    kept = [(offset, length) for offset, length, subject in places if subject not in settled]
    return kept, len(places) - len(kept)


def _write(draft: Path, lock: Lock, lines: list[tuple[int, int]]) -> None:
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
    with os.fdopen(fd, "wb") as file:
        file.writelines(lock.read(offset, length) + b"\n" for offset, length in lines)
        file.flush()
        os.fsync(file.fileno())
