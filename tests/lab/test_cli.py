from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from http.client import IncompleteRead
from pathlib import Path

import pytest

from scrapy_resiproxy.lab import GatewayOptions, RunningLab
from scrapy_resiproxy.lab.__main__ import main
from scrapy_resiproxy.lab.grammar import BEHAVIOURS

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds that it may take to end; what it must not wait for takes a minute or never ends."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scrapy_resiproxy.lab", *arguments]


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def started(*arguments: str):
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*arguments), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_one_json_line_and_ends_quietly_at_a_signal(number):
    with started() as (process, urls):
        assert list(urls) == ["site", "https", "gateway", "ca", "ledger"]
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")
    assert not Path(urls["ca"]).exists()


def test_it_ends_with_its_standard_input_when_told_to():
    with started("--until-eof") as (process, _):
        process.stdin.write("still here\n")
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_without_until_eof_it_does_not_care_about_its_standard_input(make_clients):
    with started("--host", "shop.example=ok") as (process, urls):
        process.stdin.close()
        assert make_clients(RunningLab(urls, GatewayOptions())).get("http://shop.example/").status == 200
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_without_a_host_there_is_one_for_every_behaviour_and_none_of_them_makes_a_noise(make_clients):
    with started() as (process, urls):
        clients = make_clients(RunningLab(urls, GatewayOptions()))
        hosts = clients.lab.summary()["behaviours"]
        assert hosts == {f"{word}.example": word for word in BEHAVIOURS}
        clients.lab.set_behaviour("drip.example", "drip:seconds=0")
        clients.lab.set_behaviour("down.example", "down:how=reset")
        for host in hosts:
            with suppress(ConnectionResetError, IncompleteRead):
                clients.get(f"http://{host}/item/1")
            with suppress(ConnectionResetError, IncompleteRead):
                clients.get_https(host, "/item/2")
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_hanging_requests_and_open_tunnels_do_not_hold_up_the_end(make_clients):
    with started("--host", "shop.example=down:how=hang", "--user", "me", "--password", "x") as (process, urls):
        clients = make_clients(RunningLab(urls, GatewayOptions(user="me", password="x")))
        sock = clients.raw()
        sock.sendall(clients.request_bytes("http://shop.example/item/1"))
        tunnel = clients.tunnel("shop.example")
        tunnel.request("GET", "/item/1")
        clients.eventually(lambda: clients.lab.summary()["requests"] == 2)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
        sock.close()
        tunnel.close()


def test_clients_that_leave_hanging_requests_leave_no_socket_behind(make_clients):
    with started("--host", "shop.example=down:how=hang") as (process, urls):
        clients = make_clients(RunningLab(urls, GatewayOptions()))
        clients.lab.summary()
        before = open_files(process.pid)
        socks = [clients.raw() for _ in range(10)]
        for sock in socks:
            sock.sendall(clients.request_bytes("http://shop.example/item/1"))
        tunnels = [clients.tunnel("shop.example") for _ in range(10)]
        for tunnel in tunnels:
            tunnel.request("GET", "/item/1")
        clients.eventually(lambda: clients.lab.summary()["requests"] == 20)
        for connection in (*socks, *tunnels):
            connection.close()

        def none_is_left() -> bool:
            clients.lab.summary()
            return open_files(process.pid) <= before

        clients.eventually(none_is_left)
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_ports_and_the_directory_can_be_chosen(tmp_path):
    with socket.socket() as reserved:
        # Bound and not listening: the lab, which reuses addresses, can have the port, and nobody else gets it.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with started("--gateway-port", str(port), "--dir", str(tmp_path / "kept")) as (process, urls):
            assert urls["gateway"] == f"http://127.0.0.1:{port}"
            process.terminate()
            process.wait(PATIENCE)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["ca.pem", "ledger.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "shop.example"], "'shop.example' is not NAME=BEHAVIOUR, such as shop.example=flaky:p=0.2"),
        (["--host", "=ok"], "'=ok' is not NAME=BEHAVIOUR"),
        (["--host", "a.example=flaky:p=9"], "flaky: p=9.0 is not between 0 and 1"),
        (["--host", "a b=ok"], "host 'a b' is not a host name"),
        (["--connect-status", "200"], "gateway: connect_status=200 is not 0 or a status"),
        (["--tunnel-idle", "long"], "gateway: tunnel_idle=long is not a number"),
        (["--items", "many"], "argument --items: invalid int value"),
        (["--http-port", "80000"], "'80000' is no port: it must be a number from 1 to 65535, or 0 for any"),
        (["--gateway-port", "http"], "'http' is no port"),
        (["--dir", "/dev/null/x"], "error: /dev/null/x: Not a directory"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: ")
    assert message in error


def test_a_port_that_is_taken_is_one_line_and_exit_code_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for flag in ("--http-port", "--https-port", "--gateway-port"):
            ended = subprocess.run(command(flag, port), cwd=ROOT, capture_output=True, text=True, check=False)
            assert ended.returncode == 2
            assert ended.stderr.splitlines()[-1] == (
                f"python -m scrapy_resiproxy.lab: error: port {port} is taken, perhaps by another lab: stop what "
                f"listens there, or choose another with {flag} (0: any free one)"
            )
            assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("module", ["aiohttp", "trustme"])
def test_without_the_extra_it_says_how_to_install_it(module):
    code = f"import sys; sys.modules[{module!r}] = None; from scrapy_resiproxy.lab.__main__ import main; main([])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"needs {module}: install the extra 'lab', such as pip install '.[lab]'" in ended.stderr.splitlines()[-1]


def test_a_host_named_localhost_is_there_without_the_gateway(make_clients):
    with started("--host", "localhost=missing") as (process, urls):
        answer = make_clients(RunningLab(urls, GatewayOptions())).get_direct("/item/1", {"Host": "localhost"})
        assert answer.status == 404
        assert answer.marker == "error"
        process.terminate()
        process.wait(PATIENCE)


def test_help_names_every_behaviour_and_every_gateway_option(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for word in BEHAVIOURS:
        assert f"\n  {word}" in text
    for name in GatewayOptions.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_it_imports_nothing_of_the_rest_and_aiohttp_only_to_serve():
    code = (
        "import sys, scrapy_resiproxy.lab.__main__; print(sorted(name for name in sys.modules if "
        "name.startswith('scrapy_resiproxy.') and not name.startswith('scrapy_resiproxy.lab') "
        "or name in ('aiohttp', 'scrapy', 'twisted')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
