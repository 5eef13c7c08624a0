from __future__ import annotations

import argparse
import re
import socket
import sys
from dataclasses import replace

import pytest
from blocking_servers import ConnectRelay, Origin, SocksRelay
from scrapy.exceptions import UsageError
from scrapy.settings import Settings
from tunnel_kit import ROW

from scrapy_resiproxy.commands import tunnel as module
from scrapy_resiproxy.commands.tunnel import Command
from scrapy_resiproxy.tunnel.ledger import Ledger


@pytest.fixture
def command(capsys):
    """Run ``scrapy tunnel`` with the given words; return exit code and output."""

    def run(*words):
        cmd = Command()
        cmd.settings = Settings()
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        cmd.add_options(parser)
        opts, args = parser.parse_known_args([str(word) for word in words])
        cmd.run(args, opts)
        return cmd.exitcode, capsys.readouterr().out

    return run


@pytest.fixture
def origin(pki, trusted):
    server = Origin(pki.good)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "say what to do: probe PROXY_URL, watch HOST:PORT, stats FILE"),
        (["probe"], r"^probe needs PROXY_URL, such as http://user:password@gateway\.example:7000$"),
        (["watch"], r"^watch needs HOST:PORT, such as gateway\.example:7000$"),
        (["stats"], r"^stats needs FILE, such as tunnels/shop\.tsv$"),
        (["dig", "x"], r"^the first word must be one of probe, watch, stats$"),
        (["probe", "u:secret@h:1", "secret"], r"^probe takes PROXY_URL alone, and 2 words were given$"),
        (["probe", "user:secret@host"], "the proxy must be"),
        (["probe", "h:1", "--target", "http://x"], "must be an https URL"),
        (["stats", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["watch", "no-such-name.invalid:1"], "Name or service not known|name resolution|No address"),
    ],
)
def test_wrong_usage_is_one_line(command, words, line):
    with pytest.raises(UsageError, match=line) as caught:
        command(*words)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_probe_ends_with_the_settings_to_paste(command, origin):
    # Closed once, and then never: a ping may be late on a busy machine.
    proxy = ConnectRelay(origin.port, idle=1.0, once=True)
    target = f"https://localhost:{origin.port}/"
    code, out = command("probe", f"http://u:canaryPass99@127.0.0.1:{proxy.port}", "--target", target, "--max", 60)
    proxy.close()
    assert code == 0
    assert "works over CONNECT" in out
    [measured] = re.findall(r"^A silent tunnel is closed after (\d+\.\d\d) s\.$", out, re.MULTILINE)
    assert proxy.silences[0] / 2 < float(measured) < proxy.silences[0] + 20
    assert "pings keep it" in out
    name, _, value = out.rstrip().splitlines()[-1].partition(" = ")
    assert name == "RESIPROXY_TUNNEL_IDLE_TIMEOUT"
    # To the tenth below, of what was told to the hundredth.
    assert 0.0 <= float(measured) - float(value) < 0.11
    assert "canaryPass99" not in out


def test_probe_measures_nothing_when_told_to_be_quick(command, origin):
    proxy = ConnectRelay(origin.port)
    target = f"https://localhost:{origin.port}/"
    code, out = command("probe", f"127.0.0.1:{proxy.port}", "--target", target, "--quick")
    proxy.close()
    assert code == 0
    assert "settings.py" not in out


def test_probe_of_a_trap_fails(command, origin):
    trap = SocksRelay(origin.port, stop="silence")
    target = f"https://localhost:{origin.port}/"
    code, out = command("probe", f"127.0.0.1:{trap.port}", "--target", target, "--timeout", 3)
    trap.close()
    assert code == 1
    assert "carries nothing" in out


def test_probe_fails_when_the_port_stops_opening_tunnels(command, origin, monkeypatch):
    proxy = ConnectRelay(origin.port)

    def refuse(connection):
        connection.close()

    real = module.try_both

    def prove_then_refuse(*args):
        found = real(*args)
        proxy.serve = refuse
        return found

    monkeypatch.setattr(module, "try_both", prove_then_refuse)
    target = f"https://localhost:{origin.port}/"
    code, out = command("probe", f"127.0.0.1:{proxy.port}", "--target", target)
    proxy.close()
    assert code == 1
    assert "No more tunnel could be opened" in out


