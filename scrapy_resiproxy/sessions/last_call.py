"""Whether a list has any endpoint left that carries anything: each gets another chance before all are given up."""

from __future__ import annotations

import math


class LastCall:
    """Notices when all *endpoints* of a list (their number) have stopped carrying anything, for *give_up* seconds.

    Once each has failed and nothing was carried in between, all are called again *give_up* seconds later, those that
    rest too. When each has failed once more after that, the list is gone: one endpoint that carries anything now and
    then is enough to go on. Times are monotonic seconds.
    """

    __slots__ = ("_called_at", "_endpoints", "_failed", "_give_up", "at", "gone")

    def __init__(self, endpoints: int, give_up: float) -> None:
        self._endpoints = endpoints
        self._give_up = give_up
        self._failed: set[str] = set()
        self._called_at: float | None = None
        self.at = math.inf
        """When nobody rests any more; infinite while that is not needed."""
        self.gone = False

    def carried(self) -> None:
        """Something came through one of them, good or bad."""
        if self._failed or self._called_at is not None:
            self._failed.clear()
            self._called_at, self.at = None, math.inf

    def failed(self, url: str, sent_at: float, now: float) -> None:
        """An attempt that was sent at *sent_at* failed by the fault of *url* itself."""
        if self._called_at is not None and sent_at < self._called_at:
            return  # It tells of the time before.
        self._failed.add(url)
        if len(self._failed) < self._endpoints:
            return
        if self._called_at is None:
            self.at = min(self.at, now + self._give_up)
        else:
            self.gone = True

    def due(self, now: float) -> bool:
        """Whether all are to be called now: said once."""
        if now < self.at:
            return False
        self.at, self._called_at = math.inf, now
        self._failed.clear()
        return True
