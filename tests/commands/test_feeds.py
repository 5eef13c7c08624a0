from __future__ import annotations

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.feeds import ItemFeeds, overwritten


@pytest.mark.parametrize(
    ("uri", "options", "lost"),
    [
        ("items.jl", {}, False),
        ("items.jl", {"overwrite": False}, False),
        ("items.jl", {"overwrite": True}, True),
        ("file:///tmp/items.jl", {"overwrite": True}, True),
        ("C:\\items.jl", {"overwrite": True}, True),
        ("items-%(time)s.jl", {"overwrite": True}, False),
        ("items-%(batch_time)s.jl", {"overwrite": True}, False),
        ("items-%(batch_id)d.jl", {"overwrite": True}, True),
        ("stdout:", {"overwrite": True}, False),
        ("ftp://host/items.jl", {}, True),
        ("ftps://host/items.jl", {"overwrite": False}, False),
        ("s3://bucket/items.jl", {}, True),
        ("s3://bucket/items.jl", {"overwrite": False}, True),
        ("s3://bucket/%(time)s.jl", {}, False),
        ("gs://bucket/items.jl", {}, True),
        ("elsewhere://x", {}, True),
    ],
)
def test_which_feeds_a_second_run_replaces(uri, options, lost):
    assert overwritten(Settings({"FEEDS": {uri: options}})) == ([uri] if lost else [])


def test_the_deprecated_setting_counts_and_credentials_are_not_shown():
    assert overwritten(Settings({"FEED_URI": "s3://key:secret@bucket/x"})) == ["s3://bucket/x"]


@pytest.mark.parametrize(
    ("uri", "options", "late"),
    [
        ("items.jl", {"format": "jsonlines"}, False),
        ("stdout:", {"format": "csv"}, False),
        (
            "items.jl.gz",
            {"format": "jsonlines", "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]},
            True,
        ),
        ("ftp://host/items.jl", {"format": "jsonlines"}, True),
        ("items.odd", {"format": "odd"}, True),
    ],
    ids=["a file", "standard output", "compressed", "an upload", "an exporter that may hold items back"],
)
def test_which_feeds_have_their_items_only_at_the_end(uri, options, late, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exporters = {"odd": "scrapy.exporters.JsonItemExporter"}
    feeds = ItemFeeds(crawler_with({"FEEDS": {uri: options}, "FEED_EXPORTERS": exporters}))
    assert feeds.late is late


def crawler_with(settings):
    return get_crawler(settings_dict=settings)


def test_a_crawl_without_feeds_has_nothing_to_wait_for():
    feeds = ItemFeeds(crawler_with({}))
    assert (feeds.late, feeds.failed) == (False, False)
    feeds.flush()


def test_a_feed_that_could_not_be_stored_is_seen():
    crawler = crawler_with({})
    crawler.stats.inc_value("feedexport/failed_count/S3FeedStorage")
    assert ItemFeeds(crawler).failed
