"""One replay of a feed at a time, whichever process runs it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from types import TracebackType


class LockedError(RuntimeError):
    """Raised when another process is replaying or compacting the feed; the message is one line."""


class Lock:
    """An exclusive lock on the feed at *path*, until :meth:`release`, the end of ``with`` or of the process.

    A process that holds it gets it again. Whoever only appends letters does not ask for it. It keeps to the file that
    was locked, also when that is moved. Raises :class:`LockedError`, and ``OSError`` when there is no such file.
    """

    _held: ClassVar[dict[tuple[int, int], tuple[int, int]]] = {}
    """(device, inode) -> (file descriptor, times taken)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._identity: tuple[int, int] | None = self._take()

    def _take(self) -> tuple[int, int]:
        while True:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            identity = _identity(os.fstat(fd))
            held = self._held.get(identity)
            if held is not None:
                os.close(fd)
                self._held[identity] = (held[0], held[1] + 1)
                return identity
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                raise LockedError(f"{self.path} is being replayed or compacted by another process") from None
            if identity == _identity(self.path.stat()):
                self._held[identity] = (fd, 1)
                return identity
            # It was replaced between open and lock: what we hold is no longer what others see.
            os.close(fd)

    def read(self, offset: int, size: int) -> bytes:
        """*size* bytes at *offset* of the locked file. Raises ``OSError``."""
        assert self._identity is not None, "released"
        return os.pread(self._held[self._identity][0], size, offset)

    def rest(self, offset: int) -> bytes:
        """What the locked file holds from *offset* on. Raises ``OSError``."""
        assert self._identity is not None, "released"
        size = os.fstat(self._held[self._identity][0]).st_size
        return self.read(offset, max(size - offset, 0))

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._identity is None:
            return
        fd, times = self._held.pop(self._identity)
        if times > 1:
            self._held[self._identity] = (fd, times - 1)
        else:
            os.close(fd)
        self._identity = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
