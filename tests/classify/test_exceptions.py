"""Exceptions as Scrapy and the download handlers raise them, and what they are."""

from __future__ import annotations

import asyncio
import errno
import gzip
import socket
import ssl
import zlib

import aiohttp
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from OpenSSL import SSL
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import (
    CannotResolveHostError,
    CloseSpider,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from twisted.internet import defer, error
from twisted.python.failure import Failure
from twisted.web._newclient import ResponseNeverReceived

from scrapy_resiproxy.classify.causes import chain
from scrapy_resiproxy.classify.classifier import Classifier, is_not_a_failure
from scrapy_resiproxy.classify.reasons import REASONS
from scrapy_resiproxy.exceptions import SoftBlock
from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.tunnel.errors import TunnelFailed

NOW = 1_767_225_600.0
TRANSIENT, RATE, IDENTITY, TERMINAL = "transient", "rate", "identity", "terminal"
REQUEST = Request("https://t.example/")


def judge(exception: BaseException, *, via_proxy: bool = True, **options):
    """The outcome of *exception*, whose reason must be one of the table."""
    outcome = Classifier(**options).judge_exception(REQUEST, exception, now=NOW, via_proxy=via_proxy)
    assert outcome.reason in REASONS[outcome.class_]
    return outcome


def caused(outer: BaseException, *inner: BaseException) -> BaseException:
    """*outer*, raised from the first of *inner*, which was raised from the next."""
    link = outer
    for cause in inner:
        link.__cause__ = cause
        link = cause
    return outer


def after(context: BaseException, outer: BaseException) -> BaseException:
    """*outer*, raised while *context* was being handled."""
    outer.__context__ = context
    return outer


def never_received(*reasons: BaseException) -> ResponseNeverReceived:
    return ResponseNeverReceived([Failure(reason) for reason in reasons])


def tunnel_error(said: object) -> TunnelError:
    return TunnelError(f"Could not open CONNECT tunnel with proxy 127.0.0.1:8407 [{said!r}]")


def aiohttp_refusal(status: int, **headers: str) -> BaseException:
    info = aiohttp.RequestInfo(
        "http://u:secret@gw.example:1", "CONNECT", CIMultiDictProxy(CIMultiDict()), "http://gw.example"
    )
    given = CIMultiDictProxy(CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()}))
    inner = aiohttp.ClientHttpProxyError(
        info, (), status=status, message="Proxy Authentication Required", headers=given
    )
    return caused(DownloadFailedError(str(inner)), inner)


class FakeTunnelError(ConnectionError):
    """What our own transport raises, as far as it matters here."""

    def __init__(self, phase, reason, status=None, headers=(), body=b""):
        super().__init__("Tunnel through gw.example to t.example failed")
        self.phase, self.reason, self.status, self.headers, self.body = phase, reason, status, headers, body


def connector_error(cls, os_error: OSError) -> BaseException:
    key = aiohttp.client_reqrep.ConnectionKey("t.example", 443, True, True, None, None, None)
    return cls(key, os_error)


