from __future__ import annotations

import json

import pytest
from scripted_proxy import SCRIPTS, ScriptedProxy

EXPECTED = {
    "fin": "answer/None/closed",
    "rst": "answer/None/reset",
    "never": "answer/None/timeout",
    "407-keep": "answer/407/Auth",
    "407-close": "answer/407/Auth",
    "403-keep": "answer/403/No",
    "429-keep": "answer/429/Slow",
    "502-close": "answer/502/Bad",
    "only-100": "answer/None/timeout",
    "201-silence": "tls/None/timeout",
    "204-silence": "tls/None/timeout",
    "ssh-banner": "answer/None/garbage",
    "garbage": "answer/None/garbage",
    "half-line": "answer/None/timeout",
    "endless": "answer/200/head_too_long",
    "200-fin": "tls/None/closed",
    "200-rst": "tls/None/reset",
    "200-silence": "tls/None/timeout",
    "200-html": "tls/None/not_tls",
    "200-tls-alert": "tls/None/tls_error",
}
COUNT = 1000


@pytest.fixture(scope="module")
def report(run_program):
    with ScriptedProxy() as port:
        return json.loads(run_program("run_leaks.py", port, COUNT))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_thousand_failures_leave_no_socket_and_no_timer(report, script):
    seen = report[script]["seen"]
    # The kernel reports a reset once: one in some thousand is read as an end by whoever asks second.
    seen.pop("answer/None/closed" if script == "rst" else None, None)
    assert list(seen) == [EXPECTED[script]]
    assert COUNT - 10 <= seen[EXPECTED[script]] <= COUNT
    assert (report[script]["left"], report[script]["calls"]) == (0, 0)
