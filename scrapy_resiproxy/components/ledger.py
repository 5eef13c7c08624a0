"""Settles replayed letters: which are done, which failed again, which stay open."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed, Lock
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.deadletter.rebuild import to_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.feeds import ItemFeeds
    from scrapy_resiproxy.deadletter.index import Entry
    from scrapy_resiproxy.deadletter.progress import Delivery, Summary

logger = logging.getLogger(__name__)


class Ledger:
    """The letters of one replay, from being sent to their mark in the feed that they came from."""

    def __init__(self, name: str, summary: Summary, feeds: ItemFeeds, wall: Callable[[], float]) -> None:
        self.name = name
        self.summary = summary
        self._feeds = feeds
        self._wall = wall
        self._open: dict[str, Entry] = {}
        self._at_end: set[str] = set()
        """Done once the crawl ends ``finished``."""
        self._older: Mapping[str, list[Entry]] = {}
        self._stack = ExitStack()
        self._locks: dict[str, Lock] = {}
        self._files: dict[str, DeadLetterFeed] = {}
        self._failed_writes = 0
        self._pages: set[str] = set()

    def lock(self, files: Iterable[str]) -> None:
        """Lock *files* and open them for marks. Raises ``LockedError`` and ``OSError``; nothing is locked then."""
        with ExitStack() as stack:
            for file in files:
                self._locks[file] = stack.enter_context(Lock(file))
                self._files[file] = feed = DeadLetterFeed(file)
                stack.callback(feed.close)
                feed.open()
            self._stack = stack.pop_all()

    def remember_older(self, older: Mapping[str, list[Entry]]) -> None:
        """Older letters about the same work, by the id of the one that is run: they are settled with it."""
        self._older = older

    def load(self, entry: Entry) -> dict[str, Any]:
        """The letter of *entry*. Raises ``OSError`` and ``LetterError``."""
        return entry.load(self._locks[entry.file])

    def sent(self, entry: Entry) -> None:
        """The letter's request goes out now."""
        self._open[entry.id] = entry
        self.summary.sent += 1

    def passed(self, delivery: Delivery) -> None:
        """A page's work is done: mark the letter, or wait for the end where that decides."""
        if delivery.letter_id not in self._open:
            return
        if delivery.follow_ups or self._feeds.late:
            self._at_end.add(delivery.letter_id)
        else:
            self._done(delivery.letter_id)

    def superseded(self, letter_id: str, by: str) -> None:
        """It failed again, and its new letter is on disk."""
        if letter_id in self._open and self._mark(letter_id, "superseded", by):
            self.summary.again += 1

    def crawl_ended(self, reason: str) -> None:
        """Settle what waited for the end, unless the end was not a good one."""
        if reason == "finished" and not self._feeds.failed:
            for letter_id in sorted(self._at_end & self._open.keys()):
                self._done(letter_id)
        self._stack.close()

    def _done(self, letter_id: str) -> None:
        self._feeds.flush()
        if self._mark(letter_id, "done", self.name):
            self.summary.done += 1

    def _mark(self, letter_id: str, state: Literal["done", "superseded"], by: str) -> bool:
        """Mark the letter and the older ones about the same work. A letter that cannot be marked stays open."""
        entry = self._open.pop(letter_id)
        try:
            for each in (*self._older.get(letter_id, ()), entry):
                self._files[each.file].mark(each.id, state, self._wall(), by)
        except OSError as error:
            self._failed_writes += 1
            if self._failed_writes == 1:
                reason = error.strerror
                logger.error("%s cannot be written: %s. Its letters stay open.", entry.file, reason)
            return False
        return True

    def page(self, letter_id: str, request: Request) -> Response | None:
        """The stored page of a letter, the first time it is asked for."""
        entry = self._open.get(letter_id)
        if entry is None or letter_id in self._pages:
            return None
        self._pages.add(letter_id)
        try:
            return to_response(self.load(entry), request)
        except (LetterError, OSError) as error:
            logger.warning("%s:%d is left: %s", entry.file, entry.line, error)
            return None
