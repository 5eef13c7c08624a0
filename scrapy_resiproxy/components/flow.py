"""What a request carries through the crawl, and the copies that we send round again.

``meta["_resiproxy"]`` is plain JSON, replaced and never changed in place (copies of a request share nested objects),
and leaves the meta before a user sees it, so that ``meta=response.meta`` hands nothing of ours to another request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import urlsplit

from scrapy.utils.python import global_object_name

from scrapy_resiproxy.components.browser import take_off
from scrapy_resiproxy.components.foreign import is_state
from scrapy_resiproxy.names import META_STATE, META_STORY
from scrapy_resiproxy.outcome import Blame
from scrapy_resiproxy.setting_checks import plain_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from scrapy_resiproxy.guard.governor import Permit
    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.sessions.pool import Lease

    Errback = Callable[[Failure], Any]

    Answer = Request | Response | None
    """What a method of a downloader middleware may return."""

META_SCHEDULED: Final = "_resiproxy_scheduled"
"""Set in request_scheduled, taken off in process_request: a request without it never passed the scheduler."""

ATTEMPTS_KEPT: Final = 10
SET_ON_REQUEST: Final = frozenset({"proxy", "jar", "browser"})
"""Keys of the state that say what we have set on the request of this attempt."""
REDIRECT_KEYS: Final = ("redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons")


class Facts(TypedDict, total=False):
    """What is known of a failed attempt. What is false or unknown is left out, and attempts that failed alike share one
    of these, because a hundred thousand may wait: never change one. :func:`story_of` tells it in full.
    """

    outcome: str
    """The outcome's class; the key is not ``class`` only inside the code, see :func:`story_of`."""
    reason: str
    blame: str
    """Left out where it is the target's."""
    evidence: str
    session: str
    worn: bool
    """The session had had a good answer before."""
    weak: bool
    status: int
    error: str
    """The dotted path of the exception's class."""
    wait: float


Attempt = tuple[float, Facts]
"""One line of a request's story: when it was judged, by the wall clock, and how. A list, after it was stored."""


class State(TypedDict, total=False):
    """What ``meta["_resiproxy"]`` holds."""

    id: str
    first: float
    """When its first attempt was sent, wall clock."""
    sent: int
    free: int
    """Those of them that our own network's outage took: they count for nothing."""
    log: list[Attempt]
    prefer: str | None
    """Alias of the session to stay on."""
    session: str | None
    """Alias of the session that it is on: the tunnels are kept by it."""
    avoid: str | None
    """Alias of the session that was refused last."""
    filter: bool
    """The ``dont_filter`` that the user had set; ours is True while it goes round."""
    slot: str | None
    """The ``download_slot`` that the user had set."""
    jar: bool
    """Whether ``cookiejar`` in the meta is ours."""
    browser: bool
    """Whether the browser's context in the meta is ours."""
    proxy: bool
    """Whether ``proxy`` in the meta is ours."""
    hop: bool
    """Whether it is a redirect of a request that we sent."""
    back: bool
    """Whether it was given back to its scheduler because it was held and could not be parked."""
    uncounted: bool
    """Whether it is a retry that has not left yet."""
    base: int
    """How many redirects lay behind it when it came, such as those of a meta refresh; left out where none did."""
    uncached: bool
    """Whether ``dont_cache`` in the meta is ours."""
    verdict: str
    """It was given up while it waited, for this reason: surface it."""
    not_before: float


@dataclass(slots=True, eq=False)
class Flight:
    """One attempt between ``process_request`` and its outcome. In memory only."""

    state: State
    target: str
    host: str
    scheduled: bool
    permit: Permit | None = None
    lease: Lease | None = None
    bytes: int = 0
    status: int | None = None
    left: bool = False
    """Its session was given back."""


class Watch(partial[Any]):
    """An errback that stands in for the user's between ``process_request`` and our verdict: ``Watch(ours, theirs)``
    calls ``ours(theirs, failure)``.

    It is called with what other middlewares raise on the way back (a bad gzip, "max redirections reached"): those
    never meet ``process_exception``.
    """

    __slots__ = ()


def unwatch(request: Request) -> None:
    """Give the request its own errback back."""
    errback = request.errback
    while isinstance(errback, Watch):
        request.errback = errback = errback.args[0]


def is_robots_txt(request: Request) -> bool:
    """Whether *request* is for a site's robots.txt."""
    return request.url.endswith("/robots.txt")


def host_of(request: Request) -> str:
    """The host name as ``RESIPROXY_TARGETS`` spells it; empty where the URL has none."""
    parts = request.url.split("/", 3)
    return _host_in(parts[2]) if len(parts) > 2 and not parts[1] and parts[0][-1:] == ":" else ""


@lru_cache(maxsize=8192)
def _host_in(authority: str) -> str:
    # Scrapy's urlparse_cached remembers by request, which is new for every page; hosts come again.
    return plain_host(urlsplit(f"//{authority}").hostname or "")


def state_of(request: Request) -> State | None:
    """The request's state, or None for one that we have not sent yet: what is no state is as if it were not there."""
    state = request.meta.get(META_STATE)
    return state if state is not None and is_state(state) else None


