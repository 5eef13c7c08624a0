"""The spider of both crawls. It knows nothing of scrapy_resiproxy, but for a method that stock Scrapy never calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response, TextResponse


class BadDaySpider(scrapy.Spider):
    """Fetches the item pages that are listed in the file ``BADDAY_URLS`` and yields one item for each."""

    name = "badday"

    async def start(self) -> AsyncIterator[Any]:
        for url in self._wanted():
            yield scrapy.Request(url, cb_kwargs={"asked": url})

    def _wanted(self) -> list[str]:
        urls: list[str] = json.loads(Path(self.settings["BADDAY_URLS"]).read_text(encoding="utf-8"))
        return urls

    def validate_response(self, response: Response) -> bool:
        """Say what a good page is; scrapy_resiproxy asks before the page is parsed."""
        return bool(response.css("h1.title") and response.css("span.price"))

    def parse(self, response: Response, asked: str = "") -> Iterator[dict[str, Any]]:
        page = cast("TextResponse", response)
        price = page.css("span.price::text").get()
        yield {
            "asked": asked,
            "title": page.css("h1::text").get(),
            "cents": self._cents(price) if price else None,
            # The lab's pages say what they are; no real site does. It is only here to be counted.
            "kind": page.css("meta[name=lab-page]::attr(content)").get(),
        }

    def _cents(self, price: str) -> int:
        """Return 1234 for ``12.34``. Its bug, until BADDAY_PARSER_FIXED: nothing costs less than ten."""
        pattern = r"\d+\.\d\d" if self.settings.getbool("BADDAY_PARSER_FIXED") else r"\d\d+\.\d\d"
        found = re.fullmatch(pattern, price)
        if found is None:
            raise ValueError(f"{price!r} is no price")
        return int(found[0].replace(".", ""))
