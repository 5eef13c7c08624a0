from __future__ import annotations

import socket
import struct
from functools import partial
from time import perf_counter

import pytest
from blocking_servers import ConnectRelay, Origin, Says, SocksRelay, read_head

from scrapy_resiproxy.tunnel.probe import _try, judge, open_line, trusting_context, try_both
from scrapy_resiproxy.tunnel.probe_idle import Silence, Warmth, measure_silence, measure_warmth
from scrapy_resiproxy.tunnel.probe_report import advice, tell_silence, tell_warmth
from scrapy_resiproxy.tunnel.probe_wire import Port, StageFailed, Target

SOON = 0.5
"""Seconds that the probe waits for an answer here."""


@pytest.fixture
def run(request):
    """Start servers that end with the test."""

    def start(server):
        request.addfinalizer(server.close)
        return server

    return start


@pytest.fixture
def origin(run, pki, trusted):
    return run(Origin(pki.good))


def verdict(server_port, origin_port, *, user=None, password="", host="localhost"):
    port = Port("127.0.0.1", server_port, user, password)
    target = Target(host, origin_port, "/")
    return judge(try_both(port, target, SOON), port, target)


def test_a_connect_proxy_works(run, origin):
    found = verdict(run(ConnectRelay(origin.port)).port, origin.port)
    assert (found.kind, found.way) == ("works", "CONNECT")
    assert "works over CONNECT: TLS verified, HTTP answered" in found.sentence


@pytest.mark.parametrize(
    "bound", [b"\x01\0\0\0\0\0\0", b"\x04" + bytes(18), b"\x03\x04name\0\0"], ids=["ipv4", "ipv6", "name"]
)
def test_a_socks_proxy_works(run, origin, bound):
    found = verdict(run(SocksRelay(origin.port, bound=bound)).port, origin.port)
    assert (found.kind, found.way) == ("works", "SOCKS5")


def test_logins_are_shown_to_both(run, origin):
    socks = run(SocksRelay(origin.port, login=(b"user", b"pass")))
    connect = run(ConnectRelay(origin.port, login=b"Basic dXNlcjpwYXNz"))
    assert verdict(socks.port, origin.port, user="user", password="pass").way == "SOCKS5"
    assert verdict(connect.port, origin.port, user="user", password="pass").way == "CONNECT"


@pytest.mark.parametrize("stop", ["silence", "fin", "text"])
def test_a_port_that_greets_in_socks_and_carries_nothing_is_named(run, origin, stop):
    found = verdict(run(SocksRelay(origin.port, stop=stop)).port, origin.port)
    assert found.kind == "carries_nothing"
    assert "greets in SOCKS5" in found.sentence
    assert "carries nothing" in found.sentence


@pytest.mark.parametrize("answer", [b"", b"<html>", None], ids=["200 and silence", "200 and text", "200 and FIN"])
def test_a_port_that_grants_connect_and_carries_nothing_is_named(run, origin, answer):
    grant = b"HTTP/1.1 200 OK\r\n\r\n" + (answer or b"")
    found = verdict(run(Says(grant, then_close=answer is None)).port, origin.port)
    assert (found.kind, found.way) == ("carries_nothing", "CONNECT")


def test_wrong_credentials_are_named(run, origin):
    connect = run(ConnectRelay(origin.port, login=b"Basic other"))
    found = verdict(connect.port, origin.port, user="user", password="canaryPass99")
    assert found.kind == "credentials"
    assert "canaryPass99" not in found.sentence
    socks = run(SocksRelay(origin.port, login=(b"a", b"b")))
    assert verdict(socks.port, origin.port).kind == "credentials"
    assert verdict(socks.port, origin.port, user="a", password="c").kind == "credentials"
    assert verdict(run(SocksRelay(origin.port, stop="method")).port, origin.port).kind == "credentials"


def test_intercepted_tls_is_named_with_its_issuer(run, pki, trusted):
    foreign = run(Origin(pki.foreign))
    found = verdict(run(ConnectRelay(foreign.port)).port, foreign.port)
    assert found.kind == "intercepted"
    assert "Its issuer: CN=Interceptor" in found.sentence


def test_a_certificate_for_another_name_is_no_proof(run, pki, trusted):
    other = run(Origin(pki.other))
    assert verdict(run(ConnectRelay(other.port)).port, other.port).kind == "intercepted"


