from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def crawl(pki):
    """The stats of a crawl, and all that it logged."""
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, folder / "run_crawl.py", pki.good],
        env={"PYTHONPATH": f"{folder}:{folder.parents[1]}", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_every_page_comes_through_a_few_tunnels(crawl):
    stats, _ = crawl
    assert stats["good"] == 41
    assert stats["resiproxy/tunnel/opened_count"] <= 4
    assert stats["resiproxy/tunnel/reused_count"] >= 36
    assert stats["resiproxy/tunnel/overhead_ratio"] > 0
    assert not any(name.startswith("failed/") for name in stats)


def test_a_refused_tunnel_is_retried_by_scrapys_own_middleware(crawl):
    stats, _ = crawl
    assert stats["resiproxy/tunnel/connect_status_count/502"] >= 1
    assert stats["retry/count"] == stats["resiproxy/tunnel/connect_status_count/502"]


def test_no_log_line_of_the_crawl_holds_the_password(crawl):
    stats, log = crawl
    assert "canaryPass99" not in log
    assert "Y2FuYXJ5UGFzczk5" not in log
    assert "Traceback" not in log
    assert "canaryPass99" not in json.dumps(stats)
