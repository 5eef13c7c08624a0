"""What a request asks for in its meta, checked where it enters: a mistake there is one line, and one request's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.names import META_COUNTRY, META_IDEMPOTENT, META_KEY, META_SESSION, META_TARGET
from scrapy_resiproxy.setting_checks import log_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_resiproxy.sessions.pool import SessionPool
    from scrapy_resiproxy.setting_checks import Check


def _check(is_right: Callable[[Any], bool], allowed: str) -> Check:
    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(allowed)
        return value

    return check


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


NAME: Final = _check(_is_name, "a name: text or a whole number")
WHOLE: Final = _check(lambda value: isinstance(value, int), "a whole number")
TIMEOUT: Final = "download_timeout"
NUMBERS: Final = frozenset({int, float})
WISHES: Final[dict[str, Check]] = {
    META_SESSION: NAME,
    META_COUNTRY: _check(lambda value: isinstance(value, str) and bool(value), "a country: text"),
    META_TARGET: NAME,
    META_KEY: NAME,
    META_IDEMPOTENT: _check(lambda value: isinstance(value, bool), "True or False"),
    "max_retry_times": WHOLE,
    "priority_adjust": WHOLE,
    TIMEOUT: _check(
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool), "a number of seconds"
    ),
    "give_up_log_level": log_level,
}
"""What each key may hold besides None, which is as if it were not there."""

SELDOM: Final = frozenset(WISHES) - {TIMEOUT}
"""Keys that most requests do not have. A timeout they do: a middleware of Scrapy's gives them one."""


def wrong_wish(meta: Mapping[str, Any], pool: SessionPool | None) -> str | None:
    """What is wrong with *meta*, in one line that names the key, the value and what is allowed; None if nothing is."""
    if SELDOM.isdisjoint(meta) and type(meta.get(TIMEOUT, 0)) in NUMBERS:
        return None
    for key, check in WISHES.items():
        if (value := meta.get(key)) is None:
            continue
        try:
            check(value)
        except ValueError as error:
            return f"meta[{key!r}] is {value!r:.80}; it must be {error}"
    if pool is not None and "proxy" not in meta and (country := meta.get(META_COUNTRY)):
        try:
            pool.check_country(country)
        except ValueError as error:
            return f"meta[{META_COUNTRY!r}]: {error}"
    return None
