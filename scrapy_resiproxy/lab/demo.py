"""``python -m scrapy_resiproxy.lab.demo``: the same bad day twice, with stock Scrapy and with scrapy_resiproxy."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.lab.badday.day import LIMITED_HOST, Day
from scrapy_resiproxy.lab.badday.play import GUARDED, DemoError, play

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_resiproxy.lab.badday.counts import Counts
    from scrapy_resiproxy.lab.badday.play import Played

WIDTH: Final = 100
KILOBYTE: Final = 1e3

_DESCRIPTION: Final = """\
Run the same bad day twice on this machine, first with stock Scrapy and then with scrapy_resiproxy, replay what the
latter kept, and compare the two in a table. Takes less than a minute; nothing but 127.0.0.1 is connected to.
Exit codes: 0, 1 after one line on what went wrong, 2 wrong usage, 130 interrupted.
"""


def introduction(day: Day) -> list[str]:
    """Return the lines that say what will be played."""
    sites = day.sites()
    wanted = sum(len(site.items) for site in sites)
    first = f"A bad day for {len(sites)} sites behind a residential proxy, all on this machine. Wanted: {wanted} pages."
    return [first, "", *(f"  {site.host:<17}{len(site.items):>4} pages  {site.told}" for site in sites), ""]


def table(played: Played) -> list[str]:
    """Return the table, a line each."""
    columns = (played.stock, played.guarded, played.replayed)
    lines = [_line("", ("stock Scrapy", "with scrapy_resiproxy", "after the replay"))]
    return lines + [_line(label, cells) for label, cells in _figures(played.stock.wanted, columns)]


def _line(label: str, cells: Sequence[object]) -> str:
    stock, guarded, replayed = cells
    return f"{label:<30}{stock!s:>14}{guarded!s:>24}{replayed!s:>19}"


def _figures(wanted: int, columns: Sequence[Counts]) -> Iterable[tuple[str, list[object]]]:
    yield "requests sent", [each.requests for each in columns]
    yield f"pages delivered (of {wanted})", [each.delivered for each in columns]
    yield "fake pages delivered as data", [each.fake for each in columns]
    yield "URLs lost without a trace", [each.lost for each in columns]
    yield "URLs kept to be run again", [each.kept for each in columns]
    yield "blocks earned", [each.blocks for each in columns]
    yield "kB paid per delivered page", [f"{each.bytes / KILOBYTE / max(1, each.delivered):.1f}" for each in columns]


_COLUMNS: Final = """
The last column counts the crawl and its replay together. Each page is in one of four lines: delivered, fake, lost or
kept. Lost: no item came out of the spider and nothing is left to run again; there is a line in the log at best.
"""
_BLOCKS: Final = """
A block: {host} shut the whole crawl out for a minute. A session that a site has had enough of is not counted as one:
the two sites that do so to everybody did it {stock} times to stock Scrapy, which went on with the same sessions, and
{guarded} times to scrapy_resiproxy, which took new ones.
"""


def remarks(played: Played) -> list[str]:
    """Return what the words of the table mean, wrapped to lines."""
    sessions = {"stock": played.stock.sessions, "guarded": played.guarded.sessions}
    paragraphs = [_COLUMNS, _BLOCKS.format(host=LIMITED_HOST, **sessions)]
    if played.fake:
        taken = {name: played.fake[name] for name in ("title", "cents")}
        paragraphs.insert(1, f"A fake page that stock Scrapy stored as {played.fake['asked']}: {taken}")
    return [line for paragraph in paragraphs for line in (*textwrap.wrap(paragraph.strip(), WIDTH), "")]


def main(argv: Sequence[str] | None = None, day: Day | None = None) -> int:
    """Run the demo; return 0, 130 when it was interrupted, or 1 after one line on what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m scrapy_resiproxy.lab.demo", description=_DESCRIPTION)
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        help="make this folder, which must not exist yet, and leave logs, items and "
        "dead letters in it (default is to remove them)",
    )
    kept: Path | None = parser.parse_args(argv).keep
    try:
        directory = _new_directory(kept)
        with _removed_unless_it_fails(directory) if kept is None else nullcontext():
            _run(day or Day(), directory)
    except DemoError as error:
        print(f"The demo cannot go on: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    _say_all(what_is_there(directory if kept else None))
    return 0


def what_is_there(kept: Path | None) -> list[str]:
    """Return the lines that say where everything is, or how to have it next time."""
    if kept is None:
        return [
            "Its logs, items and dead letters are removed. To keep and read them next time: make demo KEEP=DIR",
            "(in a checkout), or python -m scrapy_resiproxy.lab.demo --keep DIR",
        ]
    letters = shlex.quote(str(kept / GUARDED / "deadletter"))
    return [
        f"Logs (scrapy.log), items and dead letters are in {kept}, a folder for each of the two crawls. Such as:",
        f"scrapy deadletter {letters}/*/*.jsonl",
    ]


def _new_directory(kept: Path | None) -> Path:
    """Return an empty directory. Raises DemoError."""
    try:
        if kept is None:
            return Path(tempfile.mkdtemp(prefix="badday-"))
        kept.mkdir(parents=True)
    except FileExistsError:
        raise DemoError(f"--keep (KEEP=) must name a folder that does not exist yet; {str(kept)!r} does") from None
    except OSError as error:
        raise DemoError(str(error)) from None
    return kept.resolve()


@contextmanager
def _removed_unless_it_fails(directory: Path) -> Iterator[None]:
    """Remove `directory` after the block; an error's message names the logs in it, so then it stays."""
    try:
        yield
    except DemoError:
        raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


def _run(day: Day, directory: Path) -> None:
    began = time.monotonic()
    _say_all(introduction(day))
    played = play(day, directory, _say)
    _say_all(["", *table(played), "", *remarks(played)])
    _say(f"That took {time.monotonic() - began:.0f} seconds.")


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        _say(line)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
