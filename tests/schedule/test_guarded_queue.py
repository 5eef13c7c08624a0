"""Which of its requests the priority queue hands out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scrapy import Request, Spider
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.test import get_crawler

from scrapy_resiproxy import GuardedPriorityQueue


def test_no_more_is_handed_out_than_can_be_downloaded_at_once() -> None:
    busy = SimpleNamespace(active={1, 2}, concurrency=2)
    crawler: Any = get_crawler(Spider)
    downloader = SimpleNamespace(slots={"shop.example": busy}, get_slot_key=lambda request: request.url.split("/")[2])
    crawler.engine = SimpleNamespace(downloader=downloader)
    queue: Any = GuardedPriorityQueue.from_crawler(crawler, FifoMemoryQueue, "")
    urls = [f"http://shop.example/{number}" for number in range(3)]
    for url in urls:
        queue.push(Request(url))
    queue.push(Request("http://other.example/"))
    assert queue.pop().url == "http://other.example/"
    assert queue.pop() is None
    assert len(queue) == 3
    busy.active.discard(1)
    assert queue.pop().url == urls[0]
