"""What the tests that crawl share: a lab, scaled guards, URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawl_kit import Crawled, crawl, start_crawl

from scrapy_resiproxy.lab.running import RunningLab

if TYPE_CHECKING:
    from pathlib import Path

HOST = "shop.example"

SECONDS = {
    "RESIPROXY_BACKOFF_BASE": 0.1,
    "RESIPROXY_BACKOFF_CAP": 0.5,
    "RESIPROXY_IDENTITY_BACKOFF_BASE": 0.05,
    "RESIPROXY_RATE_BACKOFF_BASE": 0.2,
    "RESIPROXY_CIRCUIT_COOLDOWN": 0.3,
    "RESIPROXY_CIRCUIT_COOLDOWN_MAX": 1,
    "RESIPROXY_CIRCUIT_RECOVERY": 0.5,
    "RESIPROXY_TARGET_GIVE_UP": 3,
}
"""The guards, scaled from minutes to tenths of a second."""

VALIDATED = {"RESIPROXY_TARGETS": {"*": {"validator": "spider_under_test.good_page"}}}


def pages(count: int, host: str = HOST, scheme: str = "http") -> list[str]:
    return [f"{scheme}://{host}/item/{number}" for number in range(count)]


class Day:
    """A lab and crawls through it."""

    def __init__(self, lab: RunningLab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory

    def settings(self, more: dict[str, Any] | None) -> dict[str, Any]:
        return {"RESIPROXY_PROXY": self.lab.proxy("{session}"), **SECONDS, **(more or {})}

    def crawl(self, urls: list[str], settings: dict[str, Any] | None = None, **more: Any) -> Crawled:
        return crawl(self.directory, urls, self.settings(settings), **more)

    def start(self, urls: list[str], settings: dict[str, Any] | None = None, **more: Any) -> Any:
        return start_crawl(self.directory, urls, self.settings(settings), **more)

    def failed_urls(self, host: str = HOST) -> set[str]:
        """What the site refused at least once."""
        return {
            f"http://{host}{row['path']}" for row in self.lab.ledger() if str(row.get("outcome", "")).startswith("fail")
        }
