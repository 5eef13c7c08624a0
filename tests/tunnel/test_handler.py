"""The download handler in a process with a running reactor; each claim is a function of ``run_handler.py``."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("run_handler.py")
CLAIMS = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.AsyncFunctionDef) and [a.arg for a in node.args.args] == ["lab"]
]


@pytest.fixture(scope="module")
def report(run_program, pki):
    env = {"SSL_CERT_FILE": str(pki.ca)}
    return json.loads(run_program(PROGRAM.name, pki.good, pki.foreign, env=env))


@pytest.mark.parametrize("claim", CLAIMS)
def test_handler(report, claim):
    assert report[claim] == "as claimed", report[claim]


def test_every_claim_was_tried(report):
    assert sorted(report) == sorted(CLAIMS)
