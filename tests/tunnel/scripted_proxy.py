"""A proxy on a real socket that answers each CONNECT as the target's name orders."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
FIN, RST, HOLD, READ = "FIN", "RST", "HOLD", "READ"

SCRIPTS = {
    "fin": [FIN],
    "rst": [RST],
    "never": [HOLD],
    "407-keep": [b"HTTP/1.1 407 Auth\r\nContent-Length: 2\r\n\r\nno", HOLD],
    "407-close": [b"HTTP/1.1 407 Auth\r\n\r\n", FIN],
    "403-keep": [b"HTTP/1.1 403 No\r\n\r\n", HOLD],
    "429-keep": [b"HTTP/1.1 429 Slow\r\nRetry-After: 2\r\n\r\n", HOLD],
    "502-close": [b"HTTP/1.1 502 Bad\r\n\r\n", FIN],
    "only-100": [b"HTTP/1.1 100 Continue\r\n\r\n", HOLD],
    "201-silence": [b"HTTP/1.1 201 Created\r\n\r\n", HOLD],
    "204-silence": [b"HTTP/1.1 204 No Content\r\n\r\n", HOLD],
    "ssh-banner": [b"SSH-2.0-x\r\n", HOLD],
    "garbage": [b"\x00\x01\r\n\r\n", HOLD],
    "half-line": [b"HTTP/1.1 2", HOLD],
    "endless": [b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000, HOLD],
    "200-fin": [OK, READ, FIN],
    "200-rst": [OK, RST],
    "200-silence": [OK, HOLD],
    "200-html": [OK, b"<html>hi</html>", HOLD],
    "200-tls-alert": [OK, b"\x15\x03\x01\x00\x02\x02\x28", HOLD],
}


class ScriptedProxy:
    """Runs in a thread of its own; ``with ScriptedProxy() as port``."""

    def __enter__(self) -> int:
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self._server.sockets[0].getsockname()[1]

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            for step in SCRIPTS[head.split(b" ")[1].split(b".")[0].decode()]:
                if step is HOLD:
                    while await reader.read(65536):
                        pass
                elif step is READ:
                    await reader.read(65536)
                elif step is RST:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                elif step is not FIN:
                    writer.write(step)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
