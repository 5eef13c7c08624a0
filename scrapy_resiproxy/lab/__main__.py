"""``python -m scrapy_resiproxy.lab``: start the site and the gateway, and serve until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.lab.admission import GatewayOptions
from scrapy_resiproxy.lab.grammar import BEHAVIOURS, build, describe, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_resiproxy.lab.behaviours import Behaviour
    from scrapy_resiproxy.lab.server import LabOptions

_DESCRIPTION: Final = """\
A target site and a residential gateway on 127.0.0.1 that misbehave on order: your spider's bad day.

Once both listen, one JSON line with their URLs goes to standard output:
  {"site": URL, "https": URL, "gateway": URL, "ca": PATH, "ledger": PATH}
Then they serve until SIGTERM, Ctrl-C or, with --until-eof, the end of standard input.

Exit codes: 0 when told to stop, 2 for a wrong argument, a port that is taken or a missing library, told in one line.
"""

_EPILOG: Final = """\
behaviours, with their options and defaults (seconds, unless said otherwise); join several with +:
{behaviours}

  how is a status (503), reset, close, hang or refuse. Without --host there is one host for each behaviour,
  named after it: flaky.example, ratelimit.example, ...

what every host serves:
  /list?page=1   /item/1 (any number)   /api/items?page=1   /api/items/1   /robots.txt
  through the gateway as http://HOST/... and https://HOST/..., directly as SITE/HOST/... (see below)
  Each page says what it is: <meta name="lab-page" content="good"> (or fake, or error); in JSON "lab_page".

without the gateway:
  With --host localhost=BEHAVIOUR the site itself is that host: http://localhost:HTTP-PORT/item/1. Hosts of other names
  are at SITE/HOST/item/1, all on one address. Who comes directly is one session, whatever he does.

control, at the bare site address:
  GET  SITE/__lab__/ledger.json    counts: requests, outcomes, peaks, blocks, CONNECTs, bytes
  GET  SITE/__lab__/ledger.jsonl   every request and every event at the gateway
  POST SITE/__lab__/behaviour      {{"host": "shop.example", "behaviour": "ok"}}: the site is back up
  POST SITE/__lab__/gateway        {{"connect_status": 502}}: any gateway option by its name
  POST SITE/__lab__/reset          everything begins anew

examples:
  python -m scrapy_resiproxy.lab
  python -m scrapy_resiproxy.lab --http-port 8080 --gateway-port 8888 \\
      --host shop.example=softblock:pages=20,look=cloudflare+ok:latency=0.05 \\
      --host api.example=ratelimit:rate=10,burst=10
  curl -x http://lab-session-a1:lab@127.0.0.1:8888 http://shop.example/item/1
  curl http://127.0.0.1:8080/__lab__/ledger.json
  python -m scrapy_resiproxy.lab --http-port 8080 --host localhost=flaky:p=0.2
  curl http://localhost:8080/item/1
  RESIPROXY_PROXY=http://lab-session-{{session}}:lab@127.0.0.1:8888 scrapy crawl shop
"""

_GATEWAY_HELP: Final = {
    "user": ("NAME", "what the user name must begin with; '' asks for no credentials (default: lab)"),
    "password": ("WORD", "the password (default: lab)"),
    "session_pattern": ("TEXT", "where in the user name the session stands (default: -session-<id>)"),
    "exit_per": ("WHAT", "what has an address of its own: session, or connection (default: session)"),
    "exhausted_after": ("N", "the plan is used up after N requests and CONNECTs, then 407 (default: never)"),
    "connect_status": ("CODE", "refuse every CONNECT with this status, such as 502 or 429 (default: none)"),
    "connect_retry_after": ("S", "seconds of Retry-After in that refusal (default: none)"),
    "tunnel_idle": ("S", "close a tunnel after so many seconds without a byte (default: never)"),
}


def _host(text: str) -> tuple[str, Behaviour]:
    name, equals, spelled = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=BEHAVIOUR, such as shop.example=flaky:p=0.2")
    try:
        return name, parse(spelled)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: it must be a number from 1 to 65535, or 0 for any")
    return number


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scrapy_resiproxy.lab",
        usage="%(prog)s [--host NAME=BEHAVIOUR]... [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(behaviours=describe()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", metavar="NAME=BEHAVIOUR", action="append", type=_host, default=[], dest="hosts",
        help="how this host behaves (see below); may be repeated (default: one host for each behaviour)")  # fmt: skip
    add("--items", metavar="N", type=int, default=2000, help="how many items the lists of a host have (default: 2000)")
    add("--http-port", metavar="N", type=_port, default=0, help="port of the http site (default: any)")
    add("--https-port", metavar="N", type=_port, default=0, help="port of the https site (default: any)")
    add("--gateway-port", metavar="N", type=_port, default=0, help="port of the gateway (default: any)")
    add("--https-keepalive", metavar="S", type=float, default=75.0,
        help="close an idle https connection after so many seconds (default: 75)")  # fmt: skip
    add("--dir", metavar="DIR", type=Path,
        help="where ca.pem and ledger.jsonl go (default: a directory removed at the end)")  # fmt: skip
    add("--until-eof", action="store_true", help="also stop when standard input ends")
    gateway = parser.add_argument_group("gateway")
    for name, (metavar, text) in _GATEWAY_HELP.items():
        gateway.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
    return parser


def _options(arguments: argparse.Namespace, directory: Path) -> LabOptions:
    from scrapy_resiproxy.lab.server import LabOptions, Ports  # noqa: PLC0415

    given = {name: value for name in _GATEWAY_HELP if (value := getattr(arguments, name)) is not None}
    hosts = dict(arguments.hosts) or {f"{word}.example": kind() for word, kind in BEHAVIOURS.items()}
    return LabOptions(
        behaviours=hosts,
        directory=directory,
        ports=Ports(arguments.http_port, arguments.https_port, arguments.gateway_port),
        gateway=build(GatewayOptions, "gateway", given.items()),
        items=arguments.items,
        https_keepalive=arguments.https_keepalive,
    )


def _when_input_ends(call: Callable[[], object]) -> None:
    # Not sys.stdin: a thread that still holds its lock would break the interpreter's exit.
    while os.read(0, 65536):
        pass
    # The loop is closed when a signal was faster.
    with suppress(RuntimeError):
        call()


async def _serve(options: LabOptions, *, until_eof: bool) -> None:
    from scrapy_resiproxy.lab.server import Lab  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        watch = lambda: _when_input_ends(lambda: loop.call_soon_threadsafe(stop.set))  # noqa: E731
        threading.Thread(target=watch, daemon=True).start()
    lab = Lab(options)
    await lab.start()
    try:
        print(json.dumps(lab.urls), flush=True)
        await stop.wait()
    finally:
        await lab.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the lab; return 0 once it was told to stop, 2 after one line on what is wrong."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="lab-") as temporary:
            directory = arguments.dir or Path(temporary)
            directory.mkdir(parents=True, exist_ok=True)
            asyncio.run(_serve(_options(arguments, directory), until_eof=arguments.until_eof))
    except ModuleNotFoundError as error:
        parser.error(f"needs {error.name}: install the extra 'lab', such as pip install '.[lab]' in the checkout")
    except (ValueError, OSError) as error:
        parser.error(_told(error))
    return 0


def _told(error: ValueError | OSError) -> str:
    """Its words, without the number that an error of the system has."""
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(map(str, filter(None, (error.filename, error.strerror))))
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
