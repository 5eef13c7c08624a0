"""Has an attempt judged: by the classifier's rules first, then by the validator that is nearest to the request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_resiproxy.classify.validators import all_of, check_name, resolve, validate_now, validators_of
from scrapy_resiproxy.components.flow import is_robots_txt
from scrapy_resiproxy.components.waits import within
from scrapy_resiproxy.names import META_VALIDATOR
from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Mapping

    from scrapy import Request, Spider
    from scrapy.http import Response

    from scrapy_resiproxy.components.flow import Flight
    from scrapy_resiproxy.runtime import Runtime

    Judgement = tuple[Outcome, BaseException | None]

logger = logging.getLogger(__name__)

PATIENCE = 180.0
"""Seconds that an asynchronous validator may take where DOWNLOAD_TIMEOUT is 0: that setting's default."""


class Judge:
    """The classifier and the validators of one crawl."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._on_spider: Any = None
        self._on_parse: tuple[Any, ...] = ()
        """The validators of the callback that a request has which names none."""
        self._raised: set[str] = set()
        runtime.crawler.signals.connect(self.spider_opened, signals.spider_opened)

    def spider_opened(self, spider: Spider) -> None:
        method = getattr(spider, "validate_response", None)
        self._on_spider = method if callable(method) else None
        self._on_parse = validators_of(getattr(spider, "parse", None))

    def response(self, request: Request, response: Response, flight: Flight) -> Outcome | Awaitable[Outcome]:
        """What *response* is; an awaitable of it where a validator is asynchronous."""
        runtime, meta = self.runtime, request.meta
        entry = runtime.config.target(flight.host)
        outcome = runtime.classifier.judge_response(
            request,
            response,
            now=runtime.wall(),
            via_proxy=bool(meta.get("proxy")),
            text_rules=flight.scheduled or not is_robots_txt(request),
            markers=entry.markers,
            status_classes=entry.status_classes,
        )
        if not outcome.ok:
            if outcome.class_ is OutcomeClass.IDENTITY and not outcome.weak:
                self._saw_wall(request, flight)
            return outcome
        status = response.status
        if not 200 <= status < 300 or status == 204 or request.method == "HEAD":
            return outcome  # There is no page to validate.
        try:
            validator = self._nearest(request, meta, flight)
        except ValueError as error:
            return self._raised_by(META_VALIDATOR, request, error)
        if validator is None:
            return outcome
        judgement = validate_now(validator, response)
        if isinstance(judgement, tuple):
            return self._validated(request, flight, validator, judgement)
        return self._validated_later(request, flight, validator, judgement)

    def exception(self, request: Request, exception: BaseException) -> Outcome:
        """What *exception* is."""
        return self.runtime.classifier.judge_exception(
            request, exception, now=self.runtime.wall(), via_proxy=bool(request.meta.get("proxy"))
        )

    def _nearest(self, request: Request, meta: Mapping[str, Any], flight: Flight) -> Any:
        """The validator that is nearest to the *request*, whose meta is *meta*; None when there is none."""
        named = meta.get(META_VALIDATOR)
        if named is not None:
            return named if self._is_of_a_letter(named) else resolve(named)
        if not flight.scheduled:
            return None  # Media and robots.txt: what judges pages cannot judge them.
        on_callback = self._on_parse if request.callback is None else validators_of(request.callback)
        if on_callback:
            return on_callback[0] if len(on_callback) == 1 else all_of(*on_callback)
        if self._on_spider is not None:
            return self._on_spider
        validators = self.runtime.validators
        return validators.get(flight.host, validators.get("*")) if validators else None

    def _is_of_a_letter(self, named: Any) -> bool:
        """Whether *named* is the spider's method that a letter names: a replay has no job that had to pickle it."""
        spider = self.runtime.crawler.spider
        return bool(self.runtime.config.deadletters.replay) and getattr(named, "__self__", self) is spider

    async def _validated_later(
        self, request: Request, flight: Flight, validator: Any, waiting: Coroutine[Any, Any, Judgement]
    ) -> Outcome:
        """It may take as long as a download: a page would wait for ever for one that never ends."""
        limit = request.meta.get("download_timeout") or self.runtime.config.general.download_timeout or PATIENCE
        try:
            judgement = await within(limit, waiting)
        except TimeoutError as error:
            return self._raised_by(check_name(validator), request, error)
        return self._validated(request, flight, validator, judgement)

    def _validated(self, request: Request, flight: Flight, validator: Any, judgement: Judgement) -> Outcome:
        """The validator's verdict, unless it refuses everything: then the page has changed, it is no wall."""
        outcome, error = judgement
        check = check_name(validator)
        if error is not None:
            return self._raised_by(check, request, error)
        if self._note(flight, check, outcome, walled=False):
            logger.error(
                "Layout changed? %(check)s refuses every page of %(target)s, on fresh sessions too, and none of them "
                "looks like a wall. Sessions are no longer rotated for it: fix the validator.",
                {"check": check, "target": flight.target},
            )
        if not outcome.ok and self.runtime.layout.changed(flight.target, check):
            return Outcome(OutcomeClass.TERMINAL, "layout_changed", Blame.LOCAL, check)
        return outcome

    def _raised_by(self, check: str, request: Request, error: BaseException) -> Outcome:
        """A validator that raises, or never ends, is a bug in the user's code: its traceback is shown once, no session
        pays.
        """
        first = check not in self._raised
        self._raised.add(check)
        logger.error(
            "The validator %(check)s failed on %(request)s: %(error)r",
            {"check": check, "request": request, "error": error},
            exc_info=error if first else None,
            extra={"spider": self.runtime.crawler.spider},
        )
        return Outcome(OutcomeClass.TERMINAL, "validator_error", Blame.LOCAL, check)

    def _saw_wall(self, request: Request, flight: Flight) -> None:
        try:
            validator = self._nearest(request, request.meta, flight)
        except ValueError:
            return
        if validator is not None:
            self._note(flight, check_name(validator), None, walled=True)

    def _note(self, flight: Flight, check: str, outcome: Outcome | None, *, walled: bool) -> bool:
        lease = flight.lease
        return self.runtime.layout.note(
            flight.target,
            check,
            passed=outcome is not None and outcome.ok,
            session=lease.session.alias if lease is not None else "",
            fresh=lease is None or lease.fresh,
            walled=walled,
        )