def test_probe_with_no_idle_timeout_leaves_it_unset(command, origin):
    proxy = ConnectRelay(origin.port)
    target = f"https://localhost:{origin.port}/"
    code, out = command("probe", f"127.0.0.1:{proxy.port}", "--target", target, "--max", 0.4)
    proxy.close()
    assert code == 0
    assert "may stay unset" in out


def test_a_measurement_shows_how_far_it_is(command, origin, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    proxy = ConnectRelay(origin.port)
    target = f"https://localhost:{origin.port}/"
    cmd = Command()
    opts = argparse.Namespace(target=target, max=0.3, timeout=5.0, quick=False)
    assert module.probe(f"127.0.0.1:{proxy.port}", opts) == 0
    proxy.close()
    assert "silent tunnels:" in capsys.readouterr().err
    assert cmd.requires_project is False


def test_watch_draws_a_line_each_second_and_a_summary(command):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            code, out = command("watch", f"127.0.0.1:{port}", "--seconds", 0)
    assert code == 0
    assert "    1 +0    -0    #" in out
    assert "none was seen" in out


def test_watch_ends_with_a_summary_when_interrupted(command, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sleep", interrupt)
    code, out = command("watch", "127.0.0.1:1")
    assert code == 0
    assert "0 opened and 0 closed" in out


def test_an_interrupted_probe_ends_quietly_and_proves_nothing(command, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "try_both", interrupt)
    code, out = command("probe", "127.0.0.1:1")
    assert code == 130
    assert out.startswith("Probing 127.0.0.1:1")


def test_stats_sums_up_and_compares(command, tmp_path):
    for name, requests in (("before.tsv", 1), ("after.tsv", 50)):
        ledger = Ledger(tmp_path / name)
        ledger.write(replace(ROW, requests=requests))
        ledger.close()
    with (tmp_path / "after.tsv").open("a") as file:
        file.write("torn")
    code, alone = command("stats", tmp_path / "after.tsv")
    assert code == 0
    code, out = command("stats", tmp_path / "after.tsv", "--before", tmp_path / "before.tsv")
    assert code == 0
    assert out.startswith(alone)
    assert "tunnels                       1   in 100 s" in out
    assert "tunnels per 1,000 requests        1,000.0 ->         20.0   x 0.02" in out
    assert "skipped:" in out
    assert "line 3" in out


def test_stats_of_nothing_is_said_so(command, tmp_path):
    Ledger(tmp_path / "empty.tsv").close()
    with pytest.raises(UsageError, match=r"empty\.tsv: no tunnel in it"):
        command("stats", tmp_path / "empty.tsv")


def test_stats_of_another_file_is_one_line(command, tmp_path, capsys):
    (tmp_path / "items.jsonl").write_text('{"url": "x"}\n' * 300)
    with pytest.raises(UsageError, match=r"^no tunnel ledger, .*items\.jsonl, line 1: 1 fields instead of 16$"):
        command("stats", tmp_path / "items.jsonl")
    assert capsys.readouterr().out == ""


def test_stats_of_a_ledger_with_many_broken_lines_names_the_first_ones(command, tmp_path):
    ledger = Ledger(tmp_path / "ledger.tsv")
    ledger.write(ROW)
    ledger.close()
    with (tmp_path / "ledger.tsv").open("a") as file:
        file.write("torn\n" * 30)
    _, out = command("stats", tmp_path / "ledger.tsv")
    assert len([line for line in out.splitlines() if line.startswith("skipped: ")]) == 21
    assert "skipped: 10 more lines" in out


def test_the_command_explains_itself():
    cmd = Command()
    assert "probe PROXY_URL | watch HOST:PORT | stats FILE" in cmd.syntax()
    assert "idle timeout" in cmd.short_desc()
    assert "settings to paste" in cmd.long_desc()
