from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from real_programs import Programs
from tunnel_kit import certificates


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    """Certificates of a throw-away authority, as files."""
    return certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def trusted(pki, monkeypatch):
    """Make the throw-away authority the only one that the platform trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(pki.ca))


@pytest.fixture(scope="session")
def run_program():
    """Run a program of this folder in a process of its own, where a reactor may run; return what it prints."""

    def run(name, *args, env=None, timeout=600):
        folder = Path(__file__).parent
        path = os.pathsep.join([str(folder), str(folder.parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(folder / name), *map(str, args)],
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def programs(tmp_path):
    """Real proxies and origins, as long as the test lasts."""
    running = Programs(tmp_path)
    yield running
    running.stop()
