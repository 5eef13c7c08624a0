"""Plays the bad day: the lab in one process, each crawl in another, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.lab.badday.counts import Counts, count, letter_files, read_items
from scrapy_resiproxy.lab.badday.day import DOWN_HOST, LIMITED_HOST, Day
from scrapy_resiproxy.lab.running import running_lab
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_resiproxy.lab.running import RunningLab

PROGRESS_EVERY: Final = 5.0
"""Seconds between two lines."""
TIME_LIMIT: Final = 150.0
"""Seconds after which a crawl is taken to hang."""
LOG: Final = "scrapy.log"
STOCK: Final = "stock"
GUARDED: Final = "guarded"
"""The folders of the two crawls, named after their settings modules."""
LETTERS_REMAIN: Final = 1
"""The exit code with which ``scrapy replay`` says so."""
_IMPORT_ROOT: Final = Path(__file__).parents[3]


class DemoError(Exception):
    """It cannot go on; the message is one line for the person who watches."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of the day."""

    stock: Counts
    guarded: Counts
    replayed: Counts
    """Of the guarded crawl and its replay together."""
    fake: dict[str, Any] | None
    """A fake page that stock Scrapy took for data."""


def play(day: Day, directory: Path, say: Callable[[str], None]) -> Played:
    """Play `day` with stock Scrapy, with scrapy_resiproxy, and replay what the latter kept.

    `directory` gets two project directories, ``stock`` and ``guarded``, with logs, items and dead letters, and ``lab``
    with the ledger. `say` gets a line each time that there is something to tell. Raises DemoError.
    """
    behaviours = {site.host: site.behaviour for site in day.sites()}
    said = directory / "lab.log"
    try:
        with said.open("wb") as stream, running_lab(behaviours, directory=directory / "lab", stderr=stream) as lab:
            return _Play(day, directory, lab, say).run()
    except RuntimeError:
        raise DemoError(f"the lab did not start: {_last_line(said)}") from None
    except OSError as error:
        raise DemoError(f"{error} (see {said})") from None


class _Play:
    def __init__(self, day: Day, directory: Path, lab: RunningLab, say: Callable[[str], None]) -> None:
        self._day = day
        self._urls = [url for site in day.sites() for url in site.urls()]
        self._stock = directory / STOCK
        self._guarded = directory / GUARDED
        self._lab = lab
        self._say = say
        self._before = self._so_far()
        """Requests and good pages before the present step."""

    def run(self) -> Played:
        self._say("1 of 4: stock Scrapy, with its retries and one of five proxy sessions at random for each request")
        self._crawl(self._stock)
        stock = self._count(self._stock)
        self._lab.reset()
        self._say("2 of 4: the same day from its beginning, the same spider, with scrapy_resiproxy")
        self._crawl(self._guarded)
        guarded = self._count(self._guarded)
        self._replay()
        fake = next((item for item in read_items(self._stock) if item["kind"] != "good"), None)
        return Played(stock, guarded, self._count(self._guarded), fake)

    def _crawl(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "urls.json").write_text(json.dumps(self._urls), encoding="utf-8")
        before = self._lab.summary()["requests"]
        self._scrapy(directory, "crawl", "badday")
        if self._lab.summary()["requests"] == before:
            raise DemoError(f"the crawl sent no request: {_last_line(directory / LOG)}")

    def _replay(self) -> None:
        if not letter_files(self._guarded):
            return
        self._say("3 of 4: the parser is fixed and runs on the pages that were kept: scrapy replay --offline")
        fixed = ("-s", "BADDAY_PARSER_FIXED=True", "deadletter/*/*.jsonl")
        self._scrapy(self._guarded, "replay", "--offline", "--reason", "parse_error", *fixed)
        self._say(f"4 of 4: {DOWN_HOST} is up again, and its dead letters are run: scrapy replay")
        self._lab.set_behaviour(DOWN_HOST, "ok")
        self._scrapy(self._guarded, "replay", *fixed)

    def _scrapy(self, directory: Path, *command: str) -> None:
        """Run a scrapy command in `directory`, whose name is that of its settings module."""
        name = directory.name
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_IMPORT_ROOT), os.environ.get("PYTHONPATH")])),
            "SCRAPY_SETTINGS_MODULE": f"scrapy_resiproxy.lab.badday.{name}",
            "BADDAY_GIVE_UP": str(self._day.give_up),
            "BADDAY_PROXY" if name == STOCK else "RESIPROXY_PROXY": self._lab.proxy("{session}"),
        }
        self._before = self._so_far()
        with (directory / LOG).open("ab") as log:
            code = self._watched(
                subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", "scrapy", *command], cwd=directory, env=environment, stdout=log, stderr=log
                )
            )
        if code not in {0, LETTERS_REMAIN if command[0] == "replay" else 0}:
            raise DemoError(f"scrapy {command[0]} ended with exit code {code}: {_last_line(directory / LOG)}")

    def _watched(self, process: subprocess.Popen[bytes]) -> int:
        """Say every few seconds how far it is; return the exit code. It does not outlive an error here."""
        began = time.monotonic()
        with process:
            try:
                while (waited := time.monotonic() - began) < TIME_LIMIT:
                    try:
                        code = process.wait(PROGRESS_EVERY)
                    except subprocess.TimeoutExpired:
                        self._say(f"    {waited + PROGRESS_EVERY:3.0f} s: {self._how_far()}")
                        continue
                    self._say(f"    done in {time.monotonic() - began:.0f} s: {self._how_far()}")
                    return code
                raise DemoError(f"a crawl did not end within {TIME_LIMIT:g} seconds")
            finally:
                if process.poll() is None:
                    process.kill()

    def _so_far(self) -> tuple[int, int]:
        ledger = self._lab.summary()
        return ledger["requests"], ledger["outcomes"].get("ok", 0)

    def _how_far(self) -> str:
        """What the present step has sent."""
        sent, good = (now - before for now, before in zip(self._so_far(), self._before, strict=True))
        if not sent:
            return "no request sent"
        return f"{counted(sent, 'request')} sent, {counted(good, 'good page')} came back"

    def _count(self, directory: Path) -> Counts:
        return count(directory, self._urls, self._lab.summary(), limited=LIMITED_HOST)


def _last_line(log: Path) -> str:
    """Return the last error in `log`, or its last line, and where to find the rest."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if " ERROR: " in line or " CRITICAL: " in line] or lines
    return f"{errors[-1] if errors else 'it said nothing'} (see {log})"
