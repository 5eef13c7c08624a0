"""Where a tunnel leads: through which proxy, as which session, to which origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint

if TYPE_CHECKING:
    from twisted.internet.interfaces import IStreamClientEndpoint


class TunnelKey(NamedTuple):
    """Tunnels with the same key can stand in for one another. It holds no credential."""

    proxy: str
    """``host:port``."""
    session: str
    origin: str
    """``host:port``."""
    login: str = ""
    """A hash of the credentials: the same session name under another login is another exit."""
    bind: str = ""
    """The local address, where one is asked for."""


@dataclass(frozen=True, slots=True)
class Route:
    """All that is needed to dial one tunnel."""

    key: TunnelKey
    proxy_host: str
    proxy_port: int
    host: str
    """The origin's name in ASCII, or its address without brackets."""
    port: int
    authorization: bytes | None = field(default=None, repr=False)
    """The value of ``Proxy-Authorization``."""
    bind: tuple[str, int] | None = None
    keep_exit: bool = False
    """True when losing the tunnel would cost more than bytes: pings then know no byte budget."""
    target: str = ""
    """The name under which the crawl guards what goes along it."""
    slot: str = ""
    """The downloader's slot of what goes along it."""


def host_port(host: str, port: int) -> str:
    """``host:port`` with the brackets that an IPv6 address needs (RFC 3986, section 3.2.2)."""
    return f"[{host}]:{port}" if isIPv6Address(host) else f"{host}:{port}"


def proxy_endpoint(reactor: Any, route: Route, timeout: float) -> IStreamClientEndpoint:
    """The TCP endpoint of the proxy; an address is dialled without asking a resolver."""
    kind: Any = HostnameEndpoint
    if isIPAddress(route.proxy_host):
        kind = TCP4ClientEndpoint
    elif isIPv6Address(route.proxy_host):
        kind = TCP6ClientEndpoint
    endpoint: IStreamClientEndpoint = kind(
        reactor, route.proxy_host, route.proxy_port, timeout=timeout, bindAddress=route.bind
    )
    return endpoint
