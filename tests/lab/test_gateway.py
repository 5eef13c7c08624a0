from __future__ import annotations

import socket
import ssl
import struct
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

import pytest

from scrapy_resiproxy.lab import Ok, running_lab


@pytest.fixture
def own(make_clients):
    """A lab of the test's own, whose gateway it may spoil."""
    with running_lab({"shop.example": Ok()}) as lab:
        yield make_clients(lab)


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    answer = HTTPResponse(sock)
    answer.begin()
    return answer.status, answer.read()


def test_https_through_connect_verifies_against_the_labs_ca(clients):
    connection = clients.tunnel("ok.example")
    connection.request("GET", "/item/1")
    certificate = connection.sock.getpeercert()
    connection.getresponse().read()
    connection.close()
    assert ("DNS", "ok.example") in certificate["subjectAltName"]


def test_another_ca_does_not_verify(clients):
    connection = clients.tunnel("ok.example")
    connection._context = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.connect()
    connection.close()


def test_the_https_site_has_a_certificate_for_the_loopback_address_too(clients):
    url = urlsplit(clients.lab.https)
    context = ssl.create_default_context(cafile=str(clients.lab.ca))
    with (
        socket.create_connection((url.hostname, url.port), timeout=60) as sock,
        context.wrap_socket(sock, server_hostname=url.hostname) as tls,
    ):
        tls.sendall(b"GET /ok.example/item/1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert tls.recv(12) == b"HTTP/1.1 200"


def test_a_name_that_is_not_the_labs_gets_no_certificate(clients):
    url = urlsplit(clients.lab.https)
    context = ssl.create_default_context(cafile=str(clients.lab.ca))
    with socket.create_connection((url.hostname, url.port), timeout=60) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock, server_hostname="bank.example")


@pytest.mark.parametrize("host", ["example.com", "localhost", "127.0.0.1", "lab.control", "ok.example.evil"])
def test_a_host_that_the_lab_does_not_play_is_refused(clients, host):
    assert clients.get(f"http://{host}/").status == 502
    assert clients.connect(f"{host}:443").status == 502


def test_the_gateway_opens_no_connection_to_anything_but_the_lab(clients):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert clients.get(f"http://127.0.0.1:{port}/").status == 502
        assert clients.connect(f"127.0.0.1:{port}").status == 502
        assert clients.get(f"http://ok.example:{port}/item/1").status == 200
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_control_is_not_to_be_had_through_the_gateway(clients):
    assert clients.get("http://ok.example/__lab__/ledger.json").status == 404


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="none"),
        pytest.param("Proxy-Authorization: Basic bGFiOndyb25n\r\n", id="wrong password"),
        pytest.param("Proxy-Authorization: Basic Ym9iOmxhYg==\r\n", id="wrong user"),
        pytest.param("Proxy-Authorization: Bearer bGFiOmxhYg==\r\n", id="not basic"),
        pytest.param("Proxy-Authorization: Basic bGFiOmxh\r\n", id="half a password"),
        pytest.param("Proxy-Authorization: Basic b\r\n", id="not base64"),
        pytest.param("Proxy-Authorization: Basic /////w==\r\n", id="not text"),
    ],
)
def test_without_the_right_credentials_it_is_407_and_the_connection_stays(clients, header):
    with clients.raw() as sock:
        for line in ("GET http://ok.example/", "CONNECT ok.example:443"):
            sock.sendall(f"{line} HTTP/1.1\r\n{header}\r\n".encode())
            answer = HTTPResponse(sock)
            answer.begin()
            assert answer.status == 407
            assert answer.getheader("Proxy-Authenticate") == 'Basic realm="lab gateway"'
            answer.read()


def test_an_answer_before_a_body_was_read_ends_the_connection(clients):
    with clients.raw() as sock:
        sock.sendall(b"POST http://ok.example/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
        assert read_answer(sock)[0] == 407
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    "request_line",
    [
        pytest.param(b"GET /item/1 HTTP/1.1", id="origin form"),
        pytest.param(b"GET https://ok.example/ HTTP/1.1", id="https without a tunnel"),
        pytest.param(b"GET http:///item/1 HTTP/1.1", id="no host"),
        pytest.param(b"GET http://[::1/ HTTP/1.1", id="broken address"),
        pytest.param(b"\x05\x01\x00", id="SOCKS"),
        pytest.param(b"GET http://ok.example/ HTTP/1.1\r\nContent-Length: many", id="no length"),
        pytest.param(b"x" * 70_000, id="endless head"),
    ],
)
def test_what_is_no_request_to_a_proxy_is_a_400_and_the_end(make_clients, request_line, lab):
    lab.set_gateway(user="")
    with make_clients(lab).raw() as sock:
        sock.sendall(request_line + b"\r\n\r\n")
        assert read_answer(sock)[0] == 400
    lab.set_gateway(user="lab")


