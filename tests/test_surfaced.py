"""What arrives where a request is given up, by its cause: at an errback, and where it is awaited in place."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from scrapy_resiproxy import BudgetExhausted, CircuitOpen, ProxyRefused, ResiproxyError, SessionLost, SoftBlock
from scrapy_resiproxy import signals as our_signals
from scrapy_resiproxy.components import turns as module
from scrapy_resiproxy.components.crawl import Crawl
from scrapy_resiproxy.components.middleware import ResiproxyMiddleware
from scrapy_resiproxy.components.surfaced import error_of, last_outcome
from scrapy_resiproxy.guard.answers import Hold
from scrapy_resiproxy.outcome import Outcome
from scrapy_resiproxy.schedule.waiting import Waiting
from scrapy_resiproxy.sessions.pool import NoSession, SessionGone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TARGET = "shop.example"
BASE = {
    "RESIPROXY_PROXY": "http://u-{session}:pass@127.0.0.1:1",
    "RESIPROXY_MAX_ATTEMPTS": 1,
    "RESIPROXY_RETRY_AFTER_CAP": 100,
    "RESIPROXY_INLINE_WAIT_MAX": 0,
    "RESIPROXY_SESSION_COOKIES": False,
    "LOG_ENABLED": False,
}
NO_BUDGET = {
    "RESIPROXY_MAX_ATTEMPTS": 4,
    "RESIPROXY_BUDGET_MIN_RETRIES": 0,
    "RESIPROXY_INLINE_WAIT_MAX": 60,
    "RESIPROXY_WAITING_MAX": 1,
}
WALL = {"cf-mitigated": "challenge"}


class Desk:
    """One crawl's middleware, asked by hand."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        feed = str(directory / "letters.jsonl")
        self.feed = directory / "letters.jsonl"
        crawler = get_crawler(Spider, {**BASE, "RESIPROXY_DEADLETTER_FILE": feed, **settings})
        crawler.spider = Spider.from_crawler(crawler, name="shop")
        self.given_back: list[Request] = []
        crawler.engine = SimpleNamespace(  # type: ignore[assignment]
            running=True, needs_backout=lambda: False, crawl=self.given_back.append
        )
        self.crawl = Crawl.of(crawler)
        self.middleware = ResiproxyMiddleware(self.crawl)
        self.runtime = self.crawl.runtime

    def send(self, request: Request, answer: Any) -> Any:
        """What the way through the middleware ends with: an answer, a request, or what was raised."""
        try:
            refused = finished(self.middleware.process_request(request))
            if refused is not None or answer is None:
                return refused
            if isinstance(answer, Exception):
                # None leaves the exception to the errback.
                return finished(self.middleware.process_exception(request, answer)) or answer
            return finished(self.middleware.process_response(request, answer))
        except ResiproxyError as error:
            return error

    def letters(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.feed.read_bytes().splitlines()] if self.feed.exists() else []


def finished(result: Any) -> Any:
    """The result of a coroutine that has nothing to wait for."""
    if not inspect.isawaitable(result):
        return result
    with pytest.raises(StopIteration) as stopped:
        result.send(None)  # type: ignore[attr-defined]
    return stopped.value.value


@pytest.fixture(autouse=True)
def no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "call_later", lambda *_: SimpleNamespace(cancel=lambda: None))


def answered(status: int, headers: dict[str, str] | None = None) -> Response:
    return HtmlResponse(f"http://{TARGET}/1", status=status, headers=headers, body=b"<html></html>")


def given_up(reason: str) -> Callable[[Desk], None]:
    def prepare(desk: Desk) -> None:
        now = desk.runtime.now()
        told = now + 4000 if reason == "retry_after_too_long" else None
        desk.runtime.governor.give_up(TARGET, reason, now, told)

    return prepare


def held(reason: str) -> Callable[[Desk], None]:
    def prepare(desk: Desk) -> None:
        until = desk.runtime.now() + 40
        desk.runtime.governor.admit = lambda *_, **__: Hold(until, reason)

    return prepare


def no_session(refusal: Callable[[float], Any]) -> Callable[[Desk], None]:
    def prepare(desk: Desk) -> None:
        desk.runtime.pool.lease = lambda *_, **__: refusal(desk.runtime.now() + 40)

    return prepare


def room_is_full(desk: Desk) -> None:
    desk.runtime.room.park(Waiting("other", Request("http://other.example/"), "other.example", 0.0, "backoff", 1))


def gateway_is_gone(desk: Desk) -> None:
    desk.runtime.governor.give_up(desk.runtime.endpoint, "circuit_open", desk.runtime.now(), endpoint=True)


def stopped(desk: Desk) -> None:
    held("pace")(desk)
    desk.runtime.engine.running = False


IN_PLACE, ORDINARY = "in place", "ordinary"
BOTH = (ORDINARY, IN_PLACE)


