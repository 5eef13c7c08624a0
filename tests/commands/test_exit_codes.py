"""The exit codes that the reference promises, each of a command that really ran."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_resiproxy.deadletter.lock import Lock

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "commands.rst"
MODES = {
    "asyncio reactor": {},
    "another reactor": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "no reactor": {"TWISTED_REACTOR_ENABLED": False},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_crawl_that_refuses_to_start_fails(mode, project, site):
    project.settings |= MODES[mode]
    project.run("crawl", "shop", paths=["/1"], code=0)
    project.run("crawl", "shop", "-s", "RESIPROXY_MAX_ATTEMPTS=none", paths=["/2"], code=1)
    assert "RESIPROXY_MAX_ATTEMPTS is 'none'; it must be" in project.log
    assert "Traceback" not in project.log
    assert site.asked == {"/1": 1}


@pytest.fixture
def feed(project):
    return project.lose("/1")


@pytest.fixture
def locked(project, feed):
    with Lock(project.folder / feed):
        yield


@pytest.fixture
def down(site):
    site.status["*"] = 503


@pytest.fixture
def closed_port():
    """A port that nobody listens on and that nobody else gets."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture
def silent_port():
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


CASES = {
    ("replay", 0): ("replay {feed}", ()),
    ("replay", 1): ("replay {feed}", ("down",)),
    ("replay", 2): ("replay", ()),
    ("replay", 3): ("replay {feed}", ("locked",)),
    ("deadletter", 0): ("deadletter {feed}", ()),
    ("deadletter", 2): ("deadletter no-such-file", ()),
    ("deadletter", 3): ("deadletter --compact {feed}", ("locked",)),
    ("tunnel", 0): ("tunnel watch 127.0.0.1:1 --seconds 0", ()),
    ("tunnel", 1): ("tunnel probe 127.0.0.1:{closed_port}", ("closed_port",)),
    ("tunnel", 2): ("tunnel dig", ()),
}
INTERRUPTED = ("tunnel", 130)


@pytest.mark.parametrize(("case", "how"), CASES.items(), ids=[f"{name} {code}" for name, code in CASES])
def test_a_command_ends_with_the_code_that_is_promised(case, how, project, feed, request):
    words, fixtures = how
    values = {name: request.getfixturevalue(name) for name in fixtures}
    output = project.run(*words.format(feed=feed, **values).split(), code=case[1])
    assert "Traceback" not in output + project.log


def test_an_interrupted_probe_ends_with_its_code(project, silent_port):
    process = project.start("tunnel", "probe", f"127.0.0.1:{silent_port}", "--timeout", "5")
    assert process.stdout.readline().startswith("Probing ")
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=120)
    assert process.returncode == INTERRUPTED[1]
    assert "Traceback" not in log


def test_every_code_in_the_reference_has_a_case():
    found = set()
    for name, text in re.findall(
        r"\.\. command:: (\w+)\n(.*?)(?=\.\. command::|\nThe lab\n)", REFERENCE.read_text(), re.DOTALL
    ):
        codes = text.partition(".. list-table:: Exit codes")[2]
        found |= {(name, int(code)) for code in re.findall(r"^   \* - ``(\d+)``$", codes, re.MULTILINE)}
    assert found == CASES.keys() | {INTERRUPTED}


@pytest.mark.parametrize(
    ("module", "option"), [("scrapy_resiproxy.lab", "--items=many"), ("scrapy_resiproxy.lab.demo", "--no-such-option")]
)
def test_a_wrong_argument_of_a_program_of_the_lab_is_code_2(module, option):
    ended = subprocess.run([sys.executable, "-m", module, option], cwd=REFERENCE.parents[2], capture_output=True)
    assert ended.returncode == 2
