from __future__ import annotations

import pytest
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.deadletter.arguments import remember, spider_arguments


class OwnInit(Spider):
    name = "own"

    def __init__(self, category=None, *args, pages="1", skipped=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.category, self.pages, self.seen = category, pages, []


def crawler_of(cls, **arguments):
    crawler = get_crawler(cls)
    crawler.spider = cls.from_crawler(crawler, **arguments)
    return crawler


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["crawl", "shop", "-a", "x=1", "-a", "y=a=b", "-s", "A=1"], {"x": "1", "y": "a=b"}),
        (["crawl", "-ax=1", "shop"], {"x": "1"}),
        (["runspider", "shop.py", "-a", "x="], {"x": ""}),
        (["crawl", "shop", "-a"], {}),
        (["crawl", "shop"], {}),
    ],
    ids=["options", "joined", "runspider", "cut off", "none"],
)
def test_scrapys_commands_say_it(argv, expected):
    assert spider_arguments(crawler_of(Spider, name="s"), argv) == expected


def test_a_replay_knows_it():
    crawler = crawler_of(Spider, name="s")
    remember(crawler, {"x": "1"})
    assert spider_arguments(crawler, ["crawl", "-a", "x=2"]) == {"x": "1"}


@pytest.mark.parametrize(
    ("cls", "given", "expected"),
    [
        (Spider, {"name": "s", "x": 1, "_y": 2, "z": object()}, {"x": 1}),
        (OwnInit, {"category": "books"}, {"category": "books", "pages": "1"}),
    ],
    ids=["attributes", "parameters of its own"],
)
def test_a_script_leaves_it_on_the_spider(cls, given, expected):
    assert spider_arguments(crawler_of(cls, **given), []) == expected


def test_before_there_is_a_spider_nothing_is_known():
    assert spider_arguments(get_crawler(Spider), []) == {}
