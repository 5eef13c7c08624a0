"""Validators made of validators, asynchronous ones too."""
# ruff: noqa: N801
# They are written like functions, all_of(has_css("h1"), min_length(500)), and are classes only to be values.

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_resiproxy.classify.check import CheckOfMany, check_name
from scrapy_resiproxy.classify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from scrapy.http import Response


def awaitable(result: Any) -> Awaitable[Any] | None:
    """*result* as something that Scrapy's coroutines can await in this run mode; ``None`` where it is a value."""
    if isinstance(result, Deferred):
        try:
            return maybe_deferred_to_future(result)
        except RuntimeError:
            # Neither a loop nor a reactor, as in a test: one that has fired can be awaited as it is.
            return result
    return result if inspect.isawaitable(result) else None


class _Combined(CheckOfMany):
    def _accept(self, part: Any) -> None:
        if not callable(part):
            raise ValueError(f"{type(self).__name__}(): a validator is needed, not {part!r}.")  # noqa: TRY004

    def __call__(self, response: Response) -> Any:
        return _drive(self._steps(response))

    def _steps(self, response: Response) -> Generator[Any, Any, Any]:
        """Yields what each member returns, is sent the value of it, and returns the result of all."""
        raise NotImplementedError


class all_of(_Combined):
    """Good where every one of the validators says so; otherwise what the first that does not says."""

    def _steps(self, response: Response) -> Generator[Any, Any, Any]:
        for member in self.parts:
            result = yield member(response)
            if not _is_good(result):
                return _named(result, member)
        return True


class any_of(_Combined):
    """Good where one of the validators says so; otherwise what the first of them says.

    So an empty list can be proved to be one: ``any_of(has_css(".hit"), has_css(".no-results"))``.
    """

    def _steps(self, response: Response) -> Generator[Any, Any, Any]:
        refusals = []
        for member in self.parts:
            result = yield member(response)
            if _is_good(result):
                return True
            refusals.append(_named(result, member))
        return refusals[0]


def _is_good(result: Any) -> bool:
    return result is True or result is None or (isinstance(result, Verdict) and result == Verdict.ok())


def _named(result: Any, member: Any) -> Any:
    """A refusal that tells which member it is of."""
    name = check_name(member)
    if result is False:
        return Verdict.identity(name)
    if isinstance(result, str):
        return Verdict.identity(f"{name}: {result}")
    if isinstance(result, Verdict):
        return replace(result, reason=f"{name}: {result.reason}" if result.reason else name)
    return result


def _drive(steps: Generator[Any, Any, Any]) -> Any:
    value = None
    try:
        while True:
            result = steps.send(value)
            waiting = awaitable(result)
            if waiting is not None:
                return _drive_later(steps, waiting)
            value = result
    except StopIteration as end:
        return end.value


async def _drive_later(steps: Generator[Any, Any, Any], waiting: Awaitable[Any] | None) -> Any:
    value = None
    try:
        while True:
            value = await waiting if waiting is not None else value
            value = steps.send(value)
            waiting = awaitable(value)
    except StopIteration as end:
        return end.value
