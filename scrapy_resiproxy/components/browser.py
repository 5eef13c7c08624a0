"""Requests that scrapy-playwright carries: a browser takes its proxy from its context, not from ``meta["proxy"]``.

Each session gets a browser context of its own, as scrapy-playwright's documentation advises for proxies per request:
https://github.com/scrapy-plugins/scrapy-playwright#proxy-support
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.sessions.pool import Session

CONTEXT, KWARGS = "playwright_context", "playwright_context_kwargs"


def in_browser(request: Request) -> bool:
    """Whether a browser will carry *request*."""
    return bool(request.meta.get("playwright"))


def has_own_proxy(request: Request) -> bool:
    """Whether the user gave the browser a context with a proxy himself."""
    return bool((request.meta.get(KWARGS) or {}).get("proxy"))


def would_go_direct(request: Request) -> str | None:
    """What is wrong with the context that the user gave the browser, in one line; None where he gave none."""
    if CONTEXT not in request.meta:
        return None
    return f"{CONTEXT} is set without a proxy in {KWARGS} while RESIPROXY_PROXY is set: it would go direct"


def put_on(meta: dict[str, Any], session: Session) -> None:
    """Give the browser a context that goes through *session*."""
    url = urlsplit(session.url)
    proxy = {"server": session.bare}
    if url.username is not None:
        proxy |= {"username": unquote(url.username), "password": unquote(url.password or "")}
    meta[CONTEXT] = f"resiproxy-{session.alias}"
    meta[KWARGS] = {**(meta.get(KWARGS) or {}), "proxy": proxy}


def take_off(meta: dict[str, Any]) -> None:
    """Take our context off again, and nothing of the user's."""
    meta.pop(CONTEXT, None)
    kwargs = {key: value for key, value in (meta.pop(KWARGS, None) or {}).items() if key != "proxy"}
    if kwargs:
        meta[KWARGS] = kwargs
