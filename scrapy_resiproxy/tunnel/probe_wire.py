"""The probe's own tunnels: blocking sockets, over CONNECT or SOCKS5, with TLS and one HTTP answer inside.

They share nothing with the crawl's transport: what the probe finds out must not depend on it.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from scrapy_resiproxy.tunnel.answer import AnswerParser, BadAnswer
from scrapy_resiproxy.tunnel.failures import phrase_of, secrets_in
from scrapy_resiproxy.tunnel.route import host_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_resiproxy.redact import Secrets

_SOCKS_REPLIES: Final = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}
"""RFC 1928, section 6."""
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})")
_KEEP_ALIVE: Final = re.compile(rb"\nKeep-Alive:[^\n]*\btimeout=(\d+)", re.IGNORECASE)
_MAX_HEAD: Final = 65_536


@dataclass(frozen=True, slots=True)
class Port:
    """A proxy's port, and the login for it."""

    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Port:
        """Take ``[scheme://][user:password@]host:port``; the scheme does not matter, both ways are tried.

        Raises ``ValueError`` with a line that repeats no credential.
        """
        try:
            parts = urlsplit(url if "://" in url else f"//{url}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or not port:
            raise ValueError("the proxy must be [scheme://][user:password@]host:port, with a port from 1 to 65535")
        user = unquote(parts.username) if parts.username is not None else None
        return cls(host, port, user, unquote(parts.password or ""))

    def __str__(self) -> str:
        return host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the probe's request goes."""

    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f"the target must be an https URL, not {url!r}")
        return cls(parts.hostname, parts.port or 443, parts.path or "/")

    def __str__(self) -> str:
        return host_port(self.host, self.port)


class StageFailed(Exception):  # noqa: N818
    """A tunnel got as far as *stage*: connect, greeting, auth, answer, tls, http."""

    def __init__(self, stage: str, reason: str, *, status: int | None = None) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason
        self.status = status


def over_connect(port: Port, target: Target, timeout: float) -> socket.socket:
    """Open a tunnel with CONNECT. Raises :class:`StageFailed`."""
    sock = _tcp(port, timeout)
    try:
        request, login = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n", None
        if port.user is not None:
            token = base64.b64encode(f"{port.user}:{port.password}".encode()).decode("ascii")
            login = f"Basic {token}"
            request += f"Proxy-Authorization: {login}\r\n"
        _await_grant(sock, f"{request}\r\n".encode(), secrets_in(login.encode() if login else None))
    except BaseException:
        sock.close()
        raise
    return sock


def _await_grant(sock: socket.socket, request: bytes, secrets: Secrets) -> None:
    parser = AnswerParser()
    try:
        sock.sendall(request)
        while True:
            # One byte at a time: what follows the answer belongs to TLS.
            data = sock.recv(1)
            answer = parser.feed(data) if data else None
            if not data:
                raise StageFailed("answer", "closed without an answer", status=parser.status)
            if answer is not None:
                break
    except TimeoutError:
        raise StageFailed("answer", "no answer") from None
    except BadAnswer as error:
        raise StageFailed("answer", f"not HTTP ({error.reason})") from None
    except OSError as error:
        raise StageFailed("answer", _word(error)) from None
    if not answer.granted:
        raise StageFailed("answer", f"{answer.status} {phrase_of(answer, secrets)}".rstrip(), status=answer.status)


def over_socks5(port: Port, target: Target, timeout: float) -> socket.socket:
    """Open a tunnel with SOCKS5 (RFC 1928, 1929). Raises :class:`StageFailed`."""
    sock = _tcp(port, timeout)
    try:
        _greet(sock, port)
        _socks_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


def _greet(sock: socket.socket, port: Port) -> None:
    methods = b"\x00" if port.user is None else b"\x00\x02"
    version, method = _exchange(sock, "greeting", bytes([5, len(methods)]) + methods, 2)
    if version != 5:
        raise StageFailed("greeting", "not SOCKS5")
    if method == 255 or (method == 2 and port.user is None):
        raise StageFailed("auth", "wants a login")
    if method == 2:
        user, password = (port.user or "").encode(), port.password.encode()
        login = bytes([1, len(user)]) + user + bytes([len(password)]) + password
        if _exchange(sock, "auth", login, 2)[1] != 0:
            raise StageFailed("auth", "login refused")


