"""Against real proxies and real origins. Where one of two has to be first, the other one has a much longer time."""

from __future__ import annotations

import base64
import json
from functools import partial
from time import perf_counter

import pytest

from scrapy_resiproxy.tunnel.probe import judge, open_line, trusting_context, try_both
from scrapy_resiproxy.tunnel.probe_idle import Wait, measure_silence
from scrapy_resiproxy.tunnel.probe_wire import Port, Target

pytestmark = pytest.mark.real

PATIENCE = 30.0
"""Seconds that the probe may wait for an answer."""
PROXIES = {
    "tinyproxy": lambda programs, pki, timeout: programs.tinyproxy(timeout=timeout),
    "squid": lambda programs, pki, timeout: programs.squid(timeout=timeout),
    "apache": lambda programs, pki, timeout: programs.apache(pki.good, keep_alive=timeout, proxy=True),
    "proxy.py": lambda programs, pki, timeout: programs.proxy_py(timeout=timeout),
}
ORIGINS = {
    "nginx": lambda programs, pki: programs.nginx(pki.good),
    "apache": lambda programs, pki: programs.apache(pki.good),
    "node": lambda programs, pki: programs.node(pki.good),
    "caddy": lambda programs, pki: programs.caddy(pki.good),
}


@pytest.fixture
def client(run_program, pki):
    """Run a plan through the handler, certificates verified."""

    def run(plan, **settings):
        settings = {"DOWNLOAD_VERIFY_CERTIFICATES": True, **settings}
        env = {"SSL_CERT_FILE": str(pki.ca)}
        return json.loads(run_program("run_client.py", json.dumps([settings, plan]), env=env))

    return run


def a_get(proxy, origin, host="localhost", **more):
    return {"url": f"https://{host}:{origin}/", "proxy": f"http://127.0.0.1:{proxy}", **more}


@pytest.mark.parametrize(
    ("proxy", "origin"),
    [("tinyproxy", "nginx"), ("squid", "apache"), ("apache", "node"), ("squid", "nginx"), ("proxy.py", "caddy")],
)
def test_one_tunnel_carries_many_pages(programs, pki, client, proxy, origin):
    step = a_get(PROXIES[proxy](programs, pki, 20), ORIGINS[origin](programs, pki))
    found = client([{"get": step}] * 3)
    assert found["results"] == [{"status": 200, "body": f"hello from {origin}"}] * 3
    assert (found["stats"]["opened_count"], found["stats"]["reused_count"]) == (1, 2)


@pytest.mark.parametrize("proxy", PROXIES)
def test_pings_keep_a_tunnel_beyond_the_proxys_timeout(programs, pki, client, proxy):
    step = {"get": a_get(PROXIES[proxy](programs, pki, 4), programs.nginx(pki.good))}
    found = client([step, {"wait": 6}, step], RESIPROXY_TUNNEL_IDLE_TIMEOUT=4, RESIPROXY_TUNNEL_PING_INTERVAL=0.5)
    assert [r["status"] for r in found["results"]] == [200, 200]
    assert found["stats"]["opened_count"] == 1
    assert found["stats"]["ping_count"] >= 2


@pytest.mark.parametrize("proxy", ["tinyproxy", "squid", "apache"])
def test_without_pings_we_close_first(programs, pki, client, proxy):
    step = {"get": a_get(PROXIES[proxy](programs, pki, 60), programs.nginx(pki.good))}
    closed = {"until": {"close_reason_count/idle": 1}}
    found = client([step, closed, step], RESIPROXY_TUNNEL_IDLE_TIMEOUT=1, RESIPROXY_TUNNEL_PING_PATH=None)
    assert [r["status"] for r in found["results"]] == [200, 200]
    assert found["stats"]["opened_count"] == 2


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_reconnect_resumes_tls(programs, pki, client, origin):
    step = {"get": a_get(programs.tinyproxy(timeout=1), ORIGINS[origin](programs, pki))}
    closed = [{"until": {"close_reason_count/peer_idle": count}} for count in (1, 2)]
    found = client([step, closed[0], step, closed[1], step])
    assert [r["status"] for r in found["results"]] == [200] * 3
    assert (found["stats"]["opened_count"], found["stats"]["resumed_count"]) == (3, 2)


