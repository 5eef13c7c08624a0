"""What warm tunnels save, with stock Scrapy beside them: ``python benchmarks/tunnels.py [--scale 5] [--seconds 60]``.

Everything runs on loopback: an https origin with a chain of three certificates, a CONNECT relay that closes idle
tunnels and counts every byte, and a crawling process for each handler. Times are scaled: at ``--scale 5`` a proxy's ten
idle seconds are two. Loopback has no latency; read ratios, not seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "tunnel")]

from blocking_servers import SocksRelay
from scripted_proxy import SCRIPTS, ScriptedProxy
from tunnel_kit import certificates

from scrapy_resiproxy.tunnel.probe import judge, try_both
from scrapy_resiproxy.tunnel.probe_wire import Port, Target

IDLE, EVERY, SESSIONS, LIFE = 10.0, 12.7, 6, 480.0
"""The field report: a proxy that closes after ten idle seconds, six sessions, a request of each every 12.7 s."""
BODY = b"x" * 3600


@dataclass
class Tunnel:
    up: int = 0
    down: int = 0
    open: bool = True


class Network:
    """The origin and the relays, in a thread of their own."""

    def __init__(self, pem):
        self.loop = asyncio.new_event_loop()
        self.requests = {"GET": 0, "HEAD": 0, "POST": 0}
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.origin = (
            self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)).sockets[0].getsockname()[1]
        )

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next((int(h[15:]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")), 0)
                await reader.readexactly(size)
                method = head.split(b" ")[0].decode()
                self.requests[method] += 1
                # As long as the head that nginx sends with a page.
                writer.write(
                    b"HTTP/1.1 200 OK\r\nServer: origin/1.22.1\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\n"
                    b"Content-Type: text/html\r\nContent-Length: %d\r\nLast-Modified: Mon, 30 Nov 2026 09:00:00 GMT\r\n"
                    b'Connection: keep-alive\r\nETag: "692c1234-e10"\r\nAccept-Ranges: bytes\r\n\r\n'
                    % len(BODY)
                    + (BODY if method != "HEAD" else b"")
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def relay(self, idle=None, *, kill=False):
        relay = Relay(self.origin, idle, kill)
        relay.port = self._run(asyncio.start_server(relay.serve, "127.0.0.1", 0)).sockets[0].getsockname()[1]
        return relay


class Relay:
    """A CONNECT proxy. *idle*: seconds of silence until it closes. *kill*: cut the second request on a tunnel."""

    def __init__(self, origin, idle, kill):
        self.origin, self.idle, self.kill = origin, idle, kill
        self.tunnels = []

    async def serve(self, reader, writer):
        tunnel = Tunnel()
        try:
            tunnel.up += len(await reader.readuntil(b"\r\n\r\n"))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.origin)
            grant = b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(grant)
            tunnel.down += len(grant)
            self.tunnels.append(tunnel)
            await self._carry(tunnel, (reader, far_writer), (far_reader, writer))
            far_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        tunnel.open = False
        writer.close()

    async def _carry(self, tunnel, up, down):
        last = [time.monotonic()]

        async def pump(reader, writer, direction):
            while data := await reader.read(65536):
                now = time.monotonic()
                if self.kill and direction == "up" and tunnel.down > 8000 and now - last[0] > 0.005:
                    return
                last[0] = now
                setattr(tunnel, direction, getattr(tunnel, direction) + len(data))
                writer.write(data)

        pumps = [asyncio.ensure_future(pump(*up, "up")), asyncio.ensure_future(pump(*down, "down"))]
        while not any(p.done() for p in pumps):
            silent = time.monotonic() - last[0]
            if self.idle is not None and silent >= self.idle:
                break
            wait = None if self.idle is None else self.idle - silent
            await asyncio.wait(pumps, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        for p in pumps:
            p.cancel()

    @property
    def bytes(self):
        return sum(t.up + t.down for t in self.tunnels)


def client(name, handler, proxy, origin, *, env=None, **job):
    """Start a crawling process."""
    job = {"settings": {}, **job, "name": name, "handler": handler, "proxy": proxy, "origin": origin}
    command = [sys.executable, str(HERE / "tunnel_client.py"), json.dumps(job)]
    path = os.pathsep.join(sys.path[:2])
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path, **(env or {})}
    )


def result(process):
    """What the process printed last."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(out)
    return json.loads(out.splitlines()[-1])