REFUSED_TUNNELS = [
    (
        "CLS-01-connect",
        tunnel_error({"status": 407, "reason": b"Proxy Authentication Required"}),
        TERMINAL,
        "proxy_auth",
    ),
    ("CLS-02", aiohttp_refusal(407, x_brd_err_code="client_10002"), TERMINAL, "proxy_auth"),
    ("CLS-02-bare", aiohttp_refusal(407), TERMINAL, "proxy_auth"),
    ("CLS-02-quota", aiohttp_refusal(502, x_brd_err_code="client_10100"), TERMINAL, "proxy_quota"),
    ("CLS-03-nothing-reachable", tunnel_error({"status": 407, "reason": b""}), TERMINAL, "proxy_auth"),
    ("CLS-03-in-the-reason", tunnel_error({"status": 407, "reason": b"TRAFFIC_EXHAUSTED"}), TERMINAL, "proxy_quota"),
    ("CLS-09-connect-502", tunnel_error({"status": 502, "reason": b"Bad Gateway"}), IDENTITY, "proxy_session_lost"),
    ("CLS-09-connect-525", tunnel_error({"status": 525, "reason": b"no exit"}), IDENTITY, "proxy_session_lost"),
    ("CLS-09-connect-522", tunnel_error({"status": 522, "reason": b""}), TRANSIENT, "proxy_timeout"),
    ("CLS-28", tunnel_error(b"SSH-2.0-x\r\nstatus: 407\r\n\r\n"), TRANSIENT, "proxy_protocol"),
    ("CLS-28-mimicry", tunnel_error(b"[{'status': 407, 'reason': b'x'}] and more"), TRANSIENT, "proxy_protocol"),
    ("CLS-28-quotes", tunnel_error({"status": 429, "reason": b"it's [{'status': 407}]"}), RATE, "proxy_rate"),
    ("CLS-38", FakeTunnelError("answer", "closed"), TRANSIENT, "proxy_unreachable"),
    ("RA-10-twisted", tunnel_error({"status": 429, "reason": b"Too Many Requests"}), RATE, "proxy_rate"),
    (
        "httpx-407",
        caused(DownloadConnectionRefusedError("x"), httpx.ProxyError("407 Proxy Authentication Required")),
        TERMINAL,
        "proxy_auth",
    ),
    ("httpx-502", caused(DownloadConnectionRefusedError("x"), httpx.ProxyError("502")), IDENTITY, "proxy_session_lost"),
    ("httpx-socks-auth", httpx.ProxyError("Invalid username/password"), TERMINAL, "proxy_auth"),
    (
        "httpx-socks-target",
        httpx.ProxyError("Proxy Server could not connect: Host unreachable."),
        TRANSIENT,
        "proxy_error",
    ),
    (
        "http.client",
        caused(DownloadFailedError("x"), OSError("Tunnel connection failed: 407 Proxy Authentication Required")),
        TERMINAL,
        "proxy_auth",
    ),
    ("402", tunnel_error({"status": 402, "reason": b"Payment Required"}), TERMINAL, "proxy_quota"),
    ("403", tunnel_error({"status": 403, "reason": b"Forbidden"}), TERMINAL, "proxy_policy"),
    ("401-tinyproxy", tunnel_error({"status": 401, "reason": b"Unauthorized"}), TERMINAL, "proxy_auth"),
    ("400", tunnel_error({"status": 400, "reason": b"Bad Request"}), TERMINAL, "proxy_config"),
    ("404", tunnel_error({"status": 404, "reason": b"Not Found"}), IDENTITY, "proxy_session_lost"),
    ("500", tunnel_error({"status": 500, "reason": b"Unable to connect"}), TRANSIENT, "proxy_error"),
    ("302", tunnel_error({"status": 302, "reason": b"Found"}), TRANSIENT, "proxy_protocol"),
    ("453", tunnel_error({"status": 453, "reason": b"exceeded threads limit"}), RATE, "proxy_concurrency"),
    ("tunnel-407", FakeTunnelError("answer", "Proxy Authentication Required", 407), TERMINAL, "proxy_auth"),
    (
        "tunnel-header-pairs",
        FakeTunnelError("answer", "Bad Gateway", 502, [(b"x-brd-err-code", b"client_10100")]),
        TERMINAL,
        "proxy_quota",
    ),
    (
        "tunnel-header-mapping",
        FakeTunnelError("answer", "Bad Gateway", 502, {"x-brd-err-code": "target_40001"}),
        TRANSIENT,
        "dns_not_found",
    ),
    (
        "tunnel-body",
        FakeTunnelError("answer", "Proxy Authentication Required", 407, (), b"THREADS_EXHAUSTED"),
        RATE,
        "proxy_concurrency",
    ),
    (
        "tunnel-proxy-status",
        FakeTunnelError("answer", "x", 502, [(b"Proxy-Status", b"p; error=dns_error")]),
        TRANSIENT,
        "dns_not_found",
    ),
    (
        "tunnel-target-down",
        FakeTunnelError("answer", "x", 502, [(b"Proxy-Status", b"p; error=connection_refused")]),
        TRANSIENT,
        "proxy_error",
    ),
    (
        "tunnel-description",
        FakeTunnelError("answer", "x", 403, [("X-Error-Description", "restricted target")]),
        TERMINAL,
        "proxy_policy",
    ),
    ("tunnel-junk-headers", FakeTunnelError("answer", "x", 407, ["junk", (1, 2)]), TERMINAL, "proxy_auth"),
    ("tunnel-no-headers", FakeTunnelError("answer", "x", 407, None), TERMINAL, "proxy_auth"),
    (
        "tunnel-error-page",
        FakeTunnelError("answer", "x", 502, (), b"<html>the load balancer has no traffic</html>"),
        IDENTITY,
        "proxy_session_lost",
    ),
    ("tunnel-refused", FakeTunnelError("connect", "refused"), TRANSIENT, "proxy_unreachable"),
    ("tunnel-no-answer", FakeTunnelError("answer", "timeout"), TRANSIENT, "proxy_timeout"),
    ("tunnel-garbage", FakeTunnelError("answer", "garbage"), TRANSIENT, "proxy_protocol"),
    ("tunnel-granted-then-closed", FakeTunnelError("answer", "closed", 200), TRANSIENT, "proxy_unreachable"),
    ("tunnel-certificate", FakeTunnelError("tls", "certificate"), TRANSIENT, "tls_error"),
    ("tunnel-tls-reset", FakeTunnelError("tls", "reset"), TRANSIENT, "connection_lost"),
    ("tunnel-carries-nothing", FakeTunnelError("tls", "timeout"), TRANSIENT, "timeout"),
    ("tunnel-of-another-kind", FakeTunnelError("later", "who knows what"), TRANSIENT, "proxy_unreachable"),
]


