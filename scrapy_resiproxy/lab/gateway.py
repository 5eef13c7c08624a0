"""The residential gateway: an HTTP proxy on loopback, with sessions, in front of the lab's own site only.

Plain http comes in absolute form, https through CONNECT. Connections are kept alive on both sides; answers
pass byte for byte, resets and cuts included. A name that the lab does not play gets 502, whatever it may be
elsewhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from http import HTTPStatus
from http.client import responses
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from scrapy_resiproxy.lab.admission import Admission, GatewayOptions, NotAdmittedError
from scrapy_resiproxy.lab.behaviours import Answer, How, Visit
from scrapy_resiproxy.lab.exits import EXIT_HEADER, NOBODY, SESSION_HEADER, Exit
from scrapy_resiproxy.lab.grammar import build
from scrapy_resiproxy.lab.ledger import Traffic
from scrapy_resiproxy.lab.relay import Link, SiteLinks, Tunnel, copy_answer, copy_body
from scrapy_resiproxy.lab.wire import HEAD_END, MAX_HEAD, Body, RequestHead, parse_request_head

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from scrapy_resiproxy.lab.ledger import Ledger
    from scrapy_resiproxy.lab.targets import Targets

LOOPBACK: Final = "127.0.0.1"
_NOT_FORWARDED: Final = frozenset(
    {"host", "proxy-authorization", "proxy-connection", SESSION_HEADER.lower(), EXIT_HEADER.lower()}
)
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_NO_SUCH_HOST: Final = "the lab plays no such host"
_UNREACHABLE: Final = "the host refuses connections"
_REFUSED: Final = Answer(outcome="refused", status=502, how=How.REFUSE)


class _Client(asyncio.StreamReaderProtocol):
    """One client's connection, served by one task, which ends at once when the client leaves an exchange."""

    def __init__(self, serve: Callable[[_Client], Coroutine[object, object, None]]) -> None:
        super().__init__(asyncio.StreamReader(limit=MAX_HEAD), self._begin)
        self.in_exchange = False
        self.exits: dict[str, Exit] = {}
        self.link: Link
        self.worker: asyncio.Task[None]
        self._serve = serve

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.link = Link(reader, writer)
        self.worker = asyncio.ensure_future(self._serve(self))

    def eof_received(self) -> bool:
        self._leave()
        super().eof_received()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()

    def _leave(self) -> None:
        if self.in_exchange:
            self.worker.cancel()


