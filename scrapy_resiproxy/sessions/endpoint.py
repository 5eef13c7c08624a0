"""A proxy's address: read in any form that vendors hand out, written in the one that Scrapy reads right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final, NamedTuple, NoReturn
from urllib.parse import quote, unquote

SCHEMES: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
"""The schemes that can be used and the port that is meant where none is written."""

MASK: Final = "***"

_HOST: Final = r"(?P<host>\[[^\]@]*\]|[^:/@\s\[\]]+)"
_PORT: Final = r"(?P<port>[0-9]{1,5}|\{port\})"
_ADDRESS: Final = re.compile(rf"{_HOST}(?::{_PORT})?")
_WITH_PORT: Final = re.compile(rf"{_HOST}:{_PORT}/?")
_COLONS: Final = re.compile(rf"{_HOST}:{_PORT}:(?P<user>[^:]*):(?P<password>.*)")
_SCHEME: Final = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?//")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


class RawProxy(NamedTuple):
    """A proxy's text cut at its borders, neither decoded nor checked; the port may be ``{port}``."""

    scheme: str
    host: str
    port: str
    user: str
    password: str
    encoded: bool
    """Whether user and password may be percent-encoded (in a URL they may, in host:port:user:pass not)."""


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    """One proxy with its credentials, decoded. It shows them only in :attr:`url`."""

    scheme: str
    host: str
    """Without brackets, IPv6 too."""
    port: int
    username: str = ""
    """Empty: the proxy is used without credentials."""
    password: str = ""

    @property
    def bare(self) -> str:
        """``scheme://host:port``."""
        return f"{self.scheme}://{self.address}"

    @property
    def address(self) -> str:
        """``host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The full URL, credentials percent-encoded, so that every reader of URLs decodes exactly these."""
        if not self.username:
            return self.bare
        return f"{self.scheme}://{quote(self.username, safe='')}:{quote(self.password, safe='')}@{self.address}"

    def masked(self, user: str = MASK) -> str:
        """The URL with *user* instead of the user name and no password."""
        return f"{self.scheme}://{user}:{MASK}@{self.address}" if self.username else self.bare

    def __repr__(self) -> str:
        return f"Endpoint({self.bare})"


def parse_proxy(text: str, encoding: str | None = "latin-1") -> Endpoint:
    """Read one proxy: ``scheme://user:pass@host:port``, ``host:port`` or ``host:port:user:pass``.

    Credentials come out as Scrapy decodes them: percent-decoded once, malformed escapes left alone,
    reserved characters taken as they are. In ``host:port:user:pass`` nothing is decoded.
    ``KEY@host:port`` is a user without password. *encoding* is ``HTTPPROXY_AUTH_ENCODING``, in which the
    credentials must be writable; None means UTF-8. Raises :class:`ValueError`, one line that shows no
    credential.
    """
    raw = cut(text)
    if raw.encoded:
        raw = raw._replace(user=unquote(raw.user), password=unquote(raw.password))
    return checked(raw, encoding)


def cut(text: str) -> RawProxy:
    """Cut *text* at its borders. Raises :class:`ValueError`, one line that shows no credential."""
    text = text.strip()
    if _CONTROL.search(text):
        refuse(MASK, "it holds a control character")
    scheme, rest = _cut_scheme(text)
    if (colons := _COLONS.fullmatch(rest)) and not _WITH_PORT.fullmatch(rest.rpartition("@")[2]):
        host, port, user, password = colons.groups()
        return RawProxy(scheme or "http", host, port, user, password, encoded=False)
    userinfo, _, address = rest.rpartition("@")
    match = _ADDRESS.fullmatch(address.removesuffix("/"))
    if not match or (scheme is None and not match["port"]):
        refuse(f"{scheme or 'http'}://{MASK}", "what follows the credentials is not host:port")
    user, _, password = userinfo.partition(":")
    port = match["port"] or str(SCHEMES[scheme or "http"])
    return RawProxy(scheme or "http", match["host"], port, user, password, encoded=True)


def _cut_scheme(text: str) -> tuple[str | None, str]:
    match = _SCHEME.match(text)
    if not match or not match["scheme"]:
        return None, text[match.end() :] if match else text
    scheme = match["scheme"].lower()
    if scheme not in SCHEMES:
        refuse(MASK, f"the scheme must be one of {', '.join(SCHEMES)}")
    return scheme, text[match.end() :]


def checked(raw: RawProxy, encoding: str | None) -> Endpoint:
    """The endpoint of *raw*, decoded already, if it can be sent.

    Raises :class:`ValueError`, one line that shows no credential.
    """
    user, password, shown = raw.user, raw.password, f"{raw.scheme}://{MASK}"
    if not 0 < int(raw.port) < 65536:
        refuse(shown, f"the port is {int(raw.port)}, it must be between 1 and 65535")
    if ":" in user:
        refuse(shown, "the user name holds a colon, which proxy authentication cannot carry")
    if password and not user:
        refuse(shown, "there is a password but no user name")
    _check_encoding(user, password, encoding, shown)
    return Endpoint(raw.scheme, _checked_host(raw.host, shown), int(raw.port), user, password)


def _checked_host(host: str, shown: str) -> str:
    if host.startswith("["):
        return _ipv6(host[1:-1]) or refuse(shown, "what stands in brackets is not an IPv6 address")
    if not _NAME.fullmatch(host):
        refuse(shown, "the host name may hold ASCII letters, digits, '.', '-' and '_' only")
    return host


def _ipv6(text: str) -> str | None:
    try:
        return str(IPv6Address(text))
    except ValueError:
        return None


def _check_encoding(user: str, password: str, encoding: str | None, shown: str) -> None:
    for part, text in (("user name", user), ("password", password)):
        if not _writable(text, encoding or "utf-8"):
            limit = f"HTTPPROXY_AUTH_ENCODING {encoding or 'utf-8'!r} cannot express"
            refuse(shown, f"the {part} holds a character that {limit}")


def _writable(text: str, encoding: str) -> bool:
    """Whether *encoding* exists and can express *text*. (The codec's own error would carry the text.)"""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def refuse(shown: str, why: str) -> NoReturn:
    """Raise the :class:`ValueError` of a proxy that cannot be used; *shown* is what may be seen of it."""
    raise ValueError(f"proxy {shown!r}: {why}; write scheme://user:password@host:port")
