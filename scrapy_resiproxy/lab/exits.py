"""Proxy sessions and the addresses they go out from."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_HEADER: Final = "X-Lab-Session"
"""The gateway's word to the site on which session a plain http request came through."""
EXIT_HEADER: Final = "X-Lab-Exit"
"""The gateway's word to the site on the address that it would have come from."""

_FIRST: Final = int(ipaddress.IPv4Address("100.64.0.1"))
"""Exits are numbered from here: addresses that no host on the internet has."""


class Exit(NamedTuple):
    """A session, and the address it goes out from."""

    session: str
    address: str


NOBODY: Final = Exit("-", "")
"""Whoever was not let in."""


def session_finder(pattern: str) -> Callable[[str], str]:
    """Return a function from a user name to the session in it by `pattern`, such as ``-session-<id>``.

    What it returns for a user name without a session is ``-``.

    Raises ValueError when `pattern` lacks ``<id>``.
    """
    before, mark, after = pattern.partition("<id>")
    if not mark:
        raise ValueError(f"session_pattern={pattern!r} lacks <id>, as in -session-<id>")
    search = re.compile(f"{re.escape(before)}([A-Za-z0-9_.~]+){re.escape(after)}").search

    def find(user: str) -> str:
        found = search(user)
        return found[1] if found else "-"

    return find


class Exits:
    """Gives addresses out."""

    def __init__(self) -> None:
        self._sticky: dict[str, Exit] = {}
        self._given = 0

    def sticky(self, session: str) -> Exit:
        """Return the one exit of `session`."""
        if session not in self._sticky:
            self._sticky[session] = self.fresh(session)
        return self._sticky[session]

    def fresh(self, session: str) -> Exit:
        """Return an exit with an address that nobody has had."""
        address = ipaddress.IPv4Address(_FIRST + self._given)
        self._given += 1
        return Exit(session, str(address))
