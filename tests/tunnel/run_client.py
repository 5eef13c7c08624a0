"""Runs a plan through the download handler and prints what came of it.

A plan is a list of ``{"get": ...}``, ``{"wait": seconds}`` and ``{"until": {stat: count}, "meanwhile": ...}``, where
the latter, if given, is got every quarter of a second.
"""

from __future__ import annotations

import asyncio
import json
import sys

from scrapy.utils.reactor import install_reactor

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

from scrapy import Request, Spider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler
from twisted.internet import reactor

from scrapy_resiproxy.components.tunnel_handler import TunnelDownloadHandler, tunnels_of


async def get(handler, url, proxy, *, session="s", login=None, **kwargs):
    headers = {"User-Agent": "test", **({"Proxy-Authorization": login} if login else {})}
    meta = {"proxy": proxy, "_resiproxy": {"session": session}, "download_timeout": 15}
    try:
        response = await handler.download_request(Request(url, headers=headers, meta=meta, **kwargs))
    except Exception as error:
        return {name: getattr(error, name, None) for name in ("phase", "status", "reason")} | {
            "error": type(error).__name__,
            "headers": [h.decode() for h, _ in getattr(error, "headers", [])],
        }
    return {"status": response.status, "body": response.text}


async def main(settings, plan):
    crawler = get_crawler(Spider, settings)
    crawler.spider = crawler._create_spider("x")
    handler = build_from_crawler(TunnelDownloadHandler, crawler)
    results = []
    for step in plan:
        if "wait" in step:
            await asyncio.sleep(step["wait"])
        elif "until" in step:
            while not step["until"].items() <= tunnels_of(crawler).stats().items():
                await asyncio.sleep(0.25)
                if "meanwhile" in step:
                    await get(handler, **step["meanwhile"])
        else:
            calls = [get(handler, **step["get"]) for _ in range(step.get("times", 1))]
            results += await asyncio.gather(*calls)
    stats = tunnels_of(crawler).stats()
    await handler.close()
    return {"results": results, "stats": stats, "after": tunnels_of(crawler).stats()}


if __name__ == "__main__":
    outcome = []
    d = deferred_from_coro(main(*json.loads(sys.argv[1])))
    d.addBoth(outcome.append)
    d.addBoth(lambda _: reactor.stop())
    reactor.run()
    if not isinstance(outcome[0], dict):
        outcome[0].printTraceback()
        sys.exit(1)
    print(json.dumps(outcome[0]))
