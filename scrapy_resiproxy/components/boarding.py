"""Puts a request on a session: proxy, credentials and cookie jar together; and takes a session down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

from scrapy_resiproxy import signals
from scrapy_resiproxy.components.browser import in_browser, put_on
from scrapy_resiproxy.components.flow import forget_credentials
from scrapy_resiproxy.guard.samples import Sample, endpoint_sample_of, refuses_plan
from scrapy_resiproxy.names import META_COUNTRY, META_SESSION, META_STATE
from scrapy_resiproxy.outcome import Blame, OutcomeClass
from scrapy_resiproxy.sessions.pool import Lease, NoSession, SessionGone

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.components.flow import Flight, State
    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.sessions.last_call import LastCall
    from scrapy_resiproxy.sessions.session import Session


class Boarding:
    """Sessions of one crawl, as requests see them."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.pool = runtime.pool
        self._open: dict[str, Session] = {}
        """Sessions that have carried a request and have not ended, by alias."""

    def board(self, request: Request, flight: Flight, now: float) -> NoSession | SessionGone | None:
        """Lease a session for *flight* and set it on *request*; what stands in the way, if anything does."""
        assert self.pool is not None
        meta, state = request.meta, flight.state
        avoid, name = state.get("avoid"), meta.get(META_SESSION)
        lease = self.pool.lease(
            flight.target,
            now,
            name=None if name is None else str(name),
            country=meta.get(META_COUNTRY) or self.runtime.config.target(flight.host).country,
            prefer=state.get("prefer"),
            avoid=frozenset((avoid,)) if avoid else frozenset(),
            # Only a refused session is avoided: what was refused once deserves an exit that nobody has worn.
            fresh=avoid is not None,
        )
        if not isinstance(lease, Lease):
            return lease
        session = lease.session
        self._open[session.alias] = session
        flight.lease = lease
        # The full URL, and nothing left of another session: HttpProxyMiddleware keeps the old header where the
        # host stays the same.
        forget_credentials(request)
        meta["proxy"] = session.url
        browser = in_browser(request)
        if browser:
            put_on(meta, session)
        own_jar = session.jar
        jar = own_jar is not None and "cookiejar" not in meta
        if jar:
            meta["cookiejar"] = own_jar
        alias = session.alias
        ours: State = {"proxy": True, "jar": jar, "browser": browser, "prefer": alias, "session": alias}
        meta[META_STATE] = flight.state = {**state, **ours}
        return None

    def leave(self, flight: Flight) -> None:
        """The request of *flight* is over: its session is free for another."""
        if flight.lease is not None and self.pool is not None and not flight.left:
            flight.left = True
            self.pool.release(flight.lease.session, self.runtime.now())

    def carried(self) -> None:
        """Something came through one of the sessions."""
        if self.pool is not None and self.pool.last_call is not None:
            self.pool.last_call.carried()

    def report(self, flight: Flight, outcome: Outcome, now: float) -> None:
        """What the attempt means for its session."""
        if flight.lease is None or self.pool is None:
            return
        session = flight.lease.session
        if self.pool.last_call is not None:
            self._look_at_list(self.pool.last_call, flight, outcome, now)
        if outcome.ok:
            self.pool.good(session, now)
            if self.pool.closed:
                self.bury_closed()
            return
        if self._is_to_blame(outcome) and self.pool.retire(session, outcome.reason, now, outcome.blame):
            self.runtime.crawler.signals.send_catch_log(
                signals.session_retired,
                target=flight.target,
                session=session.alias,
                reason=outcome.reason,
                spider=self.runtime.crawler.spider,
            )
        self.bury_closed()

    def _look_at_list(self, last_call: LastCall, flight: Flight, outcome: Outcome, now: float) -> None:
        """Give the list up where none of its endpoints carries anything any more.

        From then on it stands before every target as a gateway does that is given up; as long as it works its
        endpoints have nothing in common that could fail.
        """
        sample = endpoint_sample_of(outcome)
        if sample is Sample.OK:
            last_call.carried()
        elif flight.permit is not None and (sample is Sample.FAILED or refuses_plan(outcome)):
            assert flight.lease is not None
            last_call.failed(flight.lease.session.url, flight.permit.sent_at, now)
            if last_call.gone and self.runtime.endpoint is None:
                self.runtime.endpoint = "list"
                reason = "proxy_refused" if refuses_plan(outcome) else "circuit_open"
                self.runtime.governor.give_up(self.runtime.endpoint, reason, now, endpoint=True)

    def _is_to_blame(self, outcome: Outcome) -> bool:
        """Whether *outcome* ends the session. Waiting as told keeps it; a gateway's fault is not an exit's, while the
        endpoint of a list is both.
        """
        assert self.pool is not None
        if outcome.class_ is OutcomeClass.RATE:
            return False
        if outcome.blame is Blame.PROXY:
            return self.pool.is_list
        return outcome.class_ is OutcomeClass.IDENTITY or outcome.blame is Blame.SESSION

    def touch(self, alias: str) -> None:
        """A ping went over the session: its vendor's idle time begins anew, and so does the pool's."""
        session = self._open.get(alias)
        if session is not None and self.pool is not None:
            self.pool.touch(session, self.runtime.now())

    def bury_closed(self) -> None:
        """Empty the cookie jars of sessions that have ended, and close their tunnels."""
        assert self.pool is not None
        for session in self.pool.take_closed():
            self._open.pop(session.alias, None)
            if session.jar is not None:
                cookies = self.runtime.crawler.get_downloader_middleware(CookiesMiddleware)
                if cookies is not None:
                    cookies.jars.pop(session.jar, None)
            for close in self.runtime.on_session_closed:
                close(session.alias)
