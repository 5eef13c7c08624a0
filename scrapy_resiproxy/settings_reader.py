"""From Scrapy's settings to a :class:`~scrapy_resiproxy.settings.Config`: one table of checks, one pass.

To add a setting: give it a field with its default in :mod:`scrapy_resiproxy.settings`, a check in ``CHECKS`` below,
and an entry in the reference (a test compares the three).
"""

from __future__ import annotations

import difflib
import math
import os
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_resiproxy.redact import redact_text
from scrapy_resiproxy.setting_checks import (
    codes,
    flag,
    host,
    log_level,
    mapping,
    names,
    number,
    one_of,
    paths,
    proxies,
    status_classes,
    text,
    whole,
)
from scrapy_resiproxy.settings import (
    PREFIX,
    Config,
    DeadLetterSettings,
    GeneralSettings,
    GuardSettings,
    ReportSettings,
    SessionSettings,
    SettingError,
    TargetSettings,
    TunnelSettings,
    WaitingSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.setting_checks import Check

_G = TypeVar("_G")

PROXY_ENVIRONMENT = "RESIPROXY_PROXY"
"""The environment variable that stands in for the setting of the same name."""


RATIO, SECONDS = number(0, 1), number(0)
CHECKS: dict[str, Check] = {
    "enabled": flag,
    "mode": one_of("enforce", "observe"),
    "max_attempts": whole(1),
    "status_classes": status_classes,
    "transient_exceptions": names,
    "price_per_gb": number(0, none=True),
    "proxy": proxies,
    "provider": text,
    "country": text,
    "session_mode": one_of("sticky", "rotate"),
    "session_ttl": number(1),
    "session_max_requests": whole(1, none=True),
    "sessions_per_target": whole(1),
    "session_quarantine": SECONDS,
    "session_cookies": flag,
    "backoff_base": SECONDS,
    "backoff_cap": SECONDS,
    "rate_backoff_base": SECONDS,
    "identity_backoff_base": SECONDS,
    "retry_after_cap": number(0, 21_600),
    "waiting_max": whole(1),
    "inline_wait_max": SECONDS,
    "pacing_enabled": flag,
    "budget_ratio": number(0, 10),
    "budget_identity_ratio": number(0, 10),
    "budget_min_retries": whole(0),
    "budget_wait": SECONDS,
    "budget_global_ratio": number(0, 10),
    "budget_global_min_retries": whole(0),
    "budget_window": number(1),
    "circuit_failure_ratio": number(0.01, 1),
    "circuit_identity_ratio": number(0.01, 1),
    "circuit_min_requests": whole(1),
    "circuit_consecutive": whole(1),
    "circuit_cooldown": number(0.01),
    "circuit_cooldown_max": number(0.01),
    "circuit_window": number(1),
    "circuit_probes": whole(1),
    "circuit_recovery": SECONDS,
    "target_give_up": SECONDS,
    "deadletter_enabled": flag,
    "deadletter_file": text,
    "deadletter_exclude_http_codes": codes,
    "deadletter_response_bytes": whole(0),
    "deadletter_redact": names,
    "replay": paths,
    "replay_filter": mapping,
    "stats_max_targets": whole(0),
    "retry_demand_warn": number(0),
    "tunnel_enabled": flag,
    "tunnel_idle_timeout": number(0.1, none=True),
    "tunnel_ping_interval": number(0.01, none=True),
    "tunnel_ping_path": text,
    "tunnel_ping_method": one_of("HEAD", "GET"),
    "tunnel_connect_timeout": number(0.1),
    "tunnel_max": whole(1),
    "tunnel_max_age": number(1, none=True),
    "tunnel_ledger": text,
}
OTHER_NAMES = frozenset({"targets", "tunnel_fallback_handler"})
"""Settings that are read elsewhere: TARGETS below, the fallback handler by the tunnel's download handler."""


def read(settings: BaseSettings) -> Config:
    """Lay *settings* over the defaults.

    Raises :class:`SettingError` for the first value that cannot be used.
    """
    given = {
        str(name)[len(PREFIX) :].lower(): value for name, value in settings.items() if str(name).startswith(PREFIX)
    }
    user_set = frozenset(given)
    if "proxy" not in given and os.environ.get(PROXY_ENVIRONMENT):
        given["proxy"] = os.environ[PROXY_ENVIRONMENT]
    given.setdefault("sessions_per_target", settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") or 8)
    adopted = _adopt_attempts(settings, given)
    guard = _group(GuardSettings, given)
    config = Config(
        general=_scrapy_retry_settings(_group(GeneralSettings, given), settings),
        guard=guard,
        sessions=_group(SessionSettings, given),
        waiting=_group(WaitingSettings, given),
        deadletters=_group(DeadLetterSettings, given),
        report=replace(_group(ReportSettings, given), logstats_interval=settings.getfloat("LOGSTATS_INTERVAL")),
        tunnel=_group(TunnelSettings, given),
        targets=_targets({} if given.get("targets") is None else given["targets"], guard),
        adopted=adopted,
        unknown=_unknown(given),
        user_set=user_set,
    )
    _check_together(config)
    return config


def _group(cls: type[_G], given: Mapping[str, Any]) -> _G:
    values = {
        entry.name: checked(entry.name, given[entry.name])
        for entry in fields(cls)  # type: ignore[arg-type]
        if entry.name in given and entry.name in CHECKS
    }
    return cls(**values)


def checked(name: str, value: Any, shown: str | None = None, check: Check | None = None) -> Any:
    """*value* as the setting *name*, or *check*, wants it; *shown* names it in the error if it is no plain setting."""
    try:
        return (check or CHECKS[name])(value)
    except ValueError as error:
        said = "<hidden>" if name == "proxy" else repr(value)[:80]
        raise SettingError(f"{shown or PREFIX + name.upper()} is {said}; it must be {error}.") from None


def _adopt_attempts(settings: BaseSettings, given: dict[str, Any]) -> tuple[str, ...]:
    """RETRY_TIMES counts where a project set it and MAX_ATTEMPTS was left alone."""
    if "max_attempts" in given or (settings.getpriority("RETRY_TIMES") or 0) <= 0:
        return ()
    times = _scrapys(settings, "RETRY_TIMES", whole(0))
    given["max_attempts"] = times + 1
    return (f"RETRY_TIMES={times} (at most {times + 1} attempts)",)


def _scrapys(settings: BaseSettings, name: str, check: Check, default: Any = None) -> Any:
    """Scrapy's own setting *name*, as the code wants it; *default* where this version of Scrapy has no such setting."""
    value = settings.get(name, default)
    try:
        return check(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value!r:.80}; it must be {error}.") from None


def _scrapy_retry_settings(general: GeneralSettings, settings: BaseSettings) -> GeneralSettings:
    return replace(
        general,
        retry_enabled=_scrapys(settings, "RETRY_ENABLED", flag),
        retry_http_codes=_scrapys(settings, "RETRY_HTTP_CODES", codes),
        retry_exceptions=_scrapys(settings, "RETRY_EXCEPTIONS", names),
        retry_priority_adjust=_scrapys(settings, "RETRY_PRIORITY_ADJUST", whole(-math.inf)),
        retry_give_up_log_level=_scrapys(settings, "RETRY_GIVE_UP_LOG_LEVEL", log_level, "ERROR"),
        download_timeout=_scrapys(settings, "DOWNLOAD_TIMEOUT", number(0)),
    )


def _targets(value: Any, guard: GuardSettings) -> dict[str, TargetSettings]:
    name = PREFIX + "TARGETS"
    try:
        entries = mapping(value)
    except ValueError:
        raise SettingError(f"{name} is {value!r:.80}; it must be a dict of host name to dict.") from None
    found: dict[str, TargetSettings] = {}
    for key, entry in entries.items():
        shown = f"{name}[{redact_text(repr(key)):.80}]"
        try:
            named = host(key)
        except ValueError as error:
            raise SettingError(f"{shown}: a target must be {error}.") from None
        if named in found:
            raise SettingError(f"{shown}: {named} has an entry already, by another spelling.")
        found[named] = _target(shown, entry, guard)
    return found


GUARD_NAMES = frozenset(entry.name for entry in fields(GuardSettings))
TARGET_KEYS = frozenset({"validator", "markers", "status_classes", "proxy", "country", "group"})


def _target(shown: str, entry: Any, guard: GuardSettings) -> TargetSettings:
    if not hasattr(entry, "items"):
        raise SettingError(f"{shown} is {entry!r:.80}; it must be a dict.")
    wrong = [key for key in entry if key not in TARGET_KEYS | GUARD_NAMES]
    if wrong:
        allowed = ", ".join(sorted(TARGET_KEYS)) + " or a guard's setting in lower case (budget_ratio …)"
        raise SettingError(f"{shown} has the key {wrong[0]!r}; allowed are {allowed}.")
    if entry.get("proxy") is not None:
        raise SettingError(f"{shown}['proxy'] can only be None (go direct); RESIPROXY_PROXY sets the proxy.")
    overrides = {key: checked(key, value, f"{shown}[{key!r}]") for key, value in entry.items() if key in GUARD_NAMES}
    return TargetSettings(
        validator=entry.get("validator"),
        markers=tuple(str(marker) for marker in names(entry.get("markers") or ())),
        status_classes=checked("status_classes", entry.get("status_classes") or {}, f"{shown}['status_classes']"),
        direct="proxy" in entry,
        country=checked("country", entry.get("country"), f"{shown}['country']"),
        group=checked("group", entry.get("group"), f"{shown}['group']", text),
        guard=replace(guard, **overrides) if overrides else None,
    )


def _unknown(given: Mapping[str, Any]) -> tuple[str, ...]:
    known = CHECKS.keys() | OTHER_NAMES
    lines = []
    for name in sorted(given.keys() - known):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {PREFIX}{near[0].upper()}?" if near else ""
        lines.append(f"{PREFIX}{name.upper()} is no setting of scrapy_resiproxy{hint}")
    return tuple(lines)


def _check_together(config: Config) -> None:
    guard = config.guard
    if guard.circuit_cooldown > guard.circuit_cooldown_max:
        raise SettingError(
            f"RESIPROXY_CIRCUIT_COOLDOWN is {guard.circuit_cooldown:g}; it must not be more than "
            f"RESIPROXY_CIRCUIT_COOLDOWN_MAX, {guard.circuit_cooldown_max:g}."
        )
    if config.sessions.provider and config.sessions.proxy is None:
        raise SettingError(
            f"RESIPROXY_PROVIDER is {config.sessions.provider!r}; it needs RESIPROXY_PROXY, the URL of the "
            "vendor's dashboard."
        )
