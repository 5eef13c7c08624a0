"""How a tunnel that could not be opened is described, without a credential."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.redact import Secrets
from scrapy_resiproxy.tunnel.errors import Phase, TunnelFailed

if TYPE_CHECKING:
    from scrapy_resiproxy.tunnel.answer import Answer
    from scrapy_resiproxy.tunnel.route import Route

_MAX_BODY: Final = 2_000
_MAX_PHRASE: Final = 200
_SENTENCES: Final[dict[tuple[Phase, str], str]] = {
    ("connect", "timeout"): "no connection to the proxy within {timeout:.3g} s",
    ("connect", "refused"): "the proxy refuses connections",
    ("connect", "dns"): "the proxy's name does not resolve",
    ("connect", "unreachable"): "the proxy cannot be reached",
    ("answer", "timeout"): "no answer to CONNECT within {timeout:.3g} s",
    ("answer", "closed"): "the proxy closed the connection instead of answering CONNECT",
    ("answer", "reset"): "the proxy reset the connection instead of answering CONNECT",
    ("answer", "garbage"): "the proxy's answer to CONNECT is not HTTP",
    ("answer", "head_too_long"): "the head of the proxy's answer to CONNECT is too long",
    ("tls", "timeout"): "no TLS handshake within {timeout:.3g} s: the tunnel carries nothing",
    ("tls", "closed"): "the tunnel was closed during the TLS handshake",
    ("tls", "reset"): "the tunnel was reset during the TLS handshake",
    ("tls", "not_tls"): "what comes through the tunnel is not TLS",
    ("tls", "certificate"): "the origin's certificate was refused: it is bad, or TLS is intercepted",
    ("tls", "tls_error"): "the TLS handshake failed",
}


def failure(route: Route, timeout: float, phase: Phase, reason: str, *, status: int | None = None) -> TunnelFailed:
    """The tunnel failed in *phase* for *reason*, a word of the table above; *timeout* is that of the attempt."""
    sentence = _SENTENCES[phase, reason].format(timeout=timeout)
    return TunnelFailed(_message(route, sentence), phase=phase, reason=reason, status=status)


def refusal(route: Route, answer: Answer) -> TunnelFailed:
    """The proxy answered and granted nothing; what it echoes of our credentials is struck out."""
    secrets = secrets_in(route.authorization)
    phrase = phrase_of(answer, secrets)
    return TunnelFailed(
        _message(route, f"the proxy answered {answer.status} {phrase}".rstrip()),
        phase="answer",
        reason=phrase,
        status=answer.status,
        headers=[(name, _strike(value, secrets)) for name, value in answer.headers],
        body=_strike(answer.rest, secrets)[:_MAX_BODY],
    )


def _message(route: Route, what: str) -> str:
    return f"Tunnel through {route.key.proxy} to {route.key.origin} failed: {what}"


def phrase_of(answer: Answer, secrets: Secrets) -> str:
    """The reason phrase without *secrets*, at most 200 characters: half of one would not be found any more."""
    return secrets.scrub(answer.phrase)[:_MAX_PHRASE]


def secrets_in(authorization: bytes | None) -> Secrets:
    """What must not be repeated of the value of a header: the token, and the user and password in it.

    Those of less than four characters would strike out innocent words.
    """
    token = (authorization or b"").partition(b" ")[2].strip()
    try:
        user, _, password = base64.b64decode(token, validate=True).partition(b":")
    except binascii.Error:
        user = password = b""
    found = Secrets()
    for secret in (token, user, password):
        # Raw bytes are searched as latin-1; percent-encoded they are UTF-8.
        for encoding in ("latin-1", "utf-8"):
            found.register(secret.decode(encoding, "replace"))
    return found


def _strike(raw: bytes, secrets: Secrets) -> bytes:
    return secrets.scrub(raw.decode("latin-1")).encode("latin-1", "replace")
