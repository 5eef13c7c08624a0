"""``scrapy tunnel``: prove a proxy's port, measure its idle timeout, watch tunnels, read the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_resiproxy.commands.paths import show_problems
from scrapy_resiproxy.commands.progress import progress
from scrapy_resiproxy.tunnel.ledger import Row, read_rows
from scrapy_resiproxy.tunnel.probe import Verdict, judge, open_line, trusting_context, try_both
from scrapy_resiproxy.tunnel.probe_idle import Wait, measure_silence, measure_warmth
from scrapy_resiproxy.tunnel.probe_report import advice, tell_silence, tell_warmth
from scrapy_resiproxy.tunnel.probe_wire import Port, StageFailed, Target
from scrapy_resiproxy.tunnel.spans import Span, compare, describe
from scrapy_resiproxy.tunnel.watch import Churn, addresses_of, connections_to

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


WORDS: Final = {
    "probe": ("PROXY_URL", "http://user:password@gateway.example:7000"),
    "watch": ("HOST:PORT", "gateway.example:7000"),
    "stats": ("FILE", "tunnels/shop.tsv"),
}
"""What each action takes, and an example of it."""
DEFAULT_TARGET: Final = "https://www.example.com/"
_BAR: Final = 60
EXIT_INTERRUPTED: Final = 130


class Command(ScrapyCommand):
    """``scrapy tunnel probe|watch|stats``.

    Exit codes: 0, 1 the port does not carry data, 2 wrong usage, 130 interrupted (``probe`` and ``stats``).
    """

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as in the base class

    def syntax(self) -> str:
        return "[options] probe PROXY_URL | watch HOST:PORT | stats FILE"

    def short_desc(self) -> str:
        return "Prove a proxy, measure its idle timeout, watch its tunnels, read the tunnel ledger"

    def long_desc(self) -> str:
        return (
            "probe tells whether a proxy's port carries data (over CONNECT or SOCKS5), whether TLS is intercepted, how "
            "long a tunnel may be silent and whether pings keep it open. It ends with the settings to paste, and takes "
            "up to three minutes. PROXY_URL is http://user:password@host:port. "
            "watch counts this machine's connections to HOST:PORT every second and says how long they live (Linux "
            "only). stats sums up FILE, a tunnel ledger that a crawl wrote (RESIPROXY_TUNNEL_LEDGER), or compares two. "
            "Exit codes are 0 when it did what was asked, 1 when the port does not carry data, 2 for wrong usage and "
            "130 when interrupted."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        # No colons: Scrapy's formatter takes a line that ends in one for a heading.
        add = parser.add_argument_group(title="For probe").add_argument
        add("--target", metavar="URL", default=DEFAULT_TARGET, help="https page to ask for (default %(default)s)")
        add("--max", metavar="S", type=float, default=90.0, help="longest silence to try, in seconds (default 90)")
        add("--timeout", metavar="S", type=float, default=5.0, help="seconds to wait for each answer (default 5)")
        add("--quick", action="store_true", help="only prove the port, do not measure how long a tunnel may be silent")
        add = parser.add_argument_group(title="For watch").add_argument
        add("--seconds", metavar="S", type=float, help="stop after so many seconds (default is to go on until Ctrl-C)")
        add = parser.add_argument_group(title="For stats").add_argument
        add("--before", metavar="FILE", help="compare with this earlier ledger of the same work")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        actions: dict[str, Callable[[str, Any], int]] = {"probe": probe, "watch": watch, "stats": stats}
        if problem := _wrong(args):
            raise UsageError(problem, print_help=False)
        try:
            self.exitcode = actions[args[0]](args[1], opts)
        except ValueError as error:
            raise UsageError(str(error), print_help=False) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise UsageError(f"{where}{error.strerror or error}", print_help=False) from None
        except KeyboardInterrupt:
            print()
            self.exitcode = EXIT_INTERRUPTED


def _wrong(args: Sequence[str]) -> str | None:
    """What is wrong with the words of the command line, which may hold a password; None where nothing is."""
    if not args:
        return f"say what to do: {', '.join(f'{name} {what}' for name, (what, _) in WORDS.items())}"
    if args[0] not in WORDS:
        return f"the first word must be one of {', '.join(WORDS)}"
    what, example = WORDS[args[0]]
    if len(args) == 1:
        return f"{args[0]} needs {what}, such as {example}"
    return f"{args[0]} takes {what} alone, and {len(args) - 1} words were given" if len(args) > 2 else None


def probe(url: str, opts: argparse.Namespace) -> int:
    """Print what the port is and how long its tunnels live; return the exit code."""
    port, target = Port.parse(url), Target.parse(opts.target)
    print(f"Probing {port} with {opts.target} ...")
    verdict = judge(try_both(port, target, opts.timeout), port, target)
    print(verdict.sentence)
    if verdict.kind != "works":
        return 1
    if opts.quick:
        return 0
    return _measure(verdict, port, target, opts)


def _measure(verdict: Verdict, port: Port, target: Target, opts: argparse.Namespace) -> int:
    assert verdict.way is not None
    opener = partial(open_line, verdict.way, port, target, opts.timeout, trusting_context())
    try:
        with progress("silent tunnels") as show:
            silence = measure_silence(opener, opts.max, opts.timeout, Wait(perf_counter, show))
        print("\n".join(tell_silence(silence, opts.max)))
        warmth = None
        if silence.timeout is not None:
            with progress("a pinged tunnel") as show:
                warmth = measure_warmth(opener, silence.timeout, opts.max, opts.timeout, Wait(perf_counter, show))
            print(tell_warmth(warmth, silence))
    except StageFailed as failed:
        print(f"No more tunnel could be opened: {failed}")
        return 1
    print("\n".join(advice(verdict.way, silence, warmth)))
    return 0


def watch(where: str, opts: argparse.Namespace) -> int:
    """Print the connections to *where* every second; return the exit code."""
    port = Port.parse(where)
    addresses, churn, start = addresses_of(port.host), Churn(), perf_counter()
    print(f"Connections of this machine to {port}; Ctrl-C ends.")
    try:
        while True:
            now = perf_counter()
            tick = churn.sample(connections_to(addresses, port.port), now)
            bar = "#" * min(_BAR, tick.open)
            print(f"{now - start:6.0f} s {tick.open:5d} +{tick.opened:<4d} -{tick.closed:<4d} {bar}")
            if opts.seconds is not None and now + 1.0 > start + opts.seconds:
                break
            sleep(max(0.0, now + 1.0 - perf_counter()))
    except KeyboardInterrupt:
        print()
    print(churn.summary())
    return 0


def stats(path: str, opts: argparse.Namespace) -> int:
    """Print what a ledger says, and how it compares; return the exit code."""
    after = _span(Path(path))
    print("\n".join(describe(after)))
    if opts.before:
        print("\n".join(["", f"{opts.before} -> {path}", *compare(_span(Path(opts.before)), after)]))
    return 0


def _span(path: Path) -> Span:
    rows, problems = [], []
    for found in read_rows(path):
        if isinstance(found, Row):
            rows.append(found)
        else:
            problems.append(str(found))
    if problems and not rows:
        raise ValueError(f"no tunnel ledger, such as RESIPROXY_TUNNEL_LEDGER names: {problems[0]}")
    show_problems(problems, print)
    try:
        return Span.of(rows)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
