from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from scrapy_resiproxy.lab import Flaky, Ok, RateLimit, running, running_lab
from scrapy_resiproxy.lab.admission import GatewayOptions


def test_the_summary_tells_what_was_asked_and_how_it_went(make_clients):
    with running_lab({"shop.example": Flaky(p=1), "api.example": "ok"}, password="p@ss/word") as lab:
        clients = make_clients(lab)
        for path in ("/item/1", "/item/1", "/item/2"):
            clients.get(f"http://shop.example{path}")
        clients.get("http://api.example/api/items")
        summary = lab.summary()
        rows = lab.ledger()
        assert lab.ledger_path.read_text().count("\n") == len(rows) == 4
    assert (summary["requests"], summary["urls"], summary["outcomes"]) == (4, 3, {"fail-503": 2, "ok": 2})
    assert summary["behaviours"] == {"shop.example": "flaky:p=1.0", "api.example": "ok"}
    times = [row["t"] for row in rows]
    assert summary["peak_per_second"] == max(sum(end - 1 < time <= end for time in times) for end in times)
    assert not lab.ledger_path.exists()


def test_a_directory_of_ones_own_keeps_the_ledger_and_the_ca(tmp_path, make_clients):
    with running_lab({"shop.example": Ok()}, directory=tmp_path / "new") as lab:
        make_clients(lab).get("http://shop.example/item/1")
    assert (tmp_path / "new" / "ledger.jsonl").read_text().count("\n") == 1
    assert (tmp_path / "new" / "ca.pem").read_text().startswith("-----BEGIN CERTIFICATE-----")


def test_the_control_stays_at_hand_when_the_bare_address_misbehaves():
    with running_lab({"127.0.0.1": "down"}) as lab:
        assert lab.summary()["behaviours"] == {"127.0.0.1": "down"}
        lab.set_behaviour("127.0.0.1", Ok())
        assert lab.summary()["behaviours"] == {"127.0.0.1": "ok"}


def test_a_behaviour_can_be_changed_and_a_host_added_while_it_runs(clients):
    assert clients.get("http://changing.example/item/1").status == 503
    clients.lab.set_behaviour("changing.example", Ok())
    assert clients.get("http://changing.example/item/1").status == 200
    clients.lab.set_behaviour("new.example", "ok:padding=1+ratelimit")
    assert clients.get_https("new.example", "/item/1").status == 200


def test_a_reset_empties_the_ledger_and_lets_behaviours_begin_anew(make_clients):
    with running_lab({"shop.example": RateLimit(rate=0.001, burst=1)}) as lab:
        clients = make_clients(lab)
        assert [clients.get("http://shop.example/item/1").status for _ in range(2)] == [200, 429]
        lab.reset()
        assert lab.ledger() == []
        assert clients.get("http://shop.example/item/1").status == 200


def test_a_proxy_url_names_the_session_and_can_be_a_template(lab):
    address = lab.gateway.removeprefix("http://")
    assert lab.proxy("x7") == f"http://lab-session-x7:lab@{address}"
    assert lab.proxy("{session}") == f"http://lab-session-{{session}}:lab@{address}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lab: lab.set_behaviour("ok.example", "sleepy"), "unknown behaviour 'sleepy'"),
        (lambda lab: lab.set_behaviour("not a host", "ok"), "host 'not a host' is not a host name"),
        (lambda lab: lab.set_gateway(speed=1), "gateway: unknown option 'speed': choose from user,"),
        (lambda lab: lab.set_gateway(connect_status=200), "connect_status=200 is not 0 or a status from 300"),
        (lambda lab: lab._ask("POST", "behaviour", {"host": "ok.example"}), "the body lacks 'behaviour'"),
        (lambda lab: lab._ask("POST", "behaviour", ["x"]), "the body must be a JSON object"),
        (lambda lab: lab._ask("GET", "nothing"), "no such control: choose from GET ledger.json,"),
    ],
)
def test_a_wrong_order_is_refused_in_one_line_and_changes_nothing(lab, change, message):
    before = lab.summary()["behaviours"]
    with pytest.raises(ValueError, match=r".") as caught:
        change(lab)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert lab.summary()["behaviours"] == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exit_per": "moon"}, "exit_per='moon' is not session or connection"),
        ({"tunnel_idle": -1}, "tunnel_idle=-1.0 is below 0"),
        ({"session_pattern": "x"}, "session_pattern='x' lacks <id>"),
        ({"exhausted_after": "x"}, "exhausted_after=x is not a whole number"),
    ],
)
def test_a_wrong_gateway_option_is_refused_before_anything_starts(options, message):
    with pytest.raises(ValueError, match=message), running_lab({"shop.example": Ok()}, **options):
        pass


def test_a_lab_that_cannot_start_is_an_error(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="the lab did not start"), running_lab({}, directory=tmp_path / "file"):
        pass
    assert "error" in capfd.readouterr().err


def test_the_password_is_in_no_repr():
    assert "canary" not in repr(GatewayOptions(password="canary"))


def test_the_lab_ends_with_its_block_even_while_requests_hang(make_clients):
    with running_lab({"shop.example": "down:how=hang"}) as lab:
        clients = make_clients(lab)
        sock = clients.raw()
        sock.sendall(clients.request_bytes("http://shop.example/item/1"))
        clients.eventually(lambda: lab.summary()["requests"])
    assert sock.recv(1) == b""
    sock.close()


def test_a_lab_that_does_not_listen_any_more_is_killed(monkeypatch):
    monkeypatch.setattr(running, "_STOP_WAIT", 0.01)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        running._stop(process)
        assert process.wait() == -signal.SIGKILL


def test_the_callers_pythonpath_goes_on_to_the_lab(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with running_lab({"shop.example": Ok()}) as lab:
        assert lab.summary()["requests"] == 0
    assert os.environ["PYTHONPATH"] == str(tmp_path)