@dataclass
class Case:
    """A cause, and what comes of it."""

    arrives: type
    """An exception's class; Response for an answer that goes on."""
    outcome: tuple[Any, ...] | None
    """Class, reason, blame, and the wait in whole seconds; None where nothing of ours arrives."""
    letter: str | None
    answer: Any = None
    prepare: Callable[[Desk], None] = lambda desk: None
    settings: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = BOTH


CASES = {
    "the download fails to the last": Case(TimeoutError, None, "attempts_exhausted", TimeoutError()),
    "an error to the last": Case(Response, None, "attempts_exhausted", answered(503)),
    "a wall with a status of its own": Case(Response, None, "identity_exhausted", answered(403, WALL)),
    "a final answer": Case(Response, None, "terminal", answered(400)),
    "a page that is not there": Case(Response, None, None, answered(404)),
    "told to wait too long": Case(Response, None, "retry_after_too_long", answered(429, {"Retry-After": "4000"})),
    "a wall at status 200": Case(
        SoftBlock, ("identity", "challenge", "session", None), "identity_exhausted", answered(200, WALL)
    ),
    "a validator's bug": Case(
        SoftBlock,
        ("terminal", "validator_error", "local", None),
        "validator_error",
        answered(200),
        meta={"resiproxy_validator": "no.such.validator"},
    ),
    "the proxy refuses us": Case(
        ProxyRefused, ("terminal", "proxy_auth", "proxy", None), "proxy_refused", answered(407)
    ),
    "the proxy's own fault": Case(
        ProxyRefused,
        ("transient", "proxy_error", "proxy", 7),
        "attempts_exhausted",
        answered(502, {"x-brd-err-code": "client_10120", "Retry-After": "7"}),
    ),
    "the proxy cannot reach the site": Case(
        ProxyRefused,
        ("transient", "proxy_error", "target", None),
        "attempts_exhausted",
        answered(502, {"x-brd-err-code": "target_40099"}),
    ),
    "the exit is gone": Case(
        ProxyRefused,
        ("identity", "proxy_session_lost", "session", None),
        "identity_exhausted",
        answered(502, {"x-brd-err-code": "peer_30040"}),
    ),
    "an answer, and no budget or no place to wait": Case(
        BudgetExhausted,
        ("transient", "unavailable", "target", None),
        "budget_exhausted",
        answered(503),
        prepare=room_is_full,
        settings=NO_BUDGET,
    ),
    "a failed download, and no budget or no place to wait": Case(
        BudgetExhausted,
        ("transient", "timeout", "target", None),
        "budget_exhausted",
        TimeoutError(),
        prepare=room_is_full,
        settings=NO_BUDGET,
    ),
    "it may not be sent twice": Case(Response, None, "dont_retry", answered(503), meta={"dont_retry": True}),
    "its target was given up": Case(
        CircuitOpen, ("transient", "held", "target", None), "circuit_open", prepare=given_up("circuit_open")
    ),
    "its target told everybody to stay away": Case(
        CircuitOpen,
        ("rate", "paced", "target", 4000),
        "retry_after_too_long",
        prepare=given_up("retry_after_too_long"),
    ),
    "the proxy was given up": Case(
        CircuitOpen, ("transient", "held", "proxy", None), "circuit_open", prepare=gateway_is_gone
    ),
    "the proxy refused everybody": Case(
        ProxyRefused, ("terminal", "proxy_refused", "proxy", None), "proxy_refused", prepare=given_up("proxy_refused")
    ),
    "its named session has ended": Case(
        SessionLost,
        ("identity", "no_session", "session", None),
        "session_lost",
        prepare=no_session(lambda until: SessionGone("idle")),
        meta={"resiproxy_session": "basket"},
    ),
    "its named session is refused": Case(
        SessionLost,
        ("identity", "challenge", "session", None),
        "session_lost",
        answered(403, WALL),
        meta={"resiproxy_session": "basket"},
    ),
    "its meta holds a mistake": Case(
        ResiproxyError, ("terminal", "error", "local", None), "terminal", meta={"resiproxy_idempotent": "no"}
    ),
    "a browser's context without a proxy": Case(
        ResiproxyError,
        ("terminal", "error", "local", None),
        "terminal",
        meta={"playwright": True, "playwright_context": "mine"},
    ),
    "held by a circuit": Case(
        CircuitOpen, ("transient", "held", "target", None), "circuit_open", prepare=held("circuit"), ways=(IN_PLACE,)
    ),
    "held by our own network": Case(
        CircuitOpen, ("transient", "held", "local", None), "circuit_open", prepare=held("outage"), ways=(IN_PLACE,)
    ),
    "held as told": Case(
        ResiproxyError,
        ("rate", "paced", "target", 40),
        "retry_after_too_long",
        prepare=held("told"),
        ways=(IN_PLACE,),
    ),
    "held by the pace": Case(
        ResiproxyError,
        ("rate", "paced", "target", 40),
        "retry_after_too_long",
        prepare=held("pace"),
        ways=(IN_PLACE,),
    ),
    "no session is free": Case(
        ResiproxyError,
        ("identity", "no_session", "session", None),
        "identity_exhausted",
        prepare=no_session(NoSession),
        ways=(IN_PLACE,),
    ),
    "the crawl is stopped": Case(
        ResiproxyError, ("transient", "held", "local", None), "shutdown", prepare=stopped, ways=(IN_PLACE,)
    ),
}