def _socks_connect(sock: socket.socket, target: Target) -> None:
    name = target.host.encode("ascii")
    request = b"\x05\x01\x00\x03" + bytes([len(name)]) + name + target.port.to_bytes(2, "big")
    _, reply, _, kind = _exchange(sock, "answer", request, 4)
    if reply != 0:
        raise StageFailed("answer", _SOCKS_REPLIES.get(reply, f"reply {reply}"), status=reply)
    size = {1: 4, 4: 16}.get(kind) or _exchange(sock, "answer", b"", 1)[0]
    _exchange(sock, "answer", b"", size + 2)


def _exchange(sock: socket.socket, stage: str, data: bytes, size: int) -> bytes:
    got = b""
    try:
        sock.sendall(data)
        while len(got) < size:
            piece = sock.recv(size - len(got))
            if not piece:
                raise StageFailed(stage, "closed")
            got += piece
    except TimeoutError:
        raise StageFailed(stage, "no answer") from None
    except OSError as error:
        raise StageFailed(stage, _word(error)) from None
    return got


def _tcp(port: Port, timeout: float) -> socket.socket:
    try:
        return socket.create_connection((port.host, port.port), timeout=timeout)
    except socket.gaierror:
        raise StageFailed("connect", "the name does not resolve") from None
    except OSError as error:
        raise StageFailed("connect", _word(error)) from None


def _word(error: OSError) -> str:
    words = {TimeoutError: "no answer", ConnectionRefusedError: "refused", ConnectionResetError: "reset"}
    return words.get(type(error), error.strerror or type(error).__name__)


@dataclass(slots=True)
class Line:
    """TLS and HTTP through a tunnel. ``promised`` is the idle timeout that the origin told, if it did."""

    sock: ssl.SSLSocket
    target: Target
    promised: float | None = None

    @classmethod
    def open(cls, way: Callable[[], socket.socket], target: Target, context: ssl.SSLContext, timeout: float) -> Line:
        """Open a tunnel by *way*, shake hands, and get one HTTP answer. Raises :class:`StageFailed`."""
        sock = way()
        try:
            sock.settimeout(timeout)
            tls = context.wrap_socket(sock, server_hostname=target.host, suppress_ragged_eofs=False)
        except ssl.SSLCertVerificationError as error:
            sock.close()
            raise StageFailed("tls", f"certificate: {error.verify_message}") from None
        except TimeoutError:
            sock.close()
            raise StageFailed("tls", "silence") from None
        except OSError as error:
            sock.close()
            raise StageFailed("tls", _tls_word(error)) from None
        line = cls(tls, target)
        if not line.alive(timeout):
            line.close()
            raise StageFailed("http", "no HTTP answer")
        return line

    def alive(self, timeout: float) -> bool:
        """True when a HEAD is answered within *timeout* seconds."""
        request = f"HEAD {self.target.path} HTTP/1.1\r\nHost: {self.target}\r\n\r\n"
        head = b""
        try:
            self.sock.settimeout(timeout)
            self.sock.sendall(request.encode("ascii"))
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
                piece = self.sock.recv(4096)
                if not piece:
                    return False
                head += piece
        except OSError:
            return False
        told = _KEEP_ALIVE.search(head)
        self.promised = float(told[1]) if told else self.promised
        return _STATUS.match(head) is not None

    def wait_for_end(self, timeout: float) -> str | None:
        """Wait until the other side closes: ``origin`` if it ended TLS first, else ``peer``; None if it does not.

        With a *timeout* of 0 it tells what has come already.
        """
        self.sock.settimeout(timeout)
        try:
            while self.sock.recv(4096):
                pass
        except (TimeoutError, ssl.SSLWantReadError):
            return None
        except OSError:
            return "peer"
        return "origin"

    def close(self) -> None:
        with suppress(OSError):
            self.sock.close()


def _tls_word(error: OSError) -> str:
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return "closed"
    return "not TLS" if isinstance(error, ssl.SSLError) else _word(error)
