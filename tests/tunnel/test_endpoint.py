from __future__ import annotations

import base64
import pickle
import ssl
import traceback

import pytest
from tunnel_kit import (
    CANARY,
    LOGIN,
    App,
    Peer,
    TlsServer,
    a_route,
    an_endpoint,
    dial,
    server_context,
    shake_hands,
)
from twisted.internet.defer import CancelledError
from twisted.internet.error import (
    ConnectionRefusedError,
    DNSLookupError,
    NoRouteError,
    TCPTimedOutError,
    TimeoutError,
)
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from scrapy_resiproxy.tunnel.errors import TunnelFailed

OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
FIN, RST, SILENCE = "FIN", "RST", "SILENCE"

REFUSALS = [
    (status, keep)
    for status in (407, 401, 403, 429, 500, 502, 503, 504, 302, 404)
    for keep in ("keeps the connection", "closes")
]

# What the proxy does after it has read the CONNECT, and what must come of it: phase, status, reason.
FAILURES = [
    pytest.param([FIN], "answer", None, "closed", id="FIN instead of an answer"),
    pytest.param([RST], "answer", None, "reset", id="RST instead of an answer"),
    pytest.param([SILENCE], "answer", None, "timeout", id="never answers"),
    pytest.param([b"HTTP/1.1 2", SILENCE], "answer", None, "timeout", id="half a line, then silence"),
    pytest.param([b"HTTP/1.1 407 Auth\r\n", FIN], "answer", 407, "closed", id="half a refusal, then FIN"),
    pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n", SILENCE], "answer", None, "timeout", id="only 100"),
    pytest.param([b"HTTP/1.1 101 Switching\r\n\r\n"], "answer", 101, "Switching", id="101"),
    pytest.param([b"HTTP/1.1 451 " + b"x" * 3000 + b"\r\n\r\n"], "answer", 451, "x" * 200, id="451 with 3 kB"),
    pytest.param([OK[:-2] + b"A: " + b"x" * 100_000 + b"\r\n\r\n"], "answer", 200, "head_too_long", id="100 kB"),
    pytest.param([b"HTTP/1.1 200 OK\r\nA: "] + [b"x" * 9000] * 9, "answer", 200, "head_too_long", id="endless"),
    pytest.param([b"SSH-2.0-OpenSSH_9\r\n"], "answer", None, "garbage", id="SSH banner"),
    pytest.param([b"hello\r\n\r\n"], "answer", None, "garbage", id="text garbage"),
    pytest.param([b"\x00\xff\r\n\r\n"], "answer", None, "garbage", id="binary garbage"),
    pytest.param([b"\x05\xff"], "answer", None, "garbage", id="SOCKS answer"),
    pytest.param([OK, FIN], "tls", None, "closed", id="200, then FIN"),
    pytest.param([OK, RST], "tls", None, "reset", id="200, then RST"),
    pytest.param([OK, SILENCE], "tls", None, "timeout", id="200, then silence"),
    pytest.param([OK + b"<html>hi</html>"], "tls", None, "not_tls", id="200 with a body in the same segment"),
    pytest.param([OK, b"<html>hi</html>"], "tls", None, "not_tls", id="200 with a body in a later segment"),
    pytest.param([OK, b"HTTP/1.1 400 Bad\r\n\r\n"], "tls", None, "not_tls", id="200, then HTTP"),
    pytest.param([OK, b"\x15\x03\x01\x00\x02\x02\x28"], "tls", None, "tls_error", id="200, then a TLS alert"),
    pytest.param([b"HTTP/1.1 201 Created\r\n\r\n", FIN], "tls", None, "closed", id="201 is a grant, then FIN"),
]


def play(script, *, timeout=20.0):
    peer = Peer(clock := Clock())
    result = dial(an_endpoint(peer, timeout=timeout))
    for step in script:
        if step is FIN or step is RST:
            peer.closes(clean=step is FIN)
        elif step is SILENCE:
            clock.advance(timeout - 0.01)
            assert result == []
            clock.advance(0.02)
        else:
            peer.sends(step)
        clock.advance(0)
    return clock, peer, result


@pytest.mark.parametrize(("script", "phase", "status", "reason"), FAILURES)
def test_every_failure_is_named_and_closes_the_socket(script, phase, status, reason):
    clock, peer, [failure] = play(script)
    error = failure.value
    assert isinstance(error, TunnelFailed)
    assert peer.line.lost, "the socket was left open"
    assert (error.phase, error.status, error.reason) == (phase, status, reason)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize(("script", "phase", "status", "reason"), FAILURES)
def test_only_silence_is_waited_for(script, phase, status, reason):
    clock, _, [_] = play(script)
    assert (clock.seconds() >= 20.0) == (reason == "timeout")


