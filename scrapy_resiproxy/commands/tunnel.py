"""``scrapy tunnel``: prove a proxy's port, measure its idle timeout, watch tunnels, read the ledger."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_resiproxy.tunnel.ledger import Row, read_rows
from scrapy_resiproxy.tunnel.probe import Verdict, judge, open_line, trusting_context, try_both
from scrapy_resiproxy.tunnel.probe_idle import Wait, measure_silence, measure_warmth
from scrapy_resiproxy.tunnel.probe_report import advice, tell_silence, tell_warmth
from scrapy_resiproxy.tunnel.probe_wire import Port, StageFailed, Target
from scrapy_resiproxy.tunnel.spans import Span, compare, describe
from scrapy_resiproxy.tunnel.watch import Churn, addresses_of, connections_to

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


DEFAULT_TARGET: Final = "https://www.example.com/"
_BAR: Final = 60


class Command(ScrapyCommand):
    """``scrapy tunnel probe|watch|stats``. Exit codes: 0, 1 the port does not carry data, 2 wrong usage."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as in the base class

    def syntax(self) -> str:
        return "[options] probe PROXY_URL | watch HOST:PORT | stats FILE"

    def short_desc(self) -> str:
        return "Prove a proxy, measure its idle timeout, watch its tunnels, read the tunnel ledger"

    def long_desc(self) -> str:
        return (
            "probe: does the port carry data over CONNECT or SOCKS5, is TLS intercepted, how long may a tunnel idle, "
            "do pings keep it; ends with the settings to paste. watch: count this machine's connections to a proxy "
            "every second. stats: sum up a tunnel ledger, or compare two."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="Tunnels")
        group.add_argument("--target", default=DEFAULT_TARGET, help="probe, https URL to fetch (default %(default)s)")
        group.add_argument("--max", type=float, default=90.0, help="probe, longest silence in seconds (90)")
        group.add_argument("--timeout", type=float, default=5.0, help="probe, seconds for each answer (5)")
        group.add_argument("--quick", action="store_true", help="probe, do not measure the idle timeout")
        group.add_argument("--seconds", type=float, help="watch, stop after so long (else with Ctrl-C)")
        group.add_argument("--before", metavar="FILE", help="stats, an earlier ledger of the same work")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        actions: dict[str, Callable[[str, Any], int]] = {"probe": probe, "watch": watch, "stats": stats}
        if len(args) != 2 or args[0] not in actions:
            raise UsageError("say one of: probe PROXY_URL, watch HOST:PORT, stats FILE", print_help=False)
        try:
            self.exitcode = actions[args[0]](args[1], opts)
        except ValueError as error:
            raise UsageError(str(error), print_help=False) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise UsageError(f"{where}{error.strerror or error}", print_help=False) from None
        except KeyboardInterrupt:
            print()


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
        silence = _with_counter("silent tunnels", measure_silence, opener, opts.max, opts.timeout)
        print("\n".join(tell_silence(silence, opts.max)))
        warmth = None
        if silence.timeout is not None:
            warmth = _with_counter("a pinged tunnel", measure_warmth, opener, silence.timeout, opts.max, opts.timeout)
            print(tell_warmth(warmth, silence))
    except StageFailed as failed:
        print(f"No more tunnel could be opened: {failed}")
        return 1
    print("\n".join(advice(verdict.way, silence, warmth)))
    return 0


def _with_counter(what: str, measure: Callable[..., Any], *args: Any) -> Any:
    """Run a measurement, with a counter on a terminal and a plain line elsewhere."""
    if sys.stderr.isatty():
        show = lambda left: print(f"\r{what}: {left:4.0f} s left ", end="", file=sys.stderr, flush=True)  # noqa: E731
    else:
        print(f"Measuring {what} ...", flush=True)
        show = lambda left: None  # noqa: E731, ARG005
    try:
        return measure(*args, Wait(perf_counter, show))
    finally:
        if sys.stderr.isatty():
            print("\r" + " " * 40, end="\r", file=sys.stderr, flush=True)


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
    rows: list[Row] = []
    for found in read_rows(path):
        if isinstance(found, Row):
            rows.append(found)
        else:
            print(f"passed over: {found}")
    try:
        return Span.of(rows)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
