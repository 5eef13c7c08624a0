"""Fetch the same things through one proxy with Scrapy's handler and with ours; print what each made of them."""

from __future__ import annotations

import json
import sys

from scrapy.utils.reactor import install_reactor

install_reactor(sys.argv[2])

from live_servers import Proxy, Site
from parity_cases import META, PATHS
from scrapy import Request, Spider, signals
from scrapy.exceptions import StopDownload
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.test import get_crawler
from twisted.internet import reactor

HANDLERS = {
    "stock": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
    "ours": "scrapy_resiproxy.components.tunnel_handler.TunnelDownloadHandler",
}


def request_for(name, site, proxy):
    path, _, how = name.partition(" ")
    method = next((m for m in ("HEAD", "POST", "PUT", "DELETE") if m in how), "GET")
    body = b"payload" if method in {"POST", "PUT"} and "empty" not in how else b""
    headers = {"Proxy-Authorization": "Basic dXNlcjpwYXNz", "User-Agent": "test"}
    meta = {"proxy": f"http://127.0.0.1:{proxy.port}", "download_timeout": 20, **META.get(name, {})}
    return Request(f"https://localhost:{site.port}/{path}", method=method, body=body, headers=headers, meta=meta)


async def fetch(handler, crawler, name, site, proxy):
    request = request_for(name, site, proxy)
    sent = []

    def on_headers(headers, body_length, request, spider):
        sent.append(["headers", body_length, sorted(k.decode() for k in headers)])
        if "stop at headers" in name:
            raise StopDownload(fail="fail" in name)

    def on_bytes(data, request, spider):
        sent.append(["bytes", len(data)])
        if "stop at bytes" in name:
            raise StopDownload(fail="fail" in name)

    crawler.signals.connect(on_headers, signals.headers_received)
    crawler.signals.connect(on_bytes, signals.bytes_received)
    try:
        response = await handler.download_request(request)
    except StopDownload as error:
        return {"stopped": describe(error.response), "signals": sent}
    except Exception as error:
        return {"error": type(error).__name__, "signals": sent}
    finally:
        crawler.signals.disconnect_all(signals.headers_received)
        crawler.signals.disconnect_all(signals.bytes_received)
    return {**describe(response), "signals": sent, "latency": "download_latency" in request.meta}


def describe(response):
    return {
        "class": type(response).__name__,
        "status": response.status,
        "url": response.url.partition("/")[0] + response.url[response.url.rfind("/") :],
        "headers": sorted((k.decode(), [v.decode() for v in vs]) for k, vs in response.headers.items()),
        "body": response.body.decode(),
        "flags": response.flags,
        "protocol": response.protocol,
        "ip": str(response.ip_address),
        "certificate": response.certificate is not None
        and response.certificate.getSubject().get("commonName", b"").decode(),
    }


async def main(pem):
    site = Site(pem)
    proxy = Proxy(site.port)
    report = {}
    for label, path in HANDLERS.items():
        crawler = get_crawler(Spider, {"DOWNLOAD_TIMEOUT": 20})
        crawler.spider = crawler._create_spider("x")
        handler = build_from_crawler(load_object(path), crawler)
        for name in PATHS:
            report.setdefault(name, {})[label] = await fetch(handler, crawler, name, site, proxy)
        await handler.close()
    return report


if __name__ == "__main__":
    result = []
    d = deferred_from_coro(main(sys.argv[1]))
    d.addBoth(result.append)
    d.addBoth(lambda _: reactor.stop())
    reactor.run()
    if not isinstance(result[0], dict):
        result[0].printTraceback()
        sys.exit(1)
    print(json.dumps(result[0]))
