"""How a crawl's requests go: through which proxy, or direct. For one line at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware

from scrapy_resiproxy.redact import redact_url

if TYPE_CHECKING:
    from scrapy_resiproxy.runtime import Runtime
    from scrapy_resiproxy.sessions.pool import SessionPool


def way_out(runtime: Runtime) -> str:
    """One line, which shows no credential but the made-up user name of a session."""
    if runtime.observing:
        return "Observe mode: nothing is changed, and requests go as the project sends them."
    if runtime.pool is not None:
        return _through(runtime.pool)
    found = _of_environment(runtime)
    if found:
        shown = ", ".join(found)
        return f"RESIPROXY_PROXY is not set: requests go through the environment's {shown}, without sessions."
    return (
        "No proxy (RESIPROXY_PROXY is not set): requests go direct, unless the project itself gives them a proxy "
        "(meta['proxy'])."
    )


def _through(pool: SessionPool) -> str:
    if pool.is_list:
        return f"Requests go through a list of proxies, in turn: {pool.sample()}."
    # Not as one URL: the log's redaction would hide its user name, which is made up and is to be looked at.
    scheme, _, rest = pool.sample().partition("://")
    login, _, address = rest.rpartition("@")
    way, shown = f"Requests go through the proxy {scheme}://{address}", f"user name and password {login or 'none'}"
    if not pool.can_rotate:
        return f"{way}, {shown}: one session, for RESIPROXY_PROXY has no place for another."
    return f"{way}. Sessions look like this: {shown}"


def _of_environment(runtime: Runtime) -> list[str]:
    """``http_proxy http://host:port`` and the like, as Scrapy has taken it from the environment."""
    if runtime.engine is None:
        return []
    middleware = runtime.crawler.get_downloader_middleware(HttpProxyMiddleware)
    proxies = getattr(middleware, "proxies", {})
    return [f"{scheme}_proxy {redact_url(proxies[scheme][1])}" for scheme in ("http", "https") if scheme in proxies]
