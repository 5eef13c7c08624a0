"""What a request asks for in its meta, checked where it enters: a mistake there is one line, and one request's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.names import META_COUNTRY, META_IDEMPOTENT, META_KEY, META_SESSION, META_TARGET
from scrapy_resiproxy.setting_checks import log_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_resiproxy.sessions.pool import SessionPool


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_level(value: Any) -> bool:
    try:
        log_level(value)
    except ValueError:
        return False
    return True


WISHES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    META_SESSION: (_is_name, "a name: text or a whole number"),
    META_COUNTRY: (_is_text, "a country: text"),
    META_TARGET: (_is_name, "a name: text or a whole number"),
    META_KEY: (_is_name, "a name: text or a whole number"),
    META_IDEMPOTENT: (lambda value: isinstance(value, bool), "True or False"),
    "max_retry_times": (lambda value: isinstance(value, int), "a whole number"),
    "priority_adjust": (lambda value: isinstance(value, int), "a whole number"),
    "download_timeout": (_is_number, "a number of seconds"),
    "give_up_log_level": (_is_level, f"one of {', '.join(logging.getLevelNamesMapping())}, or a whole number"),
}
"""What each key may hold besides None, which is as if it were not there."""

TIMEOUT: Final = "download_timeout"
SELDOM: Final = frozenset(WISHES) - {TIMEOUT}
"""Keys that most requests do not have. A timeout they do: a middleware of Scrapy's gives them one."""


def wrong_wish(meta: Mapping[str, Any], pool: SessionPool | None) -> str | None:
    """What is wrong with *meta*, in one line that names the key, the value and what is allowed; None if nothing is."""
    if SELDOM.isdisjoint(meta) and type(meta.get(TIMEOUT, 0)) in {int, float}:
        return None
    for key, (is_right, allowed) in WISHES.items():
        value = meta.get(key)
        if value is not None and not is_right(value):
            return f"meta[{key!r}] is {value!r:.80}; it must be {allowed}"
    if pool is not None and "proxy" not in meta and (country := meta.get(META_COUNTRY)):
        try:
            pool.check_country(country)
        except ValueError as error:
            return f"meta[{META_COUNTRY!r}]: {error}"
    return None
