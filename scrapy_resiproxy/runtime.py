"""One crawl's parts, built in one place, and the only place with a clock and dice."""

from __future__ import annotations

import logging
import random
import secrets
import sqlite3
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.utils.job import job_dir

from scrapy_resiproxy.classify.classifier import Classifier
from scrapy_resiproxy.classify.layout import LayoutWatch
from scrapy_resiproxy.classify.validators import resolve
from scrapy_resiproxy.guard.governor import Governor
from scrapy_resiproxy.names import META_KEY
from scrapy_resiproxy.redact import SECRETS, install_log_redaction
from scrapy_resiproxy.schedule.store import FILE_NAME, WaitingStore
from scrapy_resiproxy.schedule.waiting import WaitingRoom
from scrapy_resiproxy.sessions.pool import SessionPool
from scrapy_resiproxy.settings import SettingError
from scrapy_resiproxy.settings_reader import read
from scrapy_resiproxy.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler

    from scrapy_resiproxy.settings import Config, GuardSettings
    from scrapy_resiproxy.tunnel.totals import Figures

logger = logging.getLogger(__name__)

_runtimes: WeakKeyDictionary[Crawler, Runtime] = WeakKeyDictionary()


class Runtime:
    """The parts of one crawl, shared by its components.

    It holds no rule and takes no decision; it builds, and it tells the time.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self.crawler = crawler
        self.config = config
        self.target_of = config.target_of
        self.rng = random.Random()  # noqa: S311 - jitter, no secret
        self.jobdir = job_dir(crawler.settings)
        self.store: WaitingStore | None = None
        self.room: WaitingRoom[Request] = WaitingRoom()
        self.classifier = Classifier(
            status_classes=config.general.status_classes,
            transient_exceptions=config.general.transient_exceptions,
            retry_http_codes=config.general.retry_http_codes,
            retry_exceptions=config.general.retry_exceptions,
        )
        # Without a proxy all answers come over one session, so one must do to see that a page has changed.
        self.layout = LayoutWatch(sessions=1)
        self.governor = Governor(config.guard, self.rng, _guards(config))
        self.validators = _validators(config)
        self.pool: SessionPool | None = None
        self.endpoint: str | None = None
        """The gateway that every session goes through, where there is one: it has a circuit of its own. A list of
        endpoints is one from the moment on when it is given up.
        """
        self.tally = Tally()
        self.now: Callable[[], float] = time.monotonic  # noqa: TID251 - the one clock
        """Monotonic seconds, for everything that lasts."""
        self.wall: Callable[[], float] = time.time  # noqa: TID251 - the one clock
        """Wall-clock seconds since the epoch, for dates and records."""
        self.queues: list[Any] = []
        """The GuardedPriorityQueue instances of this crawl: the memory queue first."""
        self.on_queued: Callable[[Request], None] = lambda request: None  # noqa: ARG005
        """Called by those queues with every request that comes into them."""
        self.wake_at: Callable[[float], None] = lambda when: None  # noqa: ARG005
        """Asks for a turn at a time; set by the rescheduler."""
        self.waiting: Callable[[], int] | None = None
        """How many requests wait and will be sent in this run; set where it is known."""
        self.ended_targets: dict[str, str] = {}
        """Targets given up for this run, and the reason."""
        entries = [(config.target_key(host), entry.direct) for host, entry in config.targets.items() if host != "*"]
        self.direct_targets = {target for target, direct in entries if direct}
        """Targets that no proxy of ours stands before: by their entry (a group, by that of one in it), or because a
        request showed it.
        """
        self.proxied_targets = frozenset(target for target, direct in entries if not direct) - self.direct_targets
        self.others_go_direct = config.target("*").direct
        """Whether no proxy stands before the targets that have no entry of their own."""
        self.gateway_ended: str | None = None
        """Why nothing more goes through the gateway in this run; None while something may."""
        self.tunnel_figures: Callable[[], Figures | None] = lambda: None
        """What our tunnels came to; set where they are in use."""
        self.on_session_closed: list[Callable[[str], None]] = []
        """Called with the alias of every session that has ended."""
        self._ids = 0
        self._id_salt = secrets.token_urlsafe(6)

    @classmethod
    def of(cls, crawler: Crawler) -> Runtime:
        """The runtime of *crawler*, built at the first call.

        Raises :class:`~scrapy_resiproxy.settings.SettingError` when a setting cannot be used.
        """
        runtime = _runtimes.get(crawler)
        if runtime is None:
            runtime = cls(crawler, read(crawler.settings))
            runtime.open_job()
            _runtimes[crawler] = runtime
        return runtime

    def open_job(self) -> None:
        """Open what outlives the process, and build the sessions, whose ids go on with the job."""
        salt = secrets.token_hex(8)
        if self.jobdir:
            try:
                self.store = WaitingStore(Path(self.jobdir, FILE_NAME))
            except (OSError, sqlite3.Error) as error:
                why = f"{FILE_NAME} in it cannot be used ({error})"
                raise SettingError(f"JOBDIR is {self.jobdir!r}; {why}. It must be a folder of one job.") from None
            kept = self.store.fact("salt")
            if kept is None:
                self.store.remember("salt", salt)
            salt = kept or salt
        if self.config.sessions.proxy is not None:
            try:
                self.pool = SessionPool(
                    self.config.sessions,
                    self.rng,
                    salt=salt,
                    encoding=self.crawler.settings.get("HTTPPROXY_AUTH_ENCODING"),
                    give_up=self.config.guard.target_give_up,
                )
            except ValueError as error:
                # Of a vendor or a country the error names the setting itself.
                named = "" if str(error).startswith("RESIPROXY_") else "RESIPROXY_PROXY: "
                raise SettingError(f"{named}{error}") from None
            _check_countries(self.pool, self.config)
            self.endpoint = None if self.pool.is_list else self.pool.endpoint
            self.layout = LayoutWatch()
            for secret in self.pool.secrets():
                SECRETS.register(secret)
            install_log_redaction()

    def wall_at(self, moment: float) -> float:
        """What the wall clock says at *moment*, which is a time of :attr:`now`."""
        return self.wall() + moment - self.now()

    def new_id(self) -> str:
        """An id for one request's life: unique over processes, cheap, and no secret."""
        self._ids += 1
        return f"{self._id_salt}{self._ids:x}"

    @cached_property
    def fingerprint(self) -> Callable[[Request], bytes]:
        """Returns what Scrapy's dupefilter knows a request by; Scrapy remembers what it computed."""
        assert self.crawler.request_fingerprinter is not None
        return self.crawler.request_fingerprinter.fingerprint

    def key_of(self, request: Request) -> str:
        """The name of a page, stable over retries and replays: ``resiproxy_key``, else the fingerprint."""
        named = request.meta.get(META_KEY)
        return str(named) if named else self.fingerprint(request).hex()

    @property
    def engine(self) -> ExecutionEngine | None:
        """The crawl's engine; None before there is one (since 2.19 asking the crawler raises then)."""
        try:
            return self.crawler.engine
        except RuntimeError:
            return None

    def endpoint_of(self, target: str) -> str | None:
        """The gateway on the way to *target*; None where there is none, or where *target* goes direct."""
        return None if self.endpoint is None or self.is_direct(target) else self.endpoint

    def is_direct(self, target: str) -> bool:
        """Whether no proxy stands before *target*."""
        return target in self.direct_targets or (self.others_go_direct and target not in self.proxied_targets)

    @property
    def observing(self) -> bool:
        return self.config.general.mode == "observe"

    @property
    def keeps_waiting(self) -> bool:
        """Whether what waits at the end is still there in the next run."""
        return self.store is not None

    @property
    def was_killed(self) -> bool:
        """Whether the last run of this job did not come to an orderly end. Asked before this run is marked as one."""
        return self.store is not None and self.store.fact("clean") is False

    def has_ended(self, target: str) -> bool:
        """Whether nothing more is sent to *target* in this run."""
        return target in self.ended_targets or (self.gateway_ended is not None and not self.is_direct(target))

    def is_held(self, target: str) -> bool:
        """Whether nothing may be sent to *target* at present."""
        return self.governor.peek(target, self.now(), self.endpoint_of(target)) is not None

    def has_work(self, target: str, slot: str) -> bool:
        """Whether anything for *target* waits, or is in the downloader's *slot*."""
        pending = self.pending(target)
        return bool(self._downloading(slot) or self.room.count(target) or pending is None or pending)

    def _downloading(self, slot: str) -> bool:
        engine = self.engine
        found = engine.downloader.slots.get(slot) if engine is not None else None
        return bool(found and found.active)

    def pending(self, target: str) -> int | None:
        """How many requests of *target* wait in our priority queues; None when they are not in use."""
        if not self.queues:
            return None
        pending: int = sum(queue.pending(target) for queue in self.queues)
        return pending


def _check_countries(pool: SessionPool, config: Config) -> None:
    for host, entry in config.targets.items():
        if entry.country is not None:
            try:
                pool.check_country(entry.country)
            except ValueError as error:
                raise SettingError(f"RESIPROXY_TARGETS[{host!r}]['country']: {error}") from None


def _guards(config: Config) -> dict[str, GuardSettings]:
    """The guard's settings by target. Of a group, any host's entry may set them; "*" is for those without an entry."""
    found = {config.target_key(host): config.guard for host in config.targets}
    found.update({config.target_key(host): entry.guard for host, entry in config.targets.items() if entry.guard})
    return found


def _validators(config: Config) -> dict[str, Any]:
    """The validators of TARGETS by host; None for a host whose entry has none."""
    found: dict[str, Any] = {}
    for host, entry in config.targets.items():
        try:
            found[host] = None if entry.validator is None else resolve(entry.validator)
        except ValueError as error:
            raise SettingError(f"RESIPROXY_TARGETS[{host!r}]['validator']: {error}") from None
    return found
