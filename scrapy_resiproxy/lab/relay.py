"""Carries bytes between the gateway's client and the site: one exchange, or all of a tunnel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from scrapy_resiproxy.lab.wire import HEAD_END, PIECE, Body, parse_answer_head, reset

if TYPE_CHECKING:
    from scrapy_resiproxy.lab.ledger import Traffic


class Link(NamedTuple):
    """One connection's two ends."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        reset(self.writer.transport)


class SiteLinks:
    """Keep-alive connections to the site's http port, of which the last to be put back is the first to go out."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._idle: list[Link] = []

    async def take(self) -> Link:
        """Return a connection that the site has not closed, a new one where none rests."""
        while self._idle:
            link = self._idle.pop()
            if not link.reader.at_eof():
                return link
            link.close()
        return Link(*await asyncio.open_connection(self._host, self._port))

    def put_back(self, link: Link) -> None:
        self._idle.append(link)

    def close(self) -> None:
        for link in self._idle:
            link.close()


async def copy_body(body: Body, client: Link, site: Link, traffic: Traffic) -> None:
    """Carry a request's body to the site; a client that ends within it ends the exchange."""
    while not body.done:
        piece = await client.reader.read(body.wanted)
        if not piece:
            site.close()
            return
        body.feed(piece)
        traffic.up(len(piece))
        site.writer.write(piece)
        await site.writer.drain()


async def copy_answer(method: str, site: Link, client: Link, traffic: Traffic) -> bool:
    """Carry one answer to the client, byte for byte; return whether both connections can go on.

    A site that ends without an answer, or within one, gives False. One that resets raises ConnectionError.
    """
    body, data, keep = None, b"", False
    while body is None or not body.done:
        piece = await site.reader.read(PIECE)
        if not piece:
            return False
        client.writer.write(piece)
        traffic.down(len(piece))
        await client.writer.drain()
        if body is not None:
            body.feed(piece)
            continue
        data += piece
        while body is None and HEAD_END in data:
            raw, _, data = data.partition(HEAD_END)
            head = parse_answer_head(raw)
            keep = not head.closes
            # What is below 200 only announces the answer.
            if head.status >= 200:
                body = Body.of_answer(head, method)
                body.feed(data)
    return keep


class Ending(NamedTuple):
    """How a tunnel ended."""

    by: str
    """``client``, ``site`` or ``idle``."""
    rude: bool = False
    """With RST."""


class Tunnel:
    """Carries bytes both ways until one side ends or, with `idle` above 0, none passed for that long."""

    def __init__(self, client: Link, site: Link, traffic: Traffic, idle: float) -> None:
        self.up = 0
        self.down = 0
        self._client = client
        self._site = site
        self._traffic = traffic
        self._idle = idle
        self._last = asyncio.get_running_loop().time()

    async def run(self) -> Ending:
        """Return once both sides are closed."""
        watches = [self._pump_up(), self._pump_down()] + ([self._watch()] if self._idle else [])
        tasks = [asyncio.ensure_future(watch) for watch in watches]
        ending = Ending("gateway")
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ending = next(task.result() for task in tasks if task in done)
        finally:
            for task in tasks:
                task.cancel()
            for link in (self._client, self._site):
                link.reset() if ending.rude else link.close()
        return ending

    async def _pump_up(self) -> Ending:
        try:
            while piece := await self._client.reader.read(PIECE):
                self.up += len(piece)
                self._traffic.up(len(piece))
                await self._pass_on(piece, self._site)
        except ConnectionError:
            return Ending("client", rude=True)
        return Ending("client")

    async def _pump_down(self) -> Ending:
        try:
            while piece := await self._site.reader.read(PIECE):
                self.down += len(piece)
                self._traffic.down(len(piece))
                await self._pass_on(piece, self._client)
        except ConnectionError:
            return Ending("site", rude=True)
        return Ending("site")

    async def _pass_on(self, piece: bytes, sink: Link) -> None:
        self._last = asyncio.get_running_loop().time()
        sink.writer.write(piece)
        await sink.writer.drain()

    async def _watch(self) -> Ending:
        now = asyncio.get_running_loop().time
        while (left := self._last + self._idle - now()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        return Ending("idle")
