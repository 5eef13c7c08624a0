"""Every name that is written in more than one place: meta keys, stats, signals' senders' vocabulary."""

from __future__ import annotations

from typing import Any, Final

# Request meta that users set.
META_SESSION: Final = "resiproxy_session"
META_COUNTRY: Final = "resiproxy_country"
META_TARGET: Final = "resiproxy_target"
META_VALIDATOR: Final = "resiproxy_validator"
META_IDEMPOTENT: Final = "resiproxy_idempotent"
META_KEY: Final = "resiproxy_key"

# Response meta that users read.
META_STORY: Final = "resiproxy"

# Ours alone: plain JSON, wall-clock times, dropped on a request they do not belong to.
META_STATE: Final = "_resiproxy"
META_REPLAY: Final = "_resiproxy_replay"

# Why a dead letter was written.
DEAD_LETTER_REASONS: Final = (
    "terminal",
    "forbidden",
    "parse_error",
    "item_error",
    "validator_error",
    "attempts_exhausted",
    "budget_exhausted",
    "circuit_open",
    "retry_after_too_long",
    "identity_exhausted",
    "session_lost",
    "proxy_refused",
    "dont_retry",
    "shutdown",
)

STATS_PREFIX: Final = "resiproxy"

# Scrapy's private ones: no other is used, anywhere.
HTTPX_HANDLER: Final = "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler"
"""What DOWNLOAD_HANDLERS must name for it: private by its path, public by Scrapy's documentation."""


def scheduler_of(engine: Any) -> Any:
    """The scheduler of Scrapy's *engine*, which has no public name before Scrapy 2.19; None where there is none."""
    holder = engine if hasattr(engine, "scheduler") else getattr(engine, "_slot", None)
    return getattr(holder, "scheduler", None)
