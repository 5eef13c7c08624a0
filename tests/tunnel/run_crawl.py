"""A whole crawl through warm tunnels, on stock Scrapy but for the handler; prints its stats."""

from __future__ import annotations

import json
import sys

from scrapy.utils.reactor import install_reactor

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

from live_servers import Proxy, Site
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

site = Site(sys.argv[1])
proxy = Proxy(site.port)


class Pages(Spider):
    name = "pages"

    async def start(self):
        proxy.answer = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
        url = f"https://localhost:{site.port}/ok"
        meta = {"proxy": f"http://user:canaryPass99@127.0.0.1:{proxy.port}"}
        yield Request(f"{url}?first", meta=meta, errback=self.failed, callback=self.good)
        for n in range(40):
            yield Request(f"{url}?{n}", meta=dict(meta), callback=self.good, errback=self.failed)

    def failed(self, failure):
        self.crawler.stats.inc_value(f"failed/{type(failure.value).__name__}")

    def good(self, response):
        self.crawler.stats.inc_value("good")


class Heal:
    """The proxy recovers after its first refusal."""

    def process_exception(self, request, exception):
        proxy.answer = None


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "DOWNLOAD_HANDLERS": {"https": "scrapy_resiproxy.components.tunnel_handler.TunnelDownloadHandler"},
            "DOWNLOADER_MIDDLEWARES": {Heal: 900},
            "LOG_LEVEL": "DEBUG",
            "CONCURRENT_REQUESTS": 4,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler = process.create_crawler(Pages)
    process.crawl(crawler)
    process.start()
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, int | float | str)}
    stats["connects"] = len(proxy.connects)
    print(json.dumps(stats))
