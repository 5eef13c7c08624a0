"""The other side of ``tunnels.py``: an https origin, proxies that misbehave on order, and what counts at them."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from dataclasses import dataclass

BODY = b"x" * 3600


@dataclass
class Tunnel:
    up: int = 0
    down: int = 0
    open: bool = True


class Network:
    """The origin and the relays, in a thread of their own."""

    def __init__(self, pem):
        self.loop = asyncio.new_event_loop()
        self.requests = {"GET": 0, "HEAD": 0, "POST": 0}
        self.served = {}
        """Answers by the address of the client's end."""
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.origin = (
            self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)).sockets[0].getsockname()[1]
        )

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next((int(h[15:]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")), 0)
                await reader.readexactly(size)
                method = head.split(b" ")[0].decode()
                self.requests[method] += 1
                client = writer.get_extra_info("peername")
                self.served[client] = self.served.get(client, 0) + 1
                # As long as the head that nginx sends with a page.
                writer.write(
                    b"HTTP/1.1 200 OK\r\nServer: origin/1.22.1\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\n"
                    b"Content-Type: text/html\r\nContent-Length: %d\r\nLast-Modified: Mon, 30 Nov 2026 09:00:00 GMT\r\n"
                    b'Connection: keep-alive\r\nETag: "692c1234-e10"\r\nAccept-Ranges: bytes\r\n\r\n'
                    % len(BODY)
                    + (BODY if method != "HEAD" else b"")
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def relay(self, idle=None, *, kill=False, drop=None):
        return self._listen(Relay(self, idle, kill, drop))

    def forward(self, port):
        """Stands before a real proxy and counts its connections."""
        return self._listen(Forward(port))

    def _listen(self, server):
        server.port = self._run(asyncio.start_server(server.serve, "127.0.0.1", 0)).sockets[0].getsockname()[1]
        return server


class Counted:
    """What passes through a proxy."""

    def __init__(self):
        self.tunnels = []

    @property
    def bytes(self):
        return sum(t.up + t.down for t in self.tunnels)


class Forward(Counted):
    """Hands every connection on to *port*."""

    def __init__(self, port):
        super().__init__()
        self.proxy = port

    async def serve(self, reader, writer):
        tunnel = Tunnel()
        self.tunnels.append(tunnel)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.proxy)
            ways = (reader, far_writer, "up"), (far_reader, writer, "down")
            await asyncio.gather(*(self._pump(tunnel, *way) for way in ways))
        except OSError:
            pass
        tunnel.open = False
        writer.close()

    @staticmethod
    async def _pump(tunnel, reader, writer, direction):
        while data := await reader.read(65536):
            setattr(tunnel, direction, getattr(tunnel, direction) + len(data))
            writer.write(data)
        writer.close()


class Relay(Counted):
    """A CONNECT proxy.

    *idle*: seconds of silence until it closes. *drop*: seconds of silence after which it carries nothing any more and
    says nothing of it. *kill*: cut the second request on a tunnel.
    """

    def __init__(self, network, idle, kill, drop):
        super().__init__()
        self.network, self.idle, self.kill, self.drop = network, idle, kill, drop

    async def serve(self, reader, writer):
        tunnel = Tunnel()
        try:
            tunnel.up += len(await reader.readuntil(b"\r\n\r\n"))
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.network.origin)
            grant = b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(grant)
            tunnel.down += len(grant)
            self.tunnels.append(tunnel)
            await self._carry(tunnel, (reader, far_writer), (far_reader, writer))
            far_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        tunnel.open = False
        writer.close()

    async def _carry(self, tunnel, up, down):
        last = [time.monotonic()]
        ours = up[1].get_extra_info("sockname")
        self.network.served[ours] = 0

        async def pump(reader, writer, direction):
            while data := await reader.read(65536):
                now = time.monotonic()
                if self.kill and direction == "up" and self.network.served.get(ours):
                    return
                if self.drop is not None and now - last[0] > self.drop:
                    last[0] = -1e9
                    continue
                last[0] = now
                setattr(tunnel, direction, getattr(tunnel, direction) + len(data))
                writer.write(data)

        pumps = [asyncio.ensure_future(pump(*up, "up")), asyncio.ensure_future(pump(*down, "down"))]
        while not any(p.done() for p in pumps):
            silent = time.monotonic() - last[0]
            if self.idle is not None and silent >= self.idle:
                break
            wait = None if self.idle is None else self.idle - silent
            await asyncio.wait(pumps, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        for p in pumps:
            p.cancel()
