"""An https origin that misbehaves by path, and a CONNECT proxy that counts: Twisted servers for a running reactor."""

from __future__ import annotations

from OpenSSL import SSL
from twisted.internet import reactor, ssl
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol


class Origin(Protocol):
    """HTTP/1.1 by hand, so that it can be as wrong as a test wants."""

    def __init__(self, log):
        self._log = log
        self._buffer = b""
        self._served = 0

    def dataReceived(self, data):
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
            headers = {name.lower(): value.strip() for name, _, value in fields}
            size = int(headers.get(b"content-length", 0))
            if len(rest) < size:
                return
            self._buffer = rest[size:]
            self._served += 1
            method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
            self._log.append((method, path))
            getattr(self, "do_" + path.strip("/").split("?")[0].split("/")[0])(method, headers, rest[:size])

    def _say(self, body, *headers, status=b"200 OK"):
        self.transport.write(
            b"".join([b"HTTP/1.1 ", status, b"\r\n", *(h + b"\r\n" for h in headers)])
            + b"Content-Length: %d\r\n\r\n" % len(body)
            + body
        )

    def do_ok(self, method, headers, body):
        self._say(b"" if method == "HEAD" else b"hello", b"Content-Type: text/html", b"X-A: 1", b"X-A: 2")

    do_ = do_ok

    def do_status(self, method, headers, body):
        self._say(b"gone", status=b"404 Not Here")

    def do_empty(self, method, headers, body):
        self._say(b"", b"Set-Cookie: a=b")

    def do_nocontent(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n")

    def do_echo(self, method, headers, body):
        kept = sorted(n for n in headers if n != b"host")
        self._say(method.encode() + b"|" + body + b"|" + b",".join(kept))

    def do_host(self, method, headers, body):
        self._say(headers[b"host"])

    def do_chunked(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    def do_cutchunk(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        self.transport.loseConnection()

    def do_nolength(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        self.transport.loseConnection()

    def do_truncated(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        self.transport.loseConnection()

    def do_big(self, method, headers, body):
        self._say(b"x" * 2000)

    def do_huge(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 400_000)
        self.transport.loseConnection()

    def do_bigchunked(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000 + b"\r\n")
        reactor.callLater(0.2, self.transport.write, b"0\r\n\r\n")

    def do_silent(self, method, headers, body):
        pass

    def do_slowbody(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin")

    def do_close(self, method, headers, body):
        self._say(b"bye", b"Connection: close")
        self.transport.loseConnection()

    def do_drop(self, method, headers, body):
        self.transport.abortConnection()

    def do_halfhead(self, method, headers, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nX-A:")
        self.transport.loseConnection()

    def do_badline(self, method, headers, body):
        self._say(b"hello", b"no colon here", b"X-A: 1")

    def do_nothttp(self, method, headers, body):
        self.transport.write(b"what is this\r\n\r\n")

    def do_once(self, method, headers, body):
        """Answers the first request of a connection, and drops the connection on the second."""
        if self._served > 1:
            self.transport.abortConnection()
        else:
            self._say(b"first")


class Relay(Protocol):
    """A CONNECT proxy. ``proxy.answer``, if set, is what every CONNECT gets."""

    def __init__(self, proxy):
        self._proxy = proxy
        self._buffer = b""
        self._far = None

    def dataReceived(self, data):
        if self._far is not None:
            self._far.transport.write(data)
            return
        self._buffer += data
        if b"\r\n\r\n" in self._buffer:
            head, self._buffer = self._buffer, b""
            self._proxy.connects.append(head)
            if self._proxy.answer is not None:
                self.transport.write(self._proxy.answer)
                return
            self.transport.pauseProducing()
            connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", self._proxy.origin_port), _Far(self)).addCallback(
                self._joined
            )

    def _joined(self, far):
        self._far = far
        self.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.transport.resumeProducing()

    def connectionLost(self, reason):
        self._proxy.open.discard(self)
        if self._far is not None:
            self._far.transport.loseConnection()

    def connectionMade(self):
        self._proxy.open.add(self)


class _Far(Protocol):
    def __init__(self, near):
        self._near = near

    def dataReceived(self, data):
        self._near.transport.write(data)

    def connectionLost(self, reason):
        self._near.transport.loseConnection()


class Proxy:
    def __init__(self, origin_port):
        self.origin_port = origin_port
        self.answer = None
        self.connects = []
        self.open = set()
        factory = Factory()
        factory.protocol = lambda: Relay(self)
        self.listening = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.port = self.listening.getHost().port


class _Chain(ssl.DefaultOpenSSLContextFactory):
    """Sends the whole chain, as a real origin does."""

    def cacheContext(self):
        self._context = SSL.Context(SSL.TLS_METHOD)
        self._context.use_certificate_chain_file(self.certificateFileName)
        self._context.use_privatekey_file(self.privateKeyFileName)


class Site:
    """The origin, listening with *pem*; ``log`` holds method and path of every request."""

    def __init__(self, pem):
        self.log = []
        factory = Factory()
        factory.protocol = lambda: Origin(self.log)
        self.listening = reactor.listenSSL(0, factory, _Chain(pem, pem), interface="127.0.0.1")
        self.port = self.listening.getHost().port
