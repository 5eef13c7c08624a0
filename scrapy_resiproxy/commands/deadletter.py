"""``scrapy deadletter``: look into dead-letter feeds."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_resiproxy.commands.paths import feed_files, not_a_feed, show_problems, unreadable
from scrapy_resiproxy.deadletter.compact import compact
from scrapy_resiproxy.deadletter.index import Entry, Index, index
from scrapy_resiproxy.deadletter.lock import LockedError
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.deadletter.replay import POISON
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

EXIT_LOCKED = 3
"""Another process is replaying or compacting one of the feeds."""

COLUMNS = ("class", "reason", "target", "open")


class Command(ScrapyCommand):
    """``scrapy deadletter PATH…``. Exit codes: 0, 2 wrong usage, 3 a feed is locked (``--compact`` only)."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as in the base class

    def syntax(self) -> str:
        return "[options] PATH [PATH ...]"

    def short_desc(self) -> str:
        return "Show what the given dead-letter feeds hold"

    def long_desc(self) -> str:
        return (
            "Count what a crawl has given up and no replay has done yet: the open dead letters in the given feeds, by "
            "class, reason and target. A feed is the file that a crawl wrote, such as "
            "deadletter/shop/2026-01-31T18-04-08.727.jsonl; PATH may hold wildcards. A letter is open while it is "
            "neither done nor superseded by a newer one about the same request; poison has failed in three replays. "
            "Exit codes are 0 when it did what was asked, 2 for wrong usage and 3 when another process is busy with a "
            "feed (--compact only)."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="What to show")
        group.add_argument(
            "--list", action="store_true", help="one line for each open letter, with its id and why it may not run"
        )
        group.add_argument("--urls", action="store_true", help="the URL of each open letter, alone on its line")
        group.add_argument(
            "--compact", action="store_true", help="rewrite the feeds without what is done or superseded"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if sum((opts.list, opts.urls, opts.compact)) > 1:
            raise UsageError("choose one of --list, --urls and --compact", print_help=False)
        files = feed_files(args)
        try:
            if opts.compact:
                self._compact(files)
            else:
                self._show(files, opts)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader, such as ``head``, has enough. What is still buffered must not fail at the exit of Python.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            raise unreadable(error) from None

    def _compact(self, files: Iterable[str]) -> None:
        for name in files:
            try:
                kept, dropped = compact(name)
            except LockedError as error:
                print(error)
                self.exitcode = EXIT_LOCKED
            else:
                print(f"{name}: {counted(kept, 'line')} kept, {dropped} dropped")

    def _show(self, files: Sequence[str], opts: argparse.Namespace) -> None:
        found = index(files)
        entries = [chain[-1] for chain in found.open()]
        if opts.urls:
            for _, letter in _letters(entries):
                print(letter["request"]["url"])
            return
        if found.problems and not found.entries and not found.marks:
            raise not_a_feed(found.problems)
        show_problems(found.problems, print)
        if opts.list:
            for entry, letter in _letters(entries):
                print(_line(entry, letter))
        else:
            print(_headline(files, found, entries))
            for line in table(entries):
                print(line)


def _letters(entries: Iterable[Entry]) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Each entry with its letter; one whose file was rewritten meanwhile is left out."""
    for entry in entries:
        try:
            yield entry, entry.read()
        except LetterError:
            continue


def _line(entry: Entry, letter: dict[str, Any]) -> str:
    notes = [state for state, holds in _states(entry, letter) if holds]
    request = letter["request"]
    parts = [letter["time"], entry.id, entry.class_, entry.reason, entry.target, request["method"], request["url"]]
    return "  ".join([*parts, *(f"({note})" for note in notes)])


def _states(entry: Entry, letter: dict[str, Any]) -> list[tuple[str, bool]]:
    return [
        ("poison", entry.replay_count >= POISON),
        (f"not replayable: {str(letter.get('obstacle'))!a}", not entry.replayable),
        (f"not before {letter['not_before']}", entry.not_before is not None),
    ]


def _headline(files: Sequence[str], found: Index, entries: Sequence[Entry]) -> str:
    states = Counter(found.marks[entry.id] for entry in found.entries if entry.id in found.marks)
    older = len(found.entries) - states.total() - len(entries)
    parts = [
        f"{counted(len(found.entries), 'letter')} in {counted(len(files), 'feed')}",
        f"{len(entries)} open",
        f"{states['done']} done",
        f"{states['superseded'] + older} superseded",
    ]
    poison = sum(entry.replay_count >= POISON for entry in entries)
    unreplayable = sum(not entry.replayable for entry in entries)
    parts += [f"{count} {what}" for count, what in ((poison, "poison"), (unreplayable, "not replayable")) if count]
    return ", ".join(parts)


def table(entries: Iterable[Entry]) -> list[str]:
    """Counts by class, reason and target as aligned lines, the largest first; none for no entries."""
    counts = Counter((entry.class_, entry.reason, entry.target) for entry in entries)
    if not counts:
        return []
    rows = [COLUMNS, *((*names, str(count)) for names, count in sorted(counts.items(), key=_largest_first))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1].rjust(widths[-1])]
        )
        for row in rows
    ]


def _largest_first(item: tuple[tuple[str, str, str], int]) -> tuple[int, tuple[str, str, str]]:
    return -item[1], item[0]