def show(case, stock, ours):
    print(f"{case:<58} {stock:>22}   {ours:>22}", flush=True)


def exchange_bytes(network):
    """Bytes on the wire of one request and its response on a warm tunnel: what is no overhead."""
    sent = []
    for requests in (10, 20):
        relay = network.relay()
        result(client("flood", "stock", relay.port, network.origin, requests=requests, at_once=1))
        sent.append(relay.bytes)
    return (sent[1] - sent[0]) / 10


def steady(network, scale, seconds):
    """The field report's workload, with and without pings."""
    idle = IDLE / scale
    variants = {
        "stock": ("stock", {}),
        "T/3": ("ours", {"RESIPROXY_TUNNEL_IDLE_TIMEOUT": idle}),
        "0.7 T": ("ours", {"RESIPROXY_TUNNEL_IDLE_TIMEOUT": idle, "RESIPROXY_TUNNEL_PING_INTERVAL": 0.7 * idle}),
        "no pings": ("ours", {}),
    }
    relays = {name: network.relay(idle) for name in variants}
    running = {
        name: client(
            "steady",
            handler,
            relays[name].port,
            network.origin,
            every=EVERY / scale,
            sessions=SESSIONS,
            seconds=seconds,
            settings={"RESIPROXY_TUNNEL_MAX_AGE": LIFE / scale, **settings},
        )
        for name, (handler, settings) in variants.items()
    }
    results = {name: result(process) for name, process in running.items()}
    requests = round(SESSIONS * seconds / (EVERY / scale))
    payload = exchange_bytes(network)
    print(f"\n{requests} requests over {seconds:g} s at x{scale:g}, {payload:,.0f} bytes of request and response each")
    stock = relays["stock"]
    for name in ("T/3", "0.7 T", "no pings"):
        show(f"tunnels, {name}", len(stock.tunnels), len(relays[name].tunnels))
        show(
            f"bytes per tunnel, {name}",
            f"{stock.bytes / len(stock.tunnels):,.0f}",
            f"{relays[name].bytes / len(relays[name].tunnels):,.0f}",
        )
        show(
            f"overhead, {name}",
            f"{1 - payload * requests / stock.bytes:.1%}",
            f"{1 - payload * requests / relays[name].bytes:.1%}",
        )
        show(f"failed requests, {name}", results["stock"]["failed"], results[name]["failed"])
    full = (stock.bytes - payload * requests) / len(stock.tunnels)
    again = relays["no pings"].tunnels
    resumed = sorted(t.up + t.down - payload for t in again)[len(again) // 2]
    show("bytes of a reconnect beside its request", f"{full:,.0f}", f"{resumed:,.0f}")


def burst(network, scale):
    """Eight at once, then one every two seconds (scaled): who stays open?"""
    counts = {}
    for handler in ("stock", "ours"):
        relay = network.relay(IDLE / scale)
        process = client(
            "burst",
            handler,
            relay.port,
            network.origin,
            every=2 / scale,
            seconds=40 / scale,
            settings={"RESIPROXY_TUNNEL_IDLE_TIMEOUT": IDLE / scale},
        )
        process.stdout.readline()
        counts[handler] = sum(t.open for t in relay.tunnels)
        result(process)
    show("burst of 8, then 1 every 2 s: tunnels alive", counts["stock"], counts["ours"])


def failures(scripts):
    found = {}
    with ScriptedProxy() as port:
        for handler in ("stock", "ours"):
            found[handler] = result(
                client(
                    "failures",
                    handler,
                    port,
                    443,
                    scripts=scripts,
                    timeout=4,
                    settings={"RESIPROXY_TUNNEL_CONNECT_TIMEOUT": 1},
                )
            )
    for key, text in (
        ("slowest", "slowest of 20 failures (download 4 s, connect 1 s)"),
        ("leaking", "failures that leave a socket open"),
    ):
        show(text, *(f"{found[h][key]:.1f} s" if key == "slowest" else found[h][key] for h in ("stock", "ours")))


def dying(network, requests):
    for method, body, count in (("GET", "", requests), ("POST", "x", requests // 10)):
        lines, seen = {}, {}
        for handler in ("stock", "ours"):
            before = network.requests[method]
            relay = network.relay(kill=True)
            lines[handler] = result(
                client("dying", handler, relay.port, network.origin, requests=count, method=method, body=body)
            )
            seen[handler] = network.requests[method] - before
        show(f"tunnel dies under {count} {method}s: failed", lines["stock"]["failed"], lines["ours"]["failed"])
        show(f"  seen by the origin, of {count} {method}s", seen["stock"], seen["ours"])


def memory(network, ca, tunnels):
    each = {}
    for handler in ("stock", "ours"):
        each[handler] = result(
            client(
                "memory",
                handler,
                network.relay().port,
                network.origin,
                tunnels=tunnels,
                settings={"DOWNLOAD_VERIFY_CERTIFICATES": True, "RESIPROXY_TUNNEL_MAX": tunnels + 2},
                env={"SSL_CERT_FILE": ca},
            )
        )["bytes_each"]
    show("memory per idle verified tunnel", *(f"{each[h] / 1000:,.0f} kB" for h in ("stock", "ours")))


def flood(network, rounds):
    times = {"stock": [], "ours": []}
    for _ in range(rounds):
        for handler, found in times.items():
            found.append(
                result(
                    client(
                        "flood",
                        handler,
                        network.relay().port,
                        network.origin,
                        requests=3200,
                        at_once=16,
                        settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 16},
                    )
                )
            )
    failed = sum(run.pop("failed") for found in times.values() for run in found)
    stock, ours = (min(run["seconds"] for run in times[h]) for h in ("stock", "ours"))
    assert not failed, f"{failed} requests failed"
    show("3,200 requests, 16 at once, handlers alone", f"{stock:.2f} s", f"{ours:.2f} s (x {ours / stock:.2f})")


def trap(network):
    server, start = SocksRelay(network.origin, stop="silence"), time.perf_counter()
    port, target = Port("127.0.0.1", server.port), Target("localhost", network.origin, "/")
    kind = judge(try_both(port, target, 5.0), port, target).kind
    server.close()
    show("SOCKS5 port that carries nothing, named by the probe", "-", f"{kind} {time.perf_counter() - start:.1f} s")


def _with_the_worlds_authorities(ca):
    """As on a real machine: the size of the trust store is what a context of one's own costs."""
    system = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    bundle = ca.with_name("bundle.pem")
    bundle.write_bytes(ca.read_bytes() + Path(system).read_bytes())
    return str(bundle)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=5.0, help="how much faster than the field report (5)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the steady run; 240 is the report's")
    parser.add_argument("--only", nargs="*", default=[], help="steady burst failures dying memory flood trap")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pki = certificates(Path(folder))
        network = Network(pki.good)
        jobs = {
            "trap": lambda: trap(network),
            "flood": lambda: flood(network, 3),
            "memory": lambda: memory(network, _with_the_worlds_authorities(pki.ca), 50),
            "burst": lambda: burst(network, options.scale),
            "failures": lambda: failures(list(SCRIPTS)),
            "dying": lambda: dying(network, 1000),
            "steady": lambda: steady(network, options.scale, options.seconds),
        }
        show("", "stock Scrapy", "warm tunnels")
        for name, job in jobs.items():
            if not options.only or name in options.only:
                job()


if __name__ == "__main__":
    main()
