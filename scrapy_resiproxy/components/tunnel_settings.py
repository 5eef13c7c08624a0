"""What Scrapy's settings and a request's meta mean for a tunnel."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.python import to_bytes
from scrapy.utils.url import add_http_if_no_scheme
from twisted.web.http_headers import Headers as TxHeaders

from scrapy_resiproxy.components.flow import host_of
from scrapy_resiproxy.components.tunnel_response import Sizes
from scrapy_resiproxy.names import META_IDEMPOTENT, META_SESSION, META_STATE
from scrapy_resiproxy.tunnel.ledger import Ledger
from scrapy_resiproxy.tunnel.route import Route, TunnelKey, host_port
from scrapy_resiproxy.tunnel.tls import VERSIONS, TlsOptions
from scrapy_resiproxy.tunnel.transport import Call, Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from scrapy import Request, Spider
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.settings import Config

logger = logging.getLogger(__name__)

_HTTPS_PORT: Final = 443
_PROXY_PORT: Final = 80


def options_of(settings: BaseSettings, config: Config) -> Options:
    """How the tunnels of a crawl behave.

    Raises ``ValueError`` for a TLS version that does not exist.
    """
    tunnel, sessions = config.tunnel, config.sessions
    return Options(
        connect_timeout=tunnel.tunnel_connect_timeout,
        max_tunnels=tunnel.tunnel_max,
        # Not the limit per domain: Scrapy's downloader goes over it when many requests are queued at once, and every
        # tunnel above the limit would be opened for one request.
        idle_per_key=settings.getint("CONCURRENT_REQUESTS") or tunnel.tunnel_max,
        reuse=sessions.session_mode != "rotate",
        max_age=tunnel.tunnel_max_age or sessions.session_ttl,
        idle_timeout=tunnel.tunnel_idle_timeout,
        ping_interval=tunnel.tunnel_ping_interval,
        ping_path=tunnel.tunnel_ping_path,
        ping_method=tunnel.tunnel_ping_method,
        tls=_tls_options(settings),
    )


def _tls_options(settings: BaseSettings) -> TlsOptions:
    # The setting of Scrapy 2.15, deprecated since, says one version; the two of today go first.
    method = settings.get("DOWNLOADER_CLIENT_TLS_METHOD")
    only = method if method in VERSIONS else None
    return TlsOptions(
        verify=settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES"),
        ciphers=settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS"),
        min_version=_version(settings, "DOWNLOAD_TLS_MIN_VERSION") or only,
        max_version=_version(settings, "DOWNLOAD_TLS_MAX_VERSION") or only,
        keylog=_keylog(os.environ.get("SSLKEYLOGFILE")),
    )


def _version(settings: BaseSettings, setting: str) -> str | None:
    name: str | None = settings.get(setting)
    if name is not None and name not in VERSIONS:
        raise ValueError(f"{setting} is {name!r}; it must be one of {', '.join(VERSIONS)}, or None.")
    return name


def _keylog(path: str | None) -> str | None:
    if not path:
        return None
    try:
        Path(path).open("ab").close()
    except OSError as error:
        logger.warning("Cannot write TLS session keys to %s: %s", path, error)
        return None
    return path


def open_ledger(pattern: str | None, name: str, when: datetime) -> Ledger | None:
    """The ledger that ``RESIPROXY_TUNNEL_LEDGER`` asks for, for the spider *name*.

    Raises ``ValueError`` for a path that cannot be written or holds another placeholder than the two known ones.
    """
    if pattern is None:
        return None
    try:
        path = pattern % {"name": name, "time": when.isoformat(timespec="seconds").replace(":", "-")}
        return Ledger(Path(path))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"RESIPROXY_TUNNEL_LEDGER is {pattern!r}; it may hold %(name)s and %(time)s.") from None
    except OSError as error:
        raise ValueError(f"RESIPROXY_TUNNEL_LEDGER is {pattern!r}; it cannot be written: {error.strerror}.") from None


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """Scrapy's download settings, which a request's meta may overrule."""

    timeout: float
    maximum: int
    warn_at: int
    fail_on_dataloss: bool

    @classmethod
    def of(cls, settings: BaseSettings) -> DownloadSettings:
        return cls(
            settings.getfloat("DOWNLOAD_TIMEOUT"),
            settings.getint("DOWNLOAD_MAXSIZE"),
            settings.getint("DOWNLOAD_WARNSIZE"),
            settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS"),
        )

    def sizes(self, request: Request, spider: Spider | None) -> Sizes:
        maximum = getattr(spider, "download_maxsize", self.maximum)
        warn_at = getattr(spider, "download_warnsize", self.warn_at)
        return Sizes(
            request.meta.get("download_maxsize", maximum),
            request.meta.get("download_warnsize", warn_at),
            request.meta.get("download_fail_on_dataloss", self.fail_on_dataloss),
        )


def proxy_scheme(request: Request) -> str:
    """The scheme of the request's proxy in lower case, "" without one."""
    proxy = request.meta.get("proxy")
    return _parsed(proxy).scheme if proxy else ""


@lru_cache(maxsize=1024)
def _parsed(proxy: str) -> SplitResult:
    return urlsplit(add_http_if_no_scheme(proxy))


_host_port = lru_cache(maxsize=1024)(host_port)


class Router:
    """Tells along which route a request goes."""

    def __init__(self, bind_address: str | tuple[str, int] | None, target_of: Callable[[Request, str], str]) -> None:
        self._bind_address = bind_address
        self._target_of = target_of
        self._salt = secrets.token_bytes(16)

    def route(self, request: Request) -> Route:
        """The route of an https request with an http proxy.

        Raises ``ValueError`` for a proxy without a host.
        """
        proxy, url = _parsed(request.meta["proxy"]), urlparse_cached(request)
        proxy_host, host = proxy.hostname, url.hostname
        if not proxy_host or not host:
            raise ValueError(f"{'proxy' if host else 'URL'} without a host name: {request}")
        authorization = request.headers.get(b"Proxy-Authorization")
        login = self._hash(authorization)
        bind = request.meta.get("bindaddress") or self._bind_address
        bind = (bind, 0) if isinstance(bind, str) else bind
        proxy_port, port = proxy.port or _PROXY_PORT, url.port or _HTTPS_PORT
        key = TunnelKey(
            proxy=_host_port(proxy_host, proxy_port),
            session=_alias(request) or login,
            origin=_host_port(host, port),
            login=login,
            bind=repr(bind) if bind else "",
        )
        return Route(
            key,
            proxy_host,
            proxy_port,
            host,
            port,
            authorization=authorization,
            bind=bind,
            keep_exit=request.meta.get(META_SESSION) is not None,
            target=self._target_of(request, host_of(request)),
            slot=request.meta.get("download_slot", ""),
        )

    def _hash(self, authorization: bytes | None) -> str:
        """A name for the login that tells nothing about it; another in every process."""
        return hashlib.blake2b(authorization or b"", key=self._salt, digest_size=6).hexdigest()


def _alias(request: Request) -> str | None:
    state = request.meta.get(META_STATE)
    alias = state.get("session") if isinstance(state, dict) else None
    return alias if isinstance(alias, str) else None


def call_of(request: Request, url: str) -> Call:
    """What is sent through the tunnel; credentials for the proxy stay out of it."""
    headers = TxHeaders(request.headers)
    headers.removeHeader(b"Proxy-Authorization")
    return Call(
        method=to_bytes(request.method),
        url=to_bytes(url, encoding="ascii"),
        headers=headers,
        body=request.body,
        resend=request.meta.get(META_IDEMPOTENT),
    )
