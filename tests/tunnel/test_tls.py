from __future__ import annotations

import ssl

import pytest
from OpenSSL import SSL
from tunnel_kit import Peer, TlsServer, a_route, an_endpoint, dial, server_context, shake_hands
from twisted.internet.task import Clock

from scrapy_resiproxy.tunnel.errors import TunnelFailed
from scrapy_resiproxy.tunnel.route import TunnelKey
from scrapy_resiproxy.tunnel.tls import SharedTls, Tickets, TlsOptions, make_context

OK = b"HTTP/1.1 200 OK\r\n\r\n"


def one_connection(shared, context, route, *, how="FIN"):
    """Open, use and lose one tunnel; return its TLS client and the bytes it took to open."""
    peer = Peer(Clock())
    endpoint = an_endpoint(peer, route=route, shared=shared)
    result = dial(endpoint)
    server = TlsServer(context)
    peer.line.take()
    peer.sends(OK)
    shake_hands(peer, server)
    result[0].transport.write(b"x")
    shake_hands(peer, server)
    if how == "close_notify":
        peer.sends(server.goodbye())
    peer.closes(clean=how != "RST")
    return endpoint.tls, endpoint.traffic.total


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("how", ["FIN", "RST", "close_notify"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_reconnect_resumes_however_the_last_one_ended(pki, trusted, version, how, verify):
    context = server_context(pki.good)
    context.maximum_version = version
    shared = SharedTls(TlsOptions(verify=verify))
    openings = [one_connection(shared, context, a_route(), how=how) for _ in range(3)]
    assert [tls.resumed for tls, _ in openings] == [False, True, True]
    full, *resumed = [size for _, size in openings]
    assert max(resumed) < full / 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"session": "s2"}, id="another session"),
        pytest.param({"host": "localhost"}, id="another origin"),
    ],
)
def test_a_ticket_is_never_shown_under_another_key(pki, other):
    shared, context = SharedTls(TlsOptions()), server_context(pki.good)
    one_connection(shared, context, a_route())
    tls, _ = one_connection(shared, context, a_route(**other))
    assert not tls.resumed


def test_a_forgotten_session_starts_afresh(pki):
    shared, context = SharedTls(TlsOptions()), server_context(pki.good)
    one_connection(shared, context, a_route())
    shared.tickets.forget("s1")
    shared.tickets.forget("never seen")
    tls, _ = one_connection(shared, context, a_route())
    assert not tls.resumed


def test_an_origin_that_refuses_the_ticket_gets_a_full_handshake(pki):
    shared = SharedTls(TlsOptions())
    one_connection(shared, server_context(pki.good), a_route())
    tls, _ = one_connection(shared, server_context(pki.good), a_route())
    assert not tls.resumed


def test_all_tunnels_share_one_context(pki):
    shared, key = SharedTls(TlsOptions(verify=True)), TunnelKey("p", "s", "o")
    contexts = {id(shared.client("origin.test", key).clientConnectionForTLS(None).get_context()) for _ in range(3)}
    assert contexts == {id(shared.context)}


def negotiated(pki, options, *, lowest=None, highest=None):
    context = server_context(pki.good)
    if lowest:
        context.minimum_version = lowest
    if highest:
        context.maximum_version = highest
    peer, server = Peer(Clock()), TlsServer(context)
    result = dial(an_endpoint(peer, shared=SharedTls(options)))
    peer.line.take()
    peer.sends(OK)
    shake_hands(peer, server)
    if result[0].__class__.__name__ == "Failure":
        return result[0].value
    return server.tls.version()


def test_version_limits_hold(pki):
    v12, v13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert negotiated(pki, TlsOptions()) == "TLSv1.3"
    assert negotiated(pki, TlsOptions(max_version="TLSv1.2")) == "TLSv1.2"
    assert negotiated(pki, TlsOptions(min_version="TLSv1.2", max_version="TLSv1.3")) == "TLSv1.3"
    too_high = negotiated(pki, TlsOptions(min_version="TLSv1.3"), highest=v12)
    assert isinstance(too_high, TunnelFailed)
    assert too_high.reason == "tls_error"
    too_low = negotiated(pki, TlsOptions(min_version="TLSv1.1", max_version="TLSv1.2"), lowest=v13)
    assert too_low.reason == "tls_error"


def test_ciphers_are_those_asked_for():
    context = make_context(TlsOptions(ciphers="ECDHE-RSA-AES128-GCM-SHA256", max_version="TLSv1.2"))
    offered = [c for c in SSL.Connection(context, None).get_cipher_list() if not c.startswith("TLS_")]
    assert offered == ["ECDHE-RSA-AES128-GCM-SHA256"]


def test_session_keys_are_logged_on_request(pki, tmp_path):
    log = tmp_path / "keys.log"
    negotiated(pki, TlsOptions(keylog=str(log)))
    assert b"CLIENT_TRAFFIC_SECRET_0" in log.read_bytes()


def test_tickets_are_bounded_oldest_first():
    tickets = Tickets()
    for n in range(600):
        tickets.put(TunnelKey("p", f"s{n}", "o"), n)
    assert tickets.get(TunnelKey("p", "s99", "o")) is None
    assert tickets.get(TunnelKey("p", "s100", "o")) == 100
    for n in range(60):
        tickets.put(TunnelKey("p", "s599", f"o{n}"), n)
    assert tickets.get(TunnelKey("p", "s599", "o")) is None
    assert tickets.get(TunnelKey("p", "s599", "o59")) == 59


def test_the_route_shows_no_credential():
    assert "Basic" not in repr(a_route())
