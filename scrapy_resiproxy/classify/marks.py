"""What each wall looks like: names, tokens and titles, and how far each may be trusted.

Sources are the vendors' own documents and pages that were met. Cookies, ``Server`` headers and tag scripts
stand on good pages too, so none of them is here; a captcha's widget counts only where there is nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Reason = Literal["challenge", "block_page"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A wall's fingerprint: all *tokens* must be on the page, and one of *any_of* where given."""

    name: str
    tokens: tuple[bytes, ...]
    any_of: tuple[bytes, ...] = ()
    reason: Reason = "challenge"
    bare: int = 0
    """Where good pages carry the token too: bytes of text that a stub may have."""

    def on(self, body: bytes, end: int) -> bool:
        """Whether it is in the first *end* bytes of *body*."""
        find = body.find
        for token in self.tokens:
            if find(token, 0, end) < 0:
                return False
        return not self.any_of or any(find(token, 0, end) >= 0 for token in self.any_of)


HEADER_VALUES: Final[dict[str, dict[bytes, Reason]]] = {
    # developers.cloudflare.com, "detect a challenge page response": set on every challenge, whatever its status.
    "cf-mitigated": {b"challenge": "challenge"},
    # AWS WAF: a challenge is 202, a captcha 405.
    "x-amzn-waf-action": {b"challenge": "challenge", b"captcha": "challenge"},
    "x-vercel-mitigated": {b"challenge": "challenge", b"deny": "block_page"},
    "sg-captcha": {b"challenge": "challenge"},
    # DataDome: 1 is an interstitial, 2 a captcha.
    "x-dd-b": {b"1": "challenge", b"2": "challenge"},
}
"""Headers that say it in so many words, on any status."""

KASADA_HEADERS: Final = ("x-kpsdk-ct", "x-kpsdk-r")
"""Good answers carry them too: they count on a refusal."""

_AKAMAI_REFERENCE: Final = (
    b"Reference #",
    b"Reference&#32;&#35;",
    b"errors.edgesuite.net",
    b"errors&#46;edgesuite&#46;net",
)

TITLES: Final[dict[bytes, Mark]] = {
    b"just a moment...": Mark("title:Just a moment...", ()),
    b"attention required! | cloudflare": Mark("title:Attention Required!", (), reason="block_page"),
    b"vercel security checkpoint": Mark("title:Vercel Security Checkpoint", ()),
    b"access to this page has been denied": Mark(
        "title:Access to this page has been denied", (), (b"_px", b"px-captcha", b"erimeter"), "block_page"
    ),
    b"access denied": Mark("title:Access Denied", (), _AKAMAI_REFERENCE, "block_page"),
    b"request rejected": Mark("title:Request Rejected", (b"upport ID",), reason="block_page"),
    b"robot check": Mark("title:Robot Check", (b"aptcha",)),
    b"human verification": Mark("title:Human Verification", (), (b"gokuProps", b"awswaf.com")),
    b"ddos-guard": Mark("title:DDoS-Guard", (), (b"ddos-guard", b"link-ddg")),
    b"you are being redirected...": Mark("title:You are being redirected...", (b"sucuri",)),
}
"""Exact titles, in lower case: a page *about* access denied has a longer one."""

TITLE_ENDS: Final[tuple[tuple[bytes, Mark], ...]] = (
    (b"used cloudflare to restrict access", Mark("title:used Cloudflare", (), reason="block_page")),
    (b"sucuri website firewall - access denied", Mark("title:Sucuri", (), reason="block_page")),
)

_REFRESH: Final = (b"refresh", b"REFRESH", b"Refresh")

MARKS: Final = (
    Mark("bm-verify", (b"bm-verify",), (*_REFRESH, b"/_sec/verify")),
    Mark("sec-if-cpt", (b"sec-if-cpt-container",)),
    Mark("sec-cp-challenge", (b'"sec-cp-challenge"',)),
    Mark("Incapsula incident ID", (b"Incapsula incident ID",), reason="block_page", bare=300),
)
"""Looked for in the head of every page, and in all of a small or refused one."""

SCRIPT_MARKS: Final = (
    Mark("_cf_chl_opt", (b"_cf_chl_opt",), (b"_cf_chl_opt={", b"_cf_chl_opt = {")),
    Mark("gokuProps", (b"window.gokuProps", b"awswaf.com")),
    Mark("sucuri_cloudproxy_js", (b"sucuri_cloudproxy_js",)),
    Mark("acw_sc__v2", (b"acw_sc__v2",), bare=40),
    # One byte is found ten times sooner than four, and most heads have none.
    Mark("$_ts", (b"$", b"$_ts", b"window"), bare=40),
)
"""Like :data:`MARKS`; all are statements of a script, so that a page without one cannot hold them."""

