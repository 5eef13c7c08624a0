from __future__ import annotations

import json
import socket
import struct
from http.client import IncompleteRead, RemoteDisconnected
from urllib.parse import urlsplit

import pytest

from scrapy_resiproxy.lab.pages import price


@pytest.mark.parametrize("path", ["/", "/list?page=2", "/item/7", "/api/items?page=1", "/api/items/7", "/robots.txt"])
def test_a_page_is_the_same_over_http_https_and_directly(clients, path):
    pages = [clients.get(f"http://ok.example{path}"), clients.get_https("ok.example", path)]
    direct = clients.get_direct(f"/ok.example{path}")
    assert [page.status for page in (*pages, direct)] == [200] * 3
    assert pages[0].text == pages[1].text == direct.text.replace('"/ok.example/', '"/')


def test_a_detail_page_has_its_price_and_the_good_marker(clients):
    page = clients.get("http://ok.example/item/7")
    assert page.marker == "good"
    assert f'<span class="price">{price(7)}</span>' in page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_an_unknown_path_is_a_404_with_an_error_page_and_counted_as_missing(clients):
    page = clients.get("http://ok.example/no-such-thing")
    assert (page.status, page.marker) == (404, "error")
    assert clients.rows("ok.example")[-1]["outcome"] == "missing"


def test_padding_makes_the_body_exactly_so_much_longer(clients):
    pages = [clients.get(f"http://{host}/item/1") for host in ("padded.example", "ok.example")]
    assert len(pages[0].text) - len(pages[1].text) == 5000
    assert clients.rows("padded.example")[-1]["bytes"] == len(pages[0].text)


def test_head_sends_the_head_alone(clients):
    page = clients.get("http://ok.example/item/1", method="HEAD")
    assert (page.status, page.text) == (200, "")
    assert int(page.headers["content-length"]) > 1000


def test_latency_delays_and_delivers(clients):
    assert clients.get("http://slow.example/item/1").marker == "good"


@pytest.mark.parametrize(
    ("host", "status", "marker", "header"),
    [
        ("down.example", 503, "error", {}),
        ("busy.example", 503, "error", {"retry-after": "7"}),
        ("outage.example", 503, "error", {}),
        ("flaky.example", 503, "error", {}),
        ("missing.example", 404, "error", {}),
        ("login.example", 401, "error", {"www-authenticate": 'Basic realm="members"'}),
        ("wall.example", 401, "error", {}),
        ("cloudflare.example", 200, "fake", {}),
        ("lookalike.example", 200, "fake", {}),
        ("drip.example", 200, "good", {}),
    ],
)
def test_a_host_misbehaves_as_ordered(clients, host, status, marker, header):
    page = clients.get(f"http://{host}/item/1")
    assert (page.status, page.marker) == (status, marker)
    assert {name: page.headers.get(name) for name in ("retry-after", "www-authenticate")} == {
        "retry-after": None,
        "www-authenticate": None,
        **header,
    }


def test_flaky_is_good_at_the_second_attempt(clients):
    assert [clients.get("http://flaky.example/item/2").status for _ in range(2)] == [503, 200]


def test_a_rate_limit_answers_429_with_a_wait(clients):
    pages = [clients.get("http://ratelimit.example/item/1") for _ in range(3)]
    assert [page.status for page in pages] == [200, 200, 429]
    assert int(pages[2].headers["retry-after"]) > 900


def test_the_soft_block_is_for_the_session_alone(clients):
    pages = [clients.get(f"http://generic.example/item/{n}", s) for n, s in enumerate(["x1", "x1", "x1", "x2"])]
    assert [page.marker for page in pages] == ["good", "good", "fake", "good"]
    assert {page.status for page in pages} == {200}


def test_a_session_in_a_tunnel_is_the_same_session(clients):
    assert [clients.get_https("block403.example", "/item/1", "t1").status for _ in range(3)] == [200, 200, 403]
    assert clients.get("http://block403.example/item/1", "t1").status == 403
    assert clients.get_https("block403.example", "/item/1", "t2").status == 200


