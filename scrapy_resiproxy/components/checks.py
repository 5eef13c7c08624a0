"""What is looked at when a crawl starts: anything that would make a retry layer lie or a proxy be left out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import scrapy
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.utils.python import global_object_name

from scrapy_resiproxy.components.middleware_order import (
    PROXY_SIDE,
    Placed,
    check_order,
    loaded,
    placed_middlewares,
    switched_on,
)
from scrapy_resiproxy.components.queue_state import foreign_line, is_state, state_in
from scrapy_resiproxy.names import HTTPX_HANDLER
from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)


def check_components(runtime: Runtime) -> None:
    """Raise :class:`SettingError` for a component that cannot live beside ours."""
    settings = runtime.crawler.settings
    placed = placed_middlewares(settings)
    if runtime.config.general.retry_enabled and not runtime.observing:
        _check_retry_layers(placed)
    proxied = runtime.pool is not None and not runtime.observing
    check_order(settings, placed, proxied=proxied)
    if runtime.pool is not None:
        _check_socks(runtime)
        _check_httpx(runtime)
    if proxied and not switched_on(settings, placed, PROXY_SIDE):
        switch = f"{PROXY_SIDE.switch} = False" if not settings.getbool(PROXY_SIDE.switch) else "DOWNLOADER_MIDDLEWARES"
        raise SettingError(
            "RESIPROXY_PROXY needs scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware, which "
            f"{switch} switches off: without it the proxy's credentials go nowhere."
        )
    _check_job(runtime)
    if runtime.pool is not None:
        _warn_of_https(runtime)


def _check_job(runtime: Runtime) -> None:
    """Our queue would find out, too, but only when the spider's ``start`` has begun."""
    queue = loaded(runtime.crawler.settings.get("SCHEDULER_PRIORITY_QUEUE"))
    if runtime.jobdir is None or getattr(queue, "__name__", "") != "GuardedPriorityQueue":
        return
    state = state_in(runtime.jobdir)
    if not is_state(state):
        raise SettingError(foreign_line(runtime.jobdir, state))


def _check_retry_layers(placed: list[Placed]) -> None:
    for entry in placed:
        if issubclass(entry.cls, RetryMiddleware):
            raise SettingError(
                f"DOWNLOADER_MIDDLEWARES holds {global_object_name(entry.cls)} beside "
                "scrapy_resiproxy.ResiproxyMiddleware: two retry layers multiply. Set it to None."
            )


PROXYLESS_HTTPX_BEFORE = (2, 16)
"""Scrapy's httpx handler, the default without a reactor, ignores ``meta["proxy"]`` in versions before this one."""


def _check_httpx(runtime: Runtime) -> None:
    """A handler that ignores the proxy would send everything from this machine's own address."""
    if scrapy.version_info[:2] >= PROXYLESS_HTTPX_BEFORE:
        return
    for scheme in ("http", "https"):
        if _handler(runtime, scheme) == "HttpxDownloadHandler":
            raise SettingError(
                f"RESIPROXY_PROXY is set, but the {scheme} download handler HttpxDownloadHandler of Scrapy "
                f"{scrapy.__version__} ignores proxies: use Scrapy 2.16 or newer, or the Twisted reactor."
            )


SOCKSLESS = ("HTTP11DownloadHandler", "AiohttpDownloadHandler", "H2DownloadHandler")


def _check_socks(runtime: Runtime) -> None:
    """A SOCKS port must not be sent HTTP: those handlers would wait for an answer until the timeout."""
    if not _has_proxy_of(runtime, "socks"):
        return
    for scheme in ("http", "https"):
        name = _carrier(runtime, scheme)
        if name in SOCKSLESS:
            raise SettingError(
                f"RESIPROXY_PROXY is a SOCKS proxy, which the {scheme} download handler {name} cannot use: set "
                f"DOWNLOAD_HANDLERS to {HTTPX_HANDLER} for http and https "
                "(pip install httpx[socks]), or use the vendor's HTTP port."
            )


def _warn_of_https(runtime: Runtime) -> None:
    """A warning, for http pages come through: TLS in TLS is what Scrapy's HTTP/1.1 handler cannot do."""
    if _has_proxy_of(runtime, "https:") and _carrier(runtime, "https") == "HTTP11DownloadHandler":
        logger.warning(
            "RESIPROXY_PROXY is an https proxy, through which Scrapy's HTTP11DownloadHandler gets http pages, but no "
            "https pages: each of them will fail. Write http:// if the proxy has a port for that (https pages are "
            "encrypted all the way in any case), or set DOWNLOAD_HANDLERS to %s for https (Scrapy 2.16 or newer, "
            "pip install httpx).",
            HTTPX_HANDLER,
        )


def _has_proxy_of(runtime: Runtime, scheme: str) -> bool:
    """Whether the URL of a proxy begins with *scheme*."""
    proxy = runtime.config.sessions.proxy or ()
    return any(line.strip().lower().startswith(scheme) for line in ((proxy,) if isinstance(proxy, str) else proxy))


def _handler(runtime: Runtime, scheme: str) -> str:
    handlers = runtime.crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
    return getattr(loaded(handlers.get(scheme)), "__name__", "")


def _carrier(runtime: Runtime, scheme: str) -> str:
    """The name of the handler that carries *scheme* through a proxy that our tunnels do not take."""
    name = _handler(runtime, scheme)
    if name != "TunnelDownloadHandler":
        return name
    fallback = loaded(runtime.crawler.settings.get("RESIPROXY_TUNNEL_FALLBACK_HANDLER"))
    return getattr(fallback, "__name__", "HTTP11DownloadHandler")
