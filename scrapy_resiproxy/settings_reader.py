"""From Scrapy's settings to a :class:`~scrapy_resiproxy.settings.Config`: one table of checks, one pass.

To add a setting: give it a field with its default in :mod:`scrapy_resiproxy.settings`, a check in ``CHECKS`` below,
and an entry in the reference (a test compares the three).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_resiproxy.adopted_settings import adopt_attempts, adopted_retries, retry_settings, scrapys
from scrapy_resiproxy.redact import redact_text
from scrapy_resiproxy.setting_checks import (
    codes,
    dotted_names,
    feed_path,
    flag,
    host,
    mapping,
    names,
    number,
    one_of,
    paths,
    proxies,
    status_classes,
    text,
    texts,
    url_path,
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
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.setting_checks import Check

_G = TypeVar("_G")

PROXY_ENVIRONMENT = "RESIPROXY_PROXY"
"""The environment variable that stands in for the setting of the same name."""

SECONDS = number(0)
CHECKS: dict[str, Check] = {
    "enabled": flag,
    "mode": one_of("enforce", "observe"),
    "max_attempts": whole(1),
    "status_classes": status_classes,
    "transient_exceptions": dotted_names,
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
    "deadletter_file": feed_path,
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
    "tunnel_ping_path": url_path,
    "tunnel_ping_method": one_of("HEAD", "GET"),
    "tunnel_connect_timeout": number(0.1),
    "tunnel_max": whole(1),
    "tunnel_max_age": number(1, none=True),
    "tunnel_ledger": text,
}
OTHER_NAMES = frozenset({"targets", "tunnel_fallback_handler"})
"""Settings that are read elsewhere: TARGETS below, the fallback handler by the tunnel's download handler."""


ENABLED = PREFIX + "ENABLED"


def is_on(settings: BaseSettings, name: str) -> bool:
    """Whether the setting *name* is on; a value that cannot be read is, so that our parts are there to refuse it."""
    try:
        return flag(settings.get(name, True))
    except ValueError:
        return True


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
    if "sessions_per_target" not in given:
        given["sessions_per_target"] = scrapys(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", whole(0)) or 8
    adopted = adopt_attempts(settings, given)
    guard = _group(GuardSettings, given)
    general = retry_settings(_group(GeneralSettings, given), settings)
    logstats_interval = scrapys(settings, "LOGSTATS_INTERVAL", number(0, none=True)) or 0.0
    config = Config(
        general=general,
        guard=guard,
        sessions=_group(SessionSettings, given),
        waiting=_group(WaitingSettings, given),
        deadletters=_group(DeadLetterSettings, given),
        report=replace(_group(ReportSettings, given), logstats_interval=logstats_interval),
        tunnel=_group(TunnelSettings, given),
        targets=_targets({} if given.get("targets") is None else given["targets"], guard),
        adopted=(*adopted, *adopted_retries(settings, general)),
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


GUARD_NAMES = frozenset(entry.name for entry in fields(GuardSettings) if "global" not in entry.name)
"""Those of a guard's settings that can differ from target to target."""
TARGET_CHECKS: dict[str, Check] = {
    "markers": texts,
    "status_classes": lambda value: {} if value is None else status_classes(value),
    "country": text,
    "group": text,
}
TARGET_KEYS = frozenset({"validator", "proxy", *TARGET_CHECKS})


def _target(shown: str, entry: Any, guard: GuardSettings) -> TargetSettings:
    if not isinstance(entry, Mapping):
        raise SettingError(f"{shown} is {entry!r:.80}; it must be a dict.")
    wrong = [key for key in entry if key not in TARGET_KEYS | GUARD_NAMES]
    if wrong:
        allowed = ", ".join(sorted(TARGET_KEYS)) + " or a guard's setting in lower case (budget_ratio …)"
        raise SettingError(f"{shown} has the key {wrong[0]!r:.80}; allowed are {allowed}.")
    if entry.get("proxy") is not None:
        raise SettingError(f"{shown}['proxy'] can only be None (go direct); RESIPROXY_PROXY sets the proxy.")
    values = {
        key: checked(key, value, f"{shown}[{key!r}]", TARGET_CHECKS.get(key))
        for key, value in entry.items()
        if key in TARGET_CHECKS or key in GUARD_NAMES
    }
    overrides = {key: values.pop(key) for key in GUARD_NAMES & values.keys()}
    own = replace(guard, **overrides) if overrides else None
    if own is not None and {"circuit_cooldown", "circuit_cooldown_max"} & overrides.keys():
        _check_cooldown(own, f"{shown}['circuit_cooldown']")
    return TargetSettings(validator=entry.get("validator"), direct="proxy" in entry, guard=own, **values)


def _unknown(given: Mapping[str, Any]) -> tuple[str, ...]:
    known = CHECKS.keys() | OTHER_NAMES
    lines = []
    for name in sorted(given.keys() - known):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {PREFIX}{near[0].upper()}?" if near else ""
        lines.append(f"{PREFIX}{name.upper()} is no setting of scrapy_resiproxy{hint}")
    return tuple(lines)


def _check_together(config: Config) -> None:
    _check_cooldown(config.guard, "RESIPROXY_CIRCUIT_COOLDOWN")
    if config.sessions.provider and config.sessions.proxy is None:
        raise SettingError(
            f"RESIPROXY_PROVIDER is {config.sessions.provider!r:.80}; it needs RESIPROXY_PROXY, the URL of the "
            "vendor's dashboard."
        )
    interval, timeout = config.tunnel.tunnel_ping_interval, config.tunnel.tunnel_idle_timeout
    if interval is not None and timeout is not None and interval >= timeout:
        raise SettingError(
            f"RESIPROXY_TUNNEL_PING_INTERVAL is {interval:g}; it must be less than RESIPROXY_TUNNEL_IDLE_TIMEOUT, "
            f"{timeout:g}: a tunnel is closed by then."
        )


def _check_cooldown(guard: GuardSettings, shown: str) -> None:
    """*shown* names the cooldown, whose maximum is beside it or above."""
    if guard.circuit_cooldown > guard.circuit_cooldown_max:
        raise SettingError(
            f"{shown} is {guard.circuit_cooldown:g}; it must not be more than "
            f"{'circuit_cooldown_max' if '[' in shown else 'RESIPROXY_CIRCUIT_COOLDOWN_MAX'}, "
            f"{guard.circuit_cooldown_max:g}."
        )
