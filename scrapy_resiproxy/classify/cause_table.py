"""What each exception of Scrapy, of the download handlers and of the system means.

Exceptions are named ``<top package>.<class>``, so that no library is imported and none of its private modules is
named. A *generic* entry gives way to whatever is found deeper in the chain of causes; a *connecting* one says that no
connection came about, which through a proxy means the connection to the proxy.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Final

from scrapy_resiproxy.classify.reasons import terminal, transient
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass


@dataclass(frozen=True, slots=True)
class Cause:
    """What an exception means, and how far its word goes."""

    outcome: Outcome
    generic: bool = False
    connecting: bool = False

    @property
    def is_passing(self) -> bool:
        return self.outcome.class_ is OutcomeClass.TRANSIENT


BUG: Final = Cause(terminal("error", Blame.LOCAL))
BAD_URL: Final = Cause(terminal("bad_url", Blame.LOCAL))
NOT_SUPPORTED: Final = Cause(terminal("not_supported", Blame.LOCAL))
FAILED: Final = Cause(transient("download_failed"), generic=True)
NOT_CONNECTED: Final = Cause(transient("connect_failed"), generic=True, connecting=True)
REFUSED: Final = Cause(transient("connect_refused"), connecting=True)
LOST: Final = Cause(transient("connection_lost"))
TIMEOUT: Final = Cause(transient("timeout"))
CONNECT_TIMEOUT: Final = Cause(transient("timeout"), connecting=True)
TLS: Final = Cause(transient("tls_error"))
PROTOCOL: Final = Cause(transient("protocol_error"))
DATA_LOSS: Final = Cause(transient("data_loss"))
BAD_ENCODING: Final = Cause(transient("bad_encoding"))
PROXY_FAULT: Final = Cause(transient("proxy_error", Blame.PROXY))
PROXY_UNREACHABLE: Final = Cause(transient("proxy_unreachable", Blame.PROXY), connecting=True)
NO_SUCH_HOST: Final = Cause(transient("dns_not_found"), connecting=True)
# Twisted does not tell a name that does not exist from a resolver that does not answer.
NO_ADDRESS: Final = Cause(transient("dns_not_found", weak=True), generic=True, connecting=True)
NO_RESOLVER: Final = Cause(transient("dns_failed", Blame.LOCAL))
NO_NETWORK: Final = Cause(transient("network_down", Blame.LOCAL))
LOCAL_LIMIT: Final = Cause(transient("local_limit", Blame.LOCAL))

NAMES: Final[dict[str, Cause]] = {
    "scrapy.CannotResolveHostError": NO_ADDRESS,
    "scrapy.DownloadConnectionRefusedError": Cause(REFUSED.outcome, generic=True, connecting=True),
    "scrapy.DownloadFailedError": FAILED,
    "scrapy.DownloadTimeoutError": Cause(TIMEOUT.outcome, generic=True),
    "scrapy.ResponseDataLossError": DATA_LOSS,
    "scrapy.NotSupported": NOT_SUPPORTED,
    "scrapy.UnsupportedURLSchemeError": NOT_SUPPORTED,
    "builtins.NotImplementedError": NOT_SUPPORTED,
    "builtins.ConnectionRefusedError": REFUSED,
    "builtins.ConnectionError": LOST,
    "builtins.TimeoutError": TIMEOUT,
    "builtins.EOFError": DATA_LOSS,
    "builtins.OSError": FAILED,
    "asyncio.IncompleteReadError": LOST,
    "socket.gaierror": NO_RESOLVER,
    "ssl.SSLError": TLS,
    "ssl.CertificateError": TLS,
    "OpenSSL.Error": TLS,
    "service_identity.VerificationError": TLS,
    "gzip.BadGzipFile": BAD_ENCODING,
    "zlib.error": BAD_ENCODING,
    "brotli.error": BAD_ENCODING,
    "brotlicffi.error": BAD_ENCODING,
    "zstandard.ZstdError": BAD_ENCODING,
    "backports.ZstdError": BAD_ENCODING,
    "compression.ZstdError": BAD_ENCODING,
    "twisted.ConnectionRefusedError": REFUSED,
    "twisted.DNSLookupError": NO_ADDRESS,
    "twisted.UnknownHostError": NO_ADDRESS,
    "twisted.NoRouteError": NO_NETWORK,
    "twisted.ConnectBindError": LOCAL_LIMIT,
    "twisted.CannotListenError": LOCAL_LIMIT,
    "twisted.TCPTimedOutError": CONNECT_TIMEOUT,
    "twisted.TimeoutError": CONNECT_TIMEOUT,
    "twisted.ConnectError": NOT_CONNECTED,
    "twisted.ConnectionClosed": LOST,
    "twisted.CertificateError": TLS,
    "twisted.SSLError": TLS,
    "twisted.ParseError": PROTOCOL,
    "twisted._DataLoss": DATA_LOSS,
    "twisted.PotentialDataLoss": DATA_LOSS,
    "twisted.SchemeNotSupported": NOT_SUPPORTED,
    "aiohttp.InvalidURL": BAD_URL,
    "aiohttp.NonHttpUrlClientError": BAD_URL,
    "aiohttp.ClientProxyConnectionError": PROXY_UNREACHABLE,
    "aiohttp.ClientConnectorDNSError": NO_ADDRESS,
    "aiohttp.ClientSSLError": TLS,
    "aiohttp.ClientConnectorError": NOT_CONNECTED,
    "aiohttp.ServerTimeoutError": TIMEOUT,
    "aiohttp.ServerDisconnectedError": LOST,
    "aiohttp.ClientPayloadError": DATA_LOSS,
    "aiohttp.HttpProcessingError": PROTOCOL,
    "httpx.ConnectError": NOT_CONNECTED,
    "httpx.PoolTimeout": LOCAL_LIMIT,
    "httpx.ConnectTimeout": CONNECT_TIMEOUT,
    "httpx.TimeoutException": TIMEOUT,
    "httpx.DecodingError": BAD_ENCODING,
    "httpx.UnsupportedProtocol": BAD_URL,
    "httpx.InvalidURL": BAD_URL,
    "httpx.LocalProtocolError": BUG,
    "httpx.NetworkError": LOST,
    "httpx.RemoteProtocolError": LOST,
    "httpx.ProxyError": PROXY_FAULT,
    "curl_cffi.Timeout": TIMEOUT,
    "curl_cffi.DNSError": NO_ADDRESS,
    "curl_cffi.ProxyError": PROXY_FAULT,
    "curl_cffi.SSLError": TLS,
    "curl_cffi.CertificateVerifyError": TLS,
    "curl_cffi.IncompleteRead": DATA_LOSS,
    "curl_cffi.InvalidURL": BAD_URL,
    "curl_cffi.ConnectionError": NOT_CONNECTED,
    "playwright.TimeoutError": TIMEOUT,
}

ALIASES: Final = {
    "httpcore": "httpx",
    "httpcore2": "httpx",
    "httpx2": "httpx",
    "patchright": "playwright",
    "rebrowser_playwright": "playwright",
}
"""Packages whose exceptions have the names of another's."""

