"""A target site and a residential gateway on loopback that misbehave on order.

``python -m scrapy_resiproxy.lab --help`` is the way in from a shell, :func:`running_lab` the one from a
test::

    with running_lab({"shop.example": Flaky(p=0.2) + Ok(latency=0.05)}) as lab:
        crawl(proxy=lab.proxy("{session}"))
        assert lab.summary()["outcomes"]["ok"] == 2000

It needs the extra ``lab`` (aiohttp and trustme), stands apart from the rest of the package, and connects to
nothing but itself.
"""

from __future__ import annotations

from scrapy_resiproxy.lab.admission import GatewayOptions
from scrapy_resiproxy.lab.behaviours import Answer, Behaviour, Chain, Visit
from scrapy_resiproxy.lab.faults import (
    Down,
    Drip,
    EmptyList,
    Flaky,
    Missing,
    Ok,
    Outage,
    ShortList,
    Truncated,
    Unauthorized,
)
from scrapy_resiproxy.lab.running import RunningLab, running_lab
from scrapy_resiproxy.lab.walls import Block403, RateLimit, RedirectBlock, SoftBlock

__all__ = [
    "Answer",
    "Behaviour",
    "Block403",
    "Chain",
    "Down",
    "Drip",
    "EmptyList",
    "Flaky",
    "GatewayOptions",
    "Missing",
    "Ok",
    "Outage",
    "RateLimit",
    "RedirectBlock",
    "RunningLab",
    "ShortList",
    "SoftBlock",
    "Truncated",
    "Unauthorized",
    "Visit",
    "running_lab",
]
