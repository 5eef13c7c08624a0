"""How tunnels are shared, bounded, kept, replaced and closed: a transport on a clock that the test turns."""

from __future__ import annotations

import pytest
from tunnel_kit import World, a_route
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionRefusedError
from twisted.web.client import ResponseFailed, ResponseNeverReceived
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface.verify import verifyObject

from scrapy_resiproxy.tunnel.errors import TunnelFailed, TunnelGone
from scrapy_resiproxy.tunnel.transport import Call, _Body


@pytest.fixture
def world(pki):
    def make(**options):
        return World(pki.good, **options)

    return make


class TestSharing:
    def test_one_after_the_other_share_one_tunnel(self, world):
        w = world()
        assert [w.get() for _ in range(5)] == [0] * 5
        assert w.connects == 1
        assert (w.stat("opened_count"), w.stat("reused_count")) == (1, 4)

    @pytest.mark.parametrize(
        "other",
        [
            {"session": "s2"},
            {"host": "localhost"},
            {"port": 8443},
        ],
    )
    def test_another_session_or_origin_has_its_own(self, world, other):
        w = world()
        assert [w.get(), w.get(a_route(**other)), w.get()] == [0, 1, 0]

    def test_the_most_recently_used_goes_out_first(self, world):
        w = world()
        w.silent = True
        burst = [w.start() for _ in range(8)]
        w.silent = False
        for n in range(8):
            w.origin_says(n, w.answer)
        assert [b for [b] in burst] == [b"ok"] * 8
        assert [w.get() for _ in range(5)] == [7] * 5

    def test_spare_tunnels_go_cold_and_close(self, world):
        w = world(idle_timeout=10.0)
        w.silent = True
        for _ in range(8):
            w.start()
        w.silent = False
        for n in range(8):
            w.origin_says(n, w.answer)
        for _ in range(20):
            w.advance(2.0)
            w.get()
        assert w.open_lines == [7]

    def test_rotating_never_reuses(self, world):
        w = world(reuse=False, idle_timeout=10.0)
        assert [w.get() for _ in range(3)] == [0, 1, 2]
        assert w.open_lines == []
        assert w.stat("close_reason_count/rotate") == 3
        assert w.pings == []


class TestCaps:
    def test_the_coldest_makes_room(self, world):
        w = world(max_tunnels=2)
        w.get(a_route(session="a"))
        w.get(a_route(session="b"))
        w.get(a_route(session="a"))
        w.get(a_route(session="c"))
        assert w.open_lines == [0, 2]
        assert w.stat("close_reason_count/cap") == 1
        assert w.stat("active_max") == 2

    def test_when_all_are_at_work_the_next_waits_its_turn(self, world):
        w = world(max_tunnels=1)
        w.silent = True
        first, second, third = (w.start(a_route(session=s)) for s in "abc")
        assert w.connects == 1
        w.cancel(second)
        assert second[0].check(CancelledError)
        w.silent = False
        w.origin_says(0, w.answer)
        w.pump()
        assert (first, third) == ([b"ok"], [b"ok"])
        assert w.open_lines == [1]

    def test_only_so_many_are_kept_for_one_key(self, world):
        w = world(idle_per_key=2)
        w.silent = True
        for _ in range(4):
            w.start()
        w.silent = False
        for n in range(4):
            w.origin_says(n, w.answer)
        w.pump()
        assert w.open_lines == [2, 3]


