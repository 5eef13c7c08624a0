"""Scrapy's own settings that count here too, where a project sets them: read, checked, and named for the log."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.setting_checks import MOST, codes, exceptions, flag, log_level, number, whole
from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.setting_checks import Check
    from scrapy_resiproxy.settings import GeneralSettings

RETRIES: Final = (
    "RETRY_ENABLED",
    "RETRY_HTTP_CODES",
    "RETRY_EXCEPTIONS",
    "RETRY_PRIORITY_ADJUST",
    "RETRY_GIVE_UP_LOG_LEVEL",
)
"""Each is a field of the same name, in lower case, of the general settings."""


def scrapys(settings: BaseSettings, name: str, check: Check, default: Any = None) -> Any:
    """Scrapy's own setting *name*, as the code wants it; *default* where this version of Scrapy has no such setting.

    Raises :class:`SettingError` where *check* refuses it.
    """
    value = settings.get(name, default)
    try:
        return check(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value!r:.80}; it must be {error}.") from None


def adopt_attempts(settings: BaseSettings, given: dict[str, Any]) -> tuple[str, ...]:
    """RETRY_TIMES counts where a project set it and MAX_ATTEMPTS was left alone; returns how that is told."""
    if "max_attempts" in given or not _is_set(settings, "RETRY_TIMES"):
        return ()
    times = scrapys(settings, "RETRY_TIMES", whole(0))
    given["max_attempts"] = min(times + 1, MOST)
    return (f"RETRY_TIMES={times} (at most {times + 1} attempts)",)


def retry_settings(general: GeneralSettings, settings: BaseSettings) -> GeneralSettings:
    """*general* with what Scrapy's own settings say."""
    return replace(
        general,
        retry_enabled=scrapys(settings, "RETRY_ENABLED", flag),
        retry_http_codes=scrapys(settings, "RETRY_HTTP_CODES", _empty_if_none(codes)),
        retry_exceptions=scrapys(settings, "RETRY_EXCEPTIONS", _empty_if_none(exceptions)),
        retry_priority_adjust=scrapys(settings, "RETRY_PRIORITY_ADJUST", whole(-math.inf)),
        retry_give_up_log_level=scrapys(settings, "RETRY_GIVE_UP_LOG_LEVEL", log_level, "ERROR"),
        # To wait without end is a thing that Scrapy can do.
        download_timeout=scrapys(settings, "DOWNLOAD_TIMEOUT", number(0, math.inf)),
    )


def _empty_if_none(check: Check) -> Check:
    """*check* for a list as Scrapy's ``getlist`` reads it."""
    return lambda value: check(() if value is None else value)


def adopted_retries(settings: BaseSettings, general: GeneralSettings) -> list[str]:
    """Those of RETRIES that the project set, as they were understood."""
    return [f"{name}={_shown(getattr(general, name.lower()))}" for name in RETRIES if _is_set(settings, name)]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(getattr(each, '__name__', str(each)) for each in value)}]"
    return str(value)


def _is_set(settings: BaseSettings, name: str) -> bool:
    """Whether anybody but Scrapy itself has set *name*."""
    return (settings.getpriority(name) or 0) > 0
