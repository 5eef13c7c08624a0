"""From an exception to what really failed: the chain of causes is walked, for the outermost class says little."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scrapy.exceptions import CloseSpider, DownloadCancelledError, IgnoreRequest, StopDownload
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_resiproxy.classify import cause_table as table
from scrapy_resiproxy.classify.reasons import terminal
from scrapy_resiproxy.outcome import Blame, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_resiproxy.classify.cause_table import Cause

_DEPTH: Final = 16
_NET_CODE: Final = re.compile(r"net::(ERR_[A-Z_]+)")
_ENDINGS: Final = (
    CloseSpider,
    StopDownload,
    CancelledError,
    asyncio.CancelledError,
    GeneratorExit,
    KeyboardInterrupt,
    SystemExit,
)
_TOO_LARGE: Final = ("download max size", "DOWNLOAD_MAXSIZE")
_TOO_MANY_REDIRECTS: Final = "max redirections reached"


def is_not_a_failure(exception: BaseException) -> bool:
    """Whether *exception* only says that somebody wanted the request no more: nothing to judge or to keep.

    An ``IgnoreRequest`` or a cancelled download that Scrapy uses for a page that is too large, or for too many
    redirects, is a failure.
    """
    if isinstance(exception, (IgnoreRequest, DownloadCancelledError)):
        return _disguised(exception) is None
    return isinstance(exception, _ENDINGS)


def ended(exception: BaseException) -> Outcome | None:
    """The outcome of an exception with which Scrapy or the user ends a request; ``None`` for all others."""
    if isinstance(exception, (IgnoreRequest, DownloadCancelledError)):
        ignored = "ignored" if isinstance(exception, IgnoreRequest) else "cancelled"
        return _disguised(exception) or terminal(ignored, Blame.LOCAL)
    return terminal("cancelled", Blame.LOCAL) if isinstance(exception, _ENDINGS) else None


def _disguised(exception: BaseException) -> Outcome | None:
    text = str(exception)
    if any(words in text for words in _TOO_LARGE):
        return terminal("too_large")
    return terminal("too_many_redirects") if text == _TOO_MANY_REDIRECTS else None


def chain(exception: BaseException) -> Iterator[BaseException]:
    """*exception* and what caused it, the nearest first: causes, contexts, Twisted's reasons, members of groups.

    Bounded, and each exception once, for a chain may be a ring.
    """
    seen: set[int] = set()
    queue = [exception]
    while queue and len(seen) < _DEPTH:
        link = queue.pop(0)
        if id(link) not in seen:
            seen.add(id(link))
            yield link
            queue.extend(_below(link))


def _below(exception: BaseException) -> Iterator[BaseException]:
    if exception.__cause__ is not None:
        yield exception.__cause__
    elif exception.__context__ is not None and not exception.__suppress_context__:
        yield exception.__context__
    members = getattr(exception, "reasons", None) or getattr(exception, "exceptions", None)
    for member in members if isinstance(members, (list, tuple)) else ():
        inner = member.value if isinstance(member, Failure) else member
        if isinstance(inner, BaseException):
            yield inner


def short_name(module: str, name: str) -> str:
    """``<top package>.<class>``, by which exceptions are known here."""
    package = module.partition(".")[0].lstrip("_")
    return f"{table.ALIASES.get(package, package)}.{name}"


def names_of(exception: BaseException) -> Iterator[str]:
    """The short names of the exception's class and of its bases, nearest first."""
    for cls in type(exception).__mro__:
        yield short_name(str(cls.__module__), cls.__name__)


def find_cause(exception: BaseException) -> Cause | None:
    """What *exception* means by the table; ``None`` when neither it nor a cause of it is there.

    A fault of this machine counts wherever it is in the chain; otherwise the outermost link that is not
    generic, else the outermost.
    """
    outer = _look_up(exception)
    if outer is None and isinstance(exception, table.BUGS):
        return table.BUG
    # What merely happened before an unknown exception did not cause it.
    if outer is None and exception.__cause__ is None:
        return None
    found = list(_known_links(exception))
    telling = (cause for cause in found if not cause.generic)
    return next(filter(_is_local, found), None) or next(telling, None) or next(iter(found), None)


def local_fault(exception: BaseException) -> Outcome | None:
    """The outcome of a fault of this machine or its network anywhere in the chain; ``None`` without one."""
    return next((cause.outcome for cause in _known_links(exception) if _is_local(cause)), None)


def _known_links(exception: BaseException) -> Iterator[Cause]:
    return (cause for cause in map(_look_up, chain(exception)) if cause is not None)


def _is_local(cause: Cause) -> bool:
    return cause.outcome.blame is Blame.LOCAL and cause.is_passing


def through_proxy(cause: Cause) -> Outcome:
    """The outcome of *cause* on a request that went through a proxy."""
    outcome = cause.outcome
    if cause.connecting and outcome.blame is Blame.TARGET:
        # The proxy looks up and dials the target: what we could not reach is the proxy.
        return replace(table.PROXY_UNREACHABLE.outcome, evidence=outcome.reason)
    return outcome


def _look_up(exception: BaseException) -> Cause | None:
    names = list(names_of(exception))
    if "socket.gaierror" in names:
        unknown = exception.args and exception.args[0] in table.UNKNOWN_NAME_ERRNOS
        return table.NO_SUCH_HOST if unknown else table.NO_RESOLVER
    by_name = next((table.NAMES[name] for name in names if name in table.NAMES), None)
    if isinstance(exception, OSError) and (by_name is None or by_name.generic) and exception.errno in table.ERRNOS:
        return table.ERRNOS[exception.errno]
    if by_name is None and names[0].partition(".")[0] in table.NETWORK_PACKAGES:
        return _by_browser_code(str(exception)) or table.FAILED
    return by_name


def _by_browser_code(text: str) -> Cause | None:
    match = _NET_CODE.search(text)
    return next((cause for start, cause in table.BROWSER_ERRORS if match and match[1].startswith(start)), None)
