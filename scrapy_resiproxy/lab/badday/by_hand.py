"""Rotation as it is found in many projects: each request through one of a few sessions, taken at random."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler


class RandomSessionMiddleware:
    """Writes one of the names in ``BADDAY_SESSIONS`` into the proxy's URL, ``BADDAY_PROXY``."""

    def __init__(self, template: str, sessions: list[str]) -> None:
        self._template = template
        self._sessions = sessions

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RandomSessionMiddleware:
        return cls(crawler.settings["BADDAY_PROXY"], crawler.settings.getlist("BADDAY_SESSIONS"))

    def process_request(self, request: Request, spider: Spider | None = None) -> None:  # noqa: ARG002
        request.meta["proxy"] = self._template.format(session=random.choice(self._sessions))
