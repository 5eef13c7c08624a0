"""What the benchmarks share: rounds that take turns, medians, and tables that can be read."""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))


@dataclass
class Table:
    """A table of one subject. The first column is text, the others are aligned to the right."""

    title: str
    head: Sequence[str]
    notes: Sequence[str] = ()
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        self.rows.append([str(cell) for cell in cells])

    def print(self) -> None:
        lines = [list(self.head), *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        print(f"\n{self.title}\n{'=' * len(self.title)}")
        for number, line in enumerate(lines):
            first, *others = (
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            print("  ".join([first, *others]).rstrip())
            if not number:
                print("  ".join("-" * width for width in widths))
        for note in self.notes:
            print(note)
        sys.stdout.flush()


def arguments(description: str | None) -> argparse.Namespace:
    """The command line: every benchmark knows ``--quick``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and numbers that are good for a glance")
    return parser.parse_args()


def take_turns(rounds: int, cases: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each case over *rounds*, in each of which every case has its turn, forwards and backwards."""
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        for name in reversed(cases) if number % 2 else cases:
            seen[name].append(cases[name]())
    return {name: statistics.median(values) for name, values in seen.items()}


def cpu_of(work: Callable[[], Any], count: int) -> float:
    """Microseconds of this thread's CPU for each of the *count* things that *work* does."""
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / count / 1000


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def environment(*paths: str, **more: str) -> dict[str, str]:
    """The environment of a process that is measured, with *paths* to import from.

    Byte code is kept, as it is of an installed package: to compile ours in every process anew leaves garbage, and its
    collection falls into the run.
    """
    path = os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", **more}


def in_a_process(script: str, *words: object, cwd: str | None = None) -> dict[str, Any]:
    """Run *script* in a process of its own and return the JSON that it prints last."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *map(str, words)],
        cwd=cwd,
        env=environment(str(ROOT)),
        stdout=subprocess.PIPE,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def ratio(ours: float, stock: float) -> str:
    return f"{ours / stock:.2f} x" if stock else "-"


def verdict(value: float, limit: float) -> str:
    return f"{'yes' if value <= limit else 'NO'} ({limit:g})"


def versions() -> str:
    """One line on what was measured with."""
    import platform
    from importlib.metadata import version

    return (
        f"Python {platform.python_version()}, Scrapy {version('scrapy')}, Twisted {version('twisted')}, "
        f"{os.cpu_count()} cores. Loopback only: read ratios, not seconds."
    )
