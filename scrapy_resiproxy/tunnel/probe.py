"""Does a proxy's port carry data, and over what? A handshake is no proof: TLS and one HTTP answer are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography import x509

from scrapy_resiproxy.tunnel.probe_wire import Line, Port, StageFailed, Target, over_connect, over_socks5

if TYPE_CHECKING:
    import socket

Opener = Callable[[], Line]

WAYS: Final = {"CONNECT": over_connect, "SOCKS5": over_socks5}
_CREDENTIALS: Final = (401, 407)
_UNKNOWN_CA: Final = ("issuer certificate", "self-signed", "self signed")
"""OpenSSL's words for a chain that ends nowhere."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far one way went."""

    way: str
    failed: StageFailed | None = None
    issuer: str | None = None
    """Who signed the certificate that was not trusted, None where it was, or none was seen."""

    @property
    def carries(self) -> bool:
        return self.failed is None

    @property
    def reached_tls(self) -> bool:
        """True when the proxy said yes."""
        return self.failed is None or self.failed.stage in {"tls", "http"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the port is. ``kind`` is one of: works, intercepted, credentials, carries_nothing, refused, dead."""

    kind: str
    way: str | None
    sentence: str


def open_line(way: str, port: Port, target: Target, timeout: float, context: ssl.SSLContext) -> Line:
    """Open a tunnel and prove it. Raises :class:`StageFailed`."""
    dial: Callable[[], socket.socket] = partial(WAYS[way], port, target, timeout)
    return Line.open(dial, target, context, timeout)


def try_both(port: Port, target: Target, timeout: float) -> list[Attempt]:
    """Try both ways at once; takes at most four times *timeout* seconds."""
    with ThreadPoolExecutor(len(WAYS)) as pool:
        return list(pool.map(lambda way: _try(way, port, target, timeout), WAYS))


def _try(way: str, port: Port, target: Target, timeout: float) -> Attempt:
    try:
        open_line(way, port, target, timeout, ssl.create_default_context()).close()
    except StageFailed as failed:
        attempt = Attempt(way, failed)
        if failed.reason.startswith("certificate"):
            return replace(attempt, issuer=_issuer(way, port, target, timeout))
        return attempt
    return Attempt(way)


def trusting_context() -> ssl.SSLContext:
    """A context that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _issuer(way: str, port: Port, target: Target, timeout: float) -> str:
    try:
        line = open_line(way, port, target, timeout, trusting_context())
    except StageFailed as failed:
        return f"unknown ({failed})"
    raw = line.sock.getpeercert(binary_form=True)
    line.close()
    return x509.load_der_x509_certificate(raw).issuer.rfc4514_string() if raw else "nobody"


def judge(attempts: list[Attempt], port: Port, target: Target) -> Verdict:
    """Say in one sentence what the port is; the first kind of the table that fits."""
    by_way = {attempt.way: attempt for attempt in attempts}
    ways = [attempt.way for attempt in attempts if attempt.carries]
    if ways:
        return Verdict("works", ways[0], f"{port} works over {' and '.join(ways)}: TLS verified, HTTP answered.")
    for attempt in attempts:
        if attempt.issuer is not None:
            return Verdict(
                "intercepted",
                attempt.way,
                f"{port} carries data over {attempt.way}, but TLS to {target} is intercepted, or {target} has a "
                f"certificate that nobody trusts ({attempt.failed}). Its issuer: {attempt.issuer}.{_to_trust(attempt)}",
            )
    socks, connect = by_way["SOCKS5"], by_way["CONNECT"]
    if socks.reached_tls:
        return Verdict(
            "carries_nothing",
            "SOCKS5",
            f"{port} greets in SOCKS5, says that {target} is connected, and then carries nothing ({socks.failed}).",
        )
    if any(_wrong_login(attempt) for attempt in attempts):
        return Verdict("credentials", None, f"{port} refuses the credentials ({_told(attempts)}).")
    if connect.reached_tls:
        return Verdict("carries_nothing", "CONNECT", f"{port} grants CONNECT and carries nothing ({connect.failed}).")
    if any(attempt.failed and attempt.failed.stage != "connect" for attempt in attempts):
        return Verdict("refused", None, f"{port} opens no tunnel to {target} ({_told(attempts)}).")
    return Verdict("dead", None, f"{port} cannot be reached ({connect.failed}).")


def _to_trust(attempt: Attempt) -> str:
    """What to set where all that is wrong is that nobody here knows who signed the certificate."""
    told = str(attempt.failed)
    if not any(sign in told for sign in _UNKNOWN_CA):
        return ""
    return " To trust it, set the environment variable SSL_CERT_FILE to its certificate, a PEM file."


def _wrong_login(attempt: Attempt) -> bool:
    failed = attempt.failed
    return failed is not None and (failed.stage == "auth" or failed.status in _CREDENTIALS)


def _told(attempts: list[Attempt]) -> str:
    return "; ".join(f"{attempt.way} failed at {attempt.failed}" for attempt in attempts)
