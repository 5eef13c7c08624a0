"""Crawl through residential proxies with Scrapy: every retry is a decision, every failure is kept."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_resiproxy.addon import Addon
    from scrapy_resiproxy.classify.validators import (
        Verdict,
        all_of,
        any_of,
        content_type_is,
        expect_count,
        has_css,
        has_text,
        has_xpath,
        json_has,
        lacks_text,
        min_items,
        min_length,
        not_stub,
        url_lacks,
        validated_by,
    )
    from scrapy_resiproxy.components.extension import ResiproxyExtension
    from scrapy_resiproxy.components.middleware import ResiproxyMiddleware
    from scrapy_resiproxy.components.priority_queue import GuardedPriorityQueue
    from scrapy_resiproxy.components.replay import ReplaySpiderMiddleware
    from scrapy_resiproxy.components.tunnel_handler import TunnelDownloadHandler
    from scrapy_resiproxy.exceptions import (
        BudgetExhausted,
        CircuitOpen,
        ProxyRefused,
        ResiproxyError,
        SessionLost,
        SoftBlock,
    )
    from scrapy_resiproxy.outcome import Blame, Outcome, OutcomeClass

__all__ = [
    "Addon",
    "Blame",
    "BudgetExhausted",
    "CircuitOpen",
    "GuardedPriorityQueue",
    "Outcome",
    "OutcomeClass",
    "ProxyRefused",
    "ReplaySpiderMiddleware",
    "ResiproxyError",
    "ResiproxyExtension",
    "ResiproxyMiddleware",
    "SessionLost",
    "SoftBlock",
    "TunnelDownloadHandler",
    "Verdict",
    "all_of",
    "any_of",
    "content_type_is",
    "expect_count",
    "has_css",
    "has_text",
    "has_xpath",
    "json_has",
    "lacks_text",
    "min_items",
    "min_length",
    "not_stub",
    "url_lacks",
    "validated_by",
]

_HOMES = {
    "Addon": "addon",
    "ResiproxyExtension": "components.extension",
    "ResiproxyMiddleware": "components.middleware",
    "GuardedPriorityQueue": "components.priority_queue",
    "ReplaySpiderMiddleware": "components.replay",
    "TunnelDownloadHandler": "components.tunnel_handler",
    "Blame": "outcome",
    "Outcome": "outcome",
    "OutcomeClass": "outcome",
} | dict.fromkeys(
    ("BudgetExhausted", "CircuitOpen", "ProxyRefused", "ResiproxyError", "SessionLost", "SoftBlock"),
    "exceptions",
)


def __getattr__(name: str) -> Any:
    """Load a public name on demand, so that a part can be imported without the rest, or without Scrapy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "classify.validators")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
