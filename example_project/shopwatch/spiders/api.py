"""A JSON API with a rate limit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import scrapy

from shopwatch.items import Product, placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class ApiSpider(scrapy.Spider):
    """Pages through the API: ``scrapy crawl api``. Its validator stands in the settings, under RESIPROXY_TARGETS.

    There is nothing about the rate limit here: a 429 is waited for, and the pace is kept from then on.
    """

    name = "api"
    start_urls = ["http://api.example/api/items?page=1"]

    def parse(self, response: Response) -> Iterator[scrapy.Request | Product]:
        page = json.loads(response.body)
        products = (
            Product(url=response.urljoin(each["url"]), title=each["title"], price=each["price"])
            for each in page["items"]
        )
        yield from placed(response, products)
        if page["next"]:
            yield response.follow(page["next"])
