"""``scrapy replay``: run dead letters again."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError
from scrapy.utils.conf import feed_process_params_from_cli
from scrapy.utils.project import inside_project

from scrapy_resiproxy.commands.leftovers import NewLetters, dry_lines, left_lines, new_lines
from scrapy_resiproxy.commands.paths import feed_files, not_a_feed, show_problems, unreadable
from scrapy_resiproxy.commands.runs import Run, Runs
from scrapy_resiproxy.components.feeds import overwritten
from scrapy_resiproxy.components.rebuilding import HOOK
from scrapy_resiproxy.deadletter.lock import Lock, LockedError
from scrapy_resiproxy.deadletter.progress import named
from scrapy_resiproxy.deadletter.replay import Filter, Selection, select
from scrapy_resiproxy.deadletter.times import iso
from scrapy_resiproxy.redact import MASK
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy import Spider

    from scrapy_resiproxy.deadletter.progress import Summary

EXIT_LETTERS_REMAIN: Final = 1
EXIT_LOCKED: Final = 3
"""Another process is replaying or compacting one of the feeds."""

NO_PROJECT: Final = (
    "this is no project, so no spider is known by its name. Change to the folder with scrapy.cfg, or run the spider's "
    "file: scrapy runspider FILE.py -s RESIPROXY_REPLAY=PATH"
)

OPTIONS: Final = {
    "class": "only those of this class, which is transient, rate, identity or terminal",
    "reason": "only those with this reason, such as parse_error; scrapy deadletter shows them",
    "target": "only those of this site",
    "id": "only this letter, even if it is poison or final; scrapy deadletter --list shows ids",
}


class Command(BaseRunSpiderCommand):
    """``scrapy replay PATH…``. Exit codes: 0 all done, 1 letters remain, 2 wrong usage, 3 a feed is locked."""

    requires_project = True
    feeds: dict[str, Any] | None = None
    """The feeds of ``-o``, which stand in for the configured ones."""

    def syntax(self) -> str:
        return "[options] PATH [PATH ...]"

    def short_desc(self) -> str:
        return "Run the dead letters in the given feeds again"

    def long_desc(self) -> str:
        return (
            "Run again what a crawl has given up: a dead-letter feed is the file that it wrote of that, such as "
            "deadletter/shop/2026-01-31T18-04-08.727.jsonl. There is one crawl for each spider and set of spider "
            "arguments, with the letters in the place of the start requests. PATH may hold wildcards. What is done is "
            "marked in the feed, so the same command can be given until nothing is left. Letters whose answer was "
            "final run only when asked for (--class, --reason, --id). Exit codes are 0 when all letters that were "
            "asked for are done, 1 when some remain, 2 for wrong usage and 3 when another process is busy with a feed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="Which letters")
        for name, text in OPTIONS.items():
            group.add_argument(
                f"--{name}",
                dest=f"only_{name}",
                action="append",
                metavar=name.upper(),
                help=f"{text} (may be repeated)",
            )
        group.add_argument(
            "--since", metavar="T", help="only those written since T, an ISO 8601 time or an age like 90m, 6h or 2d"
        )
        group.add_argument("--limit", metavar="N", help="at most N letters, the oldest first")
        group.add_argument("--now", action="store_true", help="also those that a server told to come back later for")
        group = parser.add_argument_group(title="How to run them")
        group.add_argument(
            "--offline",
            action="store_true",
            help="run callbacks on the pages that were kept (reasons parse_error and validator_error), send nothing",
        )
        group.add_argument("--dry-run", action="store_true", help="say what would run, and run nothing")
        group.add_argument(
            "--allow-overwrite", action="store_true", help="run although it will overwrite an item feed of the project"
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        if opts.output or opts.overwrite_output:
            assert self.settings is not None
            bare = self.settings.copy()
            bare.set("FEEDS", {}, priority="cmdline")
            self.feeds = feed_process_params_from_cli(bare, opts.output, overwrite_output=opts.overwrite_output)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        files = feed_files(args)
        self._check_project()
        given = _given(opts)
        now = datetime.now(UTC).timestamp()
        try:
            wanted = Filter.from_mapping(given, now=now)
        except ValueError as error:
            raise UsageError(f"--{error}", print_help=False) from None
        self._new: defaultdict[str, NewLetters] = defaultdict(NewLetters)
        self._out = sys.stderr if _writes_to_stdout(opts) else sys.stdout
        try:
            with ExitStack() as locks:
                if not opts.dry_run:
                    for name in files:
                        locks.enter_context(Lock(name))
                self._replay(files, wanted, given, opts, now)
        except LockedError as error:
            self._say(str(error))
            self.exitcode = EXIT_LOCKED
        except OSError as error:
            raise unreadable(error) from None

    def _check_project(self) -> None:
        """Raise ``UsageError`` where there is no spider to be found by the name that a letter holds."""
        assert self.crawler_process is not None
        if not inside_project() and not self.crawler_process.spider_loader.list():
            raise UsageError(NO_PROJECT, print_help=False)

    def _say(self, line: str) -> None:
        print(line, file=self._out)

    def _say_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)

    def _replay(
        self, files: list[str], wanted: Filter, given: dict[str, Any], opts: argparse.Namespace, now: float
    ) -> None:
        selection = select(files, wanted, now=now, rebuilders=self._rebuilders())
        if selection.problems and not selection.lines:
            raise not_a_feed(selection.problems)
        show_problems(selection.problems, self._say)
        runs = self._runs(files, selection, wanted, given, opts)
        if opts.dry_run:
            for run in runs:
                self._say(f"{run.shown}: {counted(run.letters, 'letter')} would be replayed")
            self._say_all(dry_lines(selection))
            return
        self._check_feeds(runs, opts)
        assert self.crawler_process is not None
        Runs(self.crawler_process, runs, self._report).start()  # type: ignore[arg-type]
        after = select(files, wanted, now=datetime.now(UTC).timestamp(), rebuilders=self._rebuilders())
        # Of the new letters those in the feeds themselves are open there.
        for feed in files:
            self._new.pop(feed, None)
        again = sum(found.again for found in self._new.values())
        self._say_all(left_lines(after, again=again, ran=bool(runs)))
        self._say_all(new_lines(self._new))
        if after.remaining:
            self.exitcode = EXIT_LETTERS_REMAIN

    def _rebuilders(self) -> set[str]:
        """The spiders that can rebuild what a letter does not hold."""
        assert self.crawler_process is not None
        loader = self.crawler_process.spider_loader
        return {name for name in loader.list() if hasattr(loader.load(name), HOOK)}

    def _runs(
        self,
        files: list[str],
        selection: Selection,
        wanted: Filter,
        given: dict[str, Any],
        opts: argparse.Namespace,
    ) -> list[Run]:
        """A crawl for each spider and set of arguments, those of ``-a`` laid over the letters'."""
        crawls: dict[tuple[str, str], tuple[dict[str, Any], list[str], int]] = {}
        for (spider, letter_args), entries in selection.groups().items():
            arguments = {**json.loads(letter_args), **opts.spargs}
            key = spider, json.dumps(arguments, sort_keys=True)
            _, sets, count = crawls.get(key, (arguments, [], 0))
            crawls[key] = arguments, [*sets, letter_args], count + len(entries)
        runs = []
        for (spider, _), (arguments, sets, count) in crawls.items():
            spidercls = self._spider(spider, arguments, count)
            if spidercls is not None:
                filter_ = {
                    **given,
                    "spider_args": [json.loads(each) for each in sets],
                    "since": None if wanted.since is None else iso(wanted.since),
                    "limit": count,
                }
                settings: dict[str, Any] = {"RESIPROXY_REPLAY": files, "RESIPROXY_REPLAY_FILTER": filter_}
                if self.feeds is not None:
                    settings |= {"FEEDS": self.feeds, "FEED_URI": None}
                runs.append(Run(named(spider, sets[0]), spidercls, arguments, count, wanted.offline, settings))
        return runs

    def _spider(self, name: str, arguments: dict[str, Any], count: int) -> type[Spider] | None:
        """The class of spider *name*, unless something is missing that the letters cannot tell."""
        assert self.crawler_process is not None
        try:
            spidercls = self.crawler_process.spider_loader.load(name)
        except KeyError:
            left = counted(count, "letter is", "letters are")
            self._say(f"{name}: {left} left, for this project has no spider of that name")
            self.exitcode = EXIT_LETTERS_REMAIN
            return None
        hidden = [key for key, value in arguments.items() if value == MASK]
        if hidden:
            left = counted(count, "letter is", "letters are")
            self._say(f"{name}: {left} left, for no letter holds a secret: add -a {hidden[0]}=VALUE")
            self.exitcode = EXIT_LETTERS_REMAIN
            return None
        return spidercls

    def _check_feeds(self, runs: list[Run], opts: argparse.Namespace) -> None:
        """Raise ``UsageError`` when a run would replace what an earlier crawl has put into an item feed."""
        if self.feeds is not None or opts.allow_overwrite:
            return
        assert self.settings is not None
        for run in runs:
            settings = self.settings.copy()
            run.spidercls.update_settings(settings)
            if lost := overwritten(settings):
                raise UsageError(
                    f"the replay of {run.shown} would overwrite the item feed {lost[0]}: "
                    "name another with -o FEED, or add --allow-overwrite",
                    print_help=False,
                )

    def _report(self, run: Run, summary: Summary | None) -> None:
        if summary is None:
            self._say(f"{run.shown}: did not run, see the log")
            self.exitcode = EXIT_LETTERS_REMAIN
            return
        self._say(summary.line(run.shown))
        if summary.new_letters:
            self._new[summary.new_feed].add(summary)
        if summary.again:
            self.exitcode = EXIT_LETTERS_REMAIN


def _given(opts: argparse.Namespace) -> dict[str, Any]:
    """The options as a replay filter spells them."""
    given = {name: getattr(opts, f"only_{name}") for name in OPTIONS}
    given |= {"since": opts.since, "limit": opts.limit, "now": opts.now, "offline": opts.offline}
    return {name: value for name, value in given.items() if value is not None}


def _writes_to_stdout(opts: argparse.Namespace) -> bool:
    return any(uri.startswith(("-", "stdout:")) for uri in (*(opts.output or ()), *(opts.overwrite_output or ())))
