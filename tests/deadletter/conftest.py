from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.deadletter.record import make_letter

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


class ShopSpider(Spider):
    name = "shop"

    def parse_page(self, response, **kwargs):
        yield {}

    def failed(self, failure):
        yield {}

    def is_good(self, response):
        return True


@pytest.fixture
def spider():
    crawler = get_crawler(ShopSpider)
    return ShopSpider.from_crawler(crawler)


@pytest.fixture(scope="session")
def schema():
    text = files("scrapy_resiproxy.deadletter").joinpath("schema.json").read_text("utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


@pytest.fixture
def letter(spider, schema):
    """A factory of letters, each of which validates."""

    def make(request: Request | str = "http://shop.example/1", **given: Any) -> dict[str, Any]:
        if isinstance(request, str):
            request = Request(request, callback=spider.parse_page)
        values: dict[str, Any] = {
            "request": request,
            "spider": spider,
            "outcome_class": "transient",
            "reason": "attempts_exhausted",
            "target": "shop.example",
            "key": "k" + request.url,
            "now": NOW,
            "first_seen": NOW - 60,
            "attempts": [],
        }
        made = make_letter(**(values | given))
        schema.validate(made)
        return made

    return make