def test_requests_of_many_hosts_and_sessions_share_a_connection(clients):
    with clients.raw() as sock:
        for n, (host, session) in enumerate([("ok.example", "k1"), ("padded.example", "k2"), ("ok.example", "k1")]):
            sock.sendall(clients.request_bytes(f"http://{host}/item/{n}", session))
            assert read_answer(sock)[0] == 200
    assert [row["session"] for row in clients.lab.ledger() if row["event"] == "request"][-3:] == ["k1", "k2", "k1"]


def test_a_client_that_speaks_http_1_0_or_asks_for_a_close_gets_one(clients):
    for version, rest in (("1.0", ""), ("1.1", "Connection: close\r\n")):
        with clients.raw() as sock:
            request = clients.request_bytes("http://ok.example/item/1", rest=rest)
            sock.sendall(request.replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
            assert read_answer(sock)[0] == 200
            assert sock.recv(1) == b""


def test_an_announced_answer_passes_before_the_answer(clients):
    with clients.raw() as sock:
        rest = "Expect: 100-continue\r\nContent-Length: 3\r\n"
        sock.sendall(clients.request_bytes("http://ok.example/item/1", rest=rest).replace(b"GET", b"POST"))
        assert sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"abc")
        assert read_answer(sock)[0] == 200


def test_a_chunked_request_body_is_carried(clients):
    connection = HTTPConnection(urlsplit(clients.lab.gateway).netloc, timeout=60)
    header = clients.request_bytes("http://ok.example/").split(b"Authorization: ")[1].split(b"\r")[0].decode()
    for _ in range(2):
        connection.request("POST", "http://ok.example/item/1", iter([b"abc", b"defg"]), {"Proxy-Authorization": header})
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_a_request_body_that_breaks_off_ends_the_connection(clients):
    with clients.raw() as sock:
        sock.sendall(clients.request_bytes("http://ok.example/item/1", rest="Content-Length: 9\r\n") + b"abc")
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


def test_the_site_learns_the_exit_from_the_gateway_and_from_nobody_else(clients):
    forged = "X-Lab-Session: forged\r\nX-LAB-EXIT: 1.2.3.4\r\n"
    with clients.raw() as sock:
        sock.sendall(clients.request_bytes("http://ok.example/item/1", "honest", rest=forged))
        read_answer(sock)
    row = clients.rows("ok.example")[-1]
    assert row["session"] == "honest"
    assert row["exit"].startswith("100.64.")
    connection = clients.tunnel("ok.example", "honest")
    connection.request("GET", "/item/1", headers={"X-Lab-Session": "forged", "X-Lab-Exit": "1.2.3.4"})
    connection.getresponse().read()
    connection.close()
    tunnelled = clients.rows("ok.example")[-1]
    assert (tunnelled["session"], tunnelled["exit"], tunnelled["via"]) == ("honest", row["exit"], "connect")


def test_a_tunnel_to_port_80_carries_plain_http(clients):
    with clients.raw() as sock:
        target = clients.request_bytes("http://ok.example/item/1", "p80").split(b"Proxy-")[1]
        sock.sendall(b"CONNECT ok.example:80 HTTP/1.1\r\nProxy-" + target)
        answer = HTTPResponse(sock, method="CONNECT")
        answer.begin()
        assert answer.status == 200
        sock.sendall(b"GET /item/1 HTTP/1.1\r\nHost: ok.example\r\n\r\n")
        assert read_answer(sock)[0] == 200


def test_each_session_has_its_own_exit_and_keeps_it(own):
    for session in ("a", "b", "a"):
        own.get("http://shop.example/item/1", session)
    exits = [row["exit"] for row in own.rows("shop.example")]
    assert exits[0] == exits[2] != exits[1]
    assert own.lab.summary()["gateway"]["sessions"]["a"]["exits"] == 1


