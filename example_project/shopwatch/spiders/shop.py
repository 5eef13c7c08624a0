"""A shop with lists and detail pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scrapy

from scrapy_resiproxy import validated_by
from shopwatch.items import Product, placed
from shopwatch.validators import detail_page, list_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import TextResponse


class ShopSpider(scrapy.Spider):
    """Pages through the list and fetches each product's page: ``scrapy crawl shop``."""

    name = "shop"
    start_urls = ["http://shop.example/list?page=1"]

    # The validator is asked before the callback: what it refuses never gets here.
    @validated_by(list_page)
    def parse(self, response: TextResponse) -> Iterator[scrapy.Request]:
        yield from response.follow_all(css="li.item a.title", callback=self.parse_product)
        yield from response.follow_all(css="a.next", callback=self.parse)

    @validated_by(detail_page)
    def parse_product(self, response: TextResponse) -> Iterator[Product]:
        product = Product(
            url=response.url,
            title=response.css("h1.title::text").get(default=""),
            price=response.css("span.price::text").get(default=""),
        )
        yield from placed(response, [product])
