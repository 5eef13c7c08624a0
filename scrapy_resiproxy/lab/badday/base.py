"""What both crawls have in common: Scrapy's defaults, but for a log that can be read and a place for the items."""

from __future__ import annotations

from typing import Any, Final

BOT_NAME: Final = "badday"
SPIDER_MODULES: Final = ["scrapy_resiproxy.lab.badday.spider"]
# Where the spider finds what is wanted: a file in the directory that it runs in.
BADDAY_URLS: Final = "urls.json"
# The pages that were delivered: what is counted as data in the end. A replay adds to the same file.
FEEDS: Final[dict[str, dict[str, Any]]] = {"items.jsonl": {"format": "jsonlines", "encoding": "utf-8"}}
LOG_LEVEL: Final = "INFO"
LOGSTATS_INTERVAL: Final = 10
TELNETCONSOLE_ENABLED: Final = False
