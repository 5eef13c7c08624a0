"""What happens between the wire and our place among the middlewares, where we would lose sight of a request.

A redirect never comes back to ``process_response``, an exception of a middleware nearer to the wire goes straight to
the errback, and 19 of 20 redirects to one block page are dropped by the dupefilter. The downloader's signals, an
errback that stands in for the user's, and ``request_dropped`` see them all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import ref

from scrapy import signals

from scrapy_resiproxy.components.flow import Flight, again, forget_credentials, is_hop, original_of, state_of
from scrapy_resiproxy.outcome import OK

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.components.boarding import Boarding
    from scrapy_resiproxy.components.events import Events
    from scrapy_resiproxy.components.flow import State
    from scrapy_resiproxy.outcome import Outcome
    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.sessions.pool import Lease

HOPS_REMEMBERED = 10_000


class Wire:
    """The downloader's signals of one crawl, and the redirects."""

    def __init__(self, runtime: Runtime, events: Events, sessions: Boarding) -> None:
        self.runtime = runtime
        self.events = events
        self.sessions = sessions
        self.resettle: Callable[[Request, State, Outcome, int | None], None] | None = None
        """Told the outcome of a request whose redirect was dropped, and its status."""
        self.flights: dict[ref[Request], Flight] = {}
        """The attempts on their way. A WeakKeyDictionary does the same for thrice the time: this is touched four times
        for every request.
        """
        self.origins: dict[str, Request] = {}
        """The requests that are being redirected, by state id, as they were before."""
        self.leases: dict[str, Lease] = {}
        """The sessions that redirected them, by state id."""
        self._hop_outcomes: OrderedDict[bytes, tuple[Outcome, int | None]] = OrderedDict()
        self._hop_waiters: dict[bytes, list[Request]] = {}
        self._expected: dict[bytes, str] = {}
        """The redirect that fetches a page for all others, by the page's fingerprint."""
        self._chains: dict[str, list[bytes]] = {}
        """The pages that such a redirect passed through: those that wait for any of them share its outcome."""
        connect = runtime.crawler.signals.connect
        connect(self.response_downloaded, signals.response_downloaded)
        connect(self.request_dropped, signals.request_dropped)

    def flight_of(self, request: Request) -> Flight | None:
        return self.flights.get(ref(request))

    # The downloader -----------------------------------------------------------------------------------------

    def response_downloaded(self, response: Response, request: Request) -> None:
        flight = self.flight_of(request)
        if flight is None:
            return
        flight.bytes = len(response.body)
        flight.status = response.status
        if flight.lease is not None:
            # Free for another request, whether this answer comes to ``process_response`` or not.
            self.sessions.leave(flight)
            # The HTTP cache would store them; the session is set anew on every attempt.
            forget_credentials(request)
        if 300 <= response.status < 400:
            if flight.permit is not None:
                self.runtime.governor.report(flight.permit, OK, self.runtime.now())
                self.events.take(flight.target)
            if flight.lease is not None:
                self.sessions.carried()
            if flight.scheduled and not flight.state.get("hop") and not self.runtime.observing:
                self.origins[flight.state["id"]] = again(request, flight.state)
                if flight.lease is not None:
                    self.leases[flight.state["id"]] = flight.lease

    def watch(self, key: ref[Request]) -> None:
        """Know it when the download that takes off now is cancelled by whoever awaits it: no middleware is told.

        With asyncio every download is a task of its own. Without it Twisted's error comes to ``process_exception``.
        """
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return  # No loop is running.
        if task is not None:
            task.add_done_callback(lambda task: self.lost_sight(key) if task.cancelled() else None)

    def lost_sight(self, key: ref[Request]) -> None:
        """Nobody ended the attempt: it was cancelled, or a middleware nearer to the wire put another request in its
        place. The request keeps its proxy: what is cancelled in the downloader's queue is sent all the same.
        """
        flight = self.flights.pop(key, None)
        if flight is None:
            return
        self.sessions.leave(flight)
        self.events.cancel(flight)

    # Redirects ----------------------------------------------------------------------------------------------

    def redirected(self, hop: Request) -> None:
        """*hop* replaces a request that we sent, and the dupefilter has not seen it yet."""
        state = state_of(hop)
        assert state is not None
        fingerprint = self.runtime.fingerprint(hop)
        if self._expected.setdefault(fingerprint, state["id"]) == state["id"]:
            self._chains.setdefault(state["id"], []).append(fingerprint)

    def original(self, request: Request, state: State) -> Request:
        """What to retry instead of *request*: itself, or what it was redirected from."""
        if not is_hop(request, state):
            return request
        return self.origins.get(state["id"]) or original_of(request, state)

    def landed(self, state: State, target: str, host: str) -> Flight:
        """The flight of a request that was redirected and then dropped, as far as it matters now."""
        return Flight(
            state=state,
            target=target,
            host=host,
            scheduled=True,
            lease=self.leases.pop(state["id"], None),
            left=True,
        )

    def forget(self, state_id: str) -> None:
        """The request has its final outcome."""
        self.origins.pop(state_id, None)
        self.leases.pop(state_id, None)

    def gone(self, state_id: str) -> None:
        """The request was redirected to where nobody will go."""
        self.forget(state_id)
        for fingerprint in self._chains.pop(state_id, ()):
            self._expected.pop(fingerprint, None)

    def settled(self, request: Request, flight: Flight, outcome: Outcome) -> None:
        """A redirect's page was judged: those whose own redirect to it was dropped share its outcome."""
        passed = self._chains.pop(flight.state["id"], [])
        for fingerprint in {self.runtime.fingerprint(request), *passed}:
            self._expected.pop(fingerprint, None)
            self._hop_outcomes[fingerprint] = outcome, flight.status
            self._hop_outcomes.move_to_end(fingerprint)
            for waiter in self._hop_waiters.pop(fingerprint, ()):
                self._share(waiter, outcome, flight.status)
        while len(self._hop_outcomes) > HOPS_REMEMBERED:
            self._hop_outcomes.popitem(last=False)

    def request_dropped(self, request: Request) -> None:
        """The dupefilter dropped a redirect: its page was, or is being, fetched for another request."""
        state = state_of(request)
        if state is None or not state.get("hop"):
            return
        fingerprint = self.runtime.fingerprint(request)
        known = self._hop_outcomes.get(fingerprint)
        if known is not None:
            self._share(request, *known)
        elif self._expected.get(fingerprint) != state["id"]:
            self._hop_waiters.setdefault(fingerprint, []).append(request)
        else:
            # Nobody was redirected there before: the page is a request of the spider's own.
            del self._expected[fingerprint]
            self._share(request, OK, None)

    def _share(self, hop: Request, outcome: Outcome, status: int | None) -> None:
        state = state_of(hop)
        assert state is not None
        assert self.resettle is not None
        self.resettle(self.original(hop, state), state, outcome, status)

    def unsettled(self) -> list[Request]:
        """Dropped redirects whose page never got an outcome."""
        return [waiter for waiters in self._hop_waiters.values() for waiter in waiters]
