"""Servers in threads for what blocks: an https origin, relays over CONNECT and SOCKS5, and ports that lie."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from contextlib import suppress


class Server:
    """Runs ``serve(connection)`` in a thread for every connection; closes the connection when that returns."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._held = []
        self._closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._held.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        with suppress(OSError), connection:
            self.serve(connection)

    def hold(self, connection):
        """Keep the connection, and take in whatever comes, until the other side closes it."""
        while connection.recv(65536):
            pass

    def close(self):
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._held:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Origin(Server):
    """Answers every request with *answer*; *keep* seconds after the last one it says *last* and a close_notify."""

    def __init__(self, pem, *, keep=None, answer=b"HTTP/1.1 200 OK\r\n\r\n", last=b""):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem)
        self._keep = keep
        self._answer = answer
        self._last = last
        super().__init__()

    def serve(self, connection):
        with self._context.wrap_socket(connection, server_side=True) as tls:
            self._held.append(tls)
            buffer = b""
            try:
                while data := tls.recv(65536):
                    buffer += data
                    while b"\r\n\r\n" in buffer:
                        _, _, buffer = buffer.partition(b"\r\n\r\n")
                        tls.sendall(self._answer)
                        # Not before: how long a handshake takes is the machine's affair.
                        tls.settimeout(self._keep)
            except TimeoutError:
                tls.sendall(self._last)
                tls.unwrap()


class Relay(Server):
    """Carries bytes to the origin once the way there is open.

    A tunnel is closed after *idle* seconds of silence, or dropped without a word after *drop* seconds; None: never.
    With *once* only the first tunnel that idles so long is closed. ``silences`` holds how long each tunnel had been
    silent when it was closed, and ``dropped`` is set when one was dropped.
    """

    def __init__(self, origin_port, *, idle=None, drop=None, once=False, login=None):
        self._origin_port = origin_port
        self._idle, self._drop, self._once = idle, drop, once
        self.login = login
        self.silences = []
        self.dropped = threading.Event()
        super().__init__()

    def join(self, near):
        far = socket.create_connection(("127.0.0.1", self._origin_port))
        self._held.append(far)
        with far:
            last = time.monotonic()
            while True:
                ready, _, _ = select.select([near, far], [], [], self._idle or self._drop)
                if not ready and self._drop:
                    self.dropped.set()
                    self.hold(near)
                    return
                if not ready and not (self._once and self.silences):
                    self.silences.append(time.monotonic() - last)
                    return
                last = time.monotonic()
                for source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    (far if source is near else near).sendall(data)


def read_head(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(4096)
        if not data:
            raise OSError("gone")
        head += data
        if head[:1] == b"\x05":
            raise OSError("a SOCKS greeting")
    return head


class ConnectRelay(Relay):
    def serve(self, connection):
        head = read_head(connection)
        if self.login and self.login not in head:
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        self.join(connection)


class SocksRelay(Relay):
    """``stop`` names where it goes wrong: method, auth, reply, silence, fin, text."""

    def __init__(self, *args, stop=None, bound=b"\x01\0\0\0\0\0\0", **kwargs):
        self._stop = stop
        self._bound = bound
        super().__init__(*args, **kwargs)

    def serve(self, connection):
        greeting = connection.recv(300)
        if greeting[:1] != b"\x05":
            connection.sendall(b"\x05\xff")
            return
        if self._stop == "method":
            connection.sendall(b"\x05\xff")
            return
        if self.login:
            connection.sendall(b"\x05\x02")
            offered = connection.recv(600)
            good = (
                offered
                == b"\x01" + bytes([len(self.login[0])]) + self.login[0] + bytes([len(self.login[1])]) + self.login[1]
            )
            connection.sendall(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        else:
            connection.sendall(b"\x05\x00")
        connection.recv(600)
        if self._stop == "reply":
            connection.sendall(b"\x05\x05\x00\x01" + bytes(6))
            return
        connection.sendall(b"\x05\x00\x00" + self._bound)
        if self._stop == "silence":
            self.hold(connection)
        elif self._stop == "fin":
            return
        elif self._stop == "text":
            connection.recv(4096)
            connection.sendall(b"<html>log in</html>")
        else:
            self.join(connection)


class Says(Server):
    """Sends *what* to whoever comes, then holds the connection."""

    def __init__(self, what, *, then_close=False):
        self._what, self._then_close = what, then_close
        super().__init__()

    def serve(self, connection):
        if self._what is not None:
            connection.recv(4096)
            connection.sendall(self._what)
        if not self._then_close:
            self.hold(connection)
