"""One TLS context for all tunnels, and the tickets that let a reconnect skip the certificates.

A context per connection costs 950 kB where certificates are verified, a shared one 70 kB; and pyOpenSSL lets
a session be resumed only under the context it was made with. Tickets are kept per tunnel key and never used
for another: one shown through two exits would tell the origin that both are one client.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from OpenSSL import SSL
from service_identity import VerificationError
from service_identity.exceptions import CertificateError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import AcceptableCiphers, CertificateOptions, TLSVersion, platformTrust
from zope.interface import implementer  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from OpenSSL.crypto import X509

    from scrapy_resiproxy.tunnel.route import TunnelKey

logger = logging.getLogger(__name__)

VERSIONS: Final = {
    "TLSv1.0": (SSL.TLS1_VERSION, TLSVersion.TLSv1_0),
    "TLSv1.1": (SSL.TLS1_1_VERSION, TLSVersion.TLSv1_1),
    "TLSv1.2": (SSL.TLS1_2_VERSION, TLSVersion.TLSv1_2),
    "TLSv1.3": (SSL.TLS1_3_VERSION, TLSVersion.TLSv1_3),
}
_LEGACY_SERVER_CONNECT: Final = 0x4
_MAX_SESSIONS: Final = 500
_MAX_TICKETS_PER_SESSION: Final = 50


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What may be chosen about TLS; versions are keys of ``VERSIONS``."""

    verify: bool = False
    ciphers: str | None = None
    """An OpenSSL cipher string; None leaves Twisted's choice."""
    min_version: str | None = None
    max_version: str | None = None
    keylog: str | None = None
    """A file to which session keys are appended, for a packet analyser."""


class CertificateRefused(Exception):  # noqa: N818
    """The origin's certificate is not for the name we asked for."""


def make_context(options: TlsOptions) -> SSL.Context:
    """Return a new context; it may be shared by any number of connections."""
    arguments: dict[str, Any] = {"fixBrokenPeers": True, "enableSessionTickets": True}
    if options.ciphers:
        arguments["acceptableCiphers"] = AcceptableCiphers.fromOpenSSLCipherString(options.ciphers)
    if options.verify:
        arguments["trustRoot"] = platformTrust()
    lowest = options.min_version or options.max_version
    if lowest in ("TLSv1.0", "TLSv1.1"):
        arguments["insecurelyLowerMinimumTo"] = VERSIONS[lowest][1]
    context = CertificateOptions(**arguments).getContext()
    context.set_options(_LEGACY_SERVER_CONNECT)
    # Not left to CertificateOptions: before Twisted 26.4 its maximum was one version too low.
    if options.min_version:
        context.set_min_proto_version(VERSIONS[options.min_version][0])
    if options.max_version:
        context.set_max_proto_version(VERSIONS[options.max_version][0])
    if options.keylog:
        _log_keys(context, Path(options.keylog))
    return context


def _log_keys(context: SSL.Context, path: Path) -> None:
    def write(_: SSL.Connection, line: bytes) -> None:
        with path.open("ab") as file:
            file.write(line + b"\n")

    context.set_keylog_callback(write)


class Tickets:
    """The newest TLS session per tunnel key; the least recently used sessions are forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[TunnelKey, SSL.Session]] = OrderedDict()

    def get(self, key: TunnelKey) -> SSL.Session | None:
        tickets = self._sessions.get(key.session)
        return tickets.get(key) if tickets else None

    def put(self, key: TunnelKey, ticket: SSL.Session) -> None:
        tickets = self._sessions.setdefault(key.session, OrderedDict())
        tickets[key] = ticket
        tickets.move_to_end(key)
        self._sessions.move_to_end(key.session)
        if len(tickets) > _MAX_TICKETS_PER_SESSION:
            tickets.popitem(last=False)
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def forget(self, session: str) -> None:
        self._sessions.pop(session, None)


class SharedTls:
    """What all tunnels of a crawl share."""

    def __init__(self, options: TlsOptions) -> None:
        self.verify = options.verify
        self.context = make_context(options)
        self.tickets = Tickets()
        self._warned: set[str] = set()

    def client(self, host: str, key: TunnelKey) -> TlsClient:
        return TlsClient(self, host, key)

    def warn_once(self, host: str, error: Exception) -> None:
        if host not in self._warned:
            self._warned.add(host)
            logger.warning('Remote certificate is not valid for hostname "%s"; %s', host, error)


@implementer(IOpenSSLClientConnectionCreator)
class TlsClient:
    """The TLS side of one tunnel."""

    def __init__(self, shared: SharedTls, host: str, key: TunnelKey) -> None:
        self._shared = shared
        self._host = host
        self._key = key
        self._offered = False
        self._certificate_seen = False
        self.certificate_bad = False
        """True when the chain or the name did not hold (only looked at where we verify)."""
        self.keeps_ticket = True
        """False: leave nothing behind that could resume this connection."""
        self.origin_said_goodbye = False
        """True when the origin ended TLS before the connection was lost, known once it is."""

    @property
    def resumed(self) -> bool:
        """True when the origin took our ticket: it then shows no certificate."""
        return self._offered and not self._certificate_seen

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:  # noqa: ARG002, N802, N803
        connection = SSL.Connection(self._shared.context, None)
        if not _is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("ascii"))
        connection.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, self._judge_chain)
        ticket = self._shared.tickets.get(self._key)
        if ticket is not None:
            connection.set_session(ticket)
            self._offered = True
        return connection

    def _judge_chain(self, _conn: SSL.Connection, _cert: X509, _error: int, _depth: int, ok: int) -> bool:
        self._certificate_seen = True
        if ok or not self._shared.verify:
            return True
        self.certificate_bad = True
        return False

    def check_name(self, connection: SSL.Connection) -> None:
        """Raise :class:`CertificateRefused` if the certificate is for another name, where we verify."""
        if self.resumed:
            return
        try:
            if _is_address(self._host):
                verify_ip_address(connection, self._host)
            else:
                verify_hostname(connection, self._host)
        except (VerificationError, CertificateError, ValueError) as error:
            if self._shared.verify:
                self.certificate_bad = True
                raise CertificateRefused(str(error)) from error
            self._shared.warn_once(self._host, error)

    def end(self, connection: SSL.Connection) -> None:
        """Keep the session of a connection whose TCP connection has ended, before TLS hears of that.

        An end without a close_notify, as that of an idle tunnel, spoils a session for resumption unless the
        connection believes that both sides have shut down.
        """
        self.origin_said_goodbye = bool(connection.get_shutdown() & SSL.RECEIVED_SHUTDOWN)
        ticket = connection.get_session()
        if ticket is not None and self.keeps_ticket:
            self._shared.tickets.put(self._key, ticket)
        connection.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)


def _is_address(host: str) -> bool:
    return isIPAddress(host) or isIPv6Address(host)