CAPTCHA_MARKS: Final = (
    Mark("datadome:dd", (b"captcha-delivery.com", b"var dd={")),
    Mark("datadome:script", (b"ct.captcha-delivery.com/",), (b"delivery.com/c.js", b"delivery.com/i.js")),
    Mark("datadome:captcha", (b"geo.captcha-delivery.com/captcha",)),
    Mark("datadome:interstitial", (b"geo.captcha-delivery.com/interstitial",)),
    Mark("px-captcha", (b"px-captcha", b"_pxAppId"), bare=300),
    Mark("sgcaptcha", (b"/.well-known/sgcaptcha/",), _REFRESH),
    Mark("validateCaptcha", (b"/errors/validateCaptcha", b"<form")),
    Mark("opfcaptcha", (b"opfcaptcha",)),
)
"""Like :data:`MARKS`; all hold ``aptcha``, so that one search answers for them on a good page."""

REFUSAL_MARKS: Final = (
    Mark("_cf_chl_opt", (b"_cf_chl_opt",)),
    Mark("challenge-platform", (b"/cdn-cgi/challenge-platform/h/", b"orchestrate")),
    Mark("Access Denied", (b"Access Denied",), _AKAMAI_REFERENCE, "block_page"),
    Mark("px-captcha", (b"px-captcha",), reason="block_page"),
    Mark("_pxAppId", (b"window._pxAppId", b"_pxUuid"), reason="block_page"),
    Mark("Access to this page has been denied", (b"Access to this page has been denied",), (), "block_page"),
    Mark("px-json", (b'"appId"', b'"PX'), (b'"blockScript"', b'"jsClientSrc"', b"/blocked?"), "block_page"),
    Mark("Incapsula incident ID", (b"Incapsula incident ID",), reason="block_page"),
    Mark("Request unsuccessful", (b"Request unsuccessful", b"ncapsula"), reason="block_page"),
    Mark("acw_sc__v2", (b"acw_sc__v2",)),
    Mark("$_ts", (b"$_ts", b"window")),
    Mark("ips.js", (b"/ips.js",)),
    Mark("Request Rejected", (b"equest Rejected", b"upport ID"), reason="block_page"),
    Mark("Sucuri WebSite Firewall", (b"Sucuri WebSite Firewall",), reason="block_page"),
    Mark("link-ddg", (b"link-ddg",)),
    Mark("sbtsck", (b"sbtsck",)),
    Mark("Vercel Security Checkpoint", (b"Vercel Security Checkpoint",)),
    Mark("api-services-support", (b"api-services-support@amazon.com",), reason="block_page"),
    Mark("unusual traffic", (b"detected unusual traffic",), reason="block_page"),
)
"""Besides the others, where the status turns the visitor away."""

INCAPSULA: Final = Mark("_Incapsula_Resource", (b"/_Incapsula_Resource",))
"""Good pages load it as one script among theirs; as the only one of an empty page it is the wall."""

ALIYUN: Final = rb"var arg1\s*=\s*'[0-9A-F]{40}'"

WIDGETS: Final = (
    (b"google.com/recaptcha/", "widget:recaptcha"),
    (b"recaptcha.net/recaptcha/", "widget:recaptcha"),
    (b"hcaptcha.com/", "widget:hcaptcha"),
    (b"challenges.cloudflare.com/turnstile", "widget:turnstile"),
)

WIDGET_ELEMENT: Final = (
    rb"(?<![\w-])(?:class|id)\s*=\s*[\"']?(?:[^\"'<>=]{0,200}\s)?(g-recaptcha|h-captcha|cf-turnstile)(?=[\"'\s>])"
)
"""What a stub must hold: shells of single-page applications load a widget's script too."""
WIDGET_INVISIBLE: Final = rb"data-size\s*=\s*[\"']?invisible"
"""A badge, which such shells hold as well; nobody can click it."""

CLOUDFLARE_JSON: Final = (b'"cloudflare_error"', b"developers.cloudflare.com")
CLOUDFLARE_PAGE: Final = (
    b"cf-error",
    b"used Cloudflare to restrict access",
    b"Cloudflare Ray ID",
    b"\ncloudflare_error:",
)
"""What Cloudflare's error pages hold besides a code, for databases and APIs have errors 1005 and 1015 too: as HTML
and Markdown, and (developers.cloudflare.com, "error responses") as JSON."""
CLOUDFLARE_STATUSES: Final = frozenset({403, 409, 429, 530})
"""The statuses of those pages: developers.cloudflare.com, "Cloudflare 1xxx errors"."""
CLOUDFLARE_CODE: Final = rb"rror(?:[ _-]code)?\"?[:>\" ]{1,4}(1\d{3})(?!\d)"
CLOUDFLARE_BLOCKS: Final = frozenset({1005, 1006, 1007, 1008, 1009, 1010, 1012, 1020, 1106})
CLOUDFLARE_RATE: Final = 1015
CLOUDFLARE_FAULTS: Final = frozenset({1004, 1033})
"""Faults on the way to the origin, some of them told with ``Retry-After``."""
