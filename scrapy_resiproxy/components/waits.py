"""Waiting inside a coroutine, with every reactor and without one."""

from __future__ import annotations

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred


async def sleep(seconds: float) -> None:
    """Return after *seconds*. (``scrapy.utils.asyncio.sleep`` exists only since Scrapy 2.18.)"""
    done: Deferred[None] = Deferred()
    timer = call_later(seconds, done.callback, None)
    try:
        await maybe_deferred_to_future(done)
    finally:
        timer.cancel()
