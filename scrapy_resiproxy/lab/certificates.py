"""The lab's own certificate authority, and a server certificate for any host that is asked for."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path


class Authority:
    """Signs a certificate for each of `hosts` at its first handshake; the loopback address has one anyway."""

    def __init__(self, hosts: Container[str]) -> None:
        self._ca = trustme.CA(organization_name="scrapy_resiproxy lab")
        self._hosts = hosts
        self._contexts: dict[str, ssl.SSLContext] = {}

    def write(self, path: Path) -> None:
        """Write the CA's certificate as PEM to `path`."""
        self._ca.cert_pem.write_to_path(str(path))

    def server_context(self) -> ssl.SSLContext:
        """Return a context for the https site that picks its certificate by SNI."""
        context = self._context("localhost", "127.0.0.1")
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if name is None or name not in self._hosts:
            return
        if name not in self._contexts:
            self._contexts[name] = self._context(name)
        connection.context = self._contexts[name]

    def _context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names).configure_cert(context)
        return context
