"""A tunnel that is cut before it carries anything, at whatever moment."""

from __future__ import annotations

import pytest
from tunnel_kit import Peer, TlsServer, an_endpoint, dial, server_context
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

GRANT = b"HTTP/1.1 200 Connection established\r\n\r\n"
CUTS = {"closed": ConnectionDone, "reset": ConnectionLost}


@pytest.mark.parametrize("reason", CUTS)
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_handshake_cut_half_way_fails_at_once(pki, reason, share):
    peer = Peer(clock := Clock())
    server = TlsServer(server_context(pki.good))
    result = dial(an_endpoint(peer))
    peer.line.take()
    peer.sends(GRANT)
    hello = server.feed(peer.line.take())
    peer.sends(hello[: int(share * len(hello))])
    assert result == []
    peer.closes(clean=reason == "closed")
    clock.advance(0)
    [failure] = result
    assert (failure.value.phase, failure.value.reason) == ("tls", reason)
    assert clock.getDelayedCalls() == []


class ClosesOnAccept(Peer):
    """Its connections are gone before anything was read from them."""

    def __init__(self, clock, error):
        super().__init__(clock)
        self.error = error

    def connect(self, factory):
        connecting = super().connect(factory)
        self.clock.callLater(0, self.line.lose, self.error())
        return connecting


@pytest.mark.parametrize("reason", CUTS)
def test_a_proxy_that_hangs_up_on_accept_fails_at_once(reason):
    clock = Clock()
    result = dial(an_endpoint(ClosesOnAccept(clock, CUTS[reason])))
    clock.advance(0)
    [failure] = result
    assert isinstance(failure, Failure)
    assert (failure.value.phase, failure.value.reason) == ("answer", reason)
    assert clock.getDelayedCalls() == []
