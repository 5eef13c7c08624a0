"""Waiting inside a coroutine, with every reactor and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


async def sleep(seconds: float) -> None:
    """Return after *seconds*. (``scrapy.utils.asyncio.sleep`` exists only since Scrapy 2.18.)"""
    done: Deferred[None] = Deferred()
    timer = call_later(seconds, done.callback, None)
    try:
        await maybe_deferred_to_future(done)
    finally:
        timer.cancel()


async def within(seconds: float, running: Coroutine[object, object, _T]) -> _T:
    """What *running* returns or raises; after *seconds* it is cancelled, and TimeoutError is raised.

    It is not waited for any longer then, even where it will not be cancelled.
    """
    done: Deferred[_T] = Deferred()

    def end(result: _T | Failure) -> None:
        if not done.called:
            done.callback(result)

    work = deferred_from_coro(running)
    work.addBoth(end)
    timer = call_later(seconds, end, Failure(TimeoutError(f"no answer within {seconds:g} s")))
    try:
        return await maybe_deferred_to_future(done)
    finally:
        timer.cancel()
        work.cancel()