def told(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.class_, outcome.reason, outcome.blame, None if outcome.wait is None else round(outcome.wait)


@pytest.mark.parametrize(
    ("name", "way"), [pytest.param(name, way, id=f"{name}-{way}") for name, case in CASES.items() for way in case.ways]
)
def test_each_cause_arrives_as_what_is_promised(tmp_path: Path, name: str, way: str) -> None:
    case = CASES[name]
    desk = Desk(tmp_path, case.settings)
    case.prepare(desk)
    request = Request(f"http://{TARGET}/1", meta=dict(case.meta))
    if way == ORDINARY:
        request.meta["_resiproxy_scheduled"] = True
    ended = desk.send(request, case.answer)
    assert type(ended) is case.arrives or (case.arrives is Response and ended is case.answer)
    letters = desk.letters()
    assert [letter["reason"] for letter in letters] == ([case.letter] if case.letter else [])
    if case.outcome is None:
        assert ended is case.answer
        return
    assert isinstance(ended, IgnoreRequest)
    assert told(ended.outcome) == case.outcome
    assert letters[0]["class"] == case.outcome[0]
    sent = case.answer is not None
    assert len(ended.attempts) == len(letters[0]["attempts"]) == sent
    assert ended.response is (case.answer if isinstance(case.answer, Response) else None)
    assert ended.__cause__ is (case.answer if isinstance(case.answer, Exception) else None)
    assert (letters[0]["not_before"] is not None) == (not sent and case.outcome[3] is not None)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (
            answered(502, {"x-brd-err-code": "client_10120", "Retry-After": "7"}),
            ("transient", "proxy_error", "proxy", 7),
        ),
        (answered(429, {"Retry-After": "7"}), ("rate", "too_many_requests", "target", 7)),
        (answered(403, WALL), ("identity", "challenge", "session", None)),
        (answered(403), ("identity", "forbidden", "session", None)),
    ],
    ids=["the proxy's fault", "a wait", "a session's fault", "weak evidence"],
)
def test_what_surfaces_after_it_waited_says_what_its_last_attempt_came_to(
    tmp_path: Path, answer: Response, outcome: tuple[Any, ...]
) -> None:
    desk = Desk(tmp_path, {"RESIPROXY_MAX_ATTEMPTS": 4})
    request = Request(f"http://{TARGET}/1", meta={"_resiproxy_scheduled": True})
    judged: list[Outcome] = []

    def classified(outcome: Outcome) -> None:
        judged.append(outcome)

    desk.runtime.crawler.signals.connect(classified, our_signals.outcome_classified)
    assert isinstance(desk.send(request, answer), Request)
    (entry,) = desk.crawl.rescheduler.room
    desk.crawl.rescheduler._give_up(entry, "circuit_open")
    ended = desk.send(desk.given_back[-1], None)
    assert type(ended) is CircuitOpen
    assert told(ended.outcome) == outcome
    assert ended.outcome == judged[0]


def test_the_page_that_another_request_got_in_vain_is_a_soft_block_only_where_it_looked_good_or_was_a_walls() -> None:
    def arrives(class_: str, reason: str, status: int | None) -> type:
        facts = {"outcome": class_, "reason": reason} | ({"status": status} if status else {})
        state: Any = {"log": [(1.0, facts)]}
        outcome = last_outcome(state)
        assert outcome is not None
        return type(error_of(Request("http://a/"), "attempts_exhausted", state, outcome))

    assert arrives("transient", "server_error", 500) is ResiproxyError
    assert arrives("transient", "validator_transient", 200) is SoftBlock
    assert arrives("identity", "challenge", 403) is SoftBlock
    assert arrives("transient", "proxy_error", 502) is ProxyRefused
    assert arrives("transient", "dns_not_found", 502) is ProxyRefused
    assert arrives("transient", "dns_not_found", None) is ResiproxyError, "our own resolver says so, too"


def test_a_browsers_context_without_a_proxy_may_go_where_everything_goes_direct(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"RESIPROXY_TARGETS": {TARGET: {"proxy": None}}})
    request = Request(f"http://{TARGET}/1", meta={"playwright": True, "playwright_context": "mine"})
    assert desk.send(request, None) is None
    assert desk.letters() == []
