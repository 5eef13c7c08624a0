"""Where sessions lead: what the pool asks of a gateway and of a list alike, and which of them it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from scrapy_resiproxy.sessions.gateway import TemplateGateway, VendorGateway
from scrapy_resiproxy.sessions.presets import Wrapped, find_preset
from scrapy_resiproxy.sessions.roster import Roster
from scrapy_resiproxy.sessions.template import Template, entries, has_placeholder, parse_proxy, read_proxies

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy_resiproxy.sessions.endpoint import Endpoint
    from scrapy_resiproxy.sessions.ids import Hasher
    from scrapy_resiproxy.settings import SessionSettings


MODES: Final = ("sticky", "rotate")


class Wish(NamedTuple):
    """What a new session is to be."""

    owner: str
    """A target, or a name."""
    country: str | None
    seed: tuple[str | int | None, ...]
    """What its id is derived from; it begins with ``target`` or ``name``."""
    ttl: float | None
    """Seconds that the vendor should keep it; None: as long as can be."""
    taken: Collection[str] = ()
    """URLs of the sessions beside it."""
    last_url: str = ""
    """The URL of the session before it."""

    @property
    def named(self) -> bool:
        return self.seed[0] == "name"


class Exits(Protocol):
    """What the pool asks of a gateway and of a list alike."""

    capacity: int
    """Sessions that can be open at once for one target and country."""
    can_rotate: bool
    """Whether another exit can be had on demand."""
    idle: float
    """Seconds without a request after which the exit is gone; infinite where none are known."""
    ttl: float
    """Seconds after which a session is rotated."""
    named_ttl: float | None
    """Seconds after which a named session is gone; None: not known."""
    endpoint: str | None
    """The address that all sessions share; None where they have their own."""

    def country(self, asked: str | None) -> str | None:
        """The country to use. Raises :class:`ValueError`, one line, when *asked* cannot be had."""

    def pick(self, wish: Wish, now: float) -> Endpoint | None:
        """An endpoint, or None when none is free."""

    def rest(self, url: str, target: str | None, until: float) -> None:
        """Do not pick *url* again before *until*, for *target* or (None) for everybody."""

    def is_down(self, url: str, now: float) -> bool:
        """Whether *url* rests for everybody."""

    def free_at(self, target: str | None, now: float) -> float:
        """When to ask again after None, for *target* or (None) for a name."""

    def forget(self, target: str, now: float) -> bool:
        """Nobody uses *target* any more; False while something about it must be remembered."""

    def sample(self) -> str:
        """How one session looks, without any secret."""

    def secrets(self) -> tuple[str, ...]:
        """What must never be seen."""


def build_exits(settings: SessionSettings, hasher: Hasher, encoding: str | None, give_up: float) -> Exits:
    """What *settings* describe. All endpoints of a list may fail for *give_up* seconds. Raises :class:`ValueError`, one
    line that shows no credential.
    """
    exits = _exits(settings, hasher, encoding, give_up)
    try:
        exits.country(settings.country)
    except ValueError as error:
        named = "" if str(error).startswith("RESIPROXY_") else "RESIPROXY_COUNTRY: "
        raise ValueError(f"{named}{error}") from None
    return exits


def _exits(settings: SessionSettings, hasher: Hasher, encoding: str | None, give_up: float) -> Exits:
    if settings.proxy is None:
        raise ValueError("RESIPROXY_PROXY is not set; it takes a URL, a template or a list of URLs")
    if settings.provider is not None:
        return VendorGateway(_wrapped(settings.proxy, settings.provider, encoding), settings, hasher)
    value = read_proxies(settings.proxy, encoding)
    if isinstance(value, Template):
        return TemplateGateway(value, settings, hasher)
    return Roster(value, settings, hasher, give_up)


def _wrapped(proxy: str | Sequence[str], provider: str, encoding: str | None) -> Wrapped:
    preset = find_preset(provider)
    lines = entries(proxy)
    if len(lines) != 1:
        raise ValueError(f"RESIPROXY_PROVIDER {provider!r} needs one URL, RESIPROXY_PROXY has {len(lines)}")
    if has_placeholder(lines[0][1]):
        what = "writes the session itself; take the placeholders out of RESIPROXY_PROXY"
        raise ValueError(f"RESIPROXY_PROVIDER {provider!r} {what}, or leave RESIPROXY_PROVIDER out")
    return preset.wrap(parse_proxy(lines[0][1], encoding))


def check_settings(settings: SessionSettings) -> None:
    """Raises :class:`ValueError`, one line, for the first number or word that is out of its range."""
    mode, ttl, most = settings.session_mode, settings.session_ttl, settings.session_max_requests
    places, rest = settings.sessions_per_target, settings.session_quarantine
    for name, value, fine, allowed in (
        ("SESSION_MODE", mode, mode in MODES, " or ".join(MODES)),
        ("SESSION_TTL", ttl, 0 < ttl < math.inf, "more than 0 seconds"),
        ("SESSION_MAX_REQUESTS", most, most is None or most >= 1, "None or at least 1"),
        ("SESSIONS_PER_TARGET", places, places >= 1, "at least 1"),
        ("SESSION_QUARANTINE", rest, rest >= 0, "0 seconds or more"),
    ):
        if not fine:
            raise ValueError(f"RESIPROXY_{name} is {value!r}; it must be {allowed}")