@pytest.mark.parametrize(
    ("exception", "class_", "reason"), [r[1:] for r in REFUSED_TUNNELS], ids=[r[0] for r in REFUSED_TUNNELS]
)
def test_a_tunnel_that_was_not_opened_is_the_proxys_answer(exception, class_, reason) -> None:
    outcome = judge(exception)
    assert (outcome.class_, outcome.reason) == (class_, reason)
    assert not outcome.weak
    assert "secret" not in repr(outcome)


@pytest.mark.parametrize(
    ("exception", "blame"),
    [
        pytest.param(tunnel_error({"status": 502, "reason": b""}), Blame.SESSION, id="the-exit-is-gone"),
        pytest.param(tunnel_error({"status": 504, "reason": b""}), Blame.TARGET, id="the-target-does-not-answer"),
        pytest.param(tunnel_error({"status": 500, "reason": b""}), Blame.PROXY, id="the-proxy-is-broken"),
        pytest.param(FakeTunnelError("answer", "closed"), Blame.PROXY, id="CLS-38"),
    ],
)
def test_a_refused_tunnel_is_charged_to_whom_it_concerns(exception, blame) -> None:
    assert judge(exception).blame is blame


def test_retry_after_of_a_refused_tunnel_is_read_where_the_handler_keeps_it() -> None:
    """RA-10."""
    assert judge(aiohttp_refusal(429, Retry_After="30")).wait == 30
    assert judge(FakeTunnelError("answer", "x", 429, [(b"Retry-After", b"30")])).wait == 30
    assert judge(tunnel_error({"status": 429, "reason": b""})).wait is None


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        pytest.param(OSError(errno.ENETUNREACH, "x"), "network_down", id="no-network"),
        pytest.param(socket.gaierror(socket.EAI_AGAIN, "x"), "dns_failed", id="no-resolver"),
    ],
)
def test_a_proxy_out_of_reach_may_be_our_own_network(cause, reason) -> None:
    outcome = judge(caused(FakeTunnelError("connect", "unreachable"), cause))
    assert (outcome.class_, outcome.reason, outcome.blame) == (TRANSIENT, reason, Blame.LOCAL)


def httpx_chain(*inner: BaseException) -> BaseException:
    return caused(DownloadConnectionRefusedError("x"), httpx.ConnectError("x"), *inner)


