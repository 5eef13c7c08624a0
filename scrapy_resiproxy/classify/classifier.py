"""The judgement of one attempt, from the strongest evidence to the weakest.

The proxy's own answer → a wall's header, final URL or page → what the user or Scrapy's settings say of a status →
the status with ``Retry-After``. Validators come after that, and are the caller's business.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.classify.cause_table import BUG
from scrapy_resiproxy.classify.causes import (
    ended,
    find_cause,
    is_not_a_failure,
    local_fault,
    names_of,
    short_name,
    through_proxy,
)
from scrapy_resiproxy.classify.challenges import find_wall, find_widget
from scrapy_resiproxy.classify.proxy_answers import judge_answer
from scrapy_resiproxy.classify.reasons import one_line, terminal, transient
from scrapy_resiproxy.classify.refusals import judge_refusal
from scrapy_resiproxy.classify.retry_after import told_wait
from scrapy_resiproxy.classify.statuses import KNOWN, judge_status
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scrapy import Request
    from scrapy.http import Response

__all__ = ["Classifier", "is_not_a_failure"]

_NO_CLASSES: Final[Mapping[int, OutcomeClass]] = MappingProxyType({})
_PROXY_AUTH: Final = 407
_ALL: Final = frozenset({Exception, BaseException})
_ALL_NAMES: Final = frozenset({"builtins.Exception", "builtins.BaseException"})
_WITHOUT_WAIT: Final = frozenset({OutcomeClass.OK, OutcomeClass.TERMINAL})


class Classifier:
    """Turns an answer or an exception into an :class:`~scrapy_resiproxy.outcome.Outcome`; holds no state.

    *status_classes* is the class that a bare status gets by the user's word. *transient_exceptions* are dotted
    names of exceptions to be taken for passing faults, whatever they are by our table. *retry_http_codes* and
    *retry_exceptions* (dotted names or classes) are Scrapy's: they add passing faults that our tables do not know.

    A dotted name stands for every exception of that class name in that top-level package, and for its subclasses, so
    that ``aiohttp.ClientError`` and ``aiohttp.client_exceptions.ClientError`` are the same.
    """

    def __init__(
        self,
        *,
        status_classes: Mapping[int, OutcomeClass] = _NO_CLASSES,
        transient_exceptions: Sequence[str] = (),
        retry_http_codes: Collection[int] = (),
        retry_exceptions: Sequence[str | type] = (),
    ) -> None:
        self._status_classes = dict(status_classes)
        self._transient_names = _short_names(transient_exceptions)
        self._retry_statuses = frozenset(retry_http_codes) - KNOWN
        self._retry_names = _short_names(name for name in retry_exceptions if isinstance(name, str))
        self._retry_types = tuple(
            cls for cls in retry_exceptions if isinstance(cls, type) and issubclass(cls, BaseException)
        )

    def judge_response(
        self,
        request: Request,
        response: Response,
        *,
        now: float,
        via_proxy: bool,
        text_rules: bool = True,
        markers: Sequence[str] = (),
        status_classes: Mapping[int, OutcomeClass] | None = None,
    ) -> Outcome:
        """The outcome of *response*, :data:`~scrapy_resiproxy.outcome.OK` for all that may be handed on.

        *now* is the wall clock in epoch seconds. *markers* are tokens of the target's wall, and *status_classes*
        its own word on a bare status, before ours. Without *text_rules* no body is looked into: media, robots.txt.
        Redirects and cached answers are judged like all others. Never raises.
        """
        if via_proxy or response.status == _PROXY_AUTH:
            outcome = judge_answer(request, response, now=now)
            if outcome is not None:
                return outcome
        outcome = find_wall(request, response, text_rules=text_rules, markers=markers)
        status, said = response.status, None
        if status_classes or self._status_classes:
            said = (status_classes or _NO_CLASSES).get(status, self._status_classes.get(status))
        if outcome is None and said is None and 200 <= status < 400:
            return self._good(request, response)
        told = told_wait(response.headers, now=now)
        if outcome is None and said is not None:
            outcome = _as_said(said, status)
        if outcome is None and not told and text_rules:
            outcome = find_widget(response)
        if outcome is None:
            outcome = self._bad(request, response, told)
        if told is None or outcome.class_ in _WITHOUT_WAIT:
            return outcome
        return replace(outcome, wait=told)

    def judge_exception(
        self,
        request: Request,  # noqa: ARG002
        exception: BaseException,
        *,
        now: float,
        via_proxy: bool,
    ) -> Outcome:
        """The outcome of *exception*, which a download raised. *now* is the wall clock in epoch seconds.

        A name that does not resolve is transient, ``dns_not_found``: one more try may prove the resolver wrong,
        and a weak outcome says that the two cannot be told apart. What :func:`is_not_a_failure` accepts is
        terminal and ours (``ignored``, ``cancelled``). Never raises.
        """
        outcome = ended(exception)
        if outcome is None:
            refusal = judge_refusal(exception, now=now)
            # A proxy out of reach may be our own network out of order.
            unreachable = refusal is not None and refusal.reason == "proxy_unreachable"
            outcome = (local_fault(exception) if unreachable else None) or refusal
        return outcome or self._exception(exception, via_proxy=via_proxy)

    def _good(self, request: Request, response: Response) -> Outcome:
        if response.status in self._retry_statuses:
            return transient("listed_status", Blame.TARGET, f"status:{response.status}")
        # DOWNLOAD_FAIL_ON_DATALOSS lets half a page through; a request that asks for it by itself knows.
        if "dataloss" in response.flags and request.meta.get("download_fail_on_dataloss") is not False:
            return transient("data_loss", Blame.TARGET, "flag:dataloss")
        return OK

    def _bad(self, request: Request, response: Response, told: float | None) -> Outcome:
        outcome = judge_status(request, response, told)
        if response.status in self._retry_statuses and outcome.class_ is OutcomeClass.TERMINAL:
            return transient("listed_status", Blame.TARGET, outcome.evidence)
        return outcome

    def _exception(self, exception: BaseException, *, via_proxy: bool) -> Outcome:
        cause = find_cause(exception)
        names = set(names_of(exception))
        ours = bool(names & self._transient_names) and not (cause and cause.is_passing)
        if ours or ((cause is None or cause is BUG) and self._is_scrapys(exception, names, bug=cause is BUG)):
            outcome = transient("listed_exception")
        elif cause is None:
            outcome = terminal("error", Blame.LOCAL)
        else:
            outcome = through_proxy(cause) if via_proxy else cause.outcome
        return replace(outcome, evidence=one_line(ascii(type(exception).__name__)[1:-1], 60))

    def _is_scrapys(self, exception: BaseException, names: set[str], *, bug: bool) -> bool:
        """Whether ``RETRY_EXCEPTIONS`` means *exception*. Who names ``Exception`` there does not mean a *bug*."""
        listed, types = self._retry_names, self._retry_types
        if bug:
            listed, types = listed - _ALL_NAMES, tuple(cls for cls in types if cls not in _ALL)
        return not names.isdisjoint(listed) or isinstance(exception, types)


def _short_names(dotted: Iterable[str]) -> frozenset[str]:
    return frozenset(short_name(name.rpartition(".")[0] or "builtins", name.rpartition(".")[2]) for name in dotted)


def _as_said(said: OutcomeClass, status: int) -> Outcome:
    """What the user says of a status. It is still no more than a status, so a refusal of the session is weak."""
    class_ = OutcomeClass(said)
    if class_ is OutcomeClass.OK:
        return OK
    is_identity = class_ is OutcomeClass.IDENTITY
    blame = Blame.SESSION if is_identity else Blame.TARGET
    return Outcome(class_, "status_class", blame, f"status:{status}", weak=is_identity)
