"""The value of ``RESIPROXY_PROXY``: a URL with or without placeholders, or a list of endpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from scrapy_resiproxy.sessions.endpoint import (
    MASK,
    Endpoint,
    RawProxy,
    checked,
    cut,
    parse_proxy,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Endpoint", "Template", "parse_proxy", "read_proxies"]

_PLACEHOLDER: Final = re.compile(r"(\{(?:session|country|port)\})")
_PORTS: Final = re.compile(r"\{port:(\d{1,5})-(\d{1,5})\}")
_LOOKS_LIKE_ONE: Final = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*(?::[^{}]*)?\}")
_ALLOWED: Final = "{session}, {country}, {port:10000-20000}"
_BAD_LINES_SHOWN: Final = 5

# Words of the vendors' grammars: all that the start log shows of a user name besides what we write into it.
_SHOWN_WORDS: Final = re.compile(
    r"cc?|cr|country|customer|lifetime|package|res|s|sess(ion)?(id|duration|length|time|ttl)?|sid|ttl|user|zone"
)
_WORD: Final = re.compile(r"[^-_.,;:=+]+")


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """A proxy that may say where session, country and port go. Its repr shows nothing of it."""

    raw: RawProxy
    ports: tuple[int, int] | None = None
    """The lowest and the highest port of ``{port:low-high}``."""
    encoding: str | None = "latin-1"

    @classmethod
    def parse(cls, text: str, encoding: str | None = "latin-1") -> Template:
        """Read *text*; a brace that is part of a password is written ``%7B``.

        Raises :class:`ValueError`, one line that shows no credential.
        """
        ranges = set(_PORTS.findall(text))
        raw = cut(_PORTS.sub("{port}", text))
        template = cls(raw, _port_range(ranges), encoding)
        _check_placeholders(template)
        template.render("a", "us", template.any_port)
        return template

    @property
    def any_port(self) -> int | None:
        """A port of the range, for samples."""
        return self.ports[0] if self.ports else None

    @property
    def gateway(self) -> str | None:
        """``scheme://host:port`` (without the port where it varies); None where the host name varies."""
        if _PLACEHOLDER.search(self.raw.host):
            return None
        bare = self.render("a", "us", self.any_port).bare
        return bare.rpartition(":")[0] if self.ports else bare

    @property
    def has_session(self) -> bool:
        return self.holds("{session}")

    @property
    def has_country(self) -> bool:
        return self.holds("{country}")

    def render(self, session: str, country: str | None, port: int | None) -> Endpoint:
        """The endpoint of *session* in *country* at *port*; those without a placeholder are not looked at."""
        values = {"{session}": session, "{country}": country or "", "{port}": str(port)}
        raw = self.raw
        filled = raw._replace(
            host=_fill(raw.host, values, encoded=False),
            port=_fill(raw.port, values, encoded=False),
            user=_fill(raw.user, values, encoded=raw.encoded),
            password=_fill(raw.password, values, encoded=raw.encoded),
        )
        return checked(filled, self.encoding)

    def sample(self, session: str, country: str | None) -> str:
        """The URL with *session* and *country*; no password, and of the user name only words of grammar."""
        values = {"{session}": session, "{country}": country or "", "{port}": str(self.any_port)}
        pieces = _PLACEHOLDER.split(self.raw.user)
        shown = [values[piece] if index % 2 else _mask_words(piece) for index, piece in enumerate(pieces)]
        return self.render(session, country, self.any_port).masked("".join(shown))

    def secrets(self) -> tuple[str, ...]:
        """The fixed pieces of the password (of a key that has none), decoded: what must never be seen."""
        pieces = _PLACEHOLDER.split(self.raw.password or self.raw.user)[::2]
        return tuple(unquote(piece) if self.raw.encoded else piece for piece in pieces if piece)

    def holds(self, placeholder: str) -> bool:
        return any(placeholder in part for part in self.raw[1:5])

    def __repr__(self) -> str:
        return f"Template({self.raw.scheme}://{MASK})"


def _check_placeholders(template: Template) -> None:
    shown = f"{template.raw.scheme}://{MASK}"
    for part in ("host", "port", "user", "password"):
        if _LOOKS_LIKE_ONE.search(_PLACEHOLDER.sub("", getattr(template.raw, part))):
            why = f"the {part} holds an unknown placeholder; allowed are {_ALLOWED}, and %7B stands for a brace"
            refuse(shown, why)
    if template.holds("{port}") and not template.ports:
        refuse(shown, "{port} needs its range, as in {port:10000-20000}")


def _port_range(ranges: set[tuple[str, str]]) -> tuple[int, int] | None:
    if not ranges:
        return None
    low, high = (int(port) for port in min(ranges))
    if len(ranges) > 1 or not 0 < low <= high < 65536:
        written = ", ".join(f"{{port:{low}-{high}}}" for low, high in sorted(ranges))
        refuse(MASK, f"{written} is not one range of ports from low to high, between 1 and 65535")
    return low, high


def _fill(raw: str, values: dict[str, str], *, encoded: bool) -> str:
    pieces = _PLACEHOLDER.split(raw)
    pieces[1::2] = [values[piece] for piece in pieces[1::2]]
    if encoded:
        pieces[::2] = [unquote(piece) for piece in pieces[::2]]
    return "".join(pieces)


def _mask_words(text: str) -> str:
    return _WORD.sub(lambda word: word[0] if _SHOWN_WORDS.fullmatch(word[0]) else MASK, text)


def read_proxies(value: str | Sequence[str], encoding: str | None = "latin-1") -> Template | list[Endpoint]:
    """Read ``RESIPROXY_PROXY``: a string is a template, a sequence the lines of a list.

    Blank lines and lines that begin with ``#`` are skipped, an endpoint that comes twice counts once, and a
    list of one line is that line. Raises :class:`ValueError`, one line that names bad lines by number alone.
    """
    lines = entries(value)
    return Template.parse(lines[0][1], encoding) if len(lines) == 1 else _read_list(lines, encoding)


def entries(value: str | Sequence[str]) -> list[tuple[int, str]]:
    """The lines of *value* that are neither blank nor a comment, with their numbers; a string is one line."""
    if isinstance(value, str):
        return [(1, value)]
    lines = ((number, line.strip()) for number, line in enumerate(value, 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def has_placeholder(text: str) -> bool:
    return bool(_PLACEHOLDER.search(text) or _PORTS.search(text))


def _read_list(lines: list[tuple[int, str]], encoding: str | None) -> list[Endpoint]:
    endpoints, faults = [], []
    for number, line in lines:
        try:
            endpoints.append(_list_entry(line, encoding))
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f" (and {len(faults) - _BAD_LINES_SHOWN} more)" if len(faults) > _BAD_LINES_SHOWN else ""
        raise ValueError("; ".join(faults[:_BAD_LINES_SHOWN]) + more)
    if not endpoints:
        raise ValueError("the list of proxies is empty; it must hold one proxy per line")
    return list(dict.fromkeys(endpoints))


def _list_entry(line: str, encoding: str | None) -> Endpoint:
    if has_placeholder(line):
        refuse(MASK, f"{_ALLOWED} belong into a single template, not into a list")
    return parse_proxy(line, encoding)