FAULTS = [
    ("CLS-27", gzip.BadGzipFile("not gzip"), "bad_encoding", Blame.TARGET),
    (
        "CLS-32",
        caused(DownloadFailedError("x"), never_received(error.ConnectionLost())),
        "connection_lost",
        Blame.TARGET,
    ),
    ("zlib", zlib.error("x"), "bad_encoding", Blame.TARGET),
    ("twisted-done", never_received(error.ConnectionDone()), "connection_lost", Blame.TARGET),
    (
        "twisted-tls",
        caused(DownloadFailedError("x"), never_received(SSL.Error([("", "", "wrong version number")]))),
        "tls_error",
        Blame.TARGET,
    ),
    ("twisted-bare", never_received(), "download_failed", Blame.TARGET),
    ("timeout", DownloadTimeoutError("Getting x took longer than 180 seconds."), "timeout", Blame.TARGET),
    ("timeout-aiohttp", caused(DownloadTimeoutError("x"), TimeoutError()), "timeout", Blame.TARGET),
    (
        "data-loss",
        caused(ResponseDataLossError("x"), never_received(error.ConnectionLost())),
        "data_loss",
        Blame.TARGET,
    ),
    (
        "dns-twisted",
        caused(CannotResolveHostError("x"), error.DNSLookupError("no results")),
        "dns_not_found",
        Blame.TARGET,
    ),
    (
        "dns-nxdomain",
        caused(CannotResolveHostError("x"), socket.gaierror(socket.EAI_NONAME, "x")),
        "dns_not_found",
        Blame.TARGET,
    ),
    (
        "dns-aiohttp",
        caused(
            CannotResolveHostError("x"),
            connector_error(aiohttp.ClientConnectorDNSError, socket.gaierror(socket.EAI_NONAME, "x")),
        ),
        "dns_not_found",
        Blame.TARGET,
    ),
    (
        "dns-server",
        caused(CannotResolveHostError("x"), socket.gaierror(socket.EAI_AGAIN, "x")),
        "dns_failed",
        Blame.LOCAL,
    ),
    ("gaierror-without-a-number", socket.gaierror(), "dns_failed", Blame.LOCAL),
    ("refused", DownloadConnectionRefusedError("x"), "connect_refused", Blame.TARGET),
    (
        "refused-twisted",
        caused(DownloadConnectionRefusedError("x"), error.ConnectionRefusedError()),
        "connect_refused",
        Blame.TARGET,
    ),
    ("refused-errno", OSError(errno.ECONNREFUSED, "x"), "connect_refused", Blame.TARGET),
    ("connect-timeout", caused(DownloadTimeoutError("x"), error.TimeoutError()), "timeout", Blame.TARGET),
    (
        "certificate-aiohttp",
        caused(DownloadConnectionRefusedError("x"), connector_error(aiohttp.ClientConnectorSSLError, OSError(1, "x"))),
        "tls_error",
        Blame.TARGET,
    ),
    ("certificate-httpx", httpx_chain(ssl.SSLError(1, "certificate verify failed")), "tls_error", Blame.TARGET),
    ("no-route-twisted", caused(DownloadFailedError("x"), error.NoRouteError()), "network_down", Blame.LOCAL),
    ("no-network-httpx", httpx_chain(OSError(errno.ENETUNREACH, "x")), "network_down", Blame.LOCAL),
    (
        "no-network-aiohttp",
        caused(
            DownloadConnectionRefusedError("x"),
            connector_error(aiohttp.ClientConnectorError, OSError(errno.EHOSTUNREACH, "x")),
        ),
        "network_down",
        Blame.LOCAL,
    ),
    ("no-files-left", OSError(errno.EMFILE, "x"), "local_limit", Blame.LOCAL),
    ("pool-timeout", caused(DownloadTimeoutError("x"), httpx.PoolTimeout("x")), "local_limit", Blame.LOCAL),
    (
        "disconnected-aiohttp",
        caused(DownloadFailedError("x"), aiohttp.ServerDisconnectedError()),
        "connection_lost",
        Blame.TARGET,
    ),
    ("reset", ConnectionResetError(errno.ECONNRESET, "x"), "connection_lost", Blame.TARGET),
    ("oserror", OSError("x"), "download_failed", Blame.TARGET),
    ("eof", EOFError(), "data_loss", Blame.TARGET),
    ("incomplete-read", asyncio.IncompleteReadError(b"", 3), "connection_lost", Blame.TARGET),
    ("wrapped", caused(RuntimeError("x"), TimeoutError()), "timeout", Blame.TARGET),
    ("httpx-own-handler", httpx.ReadTimeout("x"), "timeout", Blame.TARGET),
    (
        "group",
        caused(DownloadFailedError("x"), ExceptionGroup("x", [OSError(errno.ECONNREFUSED, "x")])),
        "connect_refused",
        Blame.TARGET,
    ),
]


