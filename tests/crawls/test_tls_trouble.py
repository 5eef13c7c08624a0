"""A certificate that is not trusted: what to set is said, once for each target."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError

from scrapy_resiproxy.components.tls_trouble import LINES_AT_MOST, NOT_TRUSTED, OTHER_NAME, TlsTrouble, in_words
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.tunnel.errors import TunnelFailed

TLS = Outcome(OutcomeClass.TRANSIENT, "tls_error", Blame.TARGET)
CANARY = "canary-pa55"


def caused(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


UNKNOWN = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate"
MISMATCH = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, certificate is not valid for"


class VerificationError(Exception):
    """As service_identity's."""

    __module__ = "service_identity.exceptions"


@pytest.mark.parametrize(
    ("exception", "said"),
    [
        (DownloadFailedError("[('SSL routines', '', 'certificate verify failed')]"), NOT_TRUSTED),
        (caused(DownloadFailedError("x"), ssl.SSLCertVerificationError(UNKNOWN)), NOT_TRUSTED),
        (caused(DownloadFailedError("x"), TunnelFailed("x", phase="tls", reason="certificate")), NOT_TRUSTED),
        (caused(DownloadFailedError("x"), ssl.SSLCertVerificationError(MISMATCH)), OTHER_NAME),
        (caused(TunnelFailed("x", phase="tls", reason="certificate"), VerificationError("[]")), OTHER_NAME),
        (caused(DownloadFailedError("x"), ssl.SSLError("no\nprotocols available")), "SSLError: ('no"),
        (DownloadFailedError(f"http://u:{CANARY}@h:1 says alert"), "DownloadFailedError: http://***@h:1 says alert"),
    ],
    ids=["pyOpenSSL", "ssl", "our tunnel", "another name", "another name in our tunnel", "other", "with a credential"],
)
def test_why_tls_failed_is_told_in_words(exception: Exception, said: str) -> None:
    assert in_words(exception).startswith(said)
    assert "\n" not in in_words(exception)


@pytest.mark.parametrize(
    ("url", "outcome", "lines"),
    [
        ("https://shop.example/", TLS, 1),
        ("http://shop.example/", TLS, 0),
        ("https://shop.example/", Outcome(OutcomeClass.TRANSIENT, "timeout", Blame.TARGET), 0),
    ],
    ids=["https", "TLS of the proxy", "a slow site"],
)
def test_it_is_said_once_for_each_target(
    url: str, outcome: Outcome, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen = TlsTrouble()
    for _ in range(2):
        seen.note("shop.example", Request(url), outcome, DownloadFailedError("x"))
    assert len(caplog.records) == lines


def test_where_tls_fails_everywhere_only_the_first_targets_are_named(caplog: pytest.LogCaptureFixture) -> None:
    seen = TlsTrouble()
    for number in range(100):
        seen.note(f"{number}.example", Request("https://shop.example/"), TLS, DownloadFailedError("x"))
    assert len(caplog.records) == LINES_AT_MOST


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "through the gateway"])
def test_what_is_said_to_be_set_makes_it_work(
    day: Any, monkeypatch: pytest.MonkeyPatch, trusted: bool, proxied: bool
) -> None:
    settings = {"DOWNLOAD_VERIFY_CERTIFICATES": True} | ({} if proxied else {"RESIPROXY_PROXY": None})
    with day("ok") as today:
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(today.lab.ca))
        url = "https://shop.example/item/1" if proxied else f"{today.lab.https}/shop.example/item/1"
        crawled = today.crawl([url], settings)
    said = [line for line in crawled.lines("ERROR") if "TLS on the way to" in line]
    assert len(crawled.good) == trusted
    assert len(said) == (not trusted)
    assert all("set the environment variable SSL_CERT_FILE" in line for line in said)
