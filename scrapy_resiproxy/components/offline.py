"""Pages out of dead letters in place of downloads: ``scrapy replay --offline`` sends nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import IgnoreRequest

from scrapy_resiproxy.components.foreign import stamp_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

HANDLER: Final = "scrapy_resiproxy.components.offline.StoredPageHandler"


class Shelf(Protocol):
    """Where an offline replay keeps its pages."""

    def page(self, letter_id: str, request: Request) -> Response | None:
        """The page of a letter, once; None afterwards and when there is none."""


_shelves: dict[str, Shelf] = {}
"""Name of a replay that runs offline in this process -> its pages."""


def put_up(name: str, shelf: Shelf) -> None:
    """From now on requests of the replay *name* are answered from *shelf*."""
    _shelves[name] = shelf


def take_down(name: str) -> None:
    """The replay *name* has ended."""
    _shelves.pop(name, None)


def stored_response(request: Request) -> Response | None:
    """The page that is to be handed on instead of downloading *request*; None for every other request.

    Each letter's page is given out once: a request that goes round again would get what it had already.
    """
    if not _shelves:
        return None
    stamp = stamp_of(request.meta)
    shelf = None if stamp is None else _shelves.get(stamp["by"])
    return None if stamp is None or shelf is None else shelf.page(stamp["id"], request)


class StoredPageHandler(BaseDownloadHandler):
    """Stands in for every download handler of an offline replay, so that whoever asks, nothing is sent."""

    lazy = False

    async def download_request(self, request: Request) -> Response:
        response = stored_response(request)
        if response is None:
            raise IgnoreRequest("an offline replay sends no request")
        return response


def offline_settings(settings: BaseSettings) -> dict[str, Any]:
    """What must be set for a crawl to send nothing and to wait for nothing."""
    return {
        "DOWNLOAD_HANDLERS": dict.fromkeys(settings.getwithbase("DOWNLOAD_HANDLERS"), HANDLER),
        "ROBOTSTXT_OBEY": False,
        "HTTPCACHE_ENABLED": False,
        "AUTOTHROTTLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
    }


def sends_nothing(settings: BaseSettings) -> bool:
    """Whether every download handler of the crawl is :class:`StoredPageHandler`."""
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS").values()
    return all(handler in {HANDLER, StoredPageHandler, None} for handler in handlers)