@pytest.mark.parametrize(("exception", "reason", "blame"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_the_chain_of_causes_tells_what_failed(exception, reason, blame) -> None:
    outcome = judge(exception, via_proxy=False)
    assert (outcome.class_, outcome.reason, outcome.blame) == (TRANSIENT, reason, blame)
    assert outcome.evidence == type(exception).__name__


def test_a_name_that_twisted_cannot_resolve_is_weak_for_the_resolver_may_be_down() -> None:
    twisted = caused(CannotResolveHostError("x"), error.DNSLookupError("no results"))
    certain = caused(CannotResolveHostError("x"), socket.gaierror(socket.EAI_NONAME, "x"))
    assert judge(twisted, via_proxy=False).weak
    assert not judge(certain, via_proxy=False).weak


@pytest.mark.parametrize(
    "exception",
    [
        pytest.param(caused(DownloadConnectionRefusedError("x"), error.ConnectionRefusedError()), id="port-closed"),
        pytest.param(caused(CannotResolveHostError("x"), error.DNSLookupError("gw.example")), id="name-unknown"),
        pytest.param(caused(DownloadTimeoutError("x"), error.TimeoutError()), id="no-answer-to-syn"),
        pytest.param(connector_error(aiohttp.ClientProxyConnectionError, OSError("x")), id="aiohttp"),
    ],
)
def test_through_a_proxy_what_cannot_be_reached_is_the_proxy(exception) -> None:
    outcome = judge(exception)
    assert (outcome.class_, outcome.reason, outcome.blame) == (TRANSIENT, "proxy_unreachable", Blame.PROXY)


def test_through_a_proxy_a_hanging_answer_is_still_the_targets() -> None:
    assert judge(DownloadTimeoutError("x")).blame is Blame.TARGET


FOREIGN = [
    ("curl_cffi.requests.exceptions", "Timeout", "timeout"),
    ("curl_cffi.requests.exceptions", "SSLError", "tls_error"),
    ("curl_cffi.requests.exceptions", "IncompleteRead", "data_loss"),
    ("curl_cffi.requests.exceptions", "RequestException", "download_failed"),
    ("playwright._impl._errors", "TimeoutError", "timeout"),
    ("patchright._impl._errors", "TimeoutError", "timeout"),
    ("httpx2", "TimeoutException", "timeout"),
    ("httpcore", "ReadError", "download_failed"),
    ("brotli", "error", "bad_encoding"),
    ("_brotli", "error", "bad_encoding"),
    ("urllib3.exceptions", "ProtocolError", "download_failed"),
    ("h2.exceptions", "ProtocolError", "download_failed"),
]


@pytest.mark.parametrize(("module", "name", "reason"), FOREIGN, ids=[f"{row[0]}.{row[1]}" for row in FOREIGN])
def test_other_handlers_exceptions_are_known_by_name(module: str, name: str, reason: str) -> None:
    foreign = type(name, (Exception,), {"__module__": module})
    outcome = judge(foreign("x"), via_proxy=False)
    assert (outcome.class_, outcome.reason) == (TRANSIENT, reason)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("ERR_NAME_NOT_RESOLVED", "dns_not_found"),
        ("ERR_INTERNET_DISCONNECTED", "network_down"),
        ("ERR_PROXY_CONNECTION_FAILED", "proxy_unreachable"),
        ("ERR_TUNNEL_CONNECTION_FAILED", "proxy_error"),
        ("ERR_CONNECTION_RESET", "connection_lost"),
        ("ERR_CERT_DATE_INVALID", "tls_error"),
        ("ERR_SOMETHING_NEW", "download_failed"),
    ],
)
def test_a_browsers_error_is_known_by_its_code(code: str, reason: str) -> None:
    browser_error = type("Error", (Exception,), {"__module__": "playwright._impl._errors"})
    assert judge(browser_error(f"Page.goto: net::{code} at https://t.example/"), via_proxy=False).reason == reason


def test_curls_refused_tunnel_is_read_from_its_text() -> None:
    curl_error = type("ProxyError", (Exception,), {"__module__": "curl_cffi.requests.exceptions"})
    assert (
        judge(curl_error("Failed to perform, curl: (56) CONNECT tunnel failed, response 407.")).reason == "proxy_auth"
    )
    assert judge(curl_error("curl: (97) cannot complete SOCKS5 connection")).reason == "proxy_error"


