"""The arguments that a spider was started with: Scrapy does not keep them, a replay needs them."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from scrapy import Spider

from scrapy_resiproxy.deadletter.plain import plain_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler

COMMANDS: Final = frozenset({"crawl", "runspider"})
SCRAPYS: Final = frozenset({"name", "crawler", "settings", "start_urls"})
"""Attributes that every spider gets."""

_told: WeakKeyDictionary[Crawler, dict[str, Any]] = WeakKeyDictionary()


def remember(crawler: Crawler, arguments: Mapping[str, Any]) -> None:
    """Say what *crawler*'s spider is started with, where that is known."""
    _told[crawler] = dict(arguments)


def spider_arguments(crawler: Crawler, argv: Sequence[str] | None = None) -> dict[str, Any]:
    """What *crawler*'s spider was started with, as far as it can be found out; JSON-safe.

    Known for a replay; the ``-a`` options for ``scrapy crawl`` and Scrapyd (*argv*, this process's by default); for
    a script the parameters of the spider's ``__init__`` that it keeps as attributes of the same name. The first answer
    stands, for a spider's attributes change as it runs.
    """
    if crawler not in _told:
        argv = sys.argv[1:] if argv is None else argv
        if COMMANDS.intersection(argv):
            _told[crawler] = _options(argv)
        elif crawler.spider is None:
            return {}
        else:
            _told[crawler] = _kept(crawler.spider)
    return _told[crawler]


def _options(argv: Sequence[str]) -> dict[str, Any]:
    found = {}
    for place, word in enumerate(argv):
        text = argv[place + 1] if word == "-a" and place + 1 < len(argv) else word.removeprefix("-a")
        if word.startswith("-a") and "=" in text:
            name, _, value = text.partition("=")
            found[name] = value
    return found


def _kept(spider: Spider) -> dict[str, Any]:
    attributes = vars(spider)
    init = type(spider).__init__
    names = attributes if init is Spider.__init__ else inspect.signature(init).parameters
    kept = {name: attributes[name] for name in names if name in attributes and name not in SCRAPYS}
    return plain_items({name: value for name, value in kept.items() if not name.startswith("_")}, "", [])
