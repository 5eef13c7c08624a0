from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.lab import Answer, Visit
from scrapy_resiproxy.lab.exits import Exit
from scrapy_resiproxy.lab.ledger import Ledger, Rate, Traffic

EXIT = Exit("a1", "100.64.0.1")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(tmp_path, clock):
    ledger = Ledger(tmp_path / "ledger.jsonl", clock)
    yield ledger
    ledger.close()


def note(ledger: Ledger, path: str, answer: Answer, host: str = "shop.example") -> None:
    ledger.request(host, Visit(path, EXIT.address), answer, via="http", session=EXIT.session, size=100)


def test_requests_are_counted_in_all_and_by_host(ledger, clock):
    note(ledger, "/item/1", Answer())
    note(ledger, "/item/1", Answer(outcome="blocked", status=403, block=True))
    clock.now = 5.0
    note(ledger, "/item/2", Answer(), host="other.example")
    summary = ledger.summary()
    assert (summary["requests"], summary["urls"], summary["blocks"], summary["bytes"]) == (3, 2, 1, 300)
    assert summary["outcomes"] == {"ok": 2, "blocked": 1}
    assert summary["hosts"]["shop.example"] == {
        "requests": 2,
        "urls": 1,
        "outcomes": {"ok": 1, "blocked": 1},
        "peak_per_second": 2,
        "blocks": 1,
        "bytes": 200,
    }
    assert (summary["seconds"], summary["peak_per_second"]) == (5.0, 2)


def test_every_request_is_a_row_at_once(ledger, clock):
    clock.now = 1.5
    note(ledger, "/item/1", Answer())
    assert [json.loads(line) for line in ledger.path.read_text().splitlines()] == [
        {
            "t": 1.5,
            "event": "request",
            "host": "shop.example",
            "method": "GET",
            "path": "/item/1",
            "status": 200,
            "outcome": "ok",
            "session": "a1",
            "exit": "100.64.0.1",
            "via": "http",
            "bytes": 100,
        }
    ]


def test_tunnels_refusals_and_traffic_are_counted(ledger):
    ledger.connect(EXIT, "shop.example", "443", 200)
    ledger.connect(EXIT, "shop.example", "443", 200)
    ledger.connect(EXIT, "shop.example", "443", 502)
    ledger.refused(EXIT, "GET", "http://nope.example/", 502, "no such host")
    ledger.tunnel_closed(EXIT, "shop.example", seconds=1.23456, up=10, down=20, by="idle")
    meter = Traffic(ledger, "a1")
    meter.up(7)
    meter.down(9)
    gateway = ledger.summary()["gateway"]
    assert (gateway["connects"], gateway["tunnels_opened"], gateway["tunnels_open"]) == (3, 2, 1)
    assert (gateway["refused"], gateway["bytes_up"], gateway["bytes_down"]) == ({"502": 2}, 7, 9)
    assert gateway["sessions"]["a1"]["connects"] == 3


def test_a_session_knows_how_many_exits_it_had(ledger):
    for address in ("100.64.0.1", "100.64.0.1", "100.64.0.2"):
        ledger.session("a1").goes_out_from(address)
    assert (ledger.session("a1").exit, ledger.session("a1").exits) == ("100.64.0.2", 2)


def test_a_reset_forgets_all_but_the_tunnels_that_are_open(ledger):
    ledger.connect(EXIT, "shop.example", "443", 200)
    note(ledger, "/item/1", Answer())
    ledger.reset()
    assert ledger.path.read_text() == ""
    assert (ledger.summary()["requests"], ledger.summary()["hosts"]) == (0, {})
    assert ledger.summary()["gateway"]["tunnels_open"] == 1
    note(ledger, "/item/2", Answer())
    assert len(ledger.path.read_text().splitlines()) == 1


def test_a_ledger_goes_on_in_the_file_it_finds(tmp_path, clock):
    (tmp_path / "ledger.jsonl").write_text("{}\n")
    ledger = Ledger(tmp_path / "ledger.jsonl", clock)
    note(ledger, "/item/1", Answer())
    ledger.close()
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 2


@given(st.lists(st.floats(0, 0.7), max_size=60))
@settings(max_examples=100)
def test_the_peak_is_the_most_that_fell_into_any_second(gaps):
    times, now = [], 0.0
    for gap in gaps:
        now += gap
        times.append(now)
    rate = Rate()
    for time in times:
        rate.count(time)
    assert rate.peak == max((sum(end - 1 < time <= end for time in times) for end in times), default=0)
