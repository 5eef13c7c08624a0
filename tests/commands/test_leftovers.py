"""The lines that a replay ends with."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from scrapy_resiproxy.commands.leftovers import NewLetters, dry_lines, left_lines, new_lines
from scrapy_resiproxy.deadletter.replay import Selection

ENTRY = SimpleNamespace()
FINAL = "final and not asked for (add --class or --reason)"


def selection(entries=0, classes=(), waits_until=None, **left):
    """*left* is why letters are left, and how many."""
    return Selection([ENTRY] * entries, left=Counter(left), unasked=set(classes), waits_until=waits_until)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (left_lines(selection()), ["nothing is left"]),
        (left_lines(selection(), ran=False), ["no open letter to run"]),
        (left_lines(selection(1)), ["left: 1 open"]),
        (left_lines(selection(2, limit=1), again=3), ["left: 2 open, 3 failed again, 1 over the limit"]),
        (
            left_lines(selection(waiting=1, waits_until=0.0), ran=False),
            ["left: 1 not due before their not_before (add --now), the first is due at 1970-01-01T00:00:00.000000Z"],
        ),
        (dry_lines(selection(2)), ["nothing would be left"]),
        (dry_lines(selection()), ["no open letter to run"]),
        (dry_lines(selection(2, poison=1)), ["would be left: 1 poison: failed in 3 replays (add --id)"]),
        (new_lines({}), []),
        (
            new_lines({"a b.jsonl": NewLetters(1, stored=1)}),
            [
                (
                    "1 request ended as a dead letter. 1 of these has its page with it: to run a fixed callback there "
                    "and send nothing: scrapy replay --offline 'a b.jsonl'"
                ),
                "To send it again: scrapy replay 'a b.jsonl'",
            ],
        ),
        (
            new_lines({"a.jsonl": NewLetters(2)}),
            ["2 requests ended as dead letters. To send them again: scrapy replay a.jsonl"],
        ),
    ],
)
def test_what_is_left_is_said(lines, said):
    assert lines == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "1 letter whose answer was final. To run it"), (2, "2 letters whose answer was final. To run them")],
)
def test_a_final_answer_is_told_with_the_option_that_runs_it(count, said):
    found = selection(classes={"terminal", "identity"}, unasked=count)
    last = f"NOT RUN: {said}, give the same command with --class identity --class terminal"
    assert left_lines(found) == [f"left: {count} {FINAL}", last]
    assert dry_lines(found) == [f"would be left: {count} {FINAL}", last]
