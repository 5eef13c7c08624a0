"""The download handler for https through an http proxy; everything else goes to the handler it stands in for."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urldefrag
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadFailedError,
    DownloadTimeoutError,
    NotConfigured,
    NotSupported,
    ResponseDataLossError,
)
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.web.client import RequestGenerationFailed, RequestTransmissionFailed, ResponseFailed

from scrapy_resiproxy.components.refusing import refuse
from scrapy_resiproxy.components.tunnel_errors import as_scrapys
from scrapy_resiproxy.components.tunnel_response import CUT_SHORT, ResponseReader, log_tls
from scrapy_resiproxy.components.tunnel_settings import (
    DownloadSettings,
    Router,
    call_of,
    open_ledger,
    options_of,
    proxy_scheme,
)
from scrapy_resiproxy.names import STATS_PREFIX
from scrapy_resiproxy.settings_reader import ENABLED, is_on, read
from scrapy_resiproxy.tunnel.errors import TunnelFailed, TunnelGone
from scrapy_resiproxy.tunnel.ledger import Ledger, Row
from scrapy_resiproxy.tunnel.transport import Options, TunnelTransport

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.settings import Config
    from scrapy_resiproxy.tunnel.connection import Tunnel

logger = logging.getLogger(__name__)

STATS: Final = f"{STATS_PREFIX}/tunnel"
CARRIED: Final = "http"
"""The scheme of the proxies to which tunnels lead."""
_transports: WeakKeyDictionary[Crawler, TunnelTransport] = WeakKeyDictionary()
_carrying: WeakSet[Crawler] = WeakSet()
"""Crawls whose tunnels are not switched off."""


def tunnels_of(crawler: Crawler) -> TunnelTransport | None:
    """The tunnels of *crawler*, None where no :class:`TunnelDownloadHandler` is in use."""
    return _transports.get(crawler)


def carries(crawler: Crawler, proxy: str) -> bool:
    """Whether https requests of *crawler* with *proxy*, a URL, go through those tunnels, and not to another handler."""
    return crawler in _carrying and proxy.startswith(f"{CARRIED}://")


_NO_SOCKS: Final = (
    "{scheme} proxies are not carried by TunnelDownloadHandler, and Scrapy's HTTP11DownloadHandler would send them "
    "HTTP: use Scrapy's HttpxDownloadHandler for them, as RESIPROXY_TUNNEL_FALLBACK_HANDLER or in DOWNLOAD_HANDLERS."
)
_NO_TLS_IN_TLS: Final = (
    "https pages through an https proxy are not carried by TunnelDownloadHandler, nor by Scrapy's "
    "HTTP11DownloadHandler: use an http proxy, or Scrapy's HttpxDownloadHandler, as RESIPROXY_TUNNEL_FALLBACK_HANDLER "
    "or in DOWNLOAD_HANDLERS."
)


class TunnelDownloadHandler(BaseDownloadHandler):
    """``DOWNLOAD_HANDLERS = {"https": "scrapy_resiproxy.TunnelDownloadHandler"}``.

    Carries https requests whose ``meta["proxy"]`` is an http proxy through warm tunnels. All others go to the handler
    named by ``RESIPROXY_TUNNEL_FALLBACK_HANDLER`` (Scrapy's ``HTTP11DownloadHandler`` unless set). Its exceptions are
    those that Scrapy's own handler raises; where no tunnel could be opened they are also a
    :class:`~scrapy_resiproxy.tunnel.errors.TunnelFailed`.
    """

    lazy = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        """The handler that we stand in for where ``RESIPROXY_ENABLED`` is False."""
        return cls(crawler) if is_on(crawler.settings, ENABLED) else _fallback(crawler)

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("TWISTED_REACTOR_ENABLED"):
            raise NotConfigured(f"{type(self).__name__} requires a Twisted reactor.")
        super().__init__(crawler)
        from twisted.internet import reactor

        self._reactor: Any = reactor
        settings = crawler.settings
        config, options, self._ledger = _read_settings(crawler)
        self._fallback = _fallback(crawler)
        self._carries_all = not isinstance(self._fallback, HTTP11DownloadHandler)
        self._enabled = config.tunnel.tunnel_enabled and not _has_own_tls(settings)
        self._settings = DownloadSettings.of(settings)
        self._log_tls = settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING")
        self._interval = config.report.logstats_interval
        self._router = Router(settings.get("DOWNLOAD_BIND_ADDRESS"), config.target_of)
        self._keeps_warm = options.interval is not None
        self._warned_of_dataloss = False
        self._transport = TunnelTransport(
            reactor,
            options,
            Random(),  # noqa: S311
            on_gone=self._write_row,
        )
        self._publishing = LoopingCall(self._publish)
        _transports[crawler] = self._transport
        if self._enabled:
            _carrying.add(crawler)
        crawler.signals.connect(self._start_publishing, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def download_request(self, request: Request) -> Response:
        scheme, is_https = proxy_scheme(request), urlparse_cached(request).scheme == "https"
        if scheme.startswith("socks") and not self._carries_all:
            raise NotSupported(_NO_SOCKS.format(scheme=scheme))
        if scheme == "https" and is_https and not self._carries_all:
            raise NotSupported(_NO_TLS_IN_TLS)
        if scheme != CARRIED or not self._enabled or not is_https:
            response: Response = await self._fallback.download_request(request)
            return response
        timeout = request.meta.get("download_timeout") or self._settings.timeout
        download = Deferred.fromCoroutine(self._download(request))
        late = self._reactor.callLater(timeout, download.cancel)
        try:
            return await maybe_deferred_to_future(download)
        except (CancelledError, ResponseFailed) as error:
            if not late.active():
                url = urldefrag(request.url)[0]
                raise DownloadTimeoutError(f"Getting {url} took longer than {timeout} seconds.") from error
            raise _scrapy_error(error) from error
        except (RequestTransmissionFailed, RequestGenerationFailed, TunnelGone) as error:
            raise DownloadFailedError(str(error)) from error
        except TunnelFailed as error:
            raise as_scrapys(error) from error.__cause__
        except ResponseDataLossError:
            self._warn_of_dataloss(request)
            raise
        finally:
            if late.active():
                late.cancel()

    async def _download(self, request: Request) -> Response:
        url = urldefrag(request.url)[0]
        start = self._reactor.seconds()
        tunnel, txresponse = await self._transport.send(self._router.route(request), call_of(request, url))
        request.meta["download_latency"] = self._reactor.seconds() - start
        try:
            reader = ResponseReader(self.crawler, request, tunnel, txresponse)
            if self._log_tls:
                log_tls(tunnel)
            response = await reader.read(url, self._settings.sizes(request, self.crawler.spider))
        except BaseException:
            self._transport.failed(tunnel)
            raise
        if CUT_SHORT.isdisjoint(response.flags):
            self._transport.done(tunnel)
        else:
            self._transport.failed(tunnel)
        return response

    def _warn_of_dataloss(self, request: Request) -> None:
        if not self._warned_of_dataloss:
            self._warned_of_dataloss = True
            logger.warning(
                "Got data loss in %s. If you want to process broken responses set the setting "
                "DOWNLOAD_FAIL_ON_DATALOSS = False -- This message won't be shown in further requests",
                request.url,
            )

    def _write_row(self, tunnel: Tunnel) -> None:
        if self._ledger is None:
            return
        row = Row.of(tunnel, self._reactor.seconds(), datetime.now(UTC).timestamp())
        try:
            self._ledger.write(row)
        except OSError as error:
            logger.error("The tunnel ledger is given up: %s", error)
            self._ledger = None

    def _start_publishing(self) -> None:
        if self._interval:
            self._publishing.start(self._interval, now=False)

    def _publish(self) -> None:
        assert self.crawler.stats is not None
        for name, value in self._transport.stats().items():
            self.crawler.stats.set_value(f"{STATS}/{name}", value)

    async def _spider_closed(self) -> None:
        if self._publishing.running:
            self._publishing.stop()
        await maybe_deferred_to_future(self._transport.close())
        self._publish()
        learned = self._transport.learned_idle_timeout()
        if learned is not None and not self._keeps_warm:
            logger.info(
                "Idle tunnels were closed by the other side after %.1f s, and opened again for the next request: "
                "RESIPROXY_TUNNEL_IDLE_TIMEOUT = %.1f would keep them warm.",
                learned,
                learned,
            )

    async def close(self) -> None:
        await maybe_deferred_to_future(self._transport.close())
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        await self._fallback.close()


def _fallback(crawler: Crawler) -> Any:
    path = crawler.settings.get("RESIPROXY_TUNNEL_FALLBACK_HANDLER") or HTTP11DownloadHandler
    return build_from_crawler(load_object(path), crawler)


def _read_settings(crawler: Crawler) -> tuple[Config, Options, Ledger | None]:
    try:
        config = read(crawler.settings)
        options = options_of(crawler.settings, config)
        name = crawler.spider.name if crawler.spider else "scrapy"
        return config, options, open_ledger(config.tunnel.tunnel_ledger, name, datetime.now(UTC))
    except ValueError as error:
        refuse(crawler, str(error))
        raise NotConfigured(str(error)) from error


def _has_own_tls(settings: BaseSettings) -> bool:
    """True where the project makes its TLS contexts itself: they cannot be shared by tunnels."""
    factory = settings.get("DOWNLOADER_CLIENTCONTEXTFACTORY")
    if factory in {None, "SENTINEL"}:
        return False
    logger.warning("Tunnels are not kept warm: DOWNLOADER_CLIENTCONTEXTFACTORY is %s.", factory)
    return True


def _scrapy_error(error: Exception) -> Exception:
    kind = DownloadCancelledError if isinstance(error, CancelledError) else DownloadFailedError
    return kind(str(error))
