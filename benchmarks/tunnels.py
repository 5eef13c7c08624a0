"""What warm tunnels save, with stock Scrapy beside them: ``python benchmarks/tunnels.py [--scale 5] [--seconds 240]``.

Everything runs on loopback: an https origin with a chain of three certificates, a CONNECT relay that closes idle
tunnels and counts every byte, and a crawling process for each handler. Times are scaled: at ``--scale 5`` a proxy's ten
idle seconds are two. Loopback has no latency; read ratios, not seconds. ``--minutes 10`` adds ten real minutes through
tinyproxy and squid with nginx behind them, which must be installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PATHS = [str(HERE.parent), str(HERE.parent / "tests" / "tunnel")]
sys.path[:0] = PATHS

from blocking_servers import SocksRelay
from kit import environment
from real_programs import Programs
from scripted_proxy import SCRIPTS, ScriptedProxy
from tunnel_kit import certificates
from tunnel_network import Network

from scrapy_resiproxy.tunnel.probe import judge, try_both
from scrapy_resiproxy.tunnel.probe_wire import Port, Target

IDLE, EVERY, SESSIONS, LIFE = 10.0, 12.7, 6, 480.0
"""The field report: a proxy that closes after ten idle seconds, six sessions, a request of each every 12.7 s."""
HANDLERS = ("stock", "ours")


def client(name, handler, proxy, origin, *, env=None, **job):
    """Start a crawling process."""
    job = {"settings": {}, **job, "name": name, "handler": handler, "proxy": proxy, "origin": origin}
    command = [sys.executable, str(HERE / "tunnel_client.py"), json.dumps(job)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(*PATHS, **(env or {})))


def result(process):
    """What the process printed last."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(out)
    return json.loads(out.splitlines()[-1])


def show(case, stock, ours):
    print(f"{case:<68} {stock:>16}   {ours:>22}", flush=True)


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
        show(f"tunnels, {name}", *(_per_hour(r, seconds * scale) for r in (stock, relays[name])))
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
    resumed = statistics.median(t.up + t.down - payload for t in again)
    show("bytes of a reconnect beside its request, no pings", f"{full:,.0f}", f"{resumed:,.0f}")
    count = results["no pings"]["stats"]["resumed_count"]
    show(f"  TLS resumed, of {len(again) - SESSIONS} reconnects", 0, count)


def _per_hour(relay, seconds):
    return f"{len(relay.tunnels)} ({len(relay.tunnels) * 3600 / seconds:,.0f}/h)"


def burst(network, scale):
    """Eight at once, then one every two seconds (scaled): who stays open?"""
    counts = {}
    for handler in HANDLERS:
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
        for handler in HANDLERS:
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
        ("slowest", "slowest of 20 failures of CONNECT (download timeout 4 s, ours 1 s)"),
        ("waiting", "  failures that take the whole download timeout"),
        ("leaking", "  failures that leave a socket open"),
    ):
        show(text, *(f"{found[h][key]:.1f} s" if key == "slowest" else found[h][key] for h in HANDLERS))


