"""The hosts that the lab plays, each with its behaviour and what it remembers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_resiproxy.lab.behaviours import Answer, Behaviour, Judge, Visit

_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class Targets:
    """Host names and their behaviours; host names are lower case."""

    def __init__(self, behaviours: Mapping[str, Behaviour], now: Callable[[], float]) -> None:
        self._now = now
        self._behaviours: dict[str, Behaviour] = {}
        self._judges: dict[str, Judge] = {}
        for host, behaviour in behaviours.items():
            self.set(host, behaviour)

    def set(self, host: str, behaviour: Behaviour) -> None:
        """Let `host`, known or new, behave so from now on, without a memory of before.

        Raises ValueError when `host` is not a host name.
        """
        name = host.lower()
        if not _HOST.fullmatch(name):
            raise ValueError(f"host {host!r} is not a host name such as shop.example")
        self._behaviours[name] = behaviour
        self._judges[name] = behaviour.begin(self._now())

    def begin_again(self) -> None:
        """Let every host forget what it has seen."""
        for host, behaviour in self._behaviours.items():
            self.set(host, behaviour)

    def behaviours(self) -> dict[str, Behaviour]:
        return dict(self._behaviours)

    def __contains__(self, host: object) -> bool:
        return host in self._judges

    def reachable(self, host: str) -> bool:
        """Whether the known `host` accepts a connection now."""
        return self._judges[host].reachable(self._now())

    def decide(self, host: str, visit: Visit) -> Answer:
        """Return what the known `host` does about `visit`."""
        return self._judges[host].decide(visit, self._now())
