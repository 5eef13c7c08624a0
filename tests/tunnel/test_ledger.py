from __future__ import annotations

import stat
from dataclasses import replace

import pytest
from tunnel_kit import CANARY, LOGIN, ROW, World, a_route

from scrapy_resiproxy.tunnel.ledger import COLUMNS, KEPT, Ledger, Row, read_rows
from scrapy_resiproxy.tunnel.spans import Span, compare, describe


def test_a_row_is_read_back_as_it_was_written(tmp_path):
    ledger = Ledger(tmp_path / "deep" / "er.tsv")
    ledger.write(ROW)
    ledger.write(replace(ROW, reason="tab\tand\nline"))
    ledger.close()
    first, second = read_rows(tmp_path / "deep" / "er.tsv")
    assert first == ROW
    assert second.reason == "tab and line"


def test_the_file_begins_with_the_names_and_is_the_owners_alone(tmp_path):
    path = tmp_path / "l.tsv"
    for _ in range(2):
        Ledger(path).close()
    assert path.read_text() == "\t".join(COLUMNS) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_file_makes_way_for_a_new_one(tmp_path):
    path = tmp_path / "l.tsv"
    ledger = Ledger(path, max_bytes=400)
    for n in range(40):
        ledger.write(replace(ROW, requests=n))
    ledger.close()
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["l.tsv", *(f"l.tsv.{n}" for n in range(1, KEPT + 1))]
    kept = [row.requests for n in range(KEPT, 0, -1) for row in read_rows(tmp_path / f"l.tsv.{n}")]
    kept += [row.requests for row in read_rows(path)]
    assert kept == list(range(40 - len(kept), 40))


def test_a_line_that_is_no_row_is_named_by_its_number(tmp_path):
    path = tmp_path / "l.tsv"
    path.write_text("nonsense\n" + ROW.line() + ROW.line().replace("9000", "many") + ROW.line()[:20])
    bad, good, worse, torn = read_rows(path)
    assert good == ROW
    assert str(bad) == f"{path}, line 1: 1 fields instead of 16"
    assert "line 3: invalid literal for int()" in str(worse)
    assert "line 4" in str(torn)


def test_a_tunnel_becomes_a_row(pki):
    world = World(pki.good, idle_timeout=9.0)
    world.get(a_route(session="abc"))
    world.advance(4.0)
    world.get(a_route(session="abc"))
    world.ends(0, goodbye=True)
    row = Row.of(world.gone[0], world.clock.seconds(), 1_800_000_000.0)
    assert (row.closed, row.opened) == ("2027-01-15T08:00:00.000+00:00", "2027-01-15T07:59:56.000+00:00")
    assert (row.seconds, row.requests, row.pings, row.resumed) == (4.0, 2, 1, 0)
    assert (row.closed_by, row.reason) == ("origin", "peer_idle")
    assert (row.proxy, row.session, row.origin) == ("proxy.test:8080", "abc", "origin.test:443")
    assert 0 < row.payload_bytes < row.bytes_up + row.bytes_down - row.handshake_bytes - row.ping_bytes
    assert CANARY not in row.line()
    assert LOGIN.decode() not in row.line()


def a_span(**changes):
    return Span.of([replace(ROW, **changes), replace(ROW, opened="2026-11-30T09:59:20.000+00:00", seconds=40.0)])


def test_a_span_is_summed_up():
    span = a_span()
    assert (span.tunnels, span.seconds, span.requests, span.pings, span.resumed) == (2, 140.0, 8, 4, 2)
    assert span.per_hour == pytest.approx(2 * 3600 / 140)
    assert (span.seconds_each, span.bytes_each, span.requests_each) == (70.0, 10_000, 4)
    assert span.overhead == pytest.approx(0.4)
    assert span.bytes_per_request == 2500
    text = "\n".join(describe(span))
    assert "tunnels                       2   in 2 min\n" in text
    assert "40.0%" in text
    assert "closed by peer: peer_idle" in text


def test_two_spans_of_the_same_work_are_compared():
    hour = {"opened": "2026-11-30T09:01:40.000+00:00"}
    lines = compare(a_span(requests=0, **hour), a_span(**hour))
    assert lines[0] == "tunnels per hour                      2.0 ->          2.0   x 1.00"
    assert "500.0 ->        250.0   x 0.50" in lines[1]
    assert len(lines) == 6


def test_spans_of_less_than_ten_minutes_are_not_told_by_the_hour():
    lines = compare(a_span(), a_span(opened="2026-11-30T09:01:40.000+00:00"))
    assert [line.partition("   ")[0] for line in lines][:2] == ["tunnels per 1,000 requests", "seconds each"]


def test_empty_spans_divide_by_nothing():
    with pytest.raises(ValueError, match="no tunnel in it"):
        Span.of([])
    nothing = {"bytes_up": 0, "bytes_down": 0, "payload_bytes": 0, "requests": 0, "opened": ROW.closed}
    span = Span.of([replace(ROW, **nothing)])
    assert (span.overhead, span.bytes_per_request, span.per_hour) == (0.0, 0.0, 1.0)
    assert compare(span, span)[3].endswith("0.0")
