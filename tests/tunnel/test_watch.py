from __future__ import annotations

import socket

import pytest

from scrapy_resiproxy.tunnel.watch import Churn, Tick, addresses_of, connections_to

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(remote, state="01", local="0100007F:D431"):
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 0 0 1 1 0 20 4 30 10 -1\n"


def test_the_kernels_table_is_read(tmp_path):
    four, six = tmp_path / "tcp", tmp_path / "tcp6"
    four.write_text(
        HEADER
        + row("050200C0:1F90")  # 192.0.2.5:8080
        + row("050200C0:1F90", local="0100007F:D432")
        + row("050200C0:1F91")  # another port
        + row("060200C0:1F90")  # another address
        + row("050200C0:1F90", state="06")  # TIME_WAIT
    )
    six.write_text(
        HEADER
        + row("0000000000000000FFFF0000050200C0:1F90", local="x:1")  # 192.0.2.5, mapped
        + row("B80D0120000000000000000001000000:1F90", local="x:2")  # 2001:db8::1
    )
    tables = [four, six, tmp_path / "missing"]
    assert {local for local, _ in connections_to({"192.0.2.5"}, 8080, tables)} == {
        "0100007F:D431",
        "0100007F:D432",
        "x:1",
    }
    assert len(connections_to({"2001:db8::1"}, 8080, tables)) == 1


def test_a_real_connection_is_seen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connections_to(addresses_of("127.0.0.1"), port) == set()
        with socket.create_connection(("127.0.0.1", port)):
            assert len(connections_to(addresses_of("localhost"), port)) == 1


def test_samples_add_up_to_a_churn_period():
    churn = Churn()
    a, b, c, d = (("local", str(n)) for n in range(4))
    assert churn.sample({a, b}, 0.0) == Tick(2, 0, 0)
    assert churn.sample({a, b, c}, 1.0) == Tick(3, 1, 0)
    assert churn.typical_life is None
    assert churn.summary() == "1 opened and 0 closed in 1 s; none was seen from its opening to its close."
    assert churn.sample({b, c, d}, 6.0) == Tick(3, 1, 1)
    assert churn.sample({d}, 11.0) == Tick(1, 0, 2)
    assert churn.typical_life == 10.0
    assert churn.summary() == (
        "2 opened and 3 closed in 11 s; the churn period is 10 s (the median life of 1 connection)."
    )


def test_one_sample_is_no_rate():
    churn = Churn()
    churn.sample(set(), 5.0)
    assert churn.summary().startswith("0 opened and 0 closed in 0 s;")


def test_what_was_watched_for_ten_minutes_is_told_by_the_hour():
    churn = Churn()
    churn.sample(set(), 0.0)
    churn.sample({("local", "1"), ("local", "2")}, 600.0)
    assert churn.summary().startswith("2 opened and 0 closed in 10 min, 12 per hour;")


def test_an_unknown_name_is_an_oserror():
    with pytest.raises(OSError, match=r"\[Errno"):
        addresses_of("no-such-name.invalid")
