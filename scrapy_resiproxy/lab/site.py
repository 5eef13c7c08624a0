"""The target site: one aiohttp server that plays many hosts, told apart by Host header or by a path prefix.

Through the gateway a host is asked for by its name. Asked directly,
``http://127.0.0.1:PORT/shop.example/item/1`` is the same page. Paths below ``/__lab__/`` on the bare
address are the lab's control (:mod:`.control`).
"""

from __future__ import annotations

import asyncio
import html
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web

from scrapy_resiproxy.lab.behaviours import Answer, How, PageKind, Visit
from scrapy_resiproxy.lab.control import CONTROL_PREFIX
from scrapy_resiproxy.lab.exits import EXIT_HEADER, SESSION_HEADER, Exit
from scrapy_resiproxy.lab.wire import reset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scrapy_resiproxy.lab.ledger import Ledger
    from scrapy_resiproxy.lab.pages import Page, Shop
    from scrapy_resiproxy.lab.targets import Targets

_DRIP_PIECES: Final = 20


class _Asked(NamedTuple):
    host: str
    base: str
    path: str


class Site:
    """Answers requests as `targets` decide and writes each into `ledger`.

    `tunnel_exits` maps the local port of each of the gateway's tunnels to whose it is: the gateway cannot
    write its headers into a tunnel.
    """

    def __init__(
        self,
        targets: Targets,
        ledger: Ledger,
        shop: Shop,
        tunnel_exits: Mapping[int, Exit],
        control: Callable[[web.BaseRequest], Awaitable[web.Response]],
    ) -> None:
        self._targets = targets
        self._ledger = ledger
        self._shop = shop
        self._tunnel_exits = tunnel_exits
        self._control = control

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        # The control stays at hand when the bare address itself is one of the hosts and misbehaves.
        if request.raw_path.startswith(CONTROL_PREFIX) and self._whence(request)[0] == "direct":
            return await self._control(request)
        asked = self._locate(request)
        if asked:
            return await self._visit(request, asked)
        return self._index()

    async def _visit(self, request: web.BaseRequest, asked: _Asked) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.can_read_body:
            async for _ in request.content.iter_any():
                pass
        via, (session, address) = self._whence(request)
        visit = Visit(asked.path, address, request.method)
        answer = self._targets.decide(asked.host, visit)
        page = self._shop.page(answer.page, asked.path, asked.base)
        if not page.found:
            answer = Answer(outcome="missing", status=404, page=PageKind.ERROR, delay=answer.delay)
        size = len(page.body) + answer.padding if answer.status else 0
        self._ledger.request(asked.host, visit, answer, via=via, session=session, size=size)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        return await _send(request, answer, page, asked.base)

    def _locate(self, request: web.BaseRequest) -> _Asked | None:
        """Return what is asked for, or None when it is no host of the lab's."""
        host = request.headers.get("Host", "").partition(":")[0].lower()
        if host in self._targets:
            return _Asked(host, "", request.raw_path)
        host, slash, path = request.raw_path[1:].partition("/")
        if host in self._targets:
            return _Asked(host, f"/{host}", slash + path or "/")
        return None

    def _whence(self, request: web.BaseRequest) -> tuple[str, Exit]:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        tunnel = self._tunnel_exits.get(peer[1]) if peer else None
        if tunnel:
            return "connect", tunnel
        session = request.headers.get(SESSION_HEADER, "direct")
        address = request.headers.get(EXIT_HEADER)
        return ("http", Exit(session, address)) if address else ("direct", Exit(session, session))

    def _index(self) -> web.Response:
        """Return the list of hosts, for whoever opens the bare address in a browser."""
        hosts = sorted(self._targets.behaviours())
        links = "".join(f'<li><a href="/{host}/">{html.escape(host)}</a></li>\n' for host in hosts)
        control = "".join(
            f'<li><a href="{CONTROL_PREFIX}{name}">{name}</a></li>\n' for name in ("ledger.json", "ledger.jsonl")
        )
        body = f"<!DOCTYPE html>\n<title>lab</title>\n<p>There are:</p>\n<ul>{links}{control}</ul>\n"
        return web.Response(text=body, content_type="text/html", status=HTTPStatus.NOT_FOUND)


async def _send(request: web.BaseRequest, answer: Answer, page: Page, base: str) -> web.StreamResponse:
    if answer.how is How.HANG:
        # Ends when the client goes away: the server cancels its handlers.
        await asyncio.get_running_loop().create_future()
    if answer.how in {How.RESET, How.CLOSE, How.REFUSE}:
        return _break_off(request, rudely=answer.how is not How.CLOSE)
    headers = [(name, base + value if name == "Location" else value) for name, value in answer.headers]
    headers.append(("Content-Type", page.content_type))
    body = page.body + b" " * answer.padding if answer.padding else page.body
    if answer.how is How.SEND:
        return web.Response(body=body, status=answer.status, headers=headers)
    response = web.StreamResponse(status=answer.status, headers=headers)
    if answer.how is How.DRIP:
        await _drip(request, response, body, answer.drip)
    else:
        await _truncate(request, response, body, chunked=answer.how is How.TRUNCATE_CHUNKED)
    return response


def _break_off(request: web.BaseRequest, *, rudely: bool) -> web.Response:
    if request.transport and rudely:
        reset(request.transport)
    elif request.transport:
        request.transport.close()
    # The server finds the connection gone and drops this.
    return web.Response()


async def _truncate(request: web.BaseRequest, response: web.StreamResponse, body: bytes, *, chunked: bool) -> None:
    if chunked:
        response.enable_chunked_encoding()
    else:
        response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport:
        request.transport.close()


async def _drip(request: web.BaseRequest, response: web.StreamResponse, body: bytes, seconds: float) -> None:
    response.content_length = len(body)
    await response.prepare(request)
    step = max(1, -(-len(body) // _DRIP_PIECES))
    for start in range(0, len(body), step):
        await response.write(body[start : start + step])
        await asyncio.sleep(seconds / _DRIP_PIECES)