class Gateway:
    """Serves the hosts in `targets`; `ledger` learns what happens, and `tunnel_exits` whose a tunnel is."""

    def __init__(
        self, options: GatewayOptions, targets: Targets, ledger: Ledger, tunnel_exits: dict[int, Exit]
    ) -> None:
        self._targets = targets
        self._ledger = ledger
        self._tunnel_exits = tunnel_exits
        self._admission = Admission(options)
        self._links = SiteLinks(LOOPBACK, 0)
        self._clients: set[_Client] = set()
        self._ports = {"http": 0, "https": 0}

    async def start(self, port: int, *, http_port: int, https_port: int) -> int:
        """Listen on `port` (0: any) in front of the site's two ports; return the port. Raises OSError."""
        self._ports = {"http": http_port, "https": https_port}
        self._links = SiteLinks(LOOPBACK, http_port)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self._serve), LOOPBACK, port, backlog=1024)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close everything at once."""
        self._server.close()
        workers = [client.worker for client in self._clients]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._links.close()

    def adjust(self, changes: Mapping[str, str]) -> None:
        """Change options by name while running; raises ValueError in one line."""
        current = {name: str(value) for name, value in asdict(self._admission.options).items()}
        self._admission.adjust(build(GatewayOptions, "gateway", {**current, **changes}.items()))

    def begin_again(self) -> None:
        """Forget whom it has served and through which exits."""
        self._admission.begin_again()

    async def _serve(self, client: _Client) -> None:
        self._clients.add(client)
        try:
            while await self._one_request(client):
                pass
        except asyncio.IncompleteReadError:
            pass
        except ConnectionError:
            client.link.reset()
        except (ValueError, asyncio.LimitOverrunError):
            _answer(client.link, HTTPStatus.BAD_REQUEST, "not a request that a proxy understands")
        finally:
            self._clients.discard(client)
            client.link.close()

    async def _one_request(self, client: _Client) -> bool:
        """Read and answer one request; return whether another may follow on the connection."""
        raw = await client.link.reader.readuntil(HEAD_END)
        head = parse_request_head(raw)
        try:
            exit_ = self._admission.admit(head, client.exits)
        except NotAdmittedError as error:
            return self._refuse(client, head, NOBODY, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, str(error))
        self._ledger.session(exit_.session).goes_out_from(exit_.address)
        self._ledger.session(exit_.session).bytes_up += len(raw)
        if head.method == "CONNECT":
            return await self._connect(client, head, exit_)
        self._ledger.session(exit_.session).requests += 1
        return await self._forward(client, head, exit_)

    def _refuse(self, client: _Client, head: RequestHead, exit_: Exit, status: int, why: str, *headers: str) -> bool:
        """Answer in the gateway's own name; return whether another request may follow."""
        _answer(client.link, status, why, *headers)
        if head.method == "CONNECT":
            host, _, port = head.target.lower().rpartition(":")
            self._ledger.connect(exit_, host, port, status)
        else:
            self._ledger.refused(exit_, head.method, head.target, status, why)
        # A body that nobody reads would be taken for the next request.
        return Body.of_request(head).done

    async def _forward(self, client: _Client, head: RequestHead, exit_: Exit) -> bool:
        url = urlsplit(head.target)
        if url.scheme != "http" or not url.hostname:
            raise ValueError("not an absolute http URL")
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        if url.hostname not in self._targets:
            return self._refuse(client, head, exit_, HTTPStatus.BAD_GATEWAY, _NO_SUCH_HOST)
        if not self._targets.reachable(url.hostname):
            visit = Visit(path, exit_.address, head.method)
            self._ledger.request(url.hostname, visit, _REFUSED, via="http", session=exit_.session, size=0)
            return self._refuse(client, head, exit_, HTTPStatus.BAD_GATEWAY, _UNREACHABLE)
        rewritten = _rewrite(head, url.netloc, path, exit_)
        return await self._exchange(client, head, rewritten, Traffic(self._ledger, exit_.session))

    async def _exchange(self, client: _Client, head: RequestHead, rewritten: bytes, traffic: Traffic) -> bool:
        body = Body.of_request(head)
        client.in_exchange = True
        site, keep = await self._links.take(), False
        # The answer may come before the body is through: a 100, an early refusal.
        upload = asyncio.ensure_future(copy_body(body, client.link, site, traffic)) if not body.done else None
        try:
            site.writer.write(rewritten)
            keep = await copy_answer(head.method, site, client.link, traffic) and body.done
        finally:
            client.in_exchange = False
            if upload:
                upload.cancel()
            if keep:
                self._links.put_back(site)
            else:
                site.close()
        return keep

    async def _connect(self, client: _Client, head: RequestHead, exit_: Exit) -> bool:
        options = self._admission.options
        host, _, port = head.target.lower().rpartition(":")
        if options.connect_status:
            wait = options.connect_retry_after
            headers = [f"Retry-After: {wait}"] if wait else []
            return self._refuse(client, head, exit_, options.connect_status, "no tunnel now", *headers)
        if host not in self._targets:
            return self._refuse(client, head, exit_, HTTPStatus.BAD_GATEWAY, _NO_SUCH_HOST)
        if not self._targets.reachable(host):
            return self._refuse(client, head, exit_, HTTPStatus.BAD_GATEWAY, _UNREACHABLE)
        scheme = "http" if port == "80" else "https"
        site = Link(*await asyncio.open_connection(LOOPBACK, self._ports[scheme]))
        self._ledger.connect(exit_, host, port, HTTPStatus.OK)
        await self._tunnel(client.link, site, host, exit_)
        return False

    async def _tunnel(self, client: Link, site: Link, host: str, exit_: Exit) -> None:
        local_port = site.writer.get_extra_info("sockname")[1]
        self._tunnel_exits[local_port] = exit_
        traffic = Traffic(self._ledger, exit_.session)
        client.writer.write(_ESTABLISHED)
        traffic.down(len(_ESTABLISHED))
        now = asyncio.get_running_loop().time
        opened = now()
        tunnel, by = Tunnel(client, site, traffic, self._admission.options.tunnel_idle), "gateway"
        try:
            by = (await tunnel.run()).by
        finally:
            del self._tunnel_exits[local_port]
            self._ledger.tunnel_closed(exit_, host, seconds=now() - opened, up=tunnel.up, down=tunnel.down, by=by)


def _answer(client: Link, status: int, why: str, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status} {responses.get(status, 'Refused')}", *headers]
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        lines.append('Proxy-Authenticate: Basic realm="lab gateway"')
    lines += ["Content-Type: text/plain", f"Content-Length: {len(why) + 1}", "", why + "\n"]
    client.writer.write("\r\n".join(lines).encode())


def _rewrite(head: RequestHead, netloc: str, path: str, exit_: Exit) -> bytes:
    """Return the head for the site: in origin form, without what concerns the proxy, with the exit."""
    lines = [
        f"{head.method} {path} {head.version}",
        f"Host: {netloc.rpartition('@')[2]}",
        *(line for line in head.lines if line.partition(":")[0].lower() not in _NOT_FORWARDED),
        f"{SESSION_HEADER}: {exit_.session}",
        f"{EXIT_HEADER}: {exit_.address}",
    ]
    return "\r\n".join(lines).encode("latin-1") + HEAD_END