@pytest.mark.parametrize("base", ["", "/redirect.example"])
def test_a_redirect_leads_to_the_one_block_page(clients, base):
    ask = clients.get_direct if base else lambda path: clients.get(f"http://redirect.example{path}", "r1")
    pages = [ask(f"{base}/item/{n}") for n in range(3)]
    assert [page.status for page in pages] == [200, 302, 302]
    assert {page.headers["location"] for page in pages[1:]} == {f"{base}/blocked"}
    blocked = ask(f"{base}/blocked")
    assert (blocked.status, blocked.marker) == (200, "fake")


def test_lists_come_empty_once_or_short_for_ever(clients):
    empty = [json.loads(clients.get("http://empty.example/api/items").text) for _ in range(2)]
    assert [(len(page["items"]), page["lab_page"]) for page in empty] == [(0, "fake"), (20, "good")]
    short = [clients.get("http://short.example/list") for _ in range(2)]
    assert [(page.text.count('<li class="item">'), page.marker) for page in short] == [(3, "fake")] * 2


@pytest.mark.parametrize("host", ["truncated.example", "chunked.example"])
def test_a_truncated_body_breaks_off_over_http_and_https(clients, host):
    with pytest.raises(IncompleteRead):
        clients.get(f"http://{host}/item/1")
    with pytest.raises(IncompleteRead):
        clients.get_https(host, "/item/2")
    assert clients.get(f"http://{host}/item/1").marker == "good"


def test_a_reset_reaches_the_client_as_a_reset(clients):
    with pytest.raises(ConnectionResetError):
        clients.get("http://reset.example/item/1")
    with pytest.raises(ConnectionResetError):
        clients.get_https("reset.example", "/item/1")
    with pytest.raises(ConnectionResetError):
        clients.get_direct("/reset.example/item/1")


def test_a_close_reaches_the_client_as_an_end_without_an_answer(clients):
    with pytest.raises(RemoteDisconnected):
        clients.get("http://close.example/item/1")
    with pytest.raises(RemoteDisconnected):
        clients.get_https("close.example", "/item/1")


def test_a_hanging_host_says_nothing(clients):
    with clients.raw() as sock:
        sock.sendall(clients.request_bytes("http://hang.example/item/1"))
        clients.eventually(lambda: clients.rows("hang.example"))
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)


def test_a_host_that_refuses_connections_is_a_502_of_the_gateways(clients):
    assert clients.get("http://refuse.example/item/1").status == 502
    assert clients.connect("refuse.example:443").status == 502
    assert [row["outcome"] for row in clients.rows("refuse.example")] == ["refused"]
    with pytest.raises(ConnectionResetError):
        clients.get_direct("/refuse.example/item/1")


def test_a_post_is_read_and_counted(clients):
    page = clients.get("http://ok.example/item/1", method="POST", body=b"x" * 300_000)
    assert page.status == 200
    assert clients.rows("ok.example")[-1]["method"] == "POST"


def test_asked_directly_a_client_may_name_its_own_session(clients):
    pages = [clients.get_direct("/generic.example/item/1", {"X-Lab-Session": s}) for s in ("d1", "d1", "d1", "d2")]
    assert [page.marker for page in pages] == ["good", "good", "fake", "good"]
    assert clients.rows("generic.example")[-1]["via"] == "direct"


@pytest.mark.parametrize("path", ["/", "/nope.example/item/1", "/ok.example.org"])
def test_the_bare_address_lists_the_hosts(clients, path):
    page = clients.get_direct(path)
    assert page.status == 404
    assert '<a href="/ok.example/">ok.example</a>' in page.text


def test_a_host_alone_is_its_root(clients):
    assert clients.get_direct("/ok.example").text == clients.get_direct("/ok.example/").text


def test_a_client_that_resets_while_it_is_served_leaves_the_lab_well(clients):
    url = urlsplit(clients.lab.site)
    sock = socket.create_connection((url.hostname, url.port))
    sock.sendall(b"GET /slow.example/item/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert clients.get("http://ok.example/item/1").status == 200
