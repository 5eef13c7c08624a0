"""What the proxy vendors' own error codes, words and CONNECT statuses mean.

Sources: the error pages in the documentation of Bright Data, Oxylabs, Zyte, Webshare, DataImpulse, Thordata
and proxies.fo, and RFC 9209 (Proxy-Status). Where a vendor's codes have prefixes the prefix decides what is not
listed, so that codes added later are read too.
"""

from __future__ import annotations

from typing import Final

from scrapy_resiproxy.classify.reasons import identity, rate, terminal, transient
from scrapy_resiproxy.outcome import Blame, Outcome

AUTH: Final = terminal("proxy_auth", Blame.PROXY)
QUOTA: Final = terminal("proxy_quota", Blame.PROXY)
POLICY: Final = terminal("proxy_policy", Blame.PROXY)
CONFIG: Final = terminal("proxy_config", Blame.PROXY)
RATE: Final = rate("proxy_rate", Blame.PROXY)
RATE_OF_TARGET: Final = rate("proxy_rate", Blame.TARGET)
RATE_OF_SESSION: Final = rate("proxy_rate", Blame.SESSION)
CONCURRENCY: Final = rate("proxy_concurrency", Blame.PROXY)
# The exit is what the session stands for: a new session is a new exit.
SESSION_LOST: Final = identity("proxy_session_lost", Blame.SESSION)
BANNED: Final = identity("proxy_banned", Blame.SESSION)
FAULT: Final = transient("proxy_error", Blame.PROXY)
TARGET_FAULT: Final = transient("proxy_error", Blame.TARGET)
TARGET_TIMEOUT: Final = transient("proxy_timeout", Blame.TARGET)
NO_SUCH_HOST: Final = transient("dns_not_found", Blame.TARGET)
GARBAGE: Final = transient("proxy_protocol", Blame.PROXY)
UNREACHABLE: Final = transient("proxy_unreachable", Blame.PROXY)

CODES: Final[dict[str, Outcome]] = {
    # Bright Data
    "client_10002": AUTH,
    "client_10020": QUOTA,
    "client_10100": QUOTA,
    "client_10110": RATE,
    "client_10120": FAULT,
    "policy_20220": RATE_OF_TARGET,
    "policy_20221": RATE_OF_TARGET,
    "policy_20222": RATE_OF_SESSION,
    "policy_20223": RATE_OF_TARGET,
    "peer_30030": CONFIG,
    "target_40001": NO_SUCH_HOST,
    "sr_rate_limit": RATE,
    "kyc_required": POLICY,
    # Zyte Smart Proxy Manager
    "bad_proxy_auth": AUTH,
    "user_suspended": QUOTA,
    "user_session_limit": CONCURRENCY,
    "too_many_conns": CONCURRENCY,
    "noslaves": RATE,
    "serverbusy": RATE,
    "domain_forbidden": POLICY,
    "invalid_request": CONFIG,
    "bad_uri": CONFIG,
    "bad_header": CONFIG,
    "bad_endpoint": CONFIG,
    "header_auth": CONFIG,
    "banned": BANNED,
    "slavebanned": BANNED,
    "bad_session_id": SESSION_LOST,
    "nxdomain": NO_SUCH_HOST,
    **dict.fromkeys(("ehostunreach", "econnrefused", "econnreset", "socket_closed_remotely"), TARGET_FAULT),
    **dict.fromkeys(("timeout", "msgtimeout", "ssl_tunnel_error", "data_error"), TARGET_FAULT),
    "client_conn_closed": FAULT,
    # Webshare
    "bandwidthlimit": QUOTA,
    "target_connect_resolve_failed": NO_SUCH_HOST,
    # DataImpulse
    "traffic_exhausted": QUOTA,
    "requests_exhausted": QUOTA,
    "user_blocked": QUOTA,
    "threads_exhausted": CONCURRENCY,
    "no_user": AUTH,
    "port_not_allowed": CONFIG,
    **dict.fromkeys(("port_blocked", "site_permanently_blocked", "host_blocked"), POLICY),
    "no_host_connection": TARGET_FAULT,
    "no_ray": FAULT,
    # Thordata
    "resource_202": CONFIG,
    # squid
    "err_access_denied": POLICY,
    "err_cache_access_denied": AUTH,
    "err_dns_fail": NO_SUCH_HOST,
    "err_connect_fail": TARGET_FAULT,
    "err_read_timeout": TARGET_TIMEOUT,
}

PREFIXES: Final[tuple[tuple[str, Outcome], ...]] = (
    ("client_", CONFIG),
    ("policy_", POLICY),
    ("peer_", SESSION_LOST),
    ("target_", TARGET_FAULT),
    ("resource_", FAULT),
    ("err_", FAULT),
)

WORDS: Final[tuple[tuple[str, str, Outcome], ...]] = (
    ("concurrency", r"\bthreads?\b|\bconcurren|\btoo many (?:conn|session|thread)", CONCURRENCY),
    ("quota", r"\btraffic\b|\bbandwidth\b|\bbalance\b", QUOTA),
    ("authentication", r"\bauthentication failed\b", AUTH),
    ("restricted", r"\brestricted target\b", POLICY),
    ("session", r"\bsession\b", SESSION_LOST),
)
"""Name, pattern and meaning of what vendors say in free text, in this order."""

PROXY_STATUS_ERRORS: Final[dict[str, Outcome]] = {
    "dns_error": NO_SUCH_HOST,
    "destination_not_found": NO_SUCH_HOST,
    "destination_ip_prohibited": POLICY,
    "http_request_denied": POLICY,
    "proxy_configuration_error": CONFIG,
    "proxy_loop_detected": CONFIG,
    "connection_limit_reached": CONCURRENCY,
    **dict.fromkeys(("dns_timeout", "connection_timeout", "connection_read_timeout"), TARGET_TIMEOUT),
    **dict.fromkeys(("destination_unavailable", "connection_refused", "connection_terminated"), TARGET_FAULT),
}
"""RFC 9209, 2.3; believed in an answer to CONNECT only, for a target's CDN sends the header too."""

CONNECT_STATUSES: Final[dict[int, Outcome]] = {
    401: AUTH,
    402: QUOTA,
    403: POLICY,
    404: SESSION_LOST,
    405: POLICY,
    407: AUTH,
    408: TARGET_TIMEOUT,
    429: RATE,
    451: POLICY,
    452: QUOTA,
    453: CONCURRENCY,
    470: POLICY,
    502: SESSION_LOST,
    504: TARGET_TIMEOUT,
    522: TARGET_TIMEOUT,
    523: POLICY,
    525: SESSION_LOST,
    540: CONFIG,
}
"""What a status means that is certainly the proxy's; other 4xx are about how we asked."""
