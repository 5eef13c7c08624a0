"""What is looked at when a crawl starts: anything that would make a retry layer lie or a proxy be left out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.utils.asyncio import call_later
from scrapy.utils.conf import build_component_list
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

REFUSED_REASON = "resiproxy_setting_error"


def refuse(crawler: Crawler, line: str) -> None:
    """Say *line* and close the spider before anything is sent; once for a crawl, whoever finds it."""
    if getattr(refuse, "said", None) == (id(crawler), line):
        return
    refuse.said = (id(crawler), line)  # type: ignore[attr-defined]
    logger.error("scrapy_resiproxy refuses to start. %s", line)

    def close(spider: Spider) -> None:  # noqa: ARG001
        call_later(0, _close_spider, crawler)

    crawler.signals.connect(close, signals.spider_opened, weak=False)


def _close_spider(crawler: Crawler) -> None:
    assert crawler.engine is not None
    deferred_from_coro(crawler.engine.close_spider_async(reason=REFUSED_REASON))


def check_components(runtime: Runtime) -> None:
    """Raise :class:`SettingError` for a component that cannot live beside ours."""
    settings = runtime.crawler.settings
    order = build_component_list(settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES"))
    classes = [_loaded(path) for path in order]
    ours = next(
        (place for place, cls in enumerate(classes) if getattr(cls, "__name__", "") == "ResiproxyMiddleware"),
        None,
    )
    for place, cls in enumerate(classes):
        if not isinstance(cls, type):
            continue
        if issubclass(cls, RetryMiddleware) and runtime.config.general.retry_enabled and not runtime.observing:
            raise SettingError(
                f"DOWNLOADER_MIDDLEWARES holds {global_object_name(cls)} beside scrapy_resiproxy.ResiproxyMiddleware: "
                "two retry layers multiply. Set it to None."
            )
        if ours is not None and issubclass(cls, MetaRefreshMiddleware) and place > ours:
            logger.warning(
                "scrapy_resiproxy.ResiproxyMiddleware should have a priority from 581 to 589 in "
                "DOWNLOADER_MIDDLEWARES: nearer to the wire than %s, which follows a wall's interstitial.",
                global_object_name(cls),
            )
    if runtime.pool is not None:
        _check_handlers(runtime)
    if runtime.pool is not None and not any(
        isinstance(cls, type) and issubclass(cls, HttpProxyMiddleware) for cls in classes
    ):
        raise SettingError(
            "RESIPROXY_PROXY needs scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware, which "
            "DOWNLOADER_MIDDLEWARES switches off: without it the proxy's credentials go nowhere."
        )


PROXYLESS_HTTPX_BEFORE = (2, 16)
"""Scrapy's httpx handler, the default without a reactor, ignores ``meta["proxy"]`` in versions before this one."""


def _check_handlers(runtime: Runtime) -> None:
    """A handler that ignores the proxy would send everything from this machine's own address."""
    _check_socks(runtime)
    if scrapy.version_info[:2] >= PROXYLESS_HTTPX_BEFORE:
        return
    handlers = runtime.crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        if str(handlers.get(scheme)).endswith("HttpxDownloadHandler"):
            raise SettingError(
                f"RESIPROXY_PROXY is set, but the {scheme} download handler HttpxDownloadHandler of Scrapy "
                f"{scrapy.__version__} ignores proxies: use Scrapy 2.16 or newer, or the Twisted reactor."
            )


SOCKSLESS = ("HTTP11DownloadHandler", "TunnelDownloadHandler", "AiohttpDownloadHandler", "H2DownloadHandler")


def _check_socks(runtime: Runtime) -> None:
    """A SOCKS port must not be sent HTTP: those handlers would wait for an answer until the timeout."""
    proxy = runtime.config.sessions.proxy or ()
    if not any(line.strip().startswith("socks") for line in ((proxy,) if isinstance(proxy, str) else proxy)):
        return
    handlers = runtime.crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        name = str(handlers.get(scheme)).rpartition(".")[2]
        if name in SOCKSLESS:
            raise SettingError(
                f"RESIPROXY_PROXY is a SOCKS proxy, which the {scheme} download handler {name} cannot use: set "
                "DOWNLOAD_HANDLERS to scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler for http and https "
                "(pip install httpx[socks]), or use the vendor's HTTP port."
            )


def _loaded(path: Any) -> Any:
    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError):
        return None  # Scrapy says so itself when it builds them.