def test_an_interceptor_that_vanishes_has_no_known_issuer(run, pki, trusted):
    foreign = run(Origin(pki.foreign))
    relay = run(ConnectRelay(foreign.port))
    serve = relay.serve

    def once(connection):
        relay.serve = read_head
        serve(connection)

    relay.serve = once
    # Only CONNECT is tried, so that SOCKS5 does not use up the one connection that works.
    attempt = _try("CONNECT", Port("127.0.0.1", relay.port), Target("localhost", foreign.port, "/"), SOON)
    assert attempt.issuer == "unknown (answer: closed without an answer)"


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (lambda: Says(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"), "CONNECT failed at answer: 502 Bad Gateway"),
        (lambda: Says(b"SSH-2.0-x\r\n"), "answer: not HTTP (garbage)"),
        (lambda: Says(None), "CONNECT failed at answer: no answer"),
        (lambda: Says(b"", then_close=True), "closed without an answer"),
        (lambda: SocksRelay(1, stop="reply"), "SOCKS5 failed at answer: connection refused"),
    ],
    ids=["502", "ssh", "silent", "closes", "socks reply 5"],
)
def test_a_port_that_opens_nothing_is_told_apart(run, origin, server, told):
    found = verdict(run(server()).port, origin.port)
    assert found.kind == "refused"
    assert told in found.sentence


def test_a_dead_port_is_named(origin):
    with socket.create_server(("127.0.0.1", 0)) as free:
        unused = free.getsockname()[1]
    found = verdict(unused, origin.port)
    assert found.kind == "dead"
    assert "refused" in found.sentence
    port, target = Port("no-such-name.invalid", 1), Target("localhost", 1, "/")
    assert "does not resolve" in judge(try_both(port, target, SOON), port, target).sentence


def test_an_origin_that_never_answers_is_no_proof(run, pki, trusted):
    mute = run(Origin(pki.good, answer=b""))
    assert verdict(run(ConnectRelay(mute.port)).port, mute.port).kind == "carries_nothing"


@pytest.mark.parametrize(
    ("url", "host", "port", "user", "password"),
    [
        ("http://u%40x:p%3Aw@h.test:8080", "h.test", 8080, "u@x", "p:w"),
        ("h.test:8080", "h.test", 8080, None, ""),
        ("socks5://KEY@[::1]:1080/", "::1", 1080, "KEY", ""),
    ],
)
def test_proxy_urls_are_read(url, host, port, user, password):
    found = Port.parse(url)
    assert (found.host, found.port, found.user, found.password) == (host, port, user, password)
    assert "p:w" not in repr(found)


@pytest.mark.parametrize("url", ["http://u:canaryPass99@h.test", "h.test:99999", "h.test:port", ""])
def test_a_bad_proxy_url_is_refused_without_repeating_it(url):
    with pytest.raises(ValueError, match="must be") as caught:
        Port.parse(url)
    assert "canaryPass99" not in str(caught.value)


def test_the_target_must_be_https():
    with pytest.raises(ValueError, match="must be an https URL, not 'http://x/'"):
        Target.parse("http://x/")
    assert Target.parse("https://x") == Target("x", 443, "/")


def silence(run, relay, origin_port, longest=1.5):
    opener = partial(
        open_line,
        "CONNECT",
        Port("127.0.0.1", relay.port),
        Target("localhost", origin_port, "/"),
        SOON,
        trusting_context(),
    )
    return opener, measure_silence(opener, longest, SOON, perf_counter, lambda left: None)


