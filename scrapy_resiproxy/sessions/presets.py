"""Where each vendor wants session, country and lifetime: its dashboard's bare URL goes in, we write the rest.

``source`` says how sure we are: ``documented`` is the vendor's own reference, ``public code`` what published
clients do. Limits change with plans and products; a template in ``RESIPROXY_PROXY`` always works instead.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.sessions.endpoint import MASK, Endpoint
from scrapy_resiproxy.sessions.ids import HEX16, NUMBER, WORD, IdFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOCUMENTED: Final = "documented"
PUBLIC_CODE: Final = "public code"
DAY: Final = 86_400.0


def _iso_lower(country: str) -> str:
    if not re.fullmatch(r"[A-Za-z]{2}", country):
        raise ValueError(f"country {country!r} is not a two-letter code such as 'de'")
    return country.lower()


def _iso_upper(country: str) -> str:
    return _iso_lower(country).upper()


def _iso_uk(country: str) -> str:
    """NetNut says UK where everybody else says GB."""
    return "uk" if _iso_lower(country) == "gb" else country.lower()


def _full_name(country: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Za-z]{2,}", country):
        raise ValueError(f"country {country!r} is not a country's name in one word such as 'UnitedStates'")
    return country


def _minutes(seconds: float) -> str:
    return str(math.ceil(seconds / 60))


def _seconds(seconds: float) -> str:
    return str(math.ceil(seconds))


def _go_minutes(seconds: float) -> str:
    return f"{_minutes(seconds)}m"


def _one_unit(seconds: float) -> str:
    """IPRoyal reads one unit only: 59m, but not 1h30m."""
    for unit, size, most in (("m", 60, 59), ("h", 3600, 23)):
        if (count := math.ceil(seconds / size)) <= most:
            return f"{count}{unit}"
    return f"{math.ceil(seconds / DAY)}d"


@dataclass(frozen=True, slots=True)
class Preset:
    """One vendor's grammar: ``country``, ``session`` and ``lifetime`` are written in this order."""

    name: str
    source: str
    session: str = "session-{}"
    country: str = "country-{}"
    any_country: str = ""
    """What is written when no country is asked for."""
    lifetime: str = ""
    place: str = "username"
    """``username`` or ``password``."""
    head: str = "-"
    """What separates our words from the user's."""
    join: str = "-"
    """What separates our words from one another."""
    prefix: str = ""
    """What the user name must begin with; put there where the dashboard leaves it out."""
    ids: IdFormat = WORD
    country_form: Callable[[str], str] = _iso_lower
    lifetime_form: Callable[[float], str] = _minutes
    ttl_min: float = 60.0
    """Seconds: the shortest lifetime that may be asked for."""
    ttl_max: float | None = None
    """Seconds that a session lives at most; None where the vendor names no limit."""
    idle: float | None = None
    """Seconds without a request after which the vendor ends a session; None where it names none."""
    taken: str = ""
    """A pattern for session words that the user may have written; "": made from ours."""
    placed: str = ""
    """A pattern for country words that the user may have written; "": made from ours."""

    @property
    def documented(self) -> bool:
        return self.source == DOCUMENTED

    def clamp_ttl(self, ttl: float) -> float:
        """Seconds after which we rotate: *ttl*, or a tenth (at most a minute) before the vendor does."""
        if self.ttl_max is None:
            return ttl
        return min(ttl, self.ttl_max - min(60.0, self.ttl_max / 10))

    def wrap(self, endpoint: Endpoint) -> Wrapped:
        """The dashboard's *endpoint*, ready to be rendered for a session.

        Raises :class:`ValueError`, one line, when it cannot carry a session or carries one already.
        """
        where = "user name" if self.place == "username" else "password"
        text = endpoint.username if self.place == "username" else endpoint.password
        shown = f"RESIPROXY_PROVIDER {self.name!r} with {endpoint.masked()!r}"
        if not endpoint.username or not endpoint.password:
            raise ValueError(f"{shown}: it needs the user name and the password from the dashboard")
        if "{session}" in text or re.search(self.taken or self._pattern(self.session, self.lifetime), text):
            raise ValueError(f"{shown}: the {where} names a session already; give the bare URL, we write it")
        placed = self.placed or self._pattern(self.country)
        if self.prefix and not endpoint.username.startswith(self.prefix):
            endpoint = replace(endpoint, username=self.prefix + endpoint.username)
        return Wrapped(self, endpoint, takes_country=not (placed and re.search(placed, text)))

    def words(self, session: str, country: str, ttl: float | None) -> str:
        """Our words for one session: *country* as it is, *ttl* in seconds (None: the longest)."""
        words = [country, self.session.format(session)]
        asked = self._asked(ttl)
        if self.lifetime and asked is not None:
            words.append(self.lifetime.format(self.lifetime_form(asked)))
        return self.join.join(word for word in words if word)

    def _asked(self, ttl: float | None) -> float | None:
        """The lifetime to ask for: longer than ours, so that we rotate first; None: the vendor's default."""
        if ttl is None:
            return self.ttl_max
        return min(max(ttl + 60.0, self.ttl_min), self.ttl_max or math.inf)

    def _pattern(self, *words: str) -> str:
        """A pattern for *words*, as they would follow the user's."""
        keys = [re.escape(word.partition("{}")[0]) for word in words if word]
        return "|".join(f"({re.escape(self.head)}|{re.escape(self.join)}){key}" for key in keys if key)


