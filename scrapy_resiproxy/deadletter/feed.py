"""The dead-letter feed: a file of one JSON object a line that only grows."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scrapy_resiproxy.deadletter.lock import Lock, LockedError
from scrapy_resiproxy.deadletter.reading import read_feed
from scrapy_resiproxy.deadletter.record import encode, make_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DeadLetterFeed", "Lock", "LockedError", "read_feed"]

MODE = 0o600
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class DeadLetterFeed:
    """Appends letters and marks to the file at *path*.

    The file, mode 0600, and its folders are made at the first line. A line is one ``write`` to the end of the file:
    it is in the kernel's hands when the call returns, so killing the process loses none, and other processes' lines
    are not cut. After a power failure the last seconds may be missing; nothing is synced.

    Each method that writes raises ``OSError``; the next line can be tried all the same.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.written = 0
        """Letters written so far, marks not counted."""
        self._fd: int | None = None
        self._torn = False

    def write(self, letter: Mapping[str, Any]) -> None:
        """Append *letter*. Raises ``ValueError`` or ``TypeError`` for what JSON cannot hold."""
        self._append(encode(letter))
        self.written += 1

    def mark(self, letter_id: str, state: Literal["done", "superseded"], now: float, by: str | None = None) -> None:
        """Say what became of a letter. *now* is wall-clock seconds; *by* names the replay or the newer letter."""
        self._append(encode(make_mark(letter_id, state, now, by)))

    def open(self) -> None:
        """Open the file now: from here on lines go to it also when it is moved."""
        if self._fd is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, FLAGS, MODE)
        self._torn = _ends_torn(self._fd)

    def _append(self, line: bytes) -> None:
        self.open()
        assert self._fd is not None
        # A torn line is closed first, so that it cannot swallow this one.
        data = b"\n" + line if self._torn else line
        size = os.write(self._fd, data)
        self._torn = size != len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if os.fstat(self._fd).st_nlink == 0:
            # Compacted or deleted under us: the line is not in the file that others see.
            self.close()
            self._append(line)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @staticmethod
    def check_writable(path: str | Path) -> str | None:
        """Why no feed can be written at *path*, in one line; None when it can.

        It is tried, for root has every right on paper, also where nothing can be made. The folders are left, for
        another process may use them by now; a new file is not.
        """
        path = Path(path)
        if _exists(path) and not path.is_file():
            return f"{path} is no regular file"
        folder = next(parent for parent in path.absolute().parents if _exists(parent))
        if not folder.is_dir():
            return f"{folder} is no folder"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _try_to_open(path)
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        return None


def _try_to_open(path: Path) -> None:
    try:
        os.close(os.open(path, FLAGS | os.O_EXCL, MODE))
    except FileExistsError:
        os.close(os.open(path, FLAGS, MODE))
    else:
        path.unlink()


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _ends_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