@pytest.mark.parametrize(("status", "keep"), REFUSALS)
def test_a_refusal_brings_status_headers_and_body(status, keep):
    head = f"HTTP/1.1 {status} Because\r\nRetry-After: 9\r\nX-Vendor-Error: bad_session\r\n\r\nsee docs"
    _, peer, [failure] = play([head.encode()] + ([] if keep.startswith("keeps") else [FIN]))
    error = failure.value
    assert (error.phase, error.status, error.reason) == ("answer", status, "Because")
    assert error.headers == [(b"Retry-After", b"9"), (b"X-Vendor-Error", b"bad_session")]
    assert error.body == b"see docs"
    assert peer.line.disconnecting


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError("no"), "refused"),
        (DNSLookupError("proxy.test"), "dns"),
        (TimeoutError("slow"), "timeout"),
        (TCPTimedOutError("slow"), "timeout"),
        (NoRouteError("no way"), "unreachable"),
    ],
)
def test_a_proxy_that_cannot_be_reached_fails_in_connect(error, reason):
    [failure] = dial(an_endpoint(Peer(Clock(), connects=error)))
    assert (failure.value.phase, failure.value.reason) == ("connect", reason)
    assert failure.value.__cause__ is error


def test_a_blackhole_fails_at_the_timeout_and_the_attempt_is_cancelled():
    peer = Peer(clock := Clock(), connects=False)
    result = dial(an_endpoint(peer, timeout=3))
    clock.advance(3)
    assert (result[0].value.phase, result[0].value.reason) == ("connect", "timeout")
    assert peer.cancelled == 1
    assert "within 3 s" in str(result[0].value)


def test_an_answer_after_the_timeout_finds_nobody():
    clock, peer, [failure] = play([SILENCE])
    peer.line.protocol.dataReceived(OK)
    peer.closes()
    assert failure.value.reason == "timeout"
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        ("origin.test", 443, b"CONNECT origin.test:443 HTTP/1.1\r\nHost: origin.test:443\r\n"),
        ("192.0.2.1", 8443, b"CONNECT 192.0.2.1:8443 HTTP/1.1\r\nHost: 192.0.2.1:8443\r\n"),
        ("::1", 443, b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"),
    ],
)
def test_the_connect_line_is_well_formed(host, port, line):
    peer = Peer(Clock())
    dial(an_endpoint(peer, route=a_route(host, port)))
    assert peer.line.take() == line + b"Proxy-Authorization: " + LOGIN + b"\r\n\r\n"


def test_no_credentials_no_header():
    peer = Peer(Clock())
    dial(an_endpoint(peer, route=a_route(authorization=None)))
    assert b"Authorization" not in peer.line.take()


GRANTS = [
    pytest.param([OK], id="plain"),
    pytest.param([OK[i : i + 1] for i in range(len(OK))], id="one byte at a time"),
    pytest.param([b"HTTP/1.0 200 OK\r\nVia: x\r\nContent-Length: 99\r\n\r\n"], id="headers that mean nothing"),
    pytest.param([b"HTTP/1.1 200\r\n\r\n"], id="no reason phrase"),
    pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], id="204"),
    pytest.param([b"HTTP/1.1 201 Created\r\n\r\n"], id="201"),
    pytest.param([b"HTTP/1.1 200 OK\n\n"], id="LF only"),
    pytest.param([b"HTTP/1.1 200 OK\nA: b\r\n\r\n"], id="LF inside"),
    pytest.param([b"HTTP/2 200 OK\r\n\r\n"], id="HTTP/2"),
    pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n", OK], id="100, then 200"),
]


def connect_through(pki, pem, script=(OK,), *, verify=False, host="origin.test", version=None):
    peer = Peer(clock := Clock())
    context = server_context(pem)
    if version is not None:
        context.maximum_version = version
    server = TlsServer(context)
    result = dial(an_endpoint(peer, route=a_route(host), verify=verify))
    peer.line.take()
    for step in script:
        peer.sends(step)
    shake_hands(peer, server)
    return clock, peer, server, result


@pytest.mark.parametrize("script", GRANTS)
def test_any_way_of_saying_yes_opens_the_tunnel(pki, script):
    clock, peer, server, [app] = connect_through(pki, pki.good, script)
    app.transport.write(b"ping")
    shake_hands(peer, server)
    assert server.plain == b"ping"
    peer.sends(server.say(b"pong"))
    assert app.got == b"pong"
    assert clock.getDelayedCalls() == []


def test_the_application_sees_the_end_of_the_tunnel(pki):
    _, peer, _, [app] = connect_through(pki, pki.good)
    peer.closes()
    assert isinstance(app, App)
    assert app.lost is not None


def test_every_byte_on_the_wire_is_counted(pki):
    peer = Peer(clock := Clock())
    endpoint = an_endpoint(peer)
    result = dial(endpoint)
    sent = len(peer.line.value())
    clock.advance(5)
    peer.sends(OK)
    assert endpoint.traffic.down == len(OK)
    assert endpoint.traffic.up == len(peer.line.value()) > sent
    assert endpoint.traffic.last_at == 5
    assert result == []