def forget_credentials(request: Request) -> None:
    """Take off what HttpProxyMiddleware wrote for a session; it marks the header by ``_auth_proxy``."""
    if request.meta.pop("_auth_proxy", None) is not None:
        request.headers.pop(b"Proxy-Authorization", None)


def strip_ours(request: Request, state: State) -> None:
    """Take what we set off the request: proxy and its credentials, cookie jar, slot."""
    meta = request.meta
    if state.get("proxy"):
        meta.pop("proxy", None)
        forget_credentials(request)
    if state.get("browser"):
        take_off(meta)
    if state.get("jar"):
        meta.pop("cookiejar", None)
    if state.get("slot") is None:
        # The downloader writes its slot into the meta, where it would stick to redirects and retries.
        meta.pop("download_slot", None)


def strip_for_good(request: Request, state: State) -> None:
    """Take what we set off the request, and what it needed for another attempt: there is none any more."""
    strip_ours(request, state)
    if state.get("uncached"):
        request.meta.pop("dont_cache", None)


def uncached(copy: Request) -> Request:
    """Have *copy*, which will go round again, fetched anew; returned for convenience."""
    if not copy.meta.get("dont_cache"):
        copy.meta["dont_cache"] = True
        copy.meta[META_STATE] = {**copy.meta[META_STATE], "uncached": True}
    return copy


def again(request: Request, state: State) -> Request:
    """A copy of *request* that will go round again carrying *state*, without what we had set on it."""
    copy = request.copy()
    unwatch(copy)
    strip_ours(copy, state)
    copy.meta.pop(META_STORY, None)
    copy.meta.pop("is_start_request", None)
    if not isinstance(copy.meta.get("retry_times", 0), int):
        del copy.meta["retry_times"]  # Scrapy counts on from it.
    copy.dont_filter = True
    copy.meta[META_STATE] = _carried(state)
    return copy


def _carried(state: State) -> dict[str, Any]:
    """What of *state* the next attempt must know. A hundred thousand may wait, so nothing is carried that says no."""
    return {key: value for key, value in state.items() if key == "filter" or (value and key not in SET_ON_REQUEST)}


def is_hop(request: Request, state: State) -> bool:
    """Whether *request* is a redirect of a request that we sent."""
    return len(request.meta.get("redirect_urls", ())) > state.get("base", 0)


def original_of(request: Request, state: State) -> Request:
    """What *request* was when it came to us, before it was redirected, as far as its meta tells: a GET of that URL."""
    meta, base = request.meta, state.get("base", 0)
    first = request.replace(url=meta["redirect_urls"][base], method="GET", body=b"")
    for key in REDIRECT_KEYS:
        first.meta.pop(key, None)
    if base:
        kept = {"redirect_urls": meta["redirect_urls"][:base], "redirect_reasons": meta["redirect_reasons"][:base]}
        first.meta.update(kept, redirect_times=base)
    return first


def attempt_of(flight: Flight, outcome: Outcome, exception: Exception | None, at: float) -> Attempt:
    """A failed attempt, as the request will carry it; *at* is wall clock."""
    facts = {
        "outcome": outcome.class_.value,
        "reason": outcome.reason,
        "blame": outcome.blame.value if outcome.blame is not Blame.TARGET else None,
        "evidence": outcome.evidence,
        "status": flight.status,
        "session": flight.lease.session.alias if flight.lease is not None else None,
        "worn": flight.lease is not None and not flight.lease.fresh,
        "weak": outcome.weak,
        "wait": outcome.wait,
        "error": global_object_name(type(exception)) if exception is not None else None,
    }
    return at, _facts(*((key, value) for key, value in facts.items() if value is not None and value is not False))


@lru_cache(maxsize=4096)
def _facts(*items: tuple[str, Any]) -> Facts:
    return dict(items)  # type: ignore[return-value]


def with_attempt(state: State, attempt: Attempt, *, free: bool = False) -> State:
    """The state after one more attempt, which counts for nothing where it was *free*; the story keeps the last ten."""
    log = [*state.get("log", []), attempt][-ATTEMPTS_KEPT:]
    after: State = {**state, "first": state.get("first", log[0][0]), "sent": state.get("sent", 0) + 1, "log": log}
    if free:
        after["free"] = state.get("free", 0) + 1
    return after


def story_of(log: Iterable[Attempt]) -> list[dict[str, Any]]:
    """The attempts as users read them in ``response.meta["resiproxy"]`` and in dead letters."""
    return [_told(attempt) for attempt in log]


def _told(attempt: Attempt) -> dict[str, Any]:
    at, facts = attempt
    told = {
        "at": at,
        "class": facts["outcome"],
        "reason": facts["reason"],
        "session": facts.get("session"),
        "status": facts.get("status"),
        "evidence": facts.get("evidence", ""),
        "fresh": not facts.get("worn"),
        "weak": facts.get("weak", False),
        "wait": facts.get("wait"),
    }
    return {**told, "error": facts["error"].rpartition(".")[2]} if "error" in facts else told
