"""What the tunnel's tests share: certificates, a peer in memory, and what a proxy may answer to CONNECT."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http_headers import Headers
from zope.interface import implementer

from scrapy_resiproxy.tunnel.endpoint import TunnelEndpoint
from scrapy_resiproxy.tunnel.ledger import Row
from scrapy_resiproxy.tunnel.route import Route, TunnelKey, host_port
from scrapy_resiproxy.tunnel.tls import SharedTls, TlsOptions
from scrapy_resiproxy.tunnel.transport import Call, Options, TunnelTransport
from scrapy_resiproxy.tunnel.wire import Traffic

CANARY = "canaryPass99"
LOGIN = b"Basic Y3VzdG9tZXItNzpjYW5hcnlQYXNzOTk="
"""customer-7:canaryPass99"""


ROW = Row(
    opened="2026-11-30T10:00:00.000+00:00",
    closed="2026-11-30T10:01:40.000+00:00",
    seconds=100.0,
    bytes_up=1000,
    bytes_down=9000,
    handshake_bytes=3000,
    payload_bytes=6000,
    ping_bytes=700,
    requests=4,
    pings=2,
    resumed=1,
    closed_by="peer",
    reason="peer_idle",
    proxy="proxy:1",
    session="s1",
    origin="origin:443",
)
"""A tunnel as the ledger knows it."""


@dataclass
class Pki:
    ca: Path
    good: Path
    """Key and chain (leaf, intermediate, root) for origin.test, localhost and the loopback addresses."""
    other: Path
    """From the same authority, for another name."""
    foreign: Path
    """For the right names, from an authority nobody trusts."""


def certificates(folder: Path, authority_bits: int = 2048) -> Pki:
    root, root_key = _issue("Test Root", None, None, ca=True, bits=authority_bits)
    middle, middle_key = _issue("Test Intermediate", root, root_key, ca=True, bits=authority_bits)
    ca = folder / "ca.pem"
    ca.write_bytes(_pem(root))
    names = ["origin.test", "localhost", "127.0.0.1", "::1"]

    def chain(file, names, issuer, issuer_key, above):
        leaf, key = _issue(names[0], issuer, issuer_key, names=names)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = folder / file
        path.write_bytes(private + b"".join(_pem(c) for c in [leaf, *above]))
        return path

    foreign, foreign_key = _issue("Interceptor", None, None, ca=True)
    return Pki(
        ca,
        chain("good.pem", names, middle, middle_key, [middle, root]),
        chain("other.pem", ["other.test"], middle, middle_key, [middle, root]),
        chain("foreign.pem", names, foreign, foreign_key, [foreign]),
    )


def _issue(name, issuer, issuer_key, *, ca=False, names=(), bits=2048):
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    alternatives = [_alternative(n) for n in names]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer_key or key).public_key()),
            critical=False,
        )
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256()), key


def _alternative(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def server_context(pem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


class TlsServer:
    """The server side of a TLS connection, in memory: bytes in, bytes out."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.plain = b""
        self._shaken = False

    def feed(self, data: bytes) -> bytes:
        """Take what the client wrote; return what the server answers on the TLS level."""
        self._in.write(data)
        try:
            if not self._shaken:
                self.tls.do_handshake()
                self._shaken = True
            while data := self.tls.read(65536):
                self.plain += data
        except (ssl.SSLWantReadError, ssl.SSLError):
            pass
        return self._out.read()

    def say(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._out.read()

    def goodbye(self) -> bytes:
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            pass
        return self._out.read()


class Line(StringTransport):
    """A TCP transport in memory that dies when told to, as a socket does."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(lenient=True)
        self._clock = clock
        self.protocol: Protocol = None
        self.lost = False

    def take(self) -> bytes:
        data = self.value()
        self.clear()
        return data

    def loseConnection(self):
        super().loseConnection()
        self._clock.callLater(0, self.lose, ConnectionDone())

    def abortConnection(self):
        super().loseConnection()
        self._clock.callLater(0, self.lose, ConnectionAborted())

    def setTcpNoDelay(self, enabled):
        pass

    def lose(self, error):
        if not self.lost:
            self.disconnecting = self.lost = True
            self.protocol.connectionLost(Failure(error))


@implementer(IStreamClientEndpoint)
class Peer:
    """The TCP endpoint of a proxy in memory. ``connects`` False leaves every attempt hanging."""

    def __init__(self, clock: Clock, connects: bool | Exception = True) -> None:
        self.clock = clock
        self.connects = connects
        self.lines: list[Line] = []
        self.cancelled = 0

    def connect(self, factory):
        if isinstance(self.connects, Exception):
            d = Deferred()
            d.errback(self.connects)
            return d
        if not self.connects:
            return Deferred(self._count_cancel)
        line = Line(self.clock)
        line.protocol = factory.buildProtocol(line.getPeer())
        self.lines.append(line)
        line.protocol.makeConnection(line)
        return succeed(line.protocol)

    def _count_cancel(self, _):
        self.cancelled += 1

    @property
    def line(self) -> Line:
        return self.lines[-1]

    def sends(self, data: bytes) -> None:
        if not self.line.disconnecting:
            self.line.protocol.dataReceived(data)

    def closes(self, *, clean: bool = True) -> None:
        """FIN, or RST."""
        self.line.lose(ConnectionDone() if clean else ConnectionLost())


class App(Protocol):
    """The application's protocol: remembers what it got."""

    def __init__(self):
        self.got = b""
        self.lost = None

    def dataReceived(self, data):
        self.got += data

    def connectionLost(self, reason):
        self.lost = reason


def a_route(host="origin.test", port=443, **kwargs):
    key = TunnelKey("proxy.test:8080", kwargs.pop("session", "s1"), host_port(host, port))
    return Route(key, "proxy.test", 8080, host, port, **{"authorization": LOGIN, **kwargs})


def an_endpoint(peer, *, route=None, shared=None, verify=False, timeout=20.0):
    clock, route = peer.clock, route or a_route()
    shared = shared or SharedTls(TlsOptions(verify=verify))
    return TunnelEndpoint(
        clock, peer, route, tls=shared.client(route.host, route.key), traffic=Traffic(clock), timeout=timeout
    )


def dial(endpoint):
    """Connect; return the list that will hold the result."""
    result = []
    endpoint.connect(Factory.forProtocol(App)).addBoth(result.append)
    return result


def shake_hands(peer: Peer, server: TlsServer) -> None:
    """Carry bytes between the client and *server* until both are silent."""
    while True:
        peer.clock.advance(0)
        data = peer.line.take()
        if not data:
            return
        answer = server.feed(data)
        if answer:
            peer.sends(answer)


@dataclass
class Seen:
    """A request as the origin saw it."""

    line: int
    method: str
    path: str
    head: bytes
    body: bytes


class _Body(Protocol):
    def __init__(self):
        self.done, self.got = Deferred(), b""

    def dataReceived(self, data):
        self.got += data

    def connectionLost(self, reason):
        if reason.check(ResponseDone):
            self.done.callback(self.got)
        else:
            self.done.errback(reason)


class World:
    """A transport, a proxy and an origin, all in memory and on one clock that only the test turns."""

    def __init__(self, pem: Path, **options) -> None:
        self.clock = Clock()
        self._context = server_context(pem)
        self._servers: dict[Line, TlsServer] = {}
        self.peer = Peer(self.clock)
        self.gone = []
        self._started = []
        self.seen: list[Seen] = []
        self.connects = 0
        self.silent = False
        """True: the origin sees requests and answers none."""
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.connect_answer = b"HTTP/1.1 200 OK\r\n\r\n"
        self.transport = TunnelTransport(
            self.clock,
            Options(**options),
            Random(1),
            on_gone=self.gone.append,
            tcp=lambda reactor, route, timeout: self.peer,
        )

    def start(self, route=None, method="GET", *, body=b"", resend=None, path="/", headers=None):
        """Begin a request; return the list that will hold the body, or the failure."""
        route = route or a_route()
        url = f"https://{host_port(route.host, route.port)}{path}".encode()
        call = Call(method.encode(), url, Headers(headers or {}), body, resend)
        result = []
        d = self.transport.send(route, call).addCallback(self._read)
        d.addBoth(result.append)
        self._started.append((result, d))
        self.pump()
        return result

    def get(self, route=None, **kwargs):
        """A request that must succeed; return the number of the line that carried it."""
        [body] = self.start(route, **kwargs)
        assert body == b"ok", body
        return self.seen[-1].line

    def cancel(self, result):
        next(d for started, d in self._started if started is result).cancel()
        self.pump()

    def _read(self, got):
        tunnel, response = got
        body = _Body()
        response.deliverBody(body)

        def done(data):
            self.transport.done(tunnel)
            return data

        return body.done.addCallback(done)

    def advance(self, seconds: float) -> None:
        """Turn the clock to each moment at which something is due, and carry the bytes that come of it."""
        end = self.clock.seconds() + seconds
        while True:
            due = [c.getTime() for c in self.clock.getDelayedCalls() if c.getTime() <= end]
            if not due:
                break
            self.clock.advance(max(0.0, min(due) - self.clock.seconds()))
            self.pump()
        self.clock.advance(end - self.clock.seconds())

    def pump(self) -> None:
        moved = True
        while moved:
            self.clock.advance(0)
            moved = False
            for number, line in enumerate(self.peer.lines):
                data = line.take()
                if data and not line.lost:
                    moved = True
                    self._server_got(number, line, data)

    def _server_got(self, number: int, line: Line, data: bytes) -> None:
        server = self._servers.get(line)
        if server is None:
            self.connects += 1
            self._servers[line] = TlsServer(self._context)
            line.protocol.dataReceived(self.connect_answer)
            return
        answer = server.feed(data)
        if answer:
            line.protocol.dataReceived(answer)
        while b"\r\n\r\n" in server.plain and self._serve(number, line, server):
            pass

    def _serve(self, number: int, line: Line, server: TlsServer) -> bool:
        head, _, rest = server.plain.partition(b"\r\n\r\n")
        lengths = [h.split(b":")[1] for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")]
        size = int(lengths[0]) if lengths else 0
        if len(rest) < size:
            return False
        server.plain = rest[size:]
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.seen.append(Seen(number, method, path, head, rest[:size]))
        if not self.silent and not line.disconnecting:
            answer = self.answer if method != "HEAD" else self.answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            line.protocol.dataReceived(server.say(answer))
        return True

    def origin_says(self, number: int, data: bytes) -> None:
        line = self.peer.lines[number]
        line.protocol.dataReceived(self._servers[line].say(data))

    def ends(self, number: int, *, clean: bool = True, goodbye: bool = False) -> None:
        """The other side closes a line."""
        line = self.peer.lines[number]
        if goodbye:
            line.protocol.dataReceived(self._servers[line].goodbye())
        line.lose(ConnectionDone() if clean else ConnectionLost())
        self.pump()

    @property
    def open_lines(self) -> list[int]:
        return [n for n, line in enumerate(self.peer.lines) if not line.disconnecting]

    @property
    def pings(self) -> list[Seen]:
        return [s for s in self.seen if s.method == "HEAD"]

    def stat(self, name):
        return self.transport.stats().get(name, 0)