@pytest.mark.usefixtures("trusted")
class TestVerifying:
    def test_a_good_certificate_is_taken(self, pki):
        assert isinstance(connect_through(pki, pki.good, verify=True)[3][0], App)

    def test_a_good_certificate_for_an_address_is_taken(self, pki):
        assert isinstance(connect_through(pki, pki.good, verify=True, host="127.0.0.1")[3][0], App)
        assert isinstance(connect_through(pki, pki.good, verify=True, host="::1")[3][0], App)

    @pytest.mark.parametrize(
        ("pem", "host"),
        [
            ("foreign", "origin.test"),
            ("other", "origin.test"),
            ("good", "bad_name.test"),
            ("good", "192.0.2.9"),
        ],
    )
    def test_a_bad_one_is_refused(self, pki, pem, host):
        _, peer, _, result = connect_through(pki, getattr(pki, pem), verify=True, host=host)
        assert (result[0].value.phase, result[0].value.reason) == ("tls", "certificate")
        assert peer.line.disconnecting


@pytest.mark.usefixtures("trusted")
def test_what_an_impostor_says_is_not_heard(pki):
    clock = Clock()
    context = server_context(pki.other)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    peer, server = Peer(clock), TlsServer(context)
    result = dial(an_endpoint(peer, verify=True))
    peer.line.take()
    peer.sends(OK)
    while not result:
        answer = server.feed(peer.line.take())
        # With TLS 1.2 the server is done first, and may speak in the same breath.
        peer.sends(answer + (server.say(b"HTTP/1.1 200 OK\r\n\r\n") if server._shaken else b""))
    clock.advance(0)
    assert result[0].value.reason == "certificate"


@pytest.mark.parametrize("pem", ["foreign", "other"])
def test_without_verifying_a_bad_certificate_only_warns_once(pki, pem, caplog):
    clock = Clock()
    shared = None
    for _ in range(2):
        peer, server = Peer(clock), TlsServer(server_context(getattr(pki, pem)))
        endpoint = an_endpoint(peer, shared=shared)
        shared = endpoint.tls._shared
        result = dial(endpoint)
        peer.line.take()
        peer.sends(OK)
        shake_hands(peer, server)
        assert isinstance(result[0], App)
    assert len(caplog.records) == (pem == "other")


def test_cancelling_closes_the_socket_in_every_phase(pki):
    for script in ([], [b"HTTP/1.1 2"], [OK]):
        peer = Peer(clock := Clock())
        result = []
        d = an_endpoint(peer).connect(Factory.forProtocol(App)).addBoth(result.append)
        for step in script:
            peer.sends(step)
        d.cancel()
        assert result[0].check(CancelledError)
        assert peer.line.disconnecting
        clock.advance(0)
        assert peer.line.lost
        assert clock.getDelayedCalls() == []


def test_a_failure_survives_pickling():
    _, _, [failure] = play([b"HTTP/1.1 429 Slow down\r\nRetry-After: 3\r\n\r\nbody"])
    error = failure.value
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is TunnelFailed
    for name in ("phase", "status", "reason", "headers", "body", "args"):
        assert getattr(copy, name) == getattr(error, name)


def test_a_failure_is_an_oserror_and_names_both_ends():
    _, _, [failure] = play([b"HTTP/1.1 407 Auth\r\n\r\n"])
    assert isinstance(failure.value, OSError)
    assert str(failure.value) == (
        "Tunnel through proxy.test:8080 to origin.test:443 failed: the proxy answered 407 Auth"
    )


def test_no_credential_is_repeated_even_if_the_proxy_echoes_it():
    token = LOGIN.split()[1]
    echo = b"HTTP/1.1 407 no customer-7:" + CANARY.encode() + b"\r\nX: " + token + b"\r\n\r\n" + LOGIN
    _, _, [failure] = play([echo])
    error = failure.value
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error)) + str(Failure(error))
    assert CANARY not in shown
    assert token.decode() not in shown
    assert "407 no ***:***" in str(error)


@pytest.mark.parametrize("length", range(170, 215))
def test_what_is_cut_leaves_no_half_of_a_credential(length):
    phrase = (b"x" * length + b" customer-7:" + CANARY.encode()).ljust(300, b"y")
    body = b"x" * (1800 + length) + CANARY.encode() + b"y" * 300
    _, _, [failure] = play([b"HTTP/1.1 502 " + phrase + b"\r\n\r\n" + body])
    for text in (failure.value.reason, str(failure.value), failure.value.body.decode()):
        assert CANARY[:4] not in text
    assert len(failure.value.reason) <= 200
    assert len(failure.value.body) <= 2000


@pytest.mark.parametrize("form", ["p%C3%A4ss%2Fw", "p%c3%a4ss%2fw", "päss/w"])
def test_a_credential_is_known_in_the_forms_that_programs_write(form):
    login = b"Basic " + base64.b64encode("user:päss/w".encode())
    peer = Peer(Clock())
    result = dial(an_endpoint(peer, route=a_route(authorization=login)))
    peer.sends(b"HTTP/1.1 407 no " + form.encode() + b"\r\n\r\n")
    assert result[0].value.reason == "no ***"


@pytest.mark.parametrize("authorization", [b"Basic !!notbase64!!", b"Bearer", None])
def test_an_odd_authorization_is_no_reason_to_break(authorization):
    peer = Peer(Clock())
    result = dial(an_endpoint(peer, route=a_route(authorization=authorization)))
    peer.sends(b"HTTP/1.1 407 Auth\r\n\r\n")
    assert result[0].value.status == 407