def test_exits_can_change_with_every_connection(own):
    own.lab.set_gateway(exit_per="connection")
    with own.raw() as sock:
        for _ in range(2):
            sock.sendall(own.request_bytes("http://shop.example/item/1", "a"))
            read_answer(sock)
    own.get("http://shop.example/item/1", "a")
    exits = [row["exit"] for row in own.rows("shop.example")]
    assert exits[0] == exits[1] != exits[2]


def test_a_plan_that_is_used_up_is_407_for_http_and_connect(own):
    own.lab.set_gateway(exhausted_after=2)
    assert [own.get("http://shop.example/item/1").status for _ in range(3)] == [200, 200, 407]
    assert own.connect("shop.example:443").status == 407
    assert own.lab.summary()["gateway"]["refused"] == {"407": 2}
    own.lab.reset()
    assert own.get("http://shop.example/item/1").status == 200


@pytest.mark.parametrize(("status", "wait"), [(502, 0), (429, 7), (571, 0)])
def test_every_connect_can_be_refused_and_no_request_gets_through(own, status, wait):
    own.lab.set_gateway(connect_status=status, connect_retry_after=wait)
    answer = own.connect("shop.example:443")
    assert (answer.status, answer.headers.get("retry-after")) == (status, str(wait) if wait else None)
    summary = own.lab.summary()
    assert (summary["requests"], summary["gateway"]["connects"]) == (0, 1)
    assert (summary["gateway"]["refused"], summary["gateway"]["tunnels_opened"]) == ({str(status): 1}, 0)
    own.lab.set_gateway(connect_status=0)
    assert own.connect("shop.example:443").status == 200


def test_an_idle_tunnel_is_closed_with_fin(own):
    # Long enough for a handshake on a busy machine.
    own.lab.set_gateway(tunnel_idle=2)
    connection = own.tunnel("shop.example")
    connection.request("GET", "/item/1")
    connection.getresponse().read()
    assert connection.sock.recv(1) == b""
    connection.close()
    (closed,) = own.rows("shop.example", "tunnel_closed")
    assert closed["by"] == "idle"
    assert closed["seconds"] >= 2


def test_the_ledger_knows_tunnels_their_bytes_and_who_ended_them(own):
    connection = own.tunnel("shop.example", "t1")
    connection.request("GET", "/item/1")
    length = len(connection.getresponse().read())
    assert own.lab.summary()["gateway"]["tunnels_open"] == 1
    connection.close()
    own.eventually(lambda: own.rows("shop.example", "tunnel_closed"))
    (closed,) = own.rows("shop.example", "tunnel_closed")
    gateway = own.lab.summary()["gateway"]
    assert (closed["by"], closed["session"], gateway["tunnels_open"]) == ("client", "t1", 0)
    assert closed["down"] > length
    assert gateway["sessions"]["t1"]["bytes_down"] == gateway["bytes_down"] == closed["down"] + 39


def test_a_site_that_resets_in_a_tunnel_is_named(clients):
    with pytest.raises(ConnectionResetError):
        clients.get_https("reset.example", "/item/9", "named")
    assert [row["by"] for row in clients.rows("reset.example", "tunnel_closed") if row["session"] == "named"] == [
        "site"
    ]


def test_a_client_that_resets_its_tunnel_is_named(own):
    connection = own.tunnel("shop.example")
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    own.eventually(lambda: own.rows("shop.example", "tunnel_closed"))
    assert own.rows("shop.example", "tunnel_closed")[0]["by"] == "client"
    assert own.get_https("shop.example", "/item/1").status == 200


def test_a_client_that_leaves_its_request_is_noticed(own):
    own.lab.set_behaviour("shop.example", "down:how=hang")
    sock = own.raw()
    sock.sendall(own.request_bytes("http://shop.example/item/1"))
    own.eventually(lambda: own.rows("shop.example"))
    sock.close()
    own.lab.set_behaviour("shop.example", "ok")
    assert own.get("http://shop.example/item/1").status == 200


def test_an_open_gateway_asks_for_no_credentials(make_clients):
    with running_lab({"shop.example": Ok()}, user="") as lab:
        assert "@" not in lab.proxy("a1")
        assert make_clients(lab).get("http://shop.example/item/1").status == 200
