"""What the item feeds of a crawl mean for a replay: which lose what was there, and which write only at the end."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

from scrapy.extensions.feedexport import FeedExporter

from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

STREAMING_FORMATS: Final = frozenset({"json", "jsonlines", "jsonl", "jl", "csv", "xml", "pickle", "marshal"})
"""Scrapy's own exporters, which hold no item back."""

NEW_FILE_EACH_RUN: Final = re.compile(r"%\((time|batch_time)\)s")


def _scheme(uri: str) -> str:
    """``file`` for a path, too."""
    return "file" if PureWindowsPath(uri).drive else urlsplit(uri).scheme or "file"


def overwritten(settings: BaseSettings) -> list[str]:
    """The feeds, without credentials, that a run would replace instead of adding to them."""
    feeds = {str(uri): options for uri, options in settings.getdict("FEEDS").items()}
    if settings["FEED_URI"]:
        feeds.setdefault(str(settings["FEED_URI"]), {})
    return [_shown(uri) for uri, options in feeds.items() if _replaces(uri, options)]


_may_overwrite: WeakSet[Crawler] = WeakSet()


def permit_overwriting(crawler: Crawler) -> None:
    """Say that the feeds of *crawler* were looked at, and that the user knows what becomes of them."""
    _may_overwrite.add(crawler)


def check_replay(crawler: Crawler) -> None:
    """Raise :class:`SettingError` where a replay in *crawler* would replace what an earlier crawl has collected."""
    lost = [] if crawler in _may_overwrite else overwritten(crawler.settings)
    if lost:
        raise SettingError(
            f"RESIPROXY_REPLAY is set; the replay would overwrite the item feed {lost[0]}: set FEEDS to another, or "
            "put %(time)s into its name."
        )


def _replaces(uri: str, options: Mapping[str, Any]) -> bool:
    if NEW_FILE_EACH_RUN.search(uri):
        return False
    scheme = _scheme(uri)
    if scheme in {"file", "stdout"}:
        return bool(options.get("overwrite", False)) and scheme == "file"
    if scheme in {"ftp", "ftps"}:
        return bool(options.get("overwrite", True))
    # S3 and Google Cloud Storage cannot append; what a foreign storage does is not known.
    return True


def _shown(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//", uri)


def leave_untouched(crawler: Crawler) -> None:
    """Let a crawl that ends without an item not store empty feeds, which would take the place of what is there."""
    exporter = crawler.get_extension(FeedExporter)
    for slot in exporter.slots if exporter is not None else ():
        slot.store_empty = False


class ItemFeeds:
    """The item feeds of a running crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._exporter = crawler.get_extension(FeedExporter)

    @cached_property
    def late(self) -> bool:
        """Whether items reach a feed for good only when the crawl has ended: uploads, and what is compressed."""
        return self._exporter is not None and not all(
            _scheme(uri) in {"file", "stdout"}
            and options.get("format") in STREAMING_FORMATS
            and not options.get("postprocessing")
            for uri, options in self._exporter.feeds.items()
        )

    @property
    def failed(self) -> bool:
        """Whether a feed could not be stored."""
        stats = self._crawler.stats
        assert stats is not None
        return any(name.startswith("feedexport/failed_count/") for name in stats.get_stats())

    def flush(self) -> None:
        """Hand the items written so far to the kernel, so that killing the process does not lose them."""
        if self._exporter is not None:
            for slot in self._exporter.slots:
                if slot.file is not None and not slot.file.closed:
                    slot.file.flush()