TERMINAL_ROWS = [
    ("bug", TypeError("x"), "error"),
    ("bug-after-a-timeout", after(TimeoutError(), AttributeError("x")), "error"),
    ("unknown-after-a-timeout", after(TimeoutError(), RuntimeError("x")), "error"),
    ("unknown", RuntimeError("x"), "error"),
    ("unknown-caused-by-a-bug", caused(RuntimeError("x"), KeyError("x")), "error"),
    ("not-supported", NotSupported("x"), "not_supported"),
    ("unsupported-scheme", UnsupportedURLSchemeError("x"), "not_supported"),
    ("https-proxy", NotImplementedError("x"), "not_supported"),
    ("bad-url", caused(DownloadFailedError("x"), aiohttp.InvalidURL("x")), "bad_url"),
    ("ignored", IgnoreRequest("Forbidden by robots.txt"), "ignored"),
    ("our-own", SoftBlock("x"), "ignored"),
    ("close-spider", CloseSpider("x"), "cancelled"),
    ("cancelled", DownloadCancelledError("x"), "cancelled"),
    ("cancelled-task", asyncio.CancelledError(), "cancelled"),
]


@pytest.mark.parametrize(
    ("exception", "reason"), [row[1:] for row in TERMINAL_ROWS], ids=[row[0] for row in TERMINAL_ROWS]
)
def test_no_retry_cures_a_fault_of_ours(exception, reason) -> None:
    outcome = judge(exception)
    assert (outcome.class_, outcome.reason, outcome.blame) == (TERMINAL, reason, Blame.LOCAL)


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        pytest.param(
            IgnoreRequest("Ignored response x because its body (9 B compressed) exceeded DOWNLOAD_MAXSIZE (1 B)."),
            "too_large",
            id="CLS-27-size-guard",
        ),
        pytest.param(
            DownloadCancelledError("Received 9 bytes which is larger than download max size (1) in request x."),
            "too_large",
            id="maxsize",
        ),
        pytest.param(IgnoreRequest("max redirections reached"), "too_many_redirects", id="redirects"),
    ],
)
def test_some_failures_come_in_the_dress_of_a_wish(exception, reason) -> None:
    outcome = judge(exception)
    assert (outcome.class_, outcome.reason, outcome.blame) == (TERMINAL, reason, Blame.TARGET)
    assert not is_not_a_failure(exception)


@pytest.mark.parametrize(
    "exception",
    [
        IgnoreRequest("Forbidden by robots.txt"),
        SoftBlock("x"),
        CloseSpider("x"),
        StopDownload(),
        DownloadCancelledError("x"),
        asyncio.CancelledError(),
        defer.CancelledError(),
        GeneratorExit(),
        KeyboardInterrupt(),
    ],
    ids=lambda exception: type(exception).__name__,
)
def test_what_somebody_wanted_is_not_a_failure(exception) -> None:
    assert is_not_a_failure(exception)


@pytest.mark.parametrize("exception", [TypeError("x"), NotSupported("x"), DownloadTimeoutError("x"), TimeoutError()])
def test_everything_else_is_a_failure(exception) -> None:
    assert not is_not_a_failure(exception)


class OwnError(Exception):
    pass


class OwnChildError(OwnError):
    pass