class TestSilence:
    def test_a_proxy_that_closes_idle_tunnels(self, run, origin):
        opener, found = silence(run, run(ConnectRelay(origin.port, idle=0.6)), origin.port)
        assert 0.5 < found.closed_after < 1.5
        assert (found.closed_by, found.origin_closes, found.dropped_silently) == ("peer", False, False)
        assert found.timeout == found.closed_after
        warmth = measure_warmth(opener, found.timeout, 2.0, SOON, perf_counter, lambda left: None)
        assert not warmth.died
        assert warmth.lived >= 1.5

    def test_a_proxy_that_drops_silently(self, run, origin):
        _, found = silence(run, run(ConnectRelay(origin.port, drop=0.6)), origin.port)
        assert found.dropped_silently
        assert found.closed_after is None
        assert 0 < found.alive_after < found.dead_after
        assert found.timeout == found.alive_after

    def test_a_proxy_that_never_closes(self, run, origin):
        _, found = silence(run, run(ConnectRelay(origin.port)), origin.port, longest=0.6)
        assert (found.timeout, found.dead_after) == (None, None)
        assert found.alive_after == pytest.approx(0.6)

    def test_an_origin_that_closes_first(self, run, pki, trusted):
        origin = run(Origin(pki.good, keep=0.5, last=b"HTTP/1.1 408 Request Timeout\r\n\r\n"))
        _, found = silence(run, run(ConnectRelay(origin.port)), origin.port)
        assert found.closed_by == "origin"
        assert found.origin_closes

    def test_an_origin_that_says_when_it_will_close(self, run, pki, trusted):
        origin = run(Origin(pki.good, answer=b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\n\r\n"))
        _, found = silence(run, run(ConnectRelay(origin.port, idle=0.95)), origin.port)
        assert (found.closed_by, found.promised, found.origin_closes) == ("peer", 1.0, True)

    def test_a_lifetime_is_not_cured_by_pings(self, run, origin):
        opener, found = silence(run, run(ConnectRelay(origin.port, lifetime=0.6)), origin.port)
        warmth = measure_warmth(opener, found.timeout, 3.0, SOON, perf_counter, lambda left: None)
        assert warmth.died
        assert 0.5 < warmth.lived < 1.8

    def test_a_port_that_allows_one_tunnel_is_measured_by_that(self, run, origin):
        relay = run(ConnectRelay(origin.port, idle=0.5))
        serve = relay.serve

        def first_only(connection):
            if relay.connections == 1:
                serve(connection)

        relay.serve = first_only
        _, found = silence(run, relay, origin.port)
        assert 0.4 < found.closed_after < 1.5
        assert found.alive_after == 0.0

    def test_progress_is_shown(self, run, origin):
        relay, shown = run(ConnectRelay(origin.port)), []
        opener = partial(
            open_line,
            "CONNECT",
            Port("127.0.0.1", relay.port),
            Target("localhost", origin.port, "/"),
            SOON,
            trusting_context(),
        )
        measure_silence(opener, 0.3, SOON, perf_counter, shown.append)
        assert 0 < shown[-1] <= shown[0] <= 0.3

    def test_no_first_tunnel_no_measurement(self, run, origin):
        with pytest.raises(StageFailed, match="502"):
            silence(run, run(Says(b"HTTP/1.1 502 Bad\r\n\r\n")), origin.port)


CLOSES = Silence(10.01, "peer", None, 8.0, None)
DROPS = Silence(None, None, None, 8.1, 10.8)
OPEN = Silence(None, None, None, 90.0, None)
BY_ORIGIN = Silence(5.0, "peer", 5.0, 2.0, None)


@pytest.mark.parametrize(
    ("silence", "warmth", "lines"),
    [
        (CLOSES, Warmth(3.3, 30.0, False), ["RESIPROXY_TUNNEL_IDLE_TIMEOUT = 10.0"]),
        (DROPS, Warmth(2.7, 24.0, False), ["RESIPROXY_TUNNEL_IDLE_TIMEOUT = 8.1"]),
        (OPEN, None, ["# No idle timeout was met: RESIPROXY_TUNNEL_IDLE_TIMEOUT may stay unset."]),
        (
            CLOSES,
            Warmth(3.3, 12.0, True),
            [
                "RESIPROXY_TUNNEL_IDLE_TIMEOUT = 10.0",
                "RESIPROXY_TUNNEL_PING_PATH = None  # pings did not keep it",
            ],
        ),
    ],
    ids=["closes", "drops", "stays open", "pings do not help"],
)
def test_the_settings_to_paste_follow_from_what_was_measured(silence, warmth, lines):
    assert advice("CONNECT", silence, warmth) == ["", "# settings.py", *lines]


def test_a_socks_port_is_sent_to_another_handler():
    assert "HttpxDownloadHandler" in advice("SOCKS5", CLOSES, None)[-1]


def test_nothing_that_stays_open_is_closed_by_the_origin():
    assert not OPEN.origin_closes


def test_a_port_that_resets_the_greeting_is_refused(run, origin):
    class Resets(Says):
        def serve(self, connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.recv(1)

    assert "reset" in verdict(run(Resets(None)).port, origin.port).sentence


def test_an_origin_that_says_goodbye_instead_of_answering_is_no_proof(run, pki, trusted):
    origin = run(Origin(pki.good, keep=0.1, answer=b""))
    found = verdict(run(ConnectRelay(origin.port)).port, origin.port)
    assert found.kind == "carries_nothing"
    assert "no HTTP answer" in found.sentence


def test_what_was_measured_is_told_in_words():
    assert tell_silence(CLOSES, 90) == ["A silent tunnel is closed after 10.01 s."]
    assert "works after 8.1 s and no longer after 10.8 s" in tell_silence(DROPS, 90)[0]
    assert "is still open, and works, after 90.0 s of 90" in tell_silence(OPEN, 90)[0]
    assert "(it promises 5 s)" in tell_silence(BY_ORIGIN, 90)[0]
    assert "The origin closes" in tell_silence(Silence(5.0, "origin", None, 2.0, None), 90)[0]
    assert "pings keep it" in tell_warmth(Warmth(3.3, 30.0, False), CLOSES)
    assert "died after 12.0 s all the same, against 10.0 s" in tell_warmth(Warmth(3.3, 12.0, True), CLOSES)
