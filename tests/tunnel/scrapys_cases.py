"""The cases that Scrapy tests its own HTTP/1.1 handler with, put to ours, with every https request through a proxy.

Scrapy's tests are not installed with it: ``nox -s scrapys_tests`` takes them from its source archive and runs this
module among them.

Not run, because a proxy stands between: ``test_download_conn_failed`` and ``test_download_dns_error`` (it is the proxy
that dials the origin, and says so with a status: ``TunnelRefused``). Run in another form, because we differ on purpose:
``test_invalid_min_version_setting`` and its twin (a wrong setting ends the start with one line instead of a traceback),
and the message of ``test_unparsable_response`` (what a proxy says in the place of HTTP may hold a credential).
Scrapy itself leaves out what is HTTP/2's, https to an https proxy, and ``test_download_conn_lost`` over https.
"""

from __future__ import annotations

from functools import cache

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured
from tests.utils.bases import download_handlers_http as bases
from twisted.internet import reactor
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol

from scrapy_resiproxy.components import tunnel_handler
from tests import test_downloader_handler_twisted_http11 as stock

pytestmark = pytest.mark.requires_reactor


class Far(Protocol):
    def __init__(self, near):
        self.near = near

    def dataReceived(self, data):
        self.near.transport.write(data)

    def connectionLost(self, reason):
        self.near.transport.loseConnection()


class Near(Protocol):
    """A CONNECT proxy that dials from the address it is called from, so that bound addresses can be seen behind it."""

    def connectionMade(self):
        self.buffer, self.far = b"", None

    def dataReceived(self, data):
        if self.far is not None:
            self.far.transport.write(data)
            return
        self.buffer += data
        if b"\r\n\r\n" in self.buffer:
            Near.connects += 1
            port = int(self.buffer.split(b" ")[1].rpartition(b":")[2])
            bind = (self.transport.getPeer().host, 0)
            self.transport.pauseProducing()
            dialling = connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", port, bindAddress=bind), Far(self))
            dialling.addCallbacks(self.joined, lambda _: self.transport.loseConnection())

    connects = 0

    def joined(self, far):
        self.far = far
        self.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.transport.resumeProducing()

    def connectionLost(self, reason):
        if self.far is not None:
            self.far.transport.loseConnection()


class ThroughAProxy(tunnel_handler.TunnelDownloadHandler):
    """Sends every https request that has no proxy of its own through one."""

    async def download_request(self, request):
        if request.url.startswith("https:"):
            request.meta.setdefault("proxy", f"http://127.0.0.1:{self.proxy_port()}")
        return await super().download_request(request)

    @staticmethod
    @cache
    def proxy_port():
        return reactor.listenTCP(0, Factory.forProtocol(Near), interface="127.0.0.1").getHost().port


class Ours:
    download_handler_cls = ThroughAProxy
    settings_dict = {"DOWNLOAD_HANDLERS": {"http": ThroughAProxy, "https": ThroughAProxy}}  # noqa: RUF012

    test_download_conn_failed = None
    test_download_dns_error = None


@pytest.fixture(autouse=True)
def ours_in_place_of_scrapys(monkeypatch):
    monkeypatch.setattr(stock, "HTTP11DownloadHandler", tunnel_handler.TunnelDownloadHandler)


class TestHttps(Ours, bases.TestHttpsBase):
    pass


class TestSimpleHttps(Ours, bases.TestSimpleHttpsBase):
    pass


class TestHttpsWrongHostname(Ours, bases.TestHttpsWrongHostnameBase):
    pass


class TestHttpsInvalidDNSId(Ours, bases.TestHttpsInvalidDNSIdBase):
    pass


class TestHttpsInvalidDNSPattern(Ours, bases.TestHttpsInvalidDNSPatternBase):
    pass


class TestHttpsCustomCiphers(Ours, bases.TestHttpsCustomCiphersBase):
    pass


class TestHttpsTLSVersion(Ours, bases.TestHttpsTLSVersionBase):
    test_invalid_min_version_setting = None
    test_invalid_max_version_setting = None

    @bases.coroutine_test
    async def test_invalid_version_settings(self):
        for limits in (("invalid", None), (None, "invalid")):
            with pytest.raises(NotConfigured, match=r"it must be one of TLSv1\.0"):
                async with self.get_dh(*limits):
                    pass


class TestHttpsWithCrawler(Ours, bases.TestHttpWithCrawlerBase):
    is_secure = True


class TestHttpProxy(Ours, bases.TestHttpProxyBase):
    pass


class TestHttpsProxy(Ours, bases.TestHttpProxyBase):
    is_secure = True
    handler_supports_tls_in_tls = False


class TestTunnelingErrors(stock.TestTunnelingErrors):
    @bases.coroutine_test
    async def test_unparsable_response(self):
        async with stock._canned_proxy(b"not an HTTP response\r\n\r\n") as proxy, stock._get_dh() as handler:
            with pytest.raises(stock.TunnelError, match="is not HTTP"):
                await handler.download_request(Request("https://example.com", meta={"proxy": proxy}))


def test_the_requests_went_through_the_proxy():
    assert Near.connects > 100
