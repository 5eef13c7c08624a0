"""Stock Scrapy, with its own RetryMiddleware and the rotation that people write by hand."""

from __future__ import annotations

import os
from typing import Final

from scrapy_resiproxy.lab.badday.base import *  # noqa: F403 - a settings module is a list of names

BADDAY_PROXY: Final = os.environ.get("BADDAY_PROXY", "")
BADDAY_SESSIONS: Final = ["one", "two", "three", "four", "five"]

DOWNLOADER_MIDDLEWARES: Final = {
    # Before HttpProxyMiddleware (750), which turns the credentials in the URL into a header.
    "scrapy_resiproxy.lab.badday.by_hand.RandomSessionMiddleware": 740,
}
