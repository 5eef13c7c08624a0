"""What the tunnel's tests share: certificates, a peer in memory, and what a proxy may answer to CONNECT."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

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
from zope.interface import implementer

from scrapy_resiproxy.tunnel.endpoint import TunnelEndpoint
from scrapy_resiproxy.tunnel.route import Route, TunnelKey, host_port
from scrapy_resiproxy.tunnel.tls import SharedTls, TlsOptions
from scrapy_resiproxy.tunnel.wire import Traffic

CANARY = "canaryPass99"
LOGIN = b"Basic Y3VzdG9tZXItNzpjYW5hcnlQYXNzOTk="
"""customer-7:canaryPass99"""


@dataclass
class Pki:
    ca: Path
    good: Path
    """Key and chain (leaf, intermediate, root: three certificates) for origin.test, localhost and loopback addresses."""
    other: Path
    """From the same authority, for another name."""
    foreign: Path
    """For the right names, from an authority nobody trusts."""


def certificates(folder: Path) -> Pki:
    root, root_key = _issue("Test Root", None, None, ca=True)
    middle, middle_key = _issue("Test Intermediate", root, root_key, ca=True)
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


def _issue(name, issuer, issuer_key, *, ca=False, names=()):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [_alternative(n) for n in names]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
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
            while True:
                self.plain += self.tls.read(65536)
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
