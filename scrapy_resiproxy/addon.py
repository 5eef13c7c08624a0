"""One line in ``settings.py`` switches everything on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.utils.misc import load_object

from scrapy_resiproxy.components.replay import replay_settings
from scrapy_resiproxy.setting_checks import mapping
from scrapy_resiproxy.settings_reader import ENABLED, is_on

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

MIDDLEWARE = "scrapy_resiproxy.ResiproxyMiddleware"
PRIORITY = 585
QUEUE = "scrapy_resiproxy.GuardedPriorityQueue"
ABOVE_COMMAND_LINE = 50
"""What a replay must not share with an ordinary run is switched off, whatever else says."""
TUNNEL_HANDLER = "scrapy_resiproxy.TunnelDownloadHandler"


class Addon:
    """``ADDONS = {"scrapy_resiproxy.Addon": 500}``. It never overrides what the project set."""

    def update_settings(self, settings: BaseSettings) -> None:
        if not is_on(settings, ENABLED):
            if settings.get("RESIPROXY_REPLAY"):
                _place_replay(settings)  # It refuses: the spider's own start requests are not what was asked for.
            return
        observing = settings.get("RESIPROXY_MODE") == "observe"
        if not observing and "scrapy.downloadermiddlewares.retry.RetryMiddleware" not in (
            settings.getdict("DOWNLOADER_MIDDLEWARES")
        ):
            settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RetryMiddleware, None)
        settings.setdefault_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", _named(MIDDLEWARE), PRIORITY)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", _named("scrapy_resiproxy.ResiproxyExtension"), 0)
        _place_replay(settings)
        if settings.get("RESIPROXY_REPLAY"):
            for name, value in replay_settings(settings, offline=_is_offline(settings)).items():
                settings.set(name, value, priority=ABOVE_COMMAND_LINE)
        if not observing:
            settings.set("SCHEDULER_PRIORITY_QUEUE", QUEUE, priority="addon")
            self._warm_tunnels(settings)

    @staticmethod
    def _warm_tunnels(settings: BaseSettings) -> None:
        """Our handler carries https only where Scrapy's own HTTP/1.1 handler would."""
        if not is_on(settings, "RESIPROXY_TUNNEL_ENABLED"):
            return
        if not settings.getbool("TWISTED_REACTOR_ENABLED", True):
            return
        current = settings.getwithbase("DOWNLOAD_HANDLERS").get("https")
        if current is not None and load_object(current) is HTTP11DownloadHandler:
            handlers = settings.getdict("DOWNLOAD_HANDLERS")
            if "https" not in handlers:
                settings.set("DOWNLOAD_HANDLERS", {**handlers, "https": TUNNEL_HANDLER}, priority="addon")


def _place_replay(settings: BaseSettings) -> None:
    replay = _named("scrapy_resiproxy.ReplaySpiderMiddleware")
    settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", replay, 10)


def _is_offline(settings: BaseSettings) -> bool:
    try:
        return bool(mapping(settings.get("RESIPROXY_REPLAY_FILTER") or {}).get("offline"))
    except ValueError:
        return False  # The setting is refused when the crawl starts.


def _named(path: str) -> type:
    loaded: type = load_object(path)
    return loaded
