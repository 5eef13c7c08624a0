"""A request and a response as a letter holds them: plain JSON, nothing secret, nothing that a crawl adds again."""

from __future__ import annotations

import base64
import inspect
import zlib
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from scrapy.http.request import NO_CALLBACK
from w3lib.http import basic_auth_header

from scrapy_resiproxy.deadletter.hide import hide_body, hide_text, hide_url, hide_values, is_secret
from scrapy_resiproxy.deadletter.plain import plain_items
from scrapy_resiproxy.names import META_STORY, META_TARGET, META_VALIDATOR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy import Request, Spider
    from scrapy.http import Response

RUN_TIME_META: Final = frozenset(
    {
        META_STORY,
        "_auth_proxy",
        "_dont_cache",
        "_scheme_proxy",
        "cache_timestamp",
        "cached_response",
        "download_latency",
        "redirect_reasons",
        "redirect_times",
        "redirect_ttl",
        "redirect_urls",
        "retry_times",
    }
)
"""Meta that Scrapy writes while a request is on its way, and would write again."""

OWN_PREFIX: Final = "_resiproxy"

Headers = dict[str, list[str]]


@dataclass(slots=True)
class Notes:
    """What could not be kept and what was hidden, by path in the letter."""

    names: Collection[str] = ()
    """Names whose values are secret."""
    dropped: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)