NETWORK_PACKAGES: Final = frozenset({
    "OpenSSL", "aiohttp", "anyio", "curl_cffi", "h11", "h2", "httpx", "playwright", "primp", "pycurl",
    "requests", "rnet", "service_identity", "socks", "socksio", "ssl", "twisted", "urllib3", "wreq",
})  # fmt: skip
"""Whatever else these raise is a failed download."""

BUGS: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError,
    NotImplementedError, RecursionError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Faults of a program, whatever it was busy with."""

ERRNOS: Final[dict[int, Cause]] = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: LOST,
    errno.ECONNABORTED: LOST,
    errno.EPIPE: LOST,
    errno.ETIMEDOUT: CONNECT_TIMEOUT,
    **dict.fromkeys((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL), NO_NETWORK),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM), LOCAL_LIMIT),
}

# Not every system has EAI_NODATA.
UNKNOWN_NAME_ERRNOS: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

BROWSER_ERRORS: Final[tuple[tuple[str, Cause], ...]] = (
    ("ERR_NAME_NOT_RESOLVED", NO_ADDRESS),
    ("ERR_INTERNET_DISCONNECTED", NO_NETWORK),
    ("ERR_NETWORK_CHANGED", NO_NETWORK),
    ("ERR_ADDRESS_UNREACHABLE", NO_NETWORK),
    ("ERR_PROXY", PROXY_UNREACHABLE),
    ("ERR_TUNNEL", PROXY_FAULT),
    ("ERR_CONNECTION_REFUSED", REFUSED),
    ("ERR_CONNECTION_TIMED_OUT", CONNECT_TIMEOUT),
    ("ERR_TIMED_OUT", TIMEOUT),
    ("ERR_CERT", TLS),
    ("ERR_SSL", TLS),
    ("ERR_CONNECTION", LOST),
    ("ERR_EMPTY_RESPONSE", LOST),
    ("ERR_CONTENT", BAD_ENCODING),
)
"""Starts of Chromium's ``net::`` codes, which Playwright gives as text only."""
