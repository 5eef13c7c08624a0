"""A process is killed while it writes: what it had written before is all there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed, read_feed
from scrapy_resiproxy.deadletter.record import encode

WRITE = """
import json, sys
from scrapy_resiproxy.deadletter.feed import DeadLetterFeed
feed, letter = DeadLetterFeed(sys.argv[1]), json.loads(sys.stdin.read())
sys.stdout.write("ready\\n"); sys.stdout.flush()
number = 0
while True:
    number += 1
    letter["key"] = str(number)
    feed.write(letter)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("seed", range(10))
def test_sigkill_tears_at_most_the_last_line(seed, tmp_path, letter):
    path = tmp_path / "feed.jsonl"
    made = letter(spider_args={"x": "y" * random.Random(seed).randrange(10, 400_000)})
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
    )
    process.stdin.write(encode(made))
    process.stdin.close()
    assert process.stdout.readline() == b"ready\n"
    for _ in range(random.Random(seed).randrange(1, 40)):
        last = process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    told = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    acknowledged = int(told[-1] if told else last)

    problems: list[int] = []
    keys = [int(data["key"]) for _, data in read_feed(path, problem=lambda number, text: problems.append(number))]
    assert keys == list(range(1, len(keys) + 1))
    assert len(keys) >= acknowledged
    assert len(problems) <= 1
    assert problems in ([], [len(keys) + 1])

    after = letter()
    DeadLetterFeed(path).write(after)
    assert [data["id"] for _, data in read_feed(path)] == [made["id"]] * len(keys) + [after["id"]]