def describe_request(
    request: Request, spider: Spider, target: str, notes: Notes, own_meta: Collection[str]
) -> dict[str, Any]:
    """The ``request`` of a letter. *own_meta* names the meta keys that are not the user's."""
    if request.cookies:
        notes.redacted.append("request.cookies")
    return {
        "url": hide_url(request.url, "request.url", notes),
        "method": request.method,
        "headers": _request_headers(request, spider, notes),
        "body": _base64(hide_body(request, notes)) if request.body else None,
        "encoding": request.encoding,
        "callback": _method_name(request.callback, spider, "request.callback", notes),
        "errback": _method_name(request.errback, spider, "request.errback", notes),
        "cb_kwargs": _values(request.cb_kwargs, "request.cb_kwargs", notes),
        "meta": _meta(request, spider, target, notes, own_meta),
        "priority": request.priority,
        "flags": [hide_text(str(flag), "request.flags", notes) for flag in request.flags],
        "_class": f"{type(request).__module__}.{type(request).__qualname__}",
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _method_name(method: Any, spider: Spider, path: str, notes: Notes) -> str | None:
    """The name under which *method* is found on *spider*; None, and noted, when there is none."""
    if method is None:
        return None
    function = getattr(method, "__func__", None)
    if function is not None:
        name = getattr(function, "__name__", "")
        if getattr(getattr(spider, name, None), "__func__", None) is function:
            return str(name)
        # A method of another name than its function's: an alias, a mangled name, a decorator without wraps.
        for name, member in inspect.getmembers(spider, predicate=inspect.ismethod):
            if member.__func__ is function:
                return str(name)
    notes.dropped.append(f"{path}: NO_CALLBACK" if method is NO_CALLBACK else path)
    return None


def _values(data: dict[Any, Any], path: str, notes: Notes) -> dict[str, Any]:
    return hide_values(plain_items(data, path, notes.dropped), path, notes) if data else {}


def _meta(request: Request, spider: Spider, target: str, notes: Notes, own_meta: Collection[str]) -> dict[str, Any]:
    slots = _slots_of_scrapy(request, target)
    timeout = _setting(spider, "DOWNLOAD_TIMEOUT")
    kept = {}
    for key, value in request.meta.items():
        if key in RUN_TIME_META or key in own_meta or str(key).startswith(OWN_PREFIX):
            continue
        if key == "download_slot" and value in slots:
            continue
        if key == "download_timeout" and timeout is not None and value == float(timeout):
            continue
        if key == "proxy" and _has_credentials(request):
            notes.redacted.append("request.meta.proxy")
            continue
        kept[key] = value
    if callable(kept.get(META_VALIDATOR)):
        kept[META_VALIDATOR] = _method_name(kept[META_VALIDATOR], spider, f"request.meta.{META_VALIDATOR}", notes)
    return _values(kept, "request.meta", notes)


def _slots_of_scrapy(request: Request, target: str) -> set[str | None]:
    """The download slots that Scrapy or our guard would choose by themselves."""
    urls = [request.url, *request.meta.get("redirect_urls", ())]
    return {target, str(request.meta.get(META_TARGET)), *(urlsplit(url).hostname or "" for url in urls)}


def _has_credentials(request: Request) -> bool:
    """Whether the user's proxy needs what a letter may not hold."""
    value = request.meta.get("proxy")
    return (
        b"Proxy-Authorization" in request.headers
        or "_auth_proxy" in request.meta
        or (value is not None and "@" in str(value))
    )


def _setting(spider: Spider, name: str) -> Any:
    settings = getattr(spider, "settings", None)
    return None if settings is None else settings.get(name)


def _request_headers(request: Request, spider: Spider, notes: Notes) -> Headers:
    skip = {b"Proxy-Authorization"}
    if _jar_is_on(request, spider):
        skip.add(b"Cookie")
    if _authorization_is_scrapys(request, spider):
        skip.add(b"Authorization")
    pairs = ((name, values) for name, values in request.headers.items() if name not in skip)
    return _headers(pairs, "request.headers", notes)


def _jar_is_on(request: Request, spider: Spider) -> bool:
    """Whether CookiesMiddleware writes the Cookie header, whatever the user put there."""
    settings = getattr(spider, "settings", None)
    enabled = settings is None or settings.getbool("COOKIES_ENABLED", True)
    return enabled and not request.meta.get("dont_merge_cookies")


def _authorization_is_scrapys(request: Request, spider: Spider) -> bool:
    """Whether HttpAuthMiddleware will write the Authorization header again."""
    value = request.headers.get(b"Authorization")
    if value is None:
        return False
    pairs = [
        (getattr(spider, "http_user", ""), getattr(spider, "http_pass", "")),
        (_setting(spider, "HTTPAUTH_USER"), _setting(spider, "HTTPAUTH_PASS")),
    ]
    known = [basic_auth_header(user or "", secret or "") for user, secret in pairs if user or secret]
    return value in known


def _headers(pairs: Iterable[tuple[bytes, list[bytes]]], path: str, notes: Notes) -> Headers:
    """Header names to lists of values, as latin-1; secret ones are left out and noted."""
    kept: Headers = {}
    for raw, values in pairs:
        name = raw.decode("latin-1")
        if is_secret(name, notes):
            notes.redacted.append(f"{path}.{name}")
        else:
            texts = (value.decode("latin-1") for value in values or ())
            kept[name] = [hide_text(text, f"{path}.{name}", notes) for text in texts]
    return kept


def describe_response(response: Response, notes: Notes, *, keep_page: bool, limit: int) -> dict[str, Any]:
    """The ``response`` of a letter; with its page when *keep_page* and not longer than *limit* bytes."""
    described: dict[str, Any] = {
        "url": hide_url(response.url, "response.url", notes),
        "status": response.status,
        "reason": _phrase(response.status),
        "page": None,
    }
    if keep_page and limit > 0 and len(response.body) <= limit:
        described["page"] = {
            "headers": _headers(response.headers.items(), "response.page.headers", notes),
            "size": len(response.body),
            "body": _base64(zlib.compress(response.body)),
        }
    elif keep_page:
        notes.dropped.append("response.page")
    return described


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def describe_error(error: BaseException, notes: Notes, said: str | None = None, limit: int = 1000) -> dict[str, str]:
    """Type and text of *error*, or what is *said* instead, without credentials and at most *limit* characters."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"type": name, "text": hide_text(str(error) if said is None else said, "error.text", notes)[:limit]}


def describe_attempts(attempts: Iterable[Any], notes: Notes, limit: int = 10) -> list[dict[str, Any]]:
    """The last *limit* attempts."""
    described = []
    for number, attempt in enumerate(list(attempts)[-limit:]):
        path = f"attempts.{number}"
        described.append(hide_values(plain_items(attempt, path, notes.dropped), path, notes))
    return described