@pytest.mark.parametrize(
    ("exception", "options", "class_", "reason"),
    [
        pytest.param(
            OwnChildError("x"),
            {"transient_exceptions": [f"{__name__}.OwnError"]},
            TRANSIENT,
            "listed_exception",
            id="a-base-class",
        ),
        pytest.param(
            TypeError("x"), {"transient_exceptions": ["TypeError"]}, TRANSIENT, "listed_exception", id="even-a-bug"
        ),
        pytest.param(
            NotSupported("x"),
            {"transient_exceptions": ["scrapy.exceptions.NotSupported"]},
            TRANSIENT,
            "listed_exception",
            id="even-terminal",
        ),
        pytest.param(
            TimeoutError(),
            {"transient_exceptions": ["builtins.TimeoutError"]},
            TRANSIENT,
            "timeout",
            id="a-known-one-keeps-its-reason",
        ),
        pytest.param(
            OwnChildError("x"),
            {"retry_exceptions": [OwnError, "not.there.Error"]},
            TRANSIENT,
            "listed_exception",
            id="CLS-39-a-class",
        ),
        pytest.param(
            OwnChildError("x"),
            {"retry_exceptions": [f"{__name__}.OwnChildError"]},
            TRANSIENT,
            "listed_exception",
            id="CLS-39-a-name",
        ),
        pytest.param(
            TypeError("x"), {"retry_exceptions": [Exception]}, TERMINAL, "error", id="CLS-39-a-bug-stays-a-bug"
        ),
        pytest.param(
            KeyError("x"),
            {"retry_exceptions": ["builtins.Exception", BaseException]},
            TERMINAL,
            "error",
            id="CLS-39-a-bug-is-not-meant-by-all",
        ),
        pytest.param(
            KeyError("x"),
            {"retry_exceptions": ["builtins.KeyError"]},
            TRANSIENT,
            "listed_exception",
            id="CLS-39-builtin",
        ),
        pytest.param(
            KeyError("x"), {"retry_exceptions": ["KeyError"]}, TRANSIENT, "listed_exception", id="CLS-39-builtin-bare"
        ),
        pytest.param(
            KeyError("x"), {"retry_exceptions": [LookupError]}, TRANSIENT, "listed_exception", id="CLS-39-builtin-class"
        ),
        pytest.param(
            KeyError("x"), {"retry_exceptions": ["builtins.IndexError"]}, TERMINAL, "error", id="CLS-39-another-builtin"
        ),
        pytest.param(
            NotImplementedError("x"),
            {"retry_exceptions": ["builtins.NotImplementedError"]},
            TERMINAL,
            "not_supported",
            id="CLS-39-a-known-builtin-stays",
        ),
        pytest.param(
            NotSupported("x"), {"retry_exceptions": [Exception]}, TERMINAL, "not_supported", id="CLS-39-terminal-stays"
        ),
        pytest.param(
            DownloadFailedError("x"),
            {"retry_exceptions": []},
            TRANSIENT,
            "download_failed",
            id="CLS-39-ours-needs-no-list",
        ),
        pytest.param(
            OwnChildError("x"), {"retry_exceptions": [int, "x"]}, TERMINAL, "error", id="nonsense-in-the-list"
        ),
    ],
)
def test_the_users_lists_add_passing_faults(exception, options, class_, reason) -> None:
    outcome = judge(exception, via_proxy=False, **options)
    assert (outcome.class_, outcome.reason) == (class_, reason)


def test_a_library_may_be_named_by_its_public_or_its_private_path() -> None:
    for name in ("aiohttp.ClientError", "aiohttp.client_exceptions.ClientError"):
        judged = judge(aiohttp.InvalidURL("x"), via_proxy=False, transient_exceptions=[name])
        assert judged.reason == "listed_exception"


def test_a_ring_of_causes_comes_to_an_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert list(chain(first)) == [first, second]
    assert judge(first).reason == "error"


def test_reasons_that_are_no_exceptions_are_left_out() -> None:
    odd = RuntimeError("x")
    odd.reasons = ["a text", TimeoutError()]
    assert [type(link) for link in chain(odd)] == [RuntimeError, TimeoutError]


def test_an_endless_chain_is_cut() -> None:
    exception = caused(*(RuntimeError(str(n)) for n in range(100)))
    assert len(list(chain(exception))) == 16


EXCEPTIONS = st.sampled_from(
    [
        RuntimeError,
        TunnelError,
        OSError,
        socket.gaierror,
        DownloadFailedError,
        IgnoreRequest,
        httpx.ProxyError,
        EOFError,
        TypeError,
    ]
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["[{'status': 407, 'reason': b'x'}]", "407 x", "Tunnel connection failed: 502"]
)


@settings(max_examples=150)
@given(links=st.lists(st.tuples(EXCEPTIONS, TEXTS), min_size=1, max_size=4), via_proxy=st.booleans())
def test_no_exception_makes_it_raise_and_every_reason_is_in_the_table(links, via_proxy) -> None:
    outcome = judge(caused(*(cls(text) for cls, text in links)), via_proxy=via_proxy)
    assert outcome.evidence.isascii()


@settings(max_examples=100)
@given(
    phase=st.text(),
    reason=st.text() | st.binary(),
    status=st.none() | st.integers(),
    headers=st.lists(st.tuples(st.binary(), st.text())),
)
def test_no_failed_tunnel_makes_it_raise(phase, reason, status, headers) -> None:
    outcome = judge(FakeTunnelError(phase, reason, status, headers))
    assert outcome.evidence.isascii()
    assert len(outcome.evidence) <= 80


def test_the_transports_own_exception_is_understood() -> None:
    refused = TunnelFailed("x", phase="answer", reason="Payment Required", status=402)
    assert judge(refused).reason == "proxy_quota"
    assert judge(TunnelFailed("x", phase="connect", reason="dns")).reason == "proxy_unreachable"
    assert (
        judge(caused(DownloadFailedError("x"), TunnelFailed("x", phase="tls", reason="not_tls"))).reason
        == "proxy_protocol"
    )
