"""Starts the site (http and https) and the gateway in one event loop, and stops them."""

from __future__ import annotations

import asyncio
import errno
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from scrapy_resiproxy.lab.admission import GatewayOptions
from scrapy_resiproxy.lab.certificates import Authority
from scrapy_resiproxy.lab.control import Control
from scrapy_resiproxy.lab.gateway import LOOPBACK, Gateway
from scrapy_resiproxy.lab.ledger import Ledger
from scrapy_resiproxy.lab.pages import Shop
from scrapy_resiproxy.lab.site import Site
from scrapy_resiproxy.lab.targets import Targets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from scrapy_resiproxy.lab.behaviours import Behaviour
    from scrapy_resiproxy.lab.exits import Exit

_HTTP_KEEPALIVE: Final = 3600.0
"""Seconds; the gateway keeps idle connections to the site and must not meet one that is being closed."""
_GRACE: Final = 0.05
"""Seconds that running answers get when the lab stops."""


@dataclass(frozen=True)
class Ports:
    """Where to listen on 127.0.0.1; 0 takes any free port."""

    http: int = 0
    https: int = 0
    gateway: int = 0


@dataclass(frozen=True)
class LabOptions:
    """All that a lab is started with; `directory` must exist and gets ``ca.pem`` and ``ledger.jsonl``."""

    behaviours: Mapping[str, Behaviour]
    directory: Path
    ports: Ports = field(default_factory=Ports)
    gateway: GatewayOptions = field(default_factory=GatewayOptions)
    items: int = 2000
    """Items on the lists of every shop."""
    https_keepalive: float = 75.0
    """Seconds after which the https site closes an idle connection (nginx's default)."""


@contextmanager
def _port(name: str, port: int) -> Iterator[None]:
    """What fails in the block fails because *port* cannot be listened on."""
    try:
        yield
    except OSError as error:
        why = "is taken, perhaps by another lab" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        told = f"port {port} {why}: stop what listens there, or choose another with --{name}-port (0: any free one)"
        raise OSError(error.errno, told) from None


class Lab:
    """A site and a gateway; ``await start()``, use :attr:`urls`, ``await stop()``."""

    def __init__(self, options: LabOptions) -> None:
        started = time.monotonic()
        self.urls: dict[str, str] = {}
        self._options = options
        tunnel_exits: dict[int, Exit] = {}
        self._targets = Targets(options.behaviours, lambda: time.monotonic() - started)
        self._ledger = Ledger(options.directory / "ledger.jsonl", lambda: time.monotonic() - started)
        self._gateway = Gateway(options.gateway, self._targets, self._ledger, tunnel_exits)
        control = Control(self._targets, self._ledger, self._gateway)
        self._site = Site(self._targets, self._ledger, Shop(options.items), tunnel_exits, control.handle)
        self._servers: list[tuple[asyncio.Server, web.Server]] = []

    async def start(self) -> None:
        """Listen; raises OSError, with a line that says what to do, when a port is taken."""
        ports = self._options.ports
        authority = Authority(self._targets)
        ca = self._options.directory / "ca.pem"
        authority.write(ca)
        keepalive, context = self._options.https_keepalive, authority.server_context()
        with _port("http", ports.http):
            http = await self._listen(ports.http, _HTTP_KEEPALIVE)
        with _port("https", ports.https):
            https = await self._listen(ports.https, keepalive, context)
        with _port("gateway", ports.gateway):
            gateway = await self._gateway.start(ports.gateway, http_port=http, https_port=https)
        self.urls = {
            "site": f"http://{LOOPBACK}:{http}",
            "https": f"https://{LOOPBACK}:{https}",
            "gateway": f"http://{LOOPBACK}:{gateway}",
            "ca": str(ca),
            "ledger": str(self._ledger.path),
        }

    async def _listen(self, port: int, keepalive: float, context: ssl.SSLContext | None = None) -> int:
        server = web.Server(self._site.handle, handler_cancellation=True, access_log=None, keepalive_timeout=keepalive)
        listener = await asyncio.get_running_loop().create_server(server, LOOPBACK, port, ssl=context, backlog=1024)
        self._servers.append((listener, server))
        return int(listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close all connections at once, hanging ones too."""
        await self._gateway.stop()
        for listener, server in self._servers:
            listener.close()
            server.pre_shutdown()
            await server.shutdown(_GRACE)
        self._ledger.close()
