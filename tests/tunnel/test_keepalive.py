from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.tunnel.keepalive import Close, Demand, Idle, Ping, Plan, Sleep, next_step

PLAN = Plan(interval=3.0, max_age=600.0, idle_timeout=10.0)
FRESH = Idle(opened=0.0, since=100.0, limit=9.0, spare=False, pinged=0, ping=340, reconnect=7000, keep_exit=False)


def step(now, plan=PLAN, *, may=True, **changes):
    return next_step(replace(FRESH, **changes), plan, now, lambda: may)


STEPS = [
    pytest.param(step(100.0), Sleep(103.0), id="not due"),
    pytest.param(step(103.0), Ping(), id="due"),
    pytest.param(step(103.0, may=False), Sleep(106.0), id="held: asked again an interval later"),
    pytest.param(step(108.0, may=False), Sleep(109.0), id="held to the end"),
    pytest.param(step(109.0), Close("idle"), id="too late to ping: it may be dying"),
    pytest.param(step(103.0, spare=True), Sleep(109.0), id="a spare one goes cold"),
    pytest.param(step(103.0, pinged=6700), Sleep(109.0), id="pings would cost more than a reconnect"),
    pytest.param(step(103.0, pinged=6700, keep_exit=True), Ping(), id="unless the exit matters"),
    pytest.param(step(103.0, pinged=2400, reconnect=2757), Ping(), id="a resumed one pays for eight pings"),
    pytest.param(step(103.0, pinged=2720, reconnect=2757), Sleep(109.0), id="and not for a ninth"),
    pytest.param(step(103.0, Plan(None, 600.0)), Sleep(109.0), id="no pings"),
    pytest.param(step(599.0, since=599.0), Sleep(600.0), id="never slept past its age"),
    pytest.param(step(600.0, since=599.0), Close("age"), id="too old"),
    pytest.param(step(101.6, limit=2.0), Ping(), id="a limit below the interval is pinged in time"),
    pytest.param(step(103.0, expected=107.0), Sleep(107.2), id="a request is expected in time"),
    pytest.param(step(107.2, expected=107.0), Ping(), id="but did not come"),
    pytest.param(step(103.0, expected=107.3), Ping(), id="a request is expected too late"),
    pytest.param(step(103.0, expected=99.0), Ping(), id="a request is overdue"),
]


@pytest.mark.parametrize(("got", "expected"), STEPS)
def test_what_is_done_with_an_idle_tunnel(got, expected):
    assert got == expected


@given(
    interval=st.floats(0.1, 30),
    limit=st.floats(0.1, 300),
    held=st.booleans(),
    pinged=st.integers(0, 9000),
    expected=st.none() | st.floats(0, 600),
)
def test_an_idle_tunnel_never_outlives_its_limit(interval, limit, held, pinged, expected):
    now, since, pings = 0.0, 0.0, 0
    for _ in range(200):
        idle = replace(FRESH, since=since, limit=limit, pinged=pinged + 340 * pings, expected=expected)
        what = next_step(idle, Plan(interval, 600.0), now, lambda: not held)
        if isinstance(what, Close):
            assert now - since == pytest.approx(limit) or now == pytest.approx(600.0)
            return
        if isinstance(what, Ping):
            assert now - since < limit
            since, pings = now, pings + 1
        else:
            assert now < what.until <= since + limit
            now = what.until
    assert pings * 340 <= 7000, "pinged for ever"


def test_the_next_request_is_expected_at_the_last_interval():
    demand = Demand(10.0, 0.0)
    assert demand.expected is None
    demand.note(1, 5.0)
    assert demand.expected is None
    demand.note(1, 8.0)
    assert demand.expected == 11.0
    demand.note(1, 20.0)
    assert demand.expected == 32.0


def test_demand_is_the_peak_of_the_last_window_or_two():
    demand = Demand(10.0, 0.0)
    assert demand.peak(0.0) == 1
    demand.note(8, 1.0)
    demand.note(2, 9.0)
    assert demand.peak(9.9) == 8
    assert demand.peak(15.0) == 8
    demand.note(3, 16.0)
    assert demand.peak(20.0) == 3
    assert demand.peak(95.0) == 1
