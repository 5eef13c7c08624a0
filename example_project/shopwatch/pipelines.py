"""Where the products go."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from shopwatch.items import Product

TABLE = """
CREATE TABLE IF NOT EXISTS products (
    page_key TEXT NOT NULL,
    position INTEGER NOT NULL,
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    price TEXT NOT NULL,
    seen_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (page_key, position)
)
"""
UPSERT = """
INSERT INTO products (page_key, position, url, title, price) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (page_key, position) DO UPDATE SET
    url = excluded.url, title = excluded.title, price = excluded.price, seen_at = excluded.seen_at
"""


class SqlitePipeline:
    """Writes each product into its one row: a retry or a replay overwrites it and never adds a second."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connection: sqlite3.Connection

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> SqlitePipeline:
        return cls(crawler.settings["SQLITE_PATH"])

    def open_spider(self) -> None:
        # No transaction stays open between two products: a letter counts as done once its items have passed the
        # pipelines, and so they must be on disk by then. The timeout lets two spiders write to one file.
        self.connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(TABLE)

    def process_item(self, item: Product) -> Product:
        row = (item.page_key, item.position, item.url, item.title, item.price)
        self.connection.execute(UPSERT, row)
        return item

    def close_spider(self) -> None:
        self.connection.close()
