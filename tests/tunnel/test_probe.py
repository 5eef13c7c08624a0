from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import pytest
from blocking_servers import ConnectRelay, Origin, Says, SocksRelay, read_head

from scrapy_resiproxy.tunnel.probe import _try, judge, open_line, trusting_context, try_both
from scrapy_resiproxy.tunnel.probe_idle import Silence, Wait, Warmth, measure_silence, measure_warmth
from scrapy_resiproxy.tunnel.probe_report import advice, tell_silence, tell_warmth
from scrapy_resiproxy.tunnel.probe_wire import Port, StageFailed, Target

PATIENCE = 30.0
"""Seconds that the probe may wait for what comes."""
SHORT = 3.0
"""Seconds that it waits for what does not come; what comes before that must come within them."""


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


def verdict(server_port, origin_port, *, user=None, password="", patience=PATIENCE):
    port = Port("127.0.0.1", server_port, user, password)
    target = Target("localhost", origin_port, "/")
    return judge(try_both(port, target, patience), port, target)


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
    patience = SHORT if stop == "silence" else PATIENCE
    found = verdict(run(SocksRelay(origin.port, stop=stop)).port, origin.port, patience=patience)
    assert found.kind == "carries_nothing"
    assert "greets in SOCKS5" in found.sentence
    assert "carries nothing" in found.sentence


@pytest.mark.parametrize("answer", [b"", b"<html>", None], ids=["200 and silence", "200 and text", "200 and FIN"])
def test_a_port_that_grants_connect_and_carries_nothing_is_named(run, origin, answer):
    grant = b"HTTP/1.1 200 OK\r\n\r\n" + (answer or b"")
    server = run(Says(grant, then_close=answer is None))
    found = verdict(server.port, origin.port, patience=SHORT if answer == b"" else PATIENCE)
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
    assert found.sentence.endswith(
        "To trust it, set the environment variable SSL_CERT_FILE to its certificate, a PEM file."
    )


def test_a_certificate_for_another_name_is_no_proof(run, pki, trusted):
    other = run(Origin(pki.other))
    found = verdict(run(ConnectRelay(other.port)).port, other.port)
    assert found.kind == "intercepted"
    assert "ismatch" in found.sentence
    assert "SSL_CERT_FILE" not in found.sentence


def test_an_interceptor_that_vanishes_has_no_known_issuer(run, pki, trusted):
    foreign = run(Origin(pki.foreign))
    relay = run(ConnectRelay(foreign.port))
    serve = relay.serve

    def once(connection):
        relay.serve = read_head
        serve(connection)

    relay.serve = once
    # Only CONNECT is tried, so that SOCKS5 does not use up the one connection that works.
    attempt = _try("CONNECT", Port("127.0.0.1", relay.port), Target("localhost", foreign.port, "/"), PATIENCE)
    assert attempt.issuer == "unknown (answer: closed without an answer)"


