"""How long a tunnel may idle: what was told, and what is learned from the ends that were seen."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

DEFAULT_LIMIT: Final = 240.0
"""Seconds after which an idle tunnel is dropped when nothing is known, as Twisted's pool does."""
SHARE: Final = 0.9
"""We drop at this share of what the peer allows, so that no request is written into a dying tunnel."""
_AGREEING: Final = 3
_TOLERANCE: Final = 1.1
_SAMPLES: Final = 16
_SHORTEST: Final = 1.0
"""No idle timeout is shorter than this."""
_ROUTES: Final = 1000

Path = tuple[str, str]
"""Proxy and origin: either may be the one that closes."""


class IdleTimes:
    """Learns at what age idle tunnels are closed by the other side.

    One early end proves nothing: an exit may vanish at any moment. An idle timeout is believed when three of the
    last sixteen ends on a path lie within ten percent of one another, and no tunnel there was ever used after a
    longer silence.
    """

    def __init__(self, told: float | None = None) -> None:
        self._told = told
        self._paths: OrderedDict[Path, _Learned] = OrderedDict()

    def seen(self, path: Path, age: float) -> None:
        """The other side closed a tunnel that had been idle for *age* seconds."""
        self._of(path).seen(age)

    def survived(self, path: Path, age: float) -> None:
        """A tunnel that had been idle for *age* seconds was alive."""
        self._of(path).survived(age)

    def _of(self, path: Path) -> _Learned:
        learned = self._paths.get(path)
        if learned is None:
            learned = self._paths[path] = _Learned()
        self._paths.move_to_end(path)
        if len(self._paths) > _ROUTES:
            self._paths.popitem(last=False)
        return learned

    def timeout(self, path: Path) -> float | None:
        """The shortest idle timeout that was told or learned for *path*, None when nothing is known."""
        path_timeout = self._paths[path].timeout if path in self._paths else None
        return min((t for t in (self._told, path_timeout) if t is not None), default=None)

    def limit(self, path: Path, promised: float | None = None) -> float:
        """Seconds after which we drop an idle tunnel; *promised* is how long the origin says that it will wait."""
        shortest = min((t for t in (self.timeout(path), promised) if t is not None), default=None)
        return DEFAULT_LIMIT if shortest is None else SHARE * shortest

    def shortest_learned(self) -> float | None:
        """The shortest idle timeout learned on any path, for the report."""
        return min((p.timeout for p in self._paths.values() if p.timeout is not None), default=None)


class _Learned:
    """One path's ends and survivals."""

    __slots__ = ("_ages", "_alive_after", "timeout")

    def __init__(self) -> None:
        self._ages: deque[float] = deque(maxlen=_SAMPLES)
        self._alive_after = _SHORTEST
        self.timeout: float | None = None

    def seen(self, age: float) -> None:
        self._ages.append(age)
        self._conclude()

    def survived(self, age: float) -> None:
        if age > self._alive_after:
            self._alive_after = age
            self._conclude()

    def _conclude(self) -> None:
        ages = sorted(age for age in self._ages if age > self._alive_after)
        agreed = [first for first, last in zip(ages, ages[_AGREEING - 1 :], strict=False) if last <= first * _TOLERANCE]
        if agreed:
            self.timeout = min(agreed[0], self.timeout or agreed[0])
        if self.timeout is not None and self.timeout <= self._alive_after:
            self.timeout = None
