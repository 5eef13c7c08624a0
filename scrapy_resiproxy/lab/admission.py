"""Who may use the gateway: its options, and what they say about a request's credentials."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_resiproxy.lab.exits import Exit, Exits, session_finder

if TYPE_CHECKING:
    from scrapy_resiproxy.lab.wire import RequestHead


@dataclass(frozen=True)
class GatewayOptions:
    """What the gateway asks of its clients, and how it misbehaves; 0 switches a fault off."""

    user: str = "lab"
    """What the user name must begin with; empty: no credentials are asked for."""
    password: str = field(default="lab", repr=False)
    session_pattern: str = "-session-<id>"
    """Where in the user name the session stands."""
    exit_per: str = "session"
    """``session``: each session keeps its address; ``connection``: each connection gets a new one."""
    exhausted_after: int = 0
    """Requests and CONNECTs after which the plan is used up: 407."""
    connect_status: int = 0
    """The status that every CONNECT is refused with."""
    connect_retry_after: int = 0
    """Seconds announced in that refusal's Retry-After."""
    tunnel_idle: float = 0.0
    """Seconds without a byte after which a tunnel is closed."""

    def __post_init__(self) -> None:
        session_finder(self.session_pattern)
        if self.exit_per not in {"session", "connection"}:
            raise ValueError(f"exit_per={self.exit_per!r} is not session or connection")
        if self.connect_status and not 300 <= self.connect_status <= 599:
            raise ValueError(f"connect_status={self.connect_status} is not 0 or a status from 300 to 599")
        for name in ("exhausted_after", "connect_retry_after", "tunnel_idle"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is below 0")


class NotAdmittedError(Exception):
    """The client is to get 407, with this reason."""


class Admission:
    """Checks credentials, counts until the plan is used up, and says where each session goes out."""

    def __init__(self, options: GatewayOptions) -> None:
        self._exits = Exits()
        self._asked = 0
        self.adjust(options)

    def adjust(self, options: GatewayOptions) -> None:
        """Go on with other options; sessions keep their exits."""
        self.options = options
        self._session_in = session_finder(options.session_pattern)

    def begin_again(self) -> None:
        """Forget whom it has let in and where they went out."""
        self._exits = Exits()
        self._asked = 0

    def admit(self, head: RequestHead, connection: dict[str, Exit]) -> Exit:
        """Return the exit for the request `head`; `connection` keeps those of its client's connection.

        Raises NotAdmittedError.
        """
        self._asked += 1
        user, _, password = _credentials(head.header("proxy-authorization") or "").partition(":")
        wanted = self.options
        if wanted.user and not (user.startswith(wanted.user) and password == wanted.password):
            raise NotAdmittedError("wrong user or password")
        if 0 < wanted.exhausted_after < self._asked:
            raise NotAdmittedError("the plan is used up")
        session = self._session_in(user)
        if wanted.exit_per == "session":
            return self._exits.sticky(session)
        if session not in connection:
            connection[session] = self._exits.fresh(session)
        return connection[session]


def _credentials(header: str) -> str:
    """Return what a Basic header says, or nothing where it cannot be read."""
    scheme, _, encoded = header.partition(" ")
    try:
        return base64.b64decode(encoded).decode() if scheme.lower() == "basic" else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""