class TestEnds:
    @pytest.mark.parametrize("how", [{}, {"clean": False}, {"goodbye": True}])
    def test_a_tunnel_lost_while_idle_is_not_offered_again(self, world, how):
        w = world()
        w.get()
        w.ends(0, **how)
        assert w.get() == 1
        assert w.stat("replaced_count") == 0
        assert w.gone[0].closed_by == ("origin" if how.get("goodbye") else "peer")
        assert w.gone[0].close_reason == "peer_idle"

    def test_we_drop_it_before_the_other_side_would(self, world):
        w = world(idle_timeout=10.0, ping_path=None)
        w.get()
        w.advance(8.9)
        assert w.open_lines == [0]
        w.advance(0.2)
        assert w.open_lines == []
        assert w.stat("close_reason_count/idle") == 1

    def test_what_was_learned_shortens_the_limit(self, world):
        w = world()
        for n in range(3):
            w.get()
            w.advance(10.0)
            w.ends(n)
        w.get()
        w.advance(9.1)
        assert w.open_lines == []
        assert w.transport.learned_idle_timeout() == 10.0

    def test_an_origin_that_tells_its_timeout_is_believed(self, world):
        w = world()
        w.answer = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok"
        w.get()
        w.advance(4.6)
        assert w.open_lines == []

    def test_an_origin_that_will_close_is_not_asked_again(self, world):
        w = world()
        w.answer = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok"
        assert [w.get(), w.get()] == [0, 1]
        assert w.stat("close_reason_count/connection_close") == 2

    def test_a_tunnel_too_old_is_not_used(self, world):
        w = world(max_age=60.0)
        w.get()
        w.advance(30.0)
        assert w.get() == 0
        w.advance(30.1)
        assert w.open_lines == []
        assert w.get() == 1
        w.silent = True
        [] = late = w.start()
        w.advance(61.0)
        w.origin_says(1, w.answer)
        w.pump()
        assert late == [b"ok"]
        assert w.open_lines == []
        assert w.stat("close_reason_count/age") == 2

    def test_an_origin_that_closes_as_it_said_is_the_one_who_closed(self, world):
        w = world()
        w.silent = True
        w.start()
        w.origin_says(0, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nha")
        w.ends(0)
        assert (w.gone[0].close_reason, w.gone[0].closed_by) == ("connection_close", "origin")

    def test_words_that_nobody_asked_for_end_a_tunnel(self, world):
        w = world()
        w.get()
        w.origin_says(0, b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert w.get() == 1
        assert w.stat("close_reason_count/unsolicited") == 1

    def test_a_retired_session_closes_its_idle_tunnels_and_those_at_work_when_done(self, world):
        w = world()
        w.get(a_route(session="a"))
        w.silent = True
        busy = w.start(a_route(session="a"))
        other = w.start(a_route(session="b"))
        idle_line = w.seen[-1].line
        w.transport.close_session("a")
        w.transport.close_session("unknown")
        w.silent = False
        w.origin_says(0, w.answer)
        w.origin_says(idle_line, w.answer)
        w.pump()
        assert (busy, other) == ([b"ok"], [b"ok"])
        assert w.open_lines == [idle_line]
        w.get(a_route(session="a"))
        assert not w.gone[-1].tls.resumed
        assert w.stat("resumed_count") == 0

    def test_closing_closes_everything_at_once(self, world):
        w = world(max_tunnels=2)
        w.silent = True
        busy = w.start(a_route(session="b"))
        w.peer.connects = False
        dialling = w.start(a_route(session="c"))
        waiting = w.start(a_route(session="d"))
        w.peer.connects = True
        assert (busy, dialling, waiting) == ([], [], [])
        closed, again = [], []
        w.transport.close().addCallback(closed.append)
        w.transport.close().addCallback(again.append)
        w.pump()
        assert (closed, again) == ([None], [None])
        assert w.open_lines == []
        for [failure] in (busy, dialling, waiting):
            assert failure.check(ResponseNeverReceived, CancelledError, TunnelGone)
        assert w.start()[0].check(TunnelGone)
        assert w.clock.getDelayedCalls() == []

    def test_closing_waits_a_second_at_most(self, world):
        w = world()
        w.get()
        w.peer.line.loseConnection = lambda: None
        closed = []
        w.transport.close().addCallback(closed.append)
        w.clock.advance(0.9)
        assert closed == []
        w.clock.advance(0.2)
        assert closed == [None]

    def test_nothing_of_a_thousand_lost_sessions_stays(self, world):
        w = world()
        for n in range(50):
            w.get(a_route(session=f"s{n}"))
            w.ends(n)
        pool = w.transport._pool
        assert len(pool._tunnels) == 0
        assert not any((pool._tunnels._shelves, pool._tunnels._sessions, pool._closing, pool._waiting))
        assert not any((pool._warden._timers, pool._warden._demand))
        assert w.clock.getDelayedCalls() == []

    def test_a_tunnel_that_ends_with_its_answer_is_just_gone(self, world):
        w = world()
        held = []
        w.transport.send(a_route(), Call(b"GET", b"https://origin.test/", Headers())).addCallback(held.append)
        w.pump()
        [(tunnel, _)] = held
        w.ends(0)
        w.transport.done(tunnel)
        assert w.get() == 1
        assert w.gone == [tunnel]

    def test_a_tunnel_that_http_gave_up_is_not_dialled_again(self, world):
        w = world()
        # Folded over two lines, so that only Twisted reads the word.
        w.answer = b"HTTP/1.1 200 OK\r\nConnection:\r\n close\r\nContent-Length: 2\r\n\r\nok"
        assert w.get() == 0
        result = w.start(method="POST", body=b"x", resend=False)
        assert result == [b"ok"]
        assert w.seen[-1].line == 1

    def test_a_request_that_cannot_be_written_leaves_nothing_behind(self, world):
        w = world()
        assert w.start(method="NO GOOD")[0].check(ValueError)
        assert w.connects == 0
        assert len(w.transport._pool._tunnels) == 0


class TestReplacing:
    @pytest.mark.parametrize("how", [{}, {"clean": False}, {"goodbye": True}])
    @pytest.mark.parametrize(
        ("method", "body", "resend", "replaced"),
        [
            ("GET", b"", None, True),
            ("HEAD", b"", None, True),
            ("DELETE", b"", None, True),
            ("PUT", b"x", None, True),
            ("POST", b"x", None, False),
            ("POST", b"", None, False),
            ("POST", b"x", True, True),
            ("GET", b"", False, False),
        ],
    )
    def test_a_tunnel_that_dies_as_the_request_is_written(self, world, how, method, body, resend, replaced):
        w = world()
        w.get()
        w.silent = True
        result = w.start(method=method, body=body, resend=resend)
        w.silent = False
        w.ends(0, **how)
        if replaced:
            assert result == [b"ok"] or method == "HEAD"
            assert w.seen[-1].line == 1
        else:
            assert result[0].check(ResponseNeverReceived)
            assert w.connects == 1
        assert w.stat("replaced_count") == replaced

    def test_a_request_that_was_never_written_may_always_go_elsewhere(self, world):
        w = world()
        w.get()
        # Lost, but the loss is only noticed when the request is about to be written.
        w.gone_before = w.transport._pool.open_tunnels()[0]
        w.gone_before.close_reason = "peer_idle"
        assert w.start(method="POST", body=b"x", resend=False) == [b"ok"]
        assert [s.method for s in w.seen] == ["GET", "POST"]
        assert w.stat("replaced_count") == 1

    def test_a_fresh_tunnel_that_dies_is_a_failure(self, world):
        w = world()
        w.silent = True
        result = w.start()
        w.ends(0)
        assert result[0].check(ResponseNeverReceived)
        assert w.connects == 1

    def test_it_is_replaced_once(self, world):
        w = world()
        w.get()
        w.silent = True
        result = w.start()
        w.ends(0)
        assert result == []
        w.ends(1)
        assert result[0].check(ResponseNeverReceived)
        assert w.connects == 2

    def test_an_answer_that_has_begun_is_not_asked_for_again(self, world):
        w = world()
        w.get()
        w.silent = True
        result = w.start()
        w.origin_says(0, b"HTTP/1.1 200 OK\r\nConte")
        w.ends(0)
        assert result[0].check(ResponseFailed)
        assert not result[0].check(ResponseNeverReceived)
        assert w.connects == 1

    def test_cancelling_is_not_replaced_and_closes_the_tunnel(self, world):
        w = world()
        w.get()
        w.silent = True
        result = w.start()
        w.cancel(result)
        assert result[0].check(CancelledError, ResponseNeverReceived)
        assert w.connects == 1
        assert w.open_lines == []
        assert w.stat("close_reason_count/failed") == 1

    def test_who_ended_an_exchange_is_told(self, world):
        w = world()
        w.silent = True
        w.start()
        w.ends(0)
        assert (w.gone[0].close_reason, w.gone[0].closed_by) == ("peer_busy", "peer")


class TestDialling:
    def test_a_refusal_is_counted_and_closes(self, world):
        w = world()
        w.connect_answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 5\r\n\r\n"
        [failure] = w.start()
        assert (failure.value.status, failure.value.headers) == (429, [(b"Retry-After", b"5")])
        assert w.stat("connect_status_count/429") == 1
        assert w.stat("opened_count") == 0
        assert len(w.transport._pool._tunnels) == 0

    def test_a_proxy_that_fails_again_and_again_is_dialled_later_and_later(self, world):
        w = world()
        w.peer.connects = ConnectionRefusedError("no")
        delays = []
        for _ in range(12):
            before = w.clock.seconds()
            result = w.start()
            while not result:
                w.advance(0.01)
            assert result[0].check(TunnelFailed)
            delays.append(w.clock.seconds() - before)
        assert delays[0] == 0
        assert 0 < max(delays) <= 5.1
        assert max(delays[6:]) > max(delays[:4])
        w.peer.connects = True
        result = w.start()
        w.advance(5.0)
        assert result == [b"ok"]
        assert w.start(a_route(session="x")) == [b"ok"], "after a success nobody waits"

    def test_a_proxy_that_answers_is_not_backed_off(self, world):
        w = world()
        w.connect_answer = b"HTTP/1.1 502 Bad\r\n\r\n"
        assert [w.start()[0].value.status for _ in range(5)] == [502] * 5

    def test_waiting_and_dialling_stay_within_the_timeout(self, world):
        w = world(connect_timeout=8.0)
        w.peer.connects = False
        for _ in range(6):
            before = w.clock.seconds()
            result = w.start()
            w.advance(8.01)
            assert result[0].value.reason == "timeout"
            assert w.clock.seconds() - before == pytest.approx(8.01)


class TestKeepingWarm:
    def test_a_ping_every_third_of_the_timeout_keeps_a_tunnel(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.advance(11.9)
        assert len(w.pings) == 3
        assert w.get() == 0
        assert w.connects == 1

    def test_without_a_timeout_there_is_no_ping(self, world):
        w = world()
        w.get()
        w.advance(100.0)
        assert w.pings == []

    def test_pings_look_like_the_session(self, world):
        w = world(idle_timeout=9.0, ping_path="/favicon.ico")
        w.get(headers={"User-Agent": ["Browser/1"], "Cookie": ["a=b"], "Accept": ["*/*"], "X-Secret": ["1"]})
        w.advance(3.1)
        [ping] = w.pings
        assert ping.path == "/favicon.ico"
        assert sorted(ping.head.split(b"\r\n")[1:]) == [
            b"Cookie: a=b",
            b"Host: origin.test",
            b"User-Agent: Browser/1",
        ]

    def test_get_pings_read_the_body_and_throw_it_away(self, world):
        w = world(idle_timeout=9.0, ping_method="GET")
        w.get()
        w.advance(10.0)
        assert [s.method for s in w.seen] == ["GET"] * 4
        assert w.get() == 0
        assert w.stat("ping_count") == 3

    def test_pings_stop_when_a_reconnect_is_cheaper(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.advance(300.0)
        assert w.open_lines == []
        cost = w.gone[0].ping_bytes
        assert 0.9 * w.gone[0].handshake_bytes < cost <= w.gone[0].handshake_bytes

    def test_pings_go_on_where_the_exit_matters(self, world):
        w = world(idle_timeout=9.0, max_age=300.0)
        w.get(a_route(keep_exit=True))
        w.advance(299.0)
        assert w.open_lines == [0]

    def test_pings_obey_holds_and_work(self, world):
        for name, silent in (("is_held", True), ("has_work", False)):
            w = world(idle_timeout=9.0)
            setattr(w.transport, name, lambda route, silent=silent: silent)
            w.get()
            w.advance(8.0)
            assert w.pings == []
            assert w.open_lines == [0]
            w.advance(0.2)
            assert w.open_lines == []

    def test_pings_take_a_tenth_of_the_pace_at_most(self, world):
        w = world(idle_timeout=9.0)
        w.transport.pace_of = lambda route: 2.0
        for n in range(4):
            w.get(a_route(session=f"s{n}"))
        w.advance(15.0)
        assert len(w.pings) <= 15 * 2.0 / 10 + 1
        w.transport.pace_of = lambda route: 0.0
        before = len(w.pings)
        w.advance(30.0)
        assert len(w.pings) == before

    def test_a_request_waits_for_the_ping_under_way(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.silent = True
        w.advance(3.0)
        assert len(w.pings) == 1
        result = w.start()
        assert [s.method for s in w.seen] == ["GET", "HEAD"]
        w.silent = False
        w.origin_says(0, b"HTTP/1.1 200 OK\r\n\r\n")
        w.pump()
        assert result == [b"ok"]
        assert w.connects == 1

    def test_a_tunnel_that_missed_a_ping_is_not_used(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.silent = True
        w.advance(3.0)
        waiting = w.start(method="POST", body=b"x")
        w.advance(2.9)
        assert waiting == []
        w.silent = False
        w.advance(0.2)
        assert waiting == [b"ok"]
        assert w.seen[-1].line == 1
        assert w.open_lines == [1]
        assert w.stat("close_reason_count/ping_lost") == 1
        assert w.stat("replaced_count") == 1

    def test_a_tunnel_that_dies_under_a_ping_is_not_dialled_again(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.silent = True
        w.advance(3.0)
        w.ends(0)
        w.advance(60.0)
        assert w.connects == 1
        assert w.stat("close_reason_count/peer_ping") == 1

    def test_a_ping_answered_with_close_ends_the_tunnel(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
        w.advance(3.1)
        assert w.open_lines == []

    def test_a_get_ping_cut_short_ends_the_tunnel(self, world):
        w = world(idle_timeout=9.0, ping_method="GET")
        w.get()
        w.silent = True
        w.advance(3.0)
        w.origin_says(0, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
        w.ends(0)
        w.advance(10.0)
        assert w.connects == 1
        assert w.open_lines == []

    def test_pings_are_in_no_number_but_their_own(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        payload = w.transport._pool.open_tunnels()[0].payload_bytes
        w.advance(7.0)
        tunnel = w.transport._pool.open_tunnels()[0]
        assert (tunnel.requests, tunnel.pings) == (1, 2)
        assert tunnel.payload_bytes == payload
        assert w.stat("reused_count") == 0
        assert w.stat("ping_count") == 2

    def test_a_session_that_ends_closes_even_under_a_ping(self, world):
        w = world(idle_timeout=9.0)
        w.get()
        w.silent = True
        w.advance(3.0)
        w.transport.close_session("s1")
        w.advance(10.0)
        assert w.open_lines == []
        assert w.clock.getDelayedCalls() == []

    def test_a_get_ping_that_never_ends_is_cut_off(self, world):
        w = world(idle_timeout=9.0, ping_method="GET")
        w.get()
        w.silent = True
        w.advance(3.0)
        w.origin_says(0, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
        w.advance(3.1)
        assert w.open_lines == []
        assert w.stat("close_reason_count/ping_lost") == 1


class TestNumbers:
    def test_a_tunnel_that_is_not_open_yet_does_not_count(self, world):
        w = world()
        w.peer.connects = False
        w.start()
        assert w.stat("opened_count") == 0
        assert w.stat("active_max") == 1

    def test_every_wire_byte_is_payload_or_overhead(self, world):
        w = world()
        for _ in range(3):
            w.get()
        tunnel = w.transport._pool.open_tunnels()[0]
        request = len(w.seen[0].head) + 4
        assert tunnel.payload_bytes == 3 * (request + len(w.answer))
        assert w.stat("bytes_per_tunnel") == tunnel.traffic.total
        figures = w.transport.figures()
        assert figures.handshake_bytes + figures.ping_bytes == tunnel.traffic.total - tunnel.payload_bytes
        assert w.stat("overhead_ratio") == pytest.approx(1 - tunnel.payload_bytes / tunnel.traffic.total, abs=1e-4)

    def test_reconnects_resume(self, world):
        w = world()
        for n in range(4):
            w.get()
            w.ends(n)
        assert w.stat("resumed_count") == 3
        first, *others = [t.handshake_bytes for t in w.gone]
        assert max(others) < first / 2

    def test_the_rate_is_per_hour(self, world):
        w = world()
        assert "per_hour" not in w.transport.stats()
        w.get()
        w.advance(360.0)
        assert w.stat("per_hour") == 10.0


def test_a_body_is_written_at_once_and_needs_no_pacing():
    body = _Body(b"payload")
    assert verifyObject(IBodyProducer, body)
    written = []

    class Consumer:
        write = written.append

    done = []
    body.startProducing(Consumer()).addCallback(done.append)
    for pace in (body.pauseProducing, body.resumeProducing, body.stopProducing):
        pace()
    assert (written, done, body.length) == ([b"payload"], [None], 7)
