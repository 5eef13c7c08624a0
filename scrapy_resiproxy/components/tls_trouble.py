"""Says, once for each target, why TLS with it fails, and what to set where its certificate is not trusted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.classify.causes import chain, names_of
from scrapy_resiproxy.redact import redact_text
from scrapy_resiproxy.tunnel.errors import TunnelFailed

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.outcome import Outcome

logger = logging.getLogger(__name__)

LINES_AT_MOST: Final = 10
"""Where TLS is intercepted, it fails with every target."""

OTHER_NAME: Final = "the certificate is for another host"
NOT_TRUSTED: Final = (
    "the certificate has expired, or is signed by a CA that is not trusted here, as that of a proxy which intercepts "
    "TLS (scrapy tunnel probe names it). To trust that CA, set the environment variable SSL_CERT_FILE to its "
    "certificate, a PEM file"
)
_MISMATCH: Final = ("hostname mismatch", "ip address mismatch", "doesn't match")
_UNVERIFIED: Final = "certificate verify failed"
"""OpenSSL's words, which every library repeats."""


class TlsTrouble:
    """The targets of one crawl with which TLS has failed."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def note(self, target: str, request: Request, outcome: Outcome, exception: Exception) -> None:
        """An attempt at *target* ended with *exception*, which was judged as *outcome*."""
        # Towards an http page there is no other TLS than the proxy's own, of which is spoken elsewhere.
        if outcome.reason != "tls_error" or not request.url.startswith("https:"):
            return
        if target in self._said or len(self._said) >= LINES_AT_MOST:
            return
        self._said.add(target)
        why = in_words(exception)
        logger.error("TLS on the way to %s fails: %s. The first request that met this: %s", target, why, request)


def in_words(exception: Exception) -> str:
    """Why there was no TLS connection, without a credential; the innermost exception's own words otherwise."""
    links = list(chain(exception))
    text = " ".join(map(str, links)).lower()
    if any(sign in text for sign in _MISMATCH) or any(map(_is_mismatch, links)):
        return OTHER_NAME
    if _UNVERIFIED in text or any(isinstance(link, TunnelFailed) and link.reason == "certificate" for link in links):
        return NOT_TRUSTED
    return redact_text(f"{type(links[-1]).__name__}: {links[-1]}".partition("\n")[0][:200])


def _is_mismatch(exception: BaseException) -> bool:
    return "service_identity.VerificationError" in names_of(exception)
