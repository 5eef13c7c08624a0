"""Credentials told by their shape: the userinfo of a URL, the value of an ``Authorization`` header."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

_TOKEN_END: Final = re.compile(r"""[\s<>"'`]""")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_BEHIND_AUTHORITY: Final = re.compile(r"[/?#]")
_HOST_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]+)?")
_DOTTED: Final = re.compile(r"\[.*\].*|localhost(:[0-9]+)?|[^:]*\.[^:]*(:[0-9]+)?|[^:]*:[0-9]+")
_ENDS_IN_PORT: Final = re.compile(r"[^/?#@:]+:[0-9]{1,5}/?")
_COLONS: Final = re.compile(r"([^:/@\s]+:[0-9]{1,5}):[^:]*:.*", re.DOTALL)
_HEADER: Final = re.compile(
    r"""((?:proxy-)?authorization\b['"]?\s*[:=]\s*(?:[\[(]\s*)*(?:b?['"])?)"""
    r"""(?:digest\s[^\r\n]*|(?:(?:basic|bearer|negotiate|ntlm|token|apikey)\s+)?[^\s'",;\])}]+)""",
    re.IGNORECASE,
)


def redact_url(url: str) -> str:
    """*url* with ``***`` instead of user and password; one without credentials comes back as it is.

    What cannot be cut at its borders for sure is masked up to its last ``@``, and ``host:port:user:pass`` from
    its port on.
    """
    scheme, separator, rest = url.partition("://")
    if separator and _SCHEME.fullmatch(scheme):
        return f"{scheme}://{_mask_userinfo(rest)}"
    if "@" in url:
        return f"{MASK}@{url.rpartition('@')[2]}"
    return _mask_colons(url)


def _mask_userinfo(rest: str) -> str:
    """What follows ``scheme://``, without credentials."""
    if "@" not in rest:
        return _mask_colons(rest)
    authority = _BEHIND_AUTHORITY.split(rest, maxsplit=1)[0]
    tail = rest[len(authority) :]
    if _reaches_beyond(authority, tail):
        return f"{MASK}@{rest.rpartition('@')[2]}"
    if "@" in authority:
        return f"{MASK}@{authority.rpartition('@')[2]}{tail}"
    return rest


def _reaches_beyond(authority: str, tail: str) -> bool:
    """Whether the userinfo seems to go on after a raw ``/``, ``?`` or ``#`` in the password."""
    if "@" not in tail:
        return False
    host = authority.rpartition("@")[2]
    return (
        not _HOST_PORT.fullmatch(host)
        or (":" in host and tail[0] != "/")
        or ("@" in authority and not _DOTTED.fullmatch(host))
        or bool(_ENDS_IN_PORT.fullmatch(tail.rpartition("@")[2]))
    )


def _mask_colons(text: str) -> str:
    match = _COLONS.fullmatch(text) if text.count(":") > 2 else None
    return f"{match[1]}:{MASK}" if match else text


def mask_shapes(text: str) -> str:
    """*text* without the userinfo of any URL and without the value of any ``Authorization``."""
    if "://" in text:
        text = _mask_urls(text)
    if "uthorization" in text or "UTHORIZATION" in text:
        text = _HEADER.sub(rf"\1{MASK}", text)
    return text


def _mask_urls(text: str) -> str:
    """One pass over *text*, however long: what follows each ``://`` is looked at up to its end."""
    pieces, done = [], 0
    while (start := text.find("://", done) + 3) > 2:
        end = match.start() if (match := _TOKEN_END.search(text, start)) else len(text)
        pieces += [text[done:start], _mask_userinfo(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])
