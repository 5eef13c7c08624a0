"""Every setting, read and checked once.

Each ``RESIPROXY_<NAME>`` is a field of one of the frozen dataclasses below, in lower case and with the same default.
Seconds are bare floats; ratios are between 0 and 1 unless said. :func:`read` lays a crawl's settings over the
defaults and raises :class:`SettingError`, one line that names the setting, the value and what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.names import META_TARGET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

    from scrapy_resiproxy.outcome import OutcomeClass

PREFIX = "RESIPROXY_"


class SettingError(ValueError):
    """A setting that cannot be used; the message is one line for the user and holds no credential."""


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Budget, circuit, pace and giving up: what ``guard/`` needs to know."""

    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    rate_backoff_base: float = 2.0
    identity_backoff_base: float = 1.0
    retry_after_cap: float = 300.0
    pacing_enabled: bool = True
    budget_ratio: float = 0.1
    budget_identity_ratio: float = 1.0
    budget_min_retries: int = 10
    budget_wait: float = 900.0
    budget_global_ratio: float = 0.2
    budget_global_min_retries: int = 60
    budget_window: float = 60.0
    circuit_failure_ratio: float = 0.5
    circuit_identity_ratio: float = 0.9
    circuit_min_requests: int = 20
    circuit_consecutive: int = 5
    circuit_cooldown: float = 30.0
    circuit_cooldown_max: float = 600.0
    circuit_window: float = 60.0
    circuit_probes: int = 1
    circuit_recovery: float = 60.0
    target_give_up: float = 900.0


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Proxy and sessions: what ``sessions/`` needs to know. It holds credentials: its repr shows none."""

    proxy: str | tuple[str, ...] | None = field(default=None, repr=False)
    """A URL, a template, or the lines of a list (a file was read already)."""
    provider: str | None = None
    country: str | None = None
    session_mode: str = "sticky"
    """``sticky`` or ``rotate``."""
    session_ttl: float = 600.0
    session_max_requests: int | None = None
    sessions_per_target: int = 8
    session_quarantine: float = 600.0
    session_cookies: bool = True


@dataclass(frozen=True, slots=True)
class WaitingSettings:
    """The waiting room."""

    waiting_max: int = 100_000
    inline_wait_max: float = 10.0


@dataclass(frozen=True, slots=True)
class DeadLetterSettings:
    """The dead-letter feed and its replay."""

    deadletter_enabled: bool = True
    deadletter_file: str = "deadletter/%(name)s/%(time)s.jsonl"
    deadletter_exclude_http_codes: tuple[int, ...] = (404, 410)
    deadletter_response_bytes: int = 2_000_000
    deadletter_redact: tuple[str, ...] = ()
    """Names besides the built-in ones."""
    replay: tuple[str, ...] = ()
    """Paths of feeds to run instead of the start requests."""
    replay_filter: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Stats and log lines."""

    stats_max_targets: int = 100
    retry_demand_warn: float = 0.2
    logstats_interval: float = 60.0
    price_per_gb: float | None = None


@dataclass(frozen=True, slots=True)
class TunnelSettings:
    """The tunnel transport."""

    tunnel_enabled: bool = True
    tunnel_idle_timeout: float | None = None
    tunnel_ping_interval: float | None = None
    """None: a third of the idle timeout."""
    tunnel_ping_path: str | None = "/"
    tunnel_ping_method: str = "HEAD"
    tunnel_connect_timeout: float = 20.0
    tunnel_max: int = 100
    tunnel_max_age: float | None = None
    """None: SESSION_TTL."""
    tunnel_ledger: str | None = None


@dataclass(frozen=True, slots=True)
class GeneralSettings:
    """What every part needs, and what was adopted from Scrapy's own settings."""

    enabled: bool = True
    mode: str = "enforce"
    """``enforce``, or ``observe``: classify, count and report, and change nothing."""
    max_attempts: int = 4
    status_classes: Mapping[int, OutcomeClass] = field(default_factory=dict)
    transient_exceptions: tuple[str, ...] = ()
    retry_enabled: bool = True
    retry_http_codes: tuple[int, ...] = ()
    retry_exceptions: tuple[Any, ...] = ()
    retry_priority_adjust: int = -1
    retry_give_up_log_level: Any = "ERROR"
    download_timeout: float = 180.0


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """One entry of ``RESIPROXY_TARGETS``."""

    validator: Any = None
    markers: tuple[str, ...] = ()
    status_classes: Mapping[int, OutcomeClass] = field(default_factory=dict)
    direct: bool = False
    """True when the entry says ``"proxy": None``."""
    country: str | None = None
    group: str | None = None
    guard: GuardSettings | None = None
    """The guard's settings with this entry's overrides; None when it has none."""


@dataclass(frozen=True, slots=True)
class Config:
    """One crawl's settings, checked."""

    general: GeneralSettings = field(default_factory=GeneralSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    waiting: WaitingSettings = field(default_factory=WaitingSettings)
    deadletters: DeadLetterSettings = field(default_factory=DeadLetterSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    tunnel: TunnelSettings = field(default_factory=TunnelSettings)
    targets: Mapping[str, TargetSettings] = field(default_factory=dict)
    """By host name; ``*`` is for every host that has no entry."""
    adopted: tuple[str, ...] = ()
    """What was taken over from Scrapy's settings, each with its value, for one line in the log."""
    unknown: tuple[str, ...] = ()
    """Names that begin RESIPROXY_ and are no setting of ours, with the nearest that is."""
    user_set: frozenset[str] = frozenset()
    """Names of ours that the project set itself."""

    def target(self, host: str) -> TargetSettings:
        """The entry of *host*, of ``*``, or an empty one."""
        if not self.targets:
            return NO_TARGET_SETTINGS
        return self.targets.get(host) or self.targets.get("*") or NO_TARGET_SETTINGS

    def target_key(self, host: str) -> str:
        """The name under which *host* is guarded: its group, else the host itself."""
        return self.target(host).group or host

    def target_of(self, request: Request, host: str) -> str:
        """The name under which *request*, which goes to *host*, is guarded."""
        return self.target_in(request.meta, host)

    def target_in(self, meta: Mapping[str, Any], host: str) -> str:
        """The name under which a request with *meta* that goes to *host* is guarded: its own word, else the host's."""
        named = meta.get(META_TARGET)
        if named:
            return str(named)
        # Most crawls have no entry at all, and this is asked twice for every request.
        return self.target_key(host) if self.targets else host


NO_TARGET_SETTINGS = TargetSettings()
