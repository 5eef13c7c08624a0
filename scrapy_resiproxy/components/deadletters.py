"""Writes the dead letter of a request before its failure is surfaced."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.http import Response

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.flow import story_of, strip_for_good
from scrapy_resiproxy.components.foreign import stamp_of
from scrapy_resiproxy.deadletter.arguments import spider_arguments
from scrapy_resiproxy.deadletter.feed import DeadLetterFeed
from scrapy_resiproxy.deadletter.index import runs_offline
from scrapy_resiproxy.deadletter.record import make_letter
from scrapy_resiproxy.deadletter.replay import is_final
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass
from scrapy_resiproxy.redact import redact_text
from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy import Request

    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.runtime import Runtime

logger = logging.getLogger(__name__)

PAGE_REASONS = frozenset({"parse_error", "validator_error"})
"""Only these keep their page: a fixed parser or validator can run on it without a download."""


PROXYS_WORDS = ("connect:", "proxy-status:", "status:407", "x-")
"""How the evidence begins that came from an answer of the proxy itself: where it stood."""


class DeadLetterOffice:
    """The dead-letter feed of one crawl."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.settings = runtime.config.deadletters
        self.path = self._path() if self.settings.deadletter_enabled else None
        self._feed: DeadLetterFeed | None = None
        self._failed = False
        # Asked for now: a spider's attributes change while it runs.
        self._spider_args = spider_arguments(runtime.crawler)
        self.reasons: dict[str, int] = {}
        self.stored = 0
        """Letters that an offline replay can run: they hold their page."""
        self.final: Counter[str] = Counter()
        """Letters that a replay runs only when asked for, by reason."""
        self.failed_writes = 0
        self.unwritten = 0
        """Failures that left no letter: the feed is switched off, or the write failed."""
        if self.path is not None and "deadletter_file" in runtime.config.user_set:
            problem = DeadLetterFeed.check_writable(self.path)
            if problem:
                raise SettingError(f"RESIPROXY_DEADLETTER_FILE is {self.settings.deadletter_file!r}: {problem}")

    def _path(self) -> Path:
        spider = self.runtime.crawler.spider
        name = spider.name if spider is not None else self.runtime.crawler.spidercls.name
        when = datetime.fromtimestamp(self.runtime.wall(), UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
        try:
            return Path(self.settings.deadletter_file % {"name": name, "time": when})
        except (KeyError, ValueError, TypeError):
            raise SettingError(
                f"RESIPROXY_DEADLETTER_FILE is {self.settings.deadletter_file!r}; it may hold %(name)s and %(time)s."
            ) from None

    @property
    def written(self) -> int:
        return sum(self.reasons.values())

    def bury(
        self,
        request: Request,
        reason: str,
        *,
        target: str,
        outcome: Outcome | None = None,
        state: State | None = None,
        response: Response | None = None,
        error: BaseException | None = None,
        not_before: float | None = None,
        status: int | None = None,
        handed_on: bool = False,
        attempts: Sequence[dict[str, Any]] | None = None,
    ) -> bool:
        """Write the letter of *request*; whether it is on disk now.

        *attempts* is its story where that is no longer in its *state*. A redirect without an answer has no *outcome*.
        *not_before* is wall-clock seconds; *status* that of a response that is not at hand. Nothing is written for a
        page that is not there, by the statuses that the project excludes, and for a *response* that is *handed_on* to a
        spider that handles its status.
        """
        if isinstance(response, Response):
            status = response.status
        if status is not None and self._is_excluded(request, status, reason, outcome, handed_on):
            return False
        if self.path is None:
            self.unwritten += 1
            return False
        state = state or {}
        now = self.runtime.wall()
        letter = make_letter(
            request=_without_ours(request, state),
            spider=self._spider(),
            outcome_class=(OutcomeClass.TRANSIENT if outcome is None else outcome.class_).value,
            reason=reason,
            target=target,
            key=self.runtime.key_of(request),
            now=now,
            first_seen=state.get("first", now),
            attempts=story_of(state.get("log", ())) if attempts is None else attempts,
            error=error,
            said=_in_our_words(outcome),
            response=response,
            keep_page=reason in PAGE_REASONS,
            response_bytes=self.settings.deadletter_response_bytes,
            not_before=not_before,
            redact=self.settings.deadletter_redact,
            spider_args=self._spider_args,
            job=self.runtime.jobdir,
            project=self.runtime.crawler.settings.get("BOT_NAME"),
            replay=stamp_of(request.meta),
            own_meta=(),
        )
        if not self._write(letter):
            self.unwritten += 1
            return False
        self._count(letter)
        for counts in self.runtime.tally.both(target):
            counts.letters += 1
            counts.letter_reasons[reason] += 1
        self.runtime.crawler.signals.send_catch_log(
            signals.request_dead_lettered, request=request, letter=letter, spider=self._spider()
        )
        return True

    def bury_one_of_many(self, request: Request, reason: str, **known: Any) -> None:
        """The same, where others wait for theirs: one that cannot be described must not cost them their letters."""
        try:
            self.bury(request, reason, **known)
        except Exception:
            self.unwritten += 1
            logger.exception("No dead letter could be written of %s", request)

    def _count(self, letter: Mapping[str, Any]) -> None:
        reason = letter["reason"]
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.stored += runs_offline(letter)
        self.final[reason] += is_final(letter["class"], reason)

    def _spider(self) -> Any:
        return self.runtime.crawler.spider

    def _is_excluded(
        self, request: Request, status: int, reason: str, outcome: Outcome | None, handed_on: bool
    ) -> bool:
        if reason in PAGE_REASONS or reason == "item_error":
            return False
        if status in self.settings.deadletter_exclude_http_codes:
            # A wall or a proxy may say 404 as well: then nobody knows whether the page is there.
            return outcome is None or (outcome.class_ is OutcomeClass.TERMINAL and outcome.blame is Blame.TARGET)
        if not handed_on:
            return False
        if request.meta.get("handle_httpstatus_all"):
            return True
        of_spider = getattr(self._spider(), "handle_httpstatus_list", ())
        handled = request.meta.get("handle_httpstatus_list", of_spider) or ()
        return status in handled and not 200 <= status < 300

    def _write(self, letter: Mapping[str, Any]) -> bool:
        try:
            if self._feed is None:
                assert self.path is not None
                self._feed = DeadLetterFeed(self.path)
            self._feed.write(dict(letter))
        except OSError as error:
            self.failed_writes += 1
            if not self._failed:
                self._failed = True
                logger.error("The dead-letter feed %s cannot be written: %s", self.path, redact_text(str(error)))
            return False
        return True

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()


def _in_our_words(outcome: Outcome | None) -> str | None:
    """What stands for an exception that quotes a proxy: it may repeat our user name and password, in any spelling."""
    if outcome is None or not outcome.evidence.startswith(PROXYS_WORDS):
        return None
    return f"{outcome.reason} ({outcome.evidence})"


def _without_ours(request: Request, state: State) -> Request:
    """The request as the user made it: without our proxy, jar and slot."""
    copy = request.copy()
    strip_for_good(copy, state)
    return copy
