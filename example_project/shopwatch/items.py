"""What the spiders yield."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.http import Response


@dataclass
class Product:
    """One product, and the place where it was found: together the name of its row in the database."""

    url: str
    title: str
    price: str
    page_key: str = ""
    position: int = 0


def placed(response: Response, products: Iterable[Product]) -> Iterator[Product]:
    """Yield `products` with the key of their page and their position on it.

    The key is the same each time that the same request is made: by a retry, by a replay or by tomorrow's crawl. One
    page can hold many products, and so the position belongs to the name.
    """
    page_key = response.meta["resiproxy"]["key"]
    for position, product in enumerate(products):
        product.page_key, product.position = page_key, position
        yield product
