"""Exits made on demand: one URL, and another exit for another session word, port or connection."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.sessions.ids import WORD, Hasher, IdFormat

if TYPE_CHECKING:
    from scrapy_resiproxy.sessions.endpoint import Endpoint
    from scrapy_resiproxy.sessions.exits import Wish
    from scrapy_resiproxy.sessions.presets import Wrapped
    from scrapy_resiproxy.sessions.template import Template
    from scrapy_resiproxy.settings import SessionSettings

_TRIES: Final = 8
"""How often another id or port is drawn when one is in use; more sessions than ports have to share."""

_COUNTRY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Gateway(ABC):
    """What templates and vendors' presets share. A gateway is never out of exits."""

    ids: IdFormat = WORD
    idle: float = math.inf
    named_ttl: float | None = None
    takes_country: bool
    can_rotate: bool
    endpoint: str | None

    def __init__(self, settings: SessionSettings, hasher: Hasher) -> None:
        self._hasher = hasher
        self._default_country = settings.country
        self._countries: dict[str, str] = {}
        self.ttl = settings.session_ttl
        self.capacity = settings.sessions_per_target if self.can_rotate else 1

    def country(self, asked: str | None) -> str | None:
        wanted = asked or self._default_country
        if not wanted:
            self.no_country()
            return None
        if wanted not in self._countries:
            self._countries[wanted] = self.check_country(wanted)
        return self._countries[wanted]

    def pick(self, wish: Wish, now: float) -> Endpoint:  # noqa: ARG002 - a gateway has no clock
        for attempt in range(_TRIES if self.can_rotate else 1):
            number = self._hasher.number(*wish.seed, attempt)
            endpoint = self.render(number, wish.country, wish.ttl)
            if endpoint.url not in wish.taken and endpoint.url != wish.last_url:
                break
        return endpoint

    def rest(self, url: str, target: str | None, until: float) -> None:  # noqa: B027 - a gateway never rests
        """Nothing: the next session has another exit."""

    def is_down(self, url: str, now: float) -> bool:  # noqa: ARG002
        return False

    def free_at(self, target: str | None, now: float) -> float:  # noqa: ARG002 - it always has one
        return now

    def forget(self, target: str, now: float) -> bool:  # noqa: ARG002 - nothing is kept by target
        return True

    def sample_id(self) -> str:
        return self.ids.spell(self._hasher.number("sample"))

    @abstractmethod
    def sample(self) -> str: ...

    @abstractmethod
    def secrets(self) -> tuple[str, ...]: ...

    @abstractmethod
    def render(self, number: int, country: str | None, ttl: float | None) -> Endpoint:
        """The endpoint that *number*, a hash, stands for; *ttl* in seconds, None for the longest."""

    @abstractmethod
    def check_country(self, country: str) -> str:
        """*country* as the proxy wants it. Raises :class:`ValueError`, one line, if it cannot be had."""

    def no_country(self) -> None:  # noqa: B027 - most need none
        """Called where nobody names a country. Raises :class:`ValueError` where that cannot be."""


class TemplateGateway(Gateway):
    """A URL, with or without placeholders."""

    def __init__(self, template: Template, settings: SessionSettings, hasher: Hasher) -> None:
        self._template = template
        self.takes_country = template.has_country
        self.can_rotate = template.has_session or template.ports is not None
        self.endpoint = template.gateway
        super().__init__(settings, hasher)

    def render(self, number: int, country: str | None, ttl: float | None) -> Endpoint:  # noqa: ARG002
        return self._template.render(self.ids.spell(number), country, self._port(number))

    def check_country(self, country: str) -> str:
        if not self.takes_country:
            why = "RESIPROXY_PROXY has no place for it; write {country} there, or set RESIPROXY_PROVIDER"
            raise ValueError(f"country {country!r}: {why}")
        if not _COUNTRY.fullmatch(country):
            raise ValueError(f"country {country!r}: a letter, then letters, digits and '_' are allowed")
        return country

    def no_country(self) -> None:
        if self.takes_country:
            raise ValueError("RESIPROXY_PROXY holds {country}: RESIPROXY_COUNTRY must say the default")

    def sample(self) -> str:
        return self._template.sample(self.sample_id(), self.country(None))

    def secrets(self) -> tuple[str, ...]:
        return self._template.secrets()

    def _port(self, number: int) -> int | None:
        if self._template.ports is None:
            return None
        low, high = self._template.ports
        return low + (number >> 128) % (high - low + 1)


class VendorGateway(Gateway):
    """A dashboard's URL and the vendor's grammar."""

    can_rotate = True

    def __init__(self, wrapped: Wrapped, settings: SessionSettings, hasher: Hasher) -> None:
        self._wrapped = wrapped
        self._preset = wrapped.preset
        self.ids = wrapped.preset.ids
        self.idle = math.inf if wrapped.preset.idle is None else wrapped.preset.idle
        self.named_ttl = wrapped.preset.ttl_max
        self.takes_country = wrapped.takes_country
        self.endpoint = wrapped.endpoint.bare
        super().__init__(settings, hasher)
        self.ttl = wrapped.preset.clamp_ttl(self.ttl)

    def render(self, number: int, country: str | None, ttl: float | None) -> Endpoint:
        return self._wrapped.render(self.ids.spell(number), country, ttl)

    def check_country(self, country: str) -> str:
        if not self.takes_country:
            raise ValueError(f"country {country!r}: RESIPROXY_PROXY names one already; give the bare URL")
        return self._preset.country_form(country)

    def sample(self) -> str:
        return self._wrapped.sample(self.sample_id(), self.country(None), self.ttl)

    def secrets(self) -> tuple[str, ...]:
        return (self._wrapped.endpoint.password,)