@dataclass(frozen=True, slots=True, repr=False)
class Wrapped:
    """A dashboard's endpoint with the grammar of its vendor. Its repr shows no credential."""

    preset: Preset
    endpoint: Endpoint
    takes_country: bool = True
    """False when the user has written a country himself."""

    def render(self, session: str, country: str | None, ttl: float | None) -> Endpoint:
        """The endpoint of *session*: *country* in the vendor's form, *ttl* in seconds (None: the longest)."""
        words = self._words(session, country, ttl)
        if self.preset.place == "password":
            return replace(self.endpoint, password=f"{self.endpoint.password}{words}")
        return replace(self.endpoint, username=f"{self.endpoint.username}{words}")

    def sample(self, session: str, country: str | None, ttl: float | None) -> str:
        """The URL with our words readable and the user's masked; a password is never shown."""
        if self.preset.place == "password":
            return f"{self.endpoint.masked()} (the session is in the password)"
        return self.endpoint.masked(f"{self.preset.prefix}{MASK}{self._words(session, country, ttl)}")

    def _words(self, session: str, country: str | None, ttl: float | None) -> str:
        preset = self.preset
        place = preset.country.format(country) if country else preset.any_country
        words = preset.words(session, place if self.takes_country else "", ttl)
        # The user may have begun a list whose separator is not its beginning: login__cr.us;sessid.x
        begun = preset.head != preset.join and preset.head in self.endpoint.username
        return f"{preset.join if begun else preset.head}{words}"

    def __repr__(self) -> str:
        return f"Wrapped({self.preset.name}, {self.endpoint.bare})"


_ALL: Final = (
    Preset("brightdata", DOCUMENTED, idle=300.0),
    Preset(
        "oxylabs",
        DOCUMENTED,
        prefix="customer-",
        country="cc-{}",
        country_form=_iso_upper,
        session="sessid-{}",
        lifetime="sesstime-{}",
        ttl_max=DAY,
        idle=60.0,
        taken=r"-(sessid|sessid_oneip|sesstime)-",
    ),
    Preset("decodo", DOCUMENTED, prefix="user-", lifetime="sessionduration-{}", ttl_max=DAY, idle=60.0),
    Preset(
        "soax",
        DOCUMENTED,
        prefix="package-",
        session="sessionid-{}",
        lifetime="sessionlength-{}",
        lifetime_form=_seconds,
        ttl_max=DAY,
    ),
    Preset(
        "iproyal",
        DOCUMENTED,
        place="password",
        head="_",
        join="_",
        lifetime="lifetime-{}",
        lifetime_form=_one_unit,
        ttl_min=1.0,
        ttl_max=7 * DAY,
    ),
    Preset(
        "netnut",
        DOCUMENTED,
        country="res-{}",
        any_country="res-any",
        country_form=_iso_uk,
        session="sid-{}",
        ids=NUMBER,
        placed=r"-(res|dc|mob)[-_]",
    ),
    Preset("webshare", DOCUMENTED, country="{}", session="{}", ids=NUMBER, taken=r"-(\d+|rotate)$"),
    Preset("rayobyte", PUBLIC_CODE, place="password", country_form=_iso_upper),
    Preset(
        "proxyhat",
        PUBLIC_CODE,
        any_country="country-any",
        session="sid-{}",
        ids=HEX16,
        lifetime="ttl-{}",
        lifetime_form=_go_minutes,
    ),
    Preset("packetstream", PUBLIC_CODE, place="password", head="_", join="_", country_form=_full_name),
    Preset(
        "infatica",
        PUBLIC_CODE,
        head="_",
        join="_",
        country="c_{}",
        country_form=_iso_upper,
        session="s_{}",
    ),
    Preset(
        "dataimpulse",
        DOCUMENTED,
        head="__",
        join=";",
        country="cr.{}",
        session="sessid.{}",
        ttl_max=1800.0,
        taken=r"(__|;)(sessid|sessttl)\.",
    ),
    Preset(
        "evomi",
        DOCUMENTED,
        place="password",
        head="_",
        join="_",
        country_form=_iso_upper,
        lifetime="lifetime-{}",
        ttl_max=7200.0,
        taken=r"_((hard)?session|lifetime)-",
    ),
    Preset("geonode", DOCUMENTED, lifetime="lifetime-{}", ttl_min=180.0, ttl_max=DAY),
    Preset(
        "thordata",
        DOCUMENTED,
        prefix="td-customer-",
        session="sessid-{}",
        lifetime="sesstime-{}",
        ttl_max=5400.0,
        idle=90.0,
    ),
)

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType({preset.name: preset for preset in _ALL})

_REFUSED: Final = {
    "zyte": "its session ids are made by the server; use scrapy-zyte-smartproxy or scrapy-zyte-api, or"
    " RESIPROXY_PROXY without RESIPROXY_PROVIDER",
    "smartproxy": "two products have had this name; for gate.decodo.com it is 'decodo', for the other write"
    " {session} into RESIPROXY_PROXY without RESIPROXY_PROVIDER",
}


def find_preset(name: str) -> Preset:
    """The preset *name*. Raises :class:`ValueError`, one line that says what is allowed."""
    preset = PRESETS.get(name.strip().lower())
    if preset is None:
        why = _REFUSED.get(name.strip().lower(), f"it must be one of {', '.join(PRESETS)}")
        raise ValueError(f"RESIPROXY_PROVIDER {name!r}: {why}")
    return preset
