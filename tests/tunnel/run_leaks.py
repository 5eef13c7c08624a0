"""Open tunnels through the scripted proxy, COUNT per script, and print what is left of each: run as a program."""

from __future__ import annotations

import json
import os
import sys

from scripted_proxy import SCRIPTS
from twisted.internet import defer, protocol, reactor, task

from scrapy_resiproxy.tunnel.endpoint import TunnelEndpoint
from scrapy_resiproxy.tunnel.errors import TunnelFailed
from scrapy_resiproxy.tunnel.route import Route, TunnelKey, proxy_endpoint
from scrapy_resiproxy.tunnel.tls import SharedTls, TlsOptions
from scrapy_resiproxy.tunnel.wire import Traffic

SHARED = SharedTls(TlsOptions())
WAITS = {"never", "only-100", "201-silence", "204-silence", "half-line", "200-silence"}
TIMEOUT = 20.0


def open_fds():
    return len(os.listdir("/proc/self/fd"))


async def one(port, name, seen):
    route = Route(TunnelKey(f"127.0.0.1:{port}", "s", name), "127.0.0.1", port, f"{name}.test", 443)
    clock = task.Clock() if name in WAITS else reactor
    endpoint = TunnelEndpoint(
        clock,
        proxy_endpoint(reactor, route, TIMEOUT),
        route,
        tls=SHARED.client(route.host, route.key),
        traffic=Traffic(reactor),
        timeout=TIMEOUT,
    )
    d = endpoint.connect(protocol.Factory.forProtocol(protocol.Protocol))
    try:
        if name in WAITS:
            await all_said(endpoint.traffic, name)
            clock.advance(TIMEOUT)
        await d
    except TunnelFailed as error:
        word = f"{error.phase}/{error.status}/{error.reason}"
        seen[word] = seen.get(word, 0) + 1


async def all_said(traffic, name):
    """Wait until our CONNECT is out and all that the proxy will ever say has come."""
    said = sum(len(step) for step in SCRIPTS[name] if isinstance(step, bytes))
    while not (traffic.up and traffic.down >= said):
        await task.deferLater(reactor, 0.002)


async def settle(base):
    """Let the reactor turn until the closed sockets are gone; give up after 10,000 turns."""
    for _ in range(10_000):
        if open_fds() <= base:
            break
        await task.deferLater(reactor, 0.001)
    return open_fds() - base


async def main(port, count):
    report = {}
    await one(port, "fin", {})
    base = open_fds()
    for name in SCRIPTS:
        seen = {}
        for _ in range(0, count, 100):
            await defer.DeferredList([defer.Deferred.fromCoroutine(one(port, name, seen)) for _ in range(100)])
        report[name] = {"seen": seen, "left": await settle(base), "calls": len(reactor.getDelayedCalls())}
    return report


def run(port, count):
    result = []
    d = defer.Deferred.fromCoroutine(main(port, count))
    d.addBoth(result.append)
    d.addBoth(lambda _: reactor.stop())
    reactor.run()
    return result[0]


if __name__ == "__main__":
    outcome = run(int(sys.argv[1]), int(sys.argv[2]))
    if not isinstance(outcome, dict):
        outcome.printTraceback()
        sys.exit(1)
    print(json.dumps(outcome))