@pytest.mark.parametrize(
    ("server", "patience", "told"),
    [
        (lambda: Says(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"), PATIENCE, "CONNECT failed at answer: 502 Bad Gateway"),
        (lambda: Says(b"SSH-2.0-x\r\n"), PATIENCE, "answer: not HTTP (garbage)"),
        (lambda: Says(None), SHORT, "CONNECT failed at answer: no answer"),
        (lambda: Says(b"", then_close=True), PATIENCE, "closed without an answer"),
        (lambda: SocksRelay(1, stop="reply"), PATIENCE, "SOCKS5 failed at answer: connection refused"),
    ],
    ids=["502", "ssh", "silent", "closes", "socks reply 5"],
)
def test_a_port_that_opens_nothing_is_told_apart(run, origin, server, patience, told):
    found = verdict(run(server()).port, origin.port, patience=patience)
    assert found.kind == "refused"
    assert told in found.sentence


def test_a_dead_port_is_named(origin):
    with socket.socket() as unheard:
        # Nobody else gets the port, and nobody listens.
        unheard.bind(("127.0.0.1", 0))
        found = verdict(unheard.getsockname()[1], origin.port)
    assert found.kind == "dead"
    assert "refused" in found.sentence
    port, target = Port("no-such-name.invalid", 1), Target("localhost", 1, "/")
    assert "does not resolve" in judge(try_both(port, target, PATIENCE), port, target).sentence


def test_an_origin_that_never_answers_is_no_proof(run, pki, trusted):
    mute = run(Origin(pki.good, answer=b""))
    assert verdict(run(ConnectRelay(mute.port)).port, mute.port, patience=SHORT).kind == "carries_nothing"


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


def opener_of(relay, origin_port):
    return partial(
        open_line,
        "CONNECT",
        Port("127.0.0.1", relay.port),
        Target("localhost", origin_port, "/"),
        PATIENCE,
        trusting_context(),
    )


def silence(relay, origin_port):
    """Measured up to an hour, which no test has: once a tunnel was closed, the waiting for others is called off."""
    return measure_silence(opener_of(relay, origin_port), 3600.0, PATIENCE, Wait(perf_counter, lambda left: None))


class TestSilence:
    """On the wire: what is read from a tunnel that says nothing."""

    def test_a_proxy_that_closes_idle_tunnels(self, run, origin):
        relay = run(ConnectRelay(origin.port, idle=1.0))
        found = silence(relay, origin.port)
        assert (found.closed_by, found.origin_closes, found.dropped_silently) == ("peer", False, False)
        assert found.timeout == found.closed_after
        assert relay.silences[0] / 2 < found.closed_after < relay.silences[0] + 20

    def test_an_origin_that_closes_first(self, run, pki, trusted):
        origin = run(Origin(pki.good, keep=1.0, last=b"HTTP/1.1 408 Request Timeout\r\n\r\n"))
        found = silence(run(ConnectRelay(origin.port)), origin.port)
        assert found.closed_by == "origin"
        assert found.origin_closes

    def test_an_origin_that_says_when_it_will_close(self, run, pki, trusted):
        origin = run(Origin(pki.good, answer=b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=7, max=9\r\n\r\n"))
        found = silence(run(ConnectRelay(origin.port, idle=1.0)), origin.port)
        assert (found.closed_by, found.promised) == ("peer", 7.0)

    def test_a_port_that_allows_one_tunnel_is_measured_by_that(self, run, origin):
        relay = run(ConnectRelay(origin.port, idle=1.0))
        serve = relay.serve

        def first_only(connection):
            if relay.connections == 1:
                serve(connection)

        relay.serve = first_only
        found = silence(relay, origin.port)
        assert (found.timeout, found.alive_after) == (found.closed_after, 0.0)

    def test_a_tunnel_that_is_dropped_silently_has_not_ended_and_is_dead(self, run, origin):
        relay = run(ConnectRelay(origin.port, drop=1.0))
        line = opener_of(relay, origin.port)()
        assert relay.dropped.wait(PATIENCE)
        assert line.wait_for_end(0) is None
        assert not line.alive(0.1)
        line.close()

    def test_a_silent_tunnel_that_is_not_closed_has_not_ended_and_is_alive(self, run, origin):
        line = opener_of(run(ConnectRelay(origin.port)), origin.port)()
        assert line.wait_for_end(0.1) is None
        assert line.wait_for_end(0) is None
        assert line.alive(PATIENCE)
        line.close()

    def test_what_the_origin_said_at_its_end_is_no_answer_to_a_later_request(self, run, pki, trusted):
        origin = run(Origin(pki.good, keep=0.1, last=b"HTTP/1.1 408 Request Timeout\r\n\r\n"))
        line = opener_of(run(ConnectRelay(origin.port)), origin.port)()
        assert line.wait_for_end(PATIENCE) == "origin"
        assert line.wait_for_end(0) is not None
        line.close()

    def test_no_first_tunnel_no_measurement(self, run, origin):
        with pytest.raises(StageFailed, match="502"):
            silence(run(Says(b"HTTP/1.1 502 Bad\r\n\r\n")), origin.port)


class Timeless(Wait):
    """Waits in no time: every thread has a time of its own, which begins with each tunnel that it opens.

    *off*: when the waiting is called off, for the watched tunnel is closed then. *late*: what a busy machine makes of a
    second.
    """

    def __init__(self, *, off=None, late=1.0):
        self._off, self._late = off, late
        self._own = threading.local()
        self.shown = []
        super().__init__(lambda: getattr(self._own, "now", 0.0), self.shown.append)

    def go_to(self, moment):
        self._own.now = moment

    def pause(self, seconds):
        end = self.clock() + self._late * seconds
        called_off = self._off is not None and end >= self._off
        self.go_to(self._off if called_off else end)
        return called_off


@dataclass
class Scripted:
    """A tunnel whose other side closes it at a time, or under a trial from a time on; or drops it silently after so
    long a silence, or at a time.
    """

    wait: Timeless
    closes: float | None = None
    closes_under_trial: float = float("inf")
    drops: float = float("inf")
    dies: float = float("inf")
    promised: float | None = None
    spoke: float = 0.0

    def wait_for_end(self, timeout):
        if timeout == 0:
            return "peer" if self.closes is not None and self.wait.clock() >= self.closes else None
        if self.closes is None:
            return None
        self.wait.go_to(self.closes)
        return "peer"

    def alive(self, patience):
        now = self.wait.clock()
        if now >= self.closes_under_trial:
            self.closes = now
        closed = self.closes is not None and now >= self.closes
        lives = not closed and now - self.spoke < self.drops and now < self.dies
        self.spoke = now
        return lives

    def close(self):
        pass


def scripted(first, others=None, *, late=1.0, longest=90.0):
    """Measure where the *first* tunnel, and each of the *others*, fare as scripted."""
    wait = Timeless(off=first.get("closes"), late=late)
    scripts = iter([first])

    def open_scripted():
        script = next(scripts, others or first)
        wait.go_to(0.0)
        return Scripted(wait, **script)

    return measure_silence(open_scripted, longest, 5.0, wait), wait


class TestScriptedSilence:
    """In no time: what follows from what was read."""

    def test_the_time_of_the_close_is_the_timeout(self):
        found, _ = scripted({"closes": 10.0, "promised": 60.0})
        assert found == Silence(10.0, "peer", 60.0, alive_after=pytest.approx(8.1), dead_after=None)
        assert (found.timeout, found.dropped_silently, found.origin_closes) == (10.0, False, False)

    def test_a_proxy_that_drops_silently_shows_between_two_trials(self):
        found, _ = scripted({"drops": 10.0})
        assert found == Silence(None, None, None, pytest.approx(8.1), pytest.approx(10.8))
        assert (found.timeout, found.dropped_silently) == (found.alive_after, True)

    def test_a_proxy_that_never_closes(self):
        found, _ = scripted({})
        assert found == Silence(None, None, None, alive_after=pytest.approx(90.0), dead_after=None)
        assert (found.timeout, found.dropped_silently) == (None, False)

    @pytest.mark.parametrize("late", [1.0, 1.3, 4.0])
    def test_on_a_busy_machine_trials_count_with_the_silence_that_they_had(self, late):
        found, _ = scripted({"drops": 10.0}, late=late)
        assert found.alive_after < 10.0 <= found.dead_after

    def test_tunnels_that_are_closed_a_little_before_the_watched_one_are_not_dropped_silently(self):
        found, _ = scripted({"closes": 8.3}, {"closes": 8.0})
        assert (found.timeout, found.dead_after, found.dropped_silently) == (8.3, None, False)

    def test_tunnels_that_are_closed_as_they_are_tried_are_not_dropped_silently(self):
        found, _ = scripted({"closes": 8.3}, {"closes_under_trial": 8.0})
        assert (found.timeout, found.dead_after, found.dropped_silently) == (8.3, None, False)

    def test_tunnels_that_close_only_when_they_are_used_are_dropped_silently(self):
        found, _ = scripted({"closes_under_trial": 10.0})
        assert (found.dead_after, found.dropped_silently) == (pytest.approx(10.8), True)

    def test_progress_is_shown(self):
        _, wait = scripted({}, longest=3.0)
        assert wait.shown == [3.0, 2.0, 1.0]

    @pytest.mark.parametrize(
        ("closed_by", "closed_after", "promised", "told"),
        [
            ("origin", 3.0, None, True),
            ("peer", 10.0, None, False),
            ("peer", 10.0, 60.0, False),
            ("peer", 60.0, 60.0, True),
            ("peer", 61.3, 60.0, True),
            ("peer", 59.0, 60.0, True),
            ("peer", 45.0, 60.0, False),
        ],
    )
    def test_who_closes_when_the_origin_promised_to_is_the_origin(self, closed_by, closed_after, promised, told):
        assert Silence(closed_after, closed_by, promised, 0.0, None).origin_closes is told


def warmth(timeout, longest=90.0, **script):
    wait = Timeless()
    return measure_warmth(lambda: Scripted(wait, **script), timeout, longest, 5.0, wait)


class TestWarmth:
    def test_pings_at_a_third_of_the_timeout_keep_a_tunnel_for_three_timeouts(self):
        found = warmth(9.0, drops=9.0)
        assert (found.interval, found.died) == (3.0, False)
        assert found.lived == pytest.approx(27.0)

    def test_it_takes_no_longer_than_was_told(self):
        assert warmth(60.0, longest=90.0).lived == pytest.approx(90.0)

    def test_a_lifetime_is_not_cured_by_pings(self):
        assert warmth(9.0, dies=10.0) == Warmth(3.0, pytest.approx(12.0), died=True)


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
