"""Makes the requests of a replay, with the spider's help where it offers some."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_resiproxy.deadletter.permitted import PermittedValidators
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.deadletter.rebuild import to_request
from scrapy_resiproxy.names import META_REPLAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider

    from scrapy_resiproxy.components.ledger import Ledger
    from scrapy_resiproxy.deadletter.index import Entry

logger = logging.getLogger(__name__)

HOOK = "replay_request"
"""The method with which a spider rebuilds what a letter may not hold."""


class Rebuilder:
    """From entries to requests. What cannot be built is counted in the ledger's summary and said in the log.

    *validators* are those that the project itself names, callables or dotted names.
    """

    def __init__(self, spider: Spider, ledger: Ledger, validators: Iterable[Any] = ()) -> None:
        self._spider = spider
        self._permitted = PermittedValidators.of(spider, validators)
        self._ledger = ledger
        self._hook = getattr(spider, HOOK, None)

    @property
    def spiders(self) -> set[str]:
        """The spider's name if it can rebuild what a letter does not hold."""
        return set() if self._hook is None else {self._spider.name}

    async def request(self, entry: Entry) -> Request | None:
        """The request of *entry*, stamped with the letter's id; None when the letter is left."""
        try:
            letter = self._ledger.load(entry)
            request = to_request(letter, self._spider, self._permitted)
        except (LetterError, OSError) as error:
            logger.warning("%s:%d is left: %s", entry.file, entry.line, error)
            self._ledger.summary.unbuildable += 1
            return None
        rebuilt = request if self._hook is None else await self._asked(request, letter)
        if rebuilt is not None:
            rebuilt.dont_filter = True
            rebuilt.meta[META_REPLAY] = {
                "id": entry.id,
                "file": entry.file,
                "count": entry.replay_count,
                "by": self._ledger.name,
                "first_seen": letter["first_seen"],
            }
        return rebuilt

    async def _asked(self, request: Request, letter: dict[str, Any]) -> Request | None:
        """What the spider makes of *request*; None when it leaves the letter."""
        assert self._hook is not None
        try:
            result = self._hook(request, letter)
            if inspect.isawaitable(result):
                result = await result
        except Exception:
            logger.exception("Letter %s is left: %s failed", letter["id"], HOOK)
            self._ledger.summary.unbuildable += 1
            return None
        if isinstance(result, Request):
            return result
        if result is None:
            self._ledger.summary.refused += 1
        else:
            kind = type(result).__name__
            logger.error("Letter %s is left: %s returned a %s; it must be a Request or None", letter["id"], HOOK, kind)
            self._ledger.summary.unbuildable += 1
        return None