def test_an_origin_that_promises_a_timeout_is_left_in_time(programs, pki, client):
    step = {"get": a_get(programs.tinyproxy(timeout=60), programs.node(pki.good, keep_alive=60, promises=1))}
    found = client([step, {"until": {"close_reason_count/idle": 1}}, step])
    assert [r["status"] for r in found["results"]] == [200, 200]
    assert found["stats"]["opened_count"] == 2


def test_an_origin_that_counts_requests_says_when_it_closes(programs, pki, client):
    step = {"get": a_get(programs.squid(timeout=20), programs.nginx(pki.good, "keepalive_requests 2;"))}
    found = client([step] * 4)
    assert [r["status"] for r in found["results"]] == [200] * 4
    assert found["stats"]["opened_count"] == 2
    assert found["stats"]["close_reason_count/connection_close"] == 2


def test_a_burst_goes_cold_but_for_one(programs, pki, client):
    step = a_get(programs.tinyproxy(timeout=60), programs.nginx(pki.good))
    trickle = {"until": {"close_reason_count/idle": 7}, "meanwhile": step}
    found = client([{"get": step, "times": 8}, trickle, {"get": step}], RESIPROXY_TUNNEL_IDLE_TIMEOUT=4)
    assert found["stats"]["opened_count"] == 8
    assert found["stats"]["close_reason_count/idle"] == 7


def test_refusals_keep_their_status(programs, pki, client):
    origin = programs.nginx(pki.good)
    tinyproxy, squid = programs.tinyproxy(timeout=20, login=("user", "pass")), programs.squid(timeout=20)
    good = "Basic " + base64.b64encode(b"user:pass").decode()
    steps = [
        {"get": a_get(tinyproxy, origin, login=good, session="good")},
        {"get": a_get(tinyproxy, origin, login="Basic dXNlcjpiYWQ=", session="bad")},
        {"get": a_get(tinyproxy, origin, session="none")},
        {"get": a_get(squid, origin, host="www.blocked.test")},
        {"get": a_get(squid, 1)},
    ]
    ok, bad, none, blocked, refused = client(steps)["results"]
    assert ok["status"] == 200
    assert (bad["phase"], bad["status"]) in {("answer", 401), ("answer", 407)}
    assert (none["phase"], none["status"]) == ("answer", 407)
    assert (blocked["phase"], blocked["status"], blocked["reason"]) == ("answer", 403, "Forbidden")
    assert (refused["phase"], refused["status"]) == ("answer", 503)
    assert "X-Squid-Error" in refused["headers"]


def test_a_socks_port_gets_no_connect_and_the_probe_knows_it(programs, pki, client, trusted):
    dante, origin = programs.dante(), programs.nginx(pki.good)
    [found] = client([{"get": {"url": f"https://localhost:{origin}/", "proxy": f"socks5://127.0.0.1:{dante}"}}])[
        "results"
    ]
    assert found["error"] == "NotSupported"
    port, target = Port("127.0.0.1", dante), Target("localhost", origin, "/")
    verdict = judge(try_both(port, target, PATIENCE), port, target)
    assert (verdict.kind, verdict.way) == ("works", "SOCKS5")


@pytest.mark.parametrize("proxy", PROXIES)
def test_the_probe_measures_a_proxys_timeout(programs, pki, trusted, proxy):
    port = Port("127.0.0.1", PROXIES[proxy](programs, pki, 2))
    target = Target("localhost", programs.nginx(pki.good), "/")
    # Squid leaves a SOCKS greeting without an answer: this is waited for to its end.
    assert judge(try_both(port, target, 5.0), port, target).way == "CONNECT"
    opener = partial(open_line, "CONNECT", port, target, PATIENCE, trusting_context())
    silence = measure_silence(opener, 60.0, PATIENCE, Wait(perf_counter, lambda left: None))
    assert (silence.closed_by, silence.dropped_silently) == ("peer", False)
    # Squid looks at its timers once a second.
    assert 0.9 <= silence.timeout < 20
