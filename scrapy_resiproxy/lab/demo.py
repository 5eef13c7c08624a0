"""``python -m scrapy_resiproxy.lab.demo``: the same bad day twice, with stock Scrapy and with scrapy_resiproxy."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.lab.badday.day import LIMITED_HOST, Day
from scrapy_resiproxy.lab.badday.play import DemoError, play

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_resiproxy.lab.badday.counts import Counts
    from scrapy_resiproxy.lab.badday.play import Played

WIDTH: Final = 100
MEGABYTE: Final = 1e6

_DESCRIPTION: Final = """\
Run the same bad day twice on this machine, first with stock Scrapy and then with scrapy_resiproxy, replay what the
latter kept, and compare the two in a table. Takes about a minute; nothing but 127.0.0.1 is connected to.
"""


def introduction(day: Day) -> list[str]:
    """Return the lines that say what will be played."""
    sites = day.sites()
    wanted = sum(len(site.items) for site in sites)
    return [
        f"A bad day for {len(sites)} sites behind a residential proxy, all of them on this machine. "
        f"Wanted are {wanted} pages:",
        "",
        *(f"  {site.host:<17}{len(site.items):>4} pages  {site.told}" for site in sites),
        "",
    ]


def table(played: Played) -> list[str]:
    """Return the table, a line each."""
    columns = (played.stock, played.guarded, played.replayed)
    rows = [("", ("stock Scrapy", "with scrapy_resiproxy", "after the replay"))]
    rows += [(label, tuple(map(str, cells))) for label, cells in _figures(played.stock.wanted, columns)]
    return [f"{label:<30}{cells[0]:>14}{cells[1]:>24}{cells[2]:>19}".rstrip() for label, cells in rows]


def _figures(wanted: int, columns: Sequence[Counts]) -> Iterable[tuple[str, list[object]]]:
    yield "requests sent", [each.requests for each in columns]
    yield "MB through the proxy", [f"{each.bytes / MEGABYTE:.1f}" for each in columns]
    yield f"pages delivered (of {wanted})", [each.delivered for each in columns]
    yield "fake pages delivered as data", [each.fake for each in columns]
    yield "URLs lost without a trace", [each.lost for each in columns]
    yield "URLs kept to be run again", [each.kept for each in columns]
    yield "blocks earned", [each.blocks for each in columns]


def remarks(played: Played) -> list[str]:
    """Return what the words of the table mean, wrapped to lines."""
    paragraphs = [
        "The last column counts the crawl and its replay together. Every page is either delivered, or fake, or lost, "
        "or kept. Lost: no item came out of the spider, and nothing is left to run again; a line in the log at best.",
        f"A block: {LIMITED_HOST} shut the whole crawl out for a minute. Using a session up is not counted as one: the "
        f"two sites that do so to everybody did it {played.stock.sessions} times to stock Scrapy, which went on with "
        f"the same sessions, and {played.guarded.sessions} times to scrapy_resiproxy, which took new ones.",
    ]
    if played.fake:
        taken = {name: played.fake[name] for name in ("title", "cents")}
        paragraphs.insert(1, f"A fake page that stock Scrapy stored as {played.fake['asked']}: {taken}")
    return [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, WIDTH)]


def main(argv: Sequence[str] | None = None, day: Day | None = None) -> int:
    """Run the demo; return 0, or 1 after one line on what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m scrapy_resiproxy.lab.demo", description=_DESCRIPTION)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave logs, items and dead letters in this new directory")
    kept: Path | None = parser.parse_args(argv).keep
    directory = kept
    try:
        directory = _directory(kept)
        _run(day or Day(), directory)
    except DemoError as error:
        print(f"The demo cannot go on: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    if kept:
        print(f"Logs, items and dead letters: {kept}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _directory(kept: Path | None) -> Path:
    """Return an empty directory. Raises DemoError."""
    try:
        if kept is None:
            return Path(tempfile.mkdtemp(prefix="badday-"))
        kept.mkdir(parents=True)
    except OSError as error:
        raise DemoError(str(error)) from None
    return kept.resolve()


def _run(day: Day, directory: Path) -> None:
    began = time.monotonic()
    _say_all(introduction(day))
    played = play(day, directory, _say)
    _say_all(["", *table(played), "", *remarks(played), ""])
    _say(f"That took {time.monotonic() - began:.0f} seconds.")


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        _say(line)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
