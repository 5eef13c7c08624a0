"""Retries as Scrapy's RetryMiddleware makes and counts them, except that one counts when it leaves, and once for all
the times that it waited. Scrapy's ``get_retry_request`` would count it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.retry import retry_logger
from scrapy.utils.response import response_status_message

from scrapy_resiproxy.names import META_STATE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.components.flow import Facts, Flight, State


def as_retry(request: Request, usual_adjust: int) -> Request:
    """A copy of *request* with one retry more in its meta and its priority adjusted."""
    retry: Request = request.copy()
    retry.meta["retry_times"] = request.meta.get("retry_times", 0) + 1
    adjust = request.meta.get("priority_adjust")
    retry.priority += usual_adjust if adjust is None else adjust
    return retry


def count_retry(crawler: Crawler, request: Request, flight: Flight) -> None:
    """*request* leaves as the retry that it is: Scrapy's log line and stats."""
    before = flight.state
    state: State = before.copy()
    del state["uncounted"]
    flight.state = request.meta[META_STATE] = state
    _, facts = before["log"][-1]
    reason, ours = scrapys_reason(facts), _our_reason(facts)
    retry_logger.debug(
        "Retrying %(request)s (failed %(retry_times)d times): %(reason)s",
        {
            "request": request,
            "retry_times": request.meta.get("retry_times", before["sent"]),
            "reason": reason if reason == ours else f"{reason} ({ours})",
        },
        extra={"spider": crawler.spider},
    )
    assert crawler.stats is not None
    crawler.stats.inc_value("retry/count")
    crawler.stats.inc_value(f"retry/reason_count/{reason}")


def scrapys_reason(facts: Facts) -> str:
    """What RetryMiddleware calls the failure: the exception's dotted path, or status and phrase. What it would not have
    retried, a good status, has our class and reason.
    """
    status = facts.get("status")
    if "error" in facts:
        return facts["error"]
    if status is None or 200 <= status < 300:
        return _our_reason(facts)
    phrase: str = response_status_message(status)
    return phrase


def _our_reason(facts: Facts) -> str:
    return f"{facts['outcome']}/{facts['reason']}"
