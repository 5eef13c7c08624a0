"""A lab in a process of its own, for tests and measurements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from scrapy_resiproxy.lab.admission import GatewayOptions
from scrapy_resiproxy.lab.grammar import build, parse, spell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_resiproxy.lab.behaviours import Behaviour

_STOP_WAIT: Final = 30.0
"""Seconds that the process gets to end by itself, which takes it a tenth of one unless the machine is very busy."""
_ANSWER_WAIT: Final = 60.0
"""Seconds that it gets to answer its controls."""
_IMPORT_ROOT: Final = Path(__file__).parents[2]


class RunningLab:
    """The outside of a running lab: its URLs, its ledger and its controls."""

    def __init__(self, urls: Mapping[str, str], options: GatewayOptions) -> None:
        self.site = urls["site"]
        """``http://127.0.0.1:PORT``, where ``/HOST/item/1`` is a page of that host."""
        self.https = urls["https"]
        self.gateway = urls["gateway"]
        """The proxy's URL, without credentials."""
        self.ca = Path(urls["ca"])
        """The CA's certificate, PEM."""
        self.ledger_path = Path(urls["ledger"])
        self._options = options

    def proxy(self, session: str = "a1") -> str:
        """Return the proxy's URL with the credentials for `session`.

        With ``"{session}"`` it is a template for ``RESIPROXY_PROXY``.
        """
        options, address = self._options, urlsplit(self.gateway).netloc
        if not options.user:
            return self.gateway
        user = quote(options.user) + options.session_pattern.replace("<id>", session)
        return f"http://{user}:{quote(options.password, safe='')}@{address}"

    def summary(self) -> dict[str, Any]:
        """Return the counts so far."""
        counts: dict[str, Any] = json.loads(self._ask("GET", "ledger.json"))
        return counts

    def ledger(self) -> list[dict[str, Any]]:
        """Return every row so far, oldest first."""
        return [json.loads(line) for line in self._ask("GET", "ledger.jsonl").splitlines()]

    def set_behaviour(self, host: str, behaviour: Behaviour | str) -> None:
        """Let `host` behave so from now on; raises ValueError when it is no behaviour or no host name."""
        self._ask("POST", "behaviour", {"host": host, "behaviour": _spelled(behaviour)})

    def set_gateway(self, **options: object) -> None:
        """Change options of :class:`GatewayOptions` by name; raises ValueError for a wrong one."""
        self._ask("POST", "gateway", options)

    def reset(self) -> None:
        """Empty the ledger and let every host and the gateway begin anew."""
        self._ask("POST", "reset", {})

    def _ask(self, method: str, what: str, body: Mapping[str, object] | None = None) -> bytes:
        connection = HTTPConnection(urlsplit(self.site).netloc, timeout=_ANSWER_WAIT)
        try:
            connection.request(method, f"/__lab__/{what}", None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(text.decode().strip())
        return text


@contextmanager
def running_lab(
    behaviours: Mapping[str, Behaviour | str],
    *,
    directory: Path | None = None,
    items: int = 2000,
    stderr: IO[bytes] | None = None,
    **gateway: object,
) -> Iterator[RunningLab]:
    """Run a lab that plays `behaviours` (host → behaviour, or its text) for the time of the block.

    `directory` keeps ``ca.pem`` and ``ledger.jsonl``, and the file `stderr` what the lab complains about (None: it
    goes where ours goes); `gateway` takes options of :class:`GatewayOptions` by name. Raises ValueError for a wrong
    behaviour or option, RuntimeError when the lab does not start.
    """
    options = build(GatewayOptions, "gateway", [(name, str(value)) for name, value in gateway.items()])
    command = [sys.executable, "-m", "scrapy_resiproxy.lab", "--until-eof", "--items", str(items)]
    for host, behaviour in behaviours.items():
        command += ["--host", f"{host}={_spelled(behaviour)}"]
    for name, value in gateway.items():
        command.append(f"--{name.replace('_', '-')}={value}")
    if directory:
        command += ["--dir", str(directory)]
    path = os.pathsep.join(filter(None, [str(_IMPORT_ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else b""
            if not line:
                raise RuntimeError("the lab did not start; what it said is on standard error")
            yield RunningLab(json.loads(line), options)
        finally:
            _stop(process)


def _spelled(behaviour: Behaviour | str) -> str:
    return spell(parse(behaviour) if isinstance(behaviour, str) else behaviour)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
