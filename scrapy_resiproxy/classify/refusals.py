"""Finding a proxy's refusal of CONNECT in an exception: every download handler hides it in another place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scrapy.http import Headers

from scrapy_resiproxy.classify import proxy_codes as codes
from scrapy_resiproxy.classify.causes import chain, names_of
from scrapy_resiproxy.classify.proxy_answers import headers_of, judge_connect
from scrapy_resiproxy.classify.reasons import one_line, transient

if TYPE_CHECKING:
    from scrapy_resiproxy.outcome import Outcome

# Scrapy's TunnelError ends in the answer as a dict, or in raw bytes when it was not HTTP. The port, the host and the
# bytes may hold digits of their own, so nothing else is read.
_TUNNEL_ERROR: Final = re.compile(r"\[\{'status': (\d{3}), 'reason': b(['\"])(.*?)\2\}\]\Z", re.DOTALL)
_CURL: Final = re.compile(r"(?:CONNECT tunnel failed, response|Received HTTP code) (\d{3})\b")
_STATUS_IN_TEXT: Final = {
    "httpx.ProxyError": re.compile(r"\A(\d{3})(?:\s|\Z)"),
    **dict.fromkeys(("curl_cffi.ProxyError", "curl_cffi.ConnectionError", "curl_cffi.CurlError"), _CURL),
    # http.client, under urllib3 and requests
    "builtins.OSError": re.compile(r"Tunnel connection failed: (\d{3})\b"),
}
# What SOCKS proxies are said to refuse.
_CREDENTIALS: Final = re.compile(r"auth|user ?name|password", re.IGNORECASE)

_TUNNEL_FAILURES: Final[dict[tuple[str, str], Outcome]] = {
    ("answer", "timeout"): codes.TARGET_TIMEOUT,
    ("answer", "garbage"): codes.GARBAGE,
    ("answer", "head_too_long"): codes.GARBAGE,
    ("tls", "timeout"): transient("timeout"),
    ("tls", "closed"): transient("connection_lost"),
    ("tls", "reset"): transient("connection_lost"),
    ("tls", "not_tls"): codes.GARBAGE,
    ("tls", "certificate"): transient("tls_error"),
    ("tls", "tls_error"): transient("tls_error"),
}
"""By phase and reason; everything else is a proxy that cannot be reached or hangs up."""
_TUNNEL_REASONS: Final = frozenset(
    {"closed", "dns", "refused", "reset", "timeout", "unreachable", *(reason for _, reason in _TUNNEL_FAILURES)}
)


def judge_refusal(exception: BaseException, *, now: float) -> Outcome | None:
    """The outcome of *exception* where the proxy opened no tunnel, else ``None``.

    *now* is the wall clock in epoch seconds.
    """
    for link in chain(exception):
        outcome = _by_phase(link, now) if hasattr(link, "phase") else _by_class(link, now)
        if outcome is not None:
            return outcome
    return None


def _by_phase(failed: BaseException, now: float) -> Outcome:
    """Our own tunnel says how far it came, and keeps what the proxy answered."""
    phase, reason = str(getattr(failed, "phase", "")), _text(getattr(failed, "reason", ""))
    status = getattr(failed, "status", None)
    if isinstance(status, int) and reason not in _TUNNEL_REASONS:
        said = f"{reason} {_text(getattr(failed, 'body', ''))}".strip()
        return judge_connect(status, headers_of(getattr(failed, "headers", None)), said, now=now)
    word = reason if reason in _TUNNEL_REASONS else "other"
    outcome = _TUNNEL_FAILURES.get((phase, word), codes.UNREACHABLE)
    return replace(outcome, evidence=f"tunnel:{one_line(ascii(phase)[1:-1], 20)}:{word}")


def _by_class(link: BaseException, now: float) -> Outcome | None:
    name = next(names_of(link))
    if name == "aiohttp.ClientHttpProxyError" and isinstance(status := getattr(link, "status", None), int):
        headers = headers_of(getattr(link, "headers", None))
        return judge_connect(status, headers, _text(getattr(link, "message", "")), now=now)
    if name == "scrapy.TunnelError":
        match = _TUNNEL_ERROR.search(str(link))
        return judge_connect(int(match[1]), Headers(), match[3], now=now) if match else codes.GARBAGE
    if name in _STATUS_IN_TEXT:
        match = _STATUS_IN_TEXT[name].search(str(link))
        if match:
            return judge_connect(int(match[1]), Headers(), now=now)
        return codes.AUTH if name == "httpx.ProxyError" and _CREDENTIALS.search(str(link)) else None
    return None


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