def dying(network, requests):
    for method, body, count in (("GET", "", requests), ("POST", "x", requests // 10)):
        lines, seen = {}, {}
        for handler in HANDLERS:
            before = network.requests[method]
            relay = network.relay(kill=True)
            lines[handler] = result(
                client("dying", handler, relay.port, network.origin, requests=count, method=method, body=body)
            )
            seen[handler] = network.requests[method] - before
        show(f"tunnel dies under {count} {method}s: failed", lines["stock"]["failed"], lines["ours"]["failed"])
        show(f"  seen by the origin, of {count} {method}s", seen["stock"], seen["ours"])


def silent(network):
    """The proxy forgets a tunnel after a second and says nothing: what the next request meets."""
    found = {}
    for handler in HANDLERS:
        relay = network.relay(drop=1.0)
        settings = {"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 4.5}
        found[handler] = result(
            client("silent", handler, relay.port, network.origin, timeout=6, idle=4, settings=settings)
        )
    told = (f"{found[h]['seconds']:.1f} s, {'failed' if found[h]['failed'] else 'good'}" for h in HANDLERS)
    show("request on a tunnel that was silently dropped (timeout 6 s)", *told)


def memory(network, ca, tunnels):
    each = {}
    for handler in HANDLERS:
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
    show("memory per idle verified tunnel", *(f"{each[h] / 1000:,.0f} kB" for h in HANDLERS))


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
    stock, ours = (min(run["seconds"] for run in times[h]) for h in HANDLERS)
    assert not failed, f"{failed} requests failed"
    show("3,200 requests, 16 at once, handlers alone", f"{stock:.2f} s", f"{ours:.2f} s (x {ours / stock:.2f})")


def crawl(network, pages, rounds):
    """A whole crawl, 16 at once, one sticky session. Stock and ours take turns, and each round is compared."""
    kinds = {"stock": "stock", "ours": "handler alone", "add-on": "whole add-on"}
    runs = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in reversed(kinds) if number % 2 else kinds:
            runs[kind].append(result(client("crawl", kind, network.relay().port, network.origin, requests=pages)))
    for kind in ("ours", "add-on"):
        for what in ("wall", "cpu"):
            stock, ours = ([run[what] for run in runs[k]] for k in ("stock", kind))
            ratio = statistics.median(b / a for a, b in zip(stock, ours, strict=True))
            name = f"crawl of {pages:,} pages, 16 at once, {kinds[kind]}: {what}"
            show(name, f"{statistics.median(stock):.2f} s", f"{statistics.median(ours):.2f} s (x {ratio:.2f})")
    show("  pages, tunnels", *(f"{runs[k][0]['pages']}, {runs[k][0]['tunnels']}" for k in ("stock", "add-on")))


def trap(network):
    server = SocksRelay(network.origin, stop="silence")
    _name_it("SOCKS5 port that carries nothing, named by the probe", server.port, network.origin)
    server.close()
    if importlib.util.find_spec("pproxy") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        listening, nobody = programs._port(), programs._port()
        command = [sys.executable, "-m", "pproxy", "-l", f"socks5://127.0.0.1:{listening}"]
        programs._run(command, programs._home("pproxy"), listening)
        _name_it("  pproxy, which says yes to a target that refuses it", listening, nobody)
        programs.stop()


def _name_it(text, port, origin):
    start, port, target = time.perf_counter(), Port("127.0.0.1", port), Target("localhost", origin, "/")
    kind = judge(try_both(port, target, 5.0), port, target).kind
    show(text, "-", f"{kind} {time.perf_counter() - start:.1f} s")


def minutes(network, pem, length):
    """The field report in real time, through real proxies whose idle timeout is ten seconds."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        origin = programs.nginx(pem)
        fronts, running = {}, {}
        for proxy in ("tinyproxy", "squid"):
            for handler in HANDLERS:
                front = fronts[proxy, handler] = network.forward(getattr(programs, proxy)(timeout=10))
                running[proxy, handler] = client(
                    "steady",
                    handler,
                    front.port,
                    origin,
                    every=EVERY,
                    sessions=SESSIONS,
                    seconds=60 * length,
                    settings={"RESIPROXY_TUNNEL_IDLE_TIMEOUT": IDLE, "RESIPROXY_TUNNEL_MAX_AGE": 3600},
                )
        failed = {name: result(process)["failed"] for name, process in running.items()}
        programs.stop()
    for proxy in ("tinyproxy", "squid"):
        show(f"{length:g} minutes through {proxy}: tunnels", *(len(fronts[proxy, h].tunnels) for h in HANDLERS))
        show("  bytes", *(f"{fronts[proxy, h].bytes:,}" for h in HANDLERS))
        show("  failed requests", *(failed[proxy, h] for h in HANDLERS))


def _with_the_worlds_authorities(ca):
    """As on a real machine: the size of the trust store is what a context of one's own costs."""
    system = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    bundle = ca.with_name("bundle.pem")
    bundle.write_bytes(ca.read_bytes() + Path(system).read_bytes())
    return str(bundle)


JOBS = ("trap", "crawl", "flood", "memory", "burst", "failures", "dying", "silent", "steady")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=5.0, help="how much faster than the field report (5)")
    parser.add_argument("--seconds", type=float, default=240.0, help="length of the steady run (240)")
    parser.add_argument("--minutes", type=float, default=0.0, help="real minutes through real proxies (none)")
    parser.add_argument("--only", nargs="*", default=[], help="some of: " + " ".join(JOBS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # About 4 kB of certificates, as sites have.
        pki = certificates(Path(folder), authority_bits=4096)
        network = Network(pki.good)
        jobs = {
            "trap": lambda: trap(network),
            "crawl": lambda: [crawl(network, 320, 7), crawl(network, 1600, 5)],
            "flood": lambda: flood(network, 3),
            "memory": lambda: memory(network, _with_the_worlds_authorities(pki.ca), 50),
            "burst": lambda: burst(network, options.scale),
            "failures": lambda: failures(list(SCRIPTS)),
            "dying": lambda: dying(network, 1000),
            "silent": lambda: silent(network),
            "steady": lambda: steady(network, options.scale, options.seconds),
        }
        show("", "stock Scrapy", "warm tunnels")
        for name in options.only or JOBS:
            jobs[name]()
        if options.minutes:
            minutes(network, pki.good, options.minutes)


if __name__ == "__main__":
    main()
