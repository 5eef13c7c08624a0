"""What a wall says: each row is one that was met."""

from __future__ import annotations

import pytest
from classify_kit import AKAMAI, FILL, HTML, IDENTITY, JSON, RATE, TRANSIENT, answer, judge
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_resiproxy.outcome import OK, Blame

RUSSIAN = (
    "<p>\u0414\u043e\u0441\u0442\u0443\u043f \u043e\u0433\u0440\u0430\u043d\u0438\u0447\u0435\u043d</p>"
    "<script>window._cf_chl_opt={}</script>"
)

WALL_ROWS = [
    (
        "CLS-15",
        answer(429, "<html>9 kB of challenge</html>", server="cloudflare", CF_MITIGATED="challenge", content_type=HTML),
        "challenge",
        "cf-mitigated",
    ),
    ("CLS-17-1020", answer(403, "error code: 1020"), "block_page", "error-code:1020"),
    ("CLS-17-1005", answer(403, "error code: 1005", retry_after="120"), "block_page", "error-code:1005"),
    (
        "CLS-17-page",
        answer(403, '<span class="cf-error-code">1009</span> Cloudflare', content_type=HTML),
        "block_page",
        "error-code:1009",
    ),
    (
        "CLS-17-json",
        answer(403, '{"cloudflare_error": true, "error_code": 1010}', content_type=JSON),
        "block_page",
        "error-code:1010",
    ),
    (
        "CLS-19-akamai",
        answer(403, "<H1>Access Denied</H1> Reference&#32;&#35;18.x", server="AkamaiGHost"),
        "block_page",
        "Access Denied",
    ),
    ("CLS-20", answer(999, "<html></html>", X_Li_Pop="x"), "odd_status", "status:999"),
    (
        "CLS-22",
        answer(200, "<meta http-equiv='refresh' content='5; url=/x?bm-verify=TOKEN'>"),
        "challenge",
        "bm-verify",
    ),
    *(
        (
            f"CLS-22-{equiv}",
            answer(200, f'<META HTTP-EQUIV="{equiv}" CONTENT="5; URL=/x?bm-verify=T">', content_type=HTML),
            "challenge",
            "bm-verify",
        )
        for equiv in ("REFRESH", "Refresh")
    ),
    ("CLS-25-marker", answer(503, "<title>Just a moment...</title>"), "challenge", "title:Just a moment..."),
    ("CLS-35", answer(429, "<script src=/149e/ips.js></script>", x_kpsdk_ct="abc"), "challenge", "x-kpsdk-ct"),
    ("CLS-35-other-header", answer(403, x_kpsdk_r="abc"), "challenge", "x-kpsdk-r"),
    ("CLS-35-body", answer(429, "<script src=/149e/ips.js></script>"), "challenge", "ips.js"),
    (
        "CLS-36",
        answer(
            412, '{"redirectUrl":"/blocked?url=eA==","appId":"PXabc","jsClientSrc":"/px/init.js"}', content_type=JSON
        ),
        "block_page",
        "px-json",
    ),
    ("CLS-37-challenge", answer(202, x_amzn_waf_action="challenge"), "challenge", "x-amzn-waf-action"),
    ("CLS-37-captcha", answer(405, x_amzn_waf_action="captcha"), "challenge", "x-amzn-waf-action"),
    ("VFN-01", answer(403, AKAMAI, server="AkamaiGHost"), "block_page", "title:Access Denied"),
    ("VFN-01-at-200", answer(200, AKAMAI, content_type=HTML), "block_page", "title:Access Denied"),
    (
        "VFN-01-encoded-host",
        answer(403, "Access Denied https&#58;&#47;&#47;errors&#46;edgesuite&#46;net", content_type=HTML),
        "block_page",
        "Access Denied",
    ),
    (
        "VFN-04",
        answer(
            403,
            RUSSIAN.encode("cp1251"),
            content_type=HTML,
        ),
        "challenge",
        "_cf_chl_opt",
    ),
    (
        "VFN-06",
        answer(
            200, "<html><head><meta http-equiv=refresh content='0;/.well-known/sgcaptcha/?r=%2F'></meta></head></html>"
        ),
        "challenge",
        "sgcaptcha",
    ),
    (
        "VFN-06-202",
        answer(202, "<html><meta http-equiv=refresh content='0;/.well-known/sgcaptcha/'></html>"),
        "challenge",
        "sgcaptcha",
    ),
    *(
        (
            f"VFN-06-{equiv}",
            answer(200, f'<META HTTP-EQUIV="{equiv}" CONTENT="0;/.well-known/sgcaptcha/">', content_type=HTML),
            "challenge",
            "sgcaptcha",
        )
        for equiv in ("REFRESH", "Refresh")
    ),
    ("VFN-07", answer(202, x_amzn_waf_action="challenge"), "challenge", "x-amzn-waf-action"),
    (
        "VFN-08",
        answer(
            200,
            "<title>Request Rejected</title>The requested URL was rejected... Your support ID is: 123",
            content_type=HTML,
        ),
        "block_page",
        "title:Request Rejected",
    ),
    (
        "VFN-08-as-csv",
        answer(200, "<html><title>Request Rejected</title>Your support ID is: 123", "https://t.example/a.csv"),
        "block_page",
        "title:Request Rejected",
    ),
    (
        "VFN-16",
        answer(200, "<style>" + "x" * 6000 + "</style><title>Just a moment...</title>" + FILL, content_type=HTML),
        "challenge",
        "title:Just a moment...",
    ),
    (
        "VFN-16-mixed-case",
        answer(200, "<Title>Just a moment...</Title>", content_type=HTML),
        "challenge",
        "title:Just a moment...",
    ),
    *(
        (
            f"VFN-16-{charset}",
            answer(status, f"\ufeff<html><title>Just a moment...</title>{FILL}".encode(charset), content_type=HTML),
            "challenge",
            "title:Just a moment...",
        )
        for status, charset in ((200, "utf-16-le"), (200, "utf-16-be"), (403, "utf-16-le"))
    ),
    *(
        (
            f"VFN-16-{charset}-unmarked",
            answer(
                status,
                f"\n<html><title>Just a moment...</title>{FILL}".encode(charset),
                content_type="text/html; charset=utf-16",
            ),
            "challenge",
            "title:Just a moment...",
        )
        for status, charset in ((200, "utf-16-le"), (200, "utf-16-be"), (403, "utf-16-be"))
    ),
    (
        "cf-attention",
        answer(403, "<title>Attention Required! | Cloudflare</title>"),
        "block_page",
        "title:Attention Required!",
    ),
    (
        "cf-localised-title",
        answer(200, "<html><title>Nur einen Moment</title><script>window._cf_chl_opt = {cvId: '3'}</script></html>"),
        "challenge",
        "_cf_chl_opt",
    ),
    (
        "cf-restricted-without-code",
        answer(403, "<title>Access denied | a.example used Cloudflare to restrict access</title>"),
        "block_page",
        "title:used Cloudflare",
    ),
    ("datadome-header", answer(200, X_DD_B="1"), "challenge", "x-dd-b"),
    (
        "datadome-stub",
        answer(
            200,
            "<html><title>t.example</title><script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script></html>",
        ),
        "challenge",
        "datadome:dd",
    ),
    (
        "datadome-json",
        answer(403, '{"url":"https://geo.captcha-delivery.com/captcha/?x=1"}', content_type=JSON),
        "challenge",
        "datadome:captcha",
    ),
    (
        "px-title-at-200",
        answer(200, "<title>Access to this page has been denied.</title><div id=px-captcha></div>", content_type=HTML),
        "block_page",
        "title:Access to this page has been denied",
    ),
    ("px-page", answer(403, "<html><div id=px-captcha></div></html>"), "block_page", "px-captcha"),
    (
        "px-stub-at-200",
        answer(200, "<html><script>window._pxAppId='PXa'</script><div id=px-captcha></div></html>"),
        "challenge",
        "px-captcha",
    ),
    (
        "akamai-crypto",
        answer(428, '{"sec-cp-challenge": "true","provider":"crypto"}', content_type=JSON),
        "challenge",
        "sec-cp-challenge",
    ),
    (
        "aws-body",
        answer(
            202,
            "<html><title></title><script>window.gokuProps = {}</script><script src='https://a.token.awswaf.com/b/challenge.js'>"
            "</script></html>",
        ),
        "challenge",
        "gokuProps",
    ),
    (
        "aws-title",
        answer(
            405, "<title>Human Verification</title><script src=https://x.awswaf.com/c.js></script>", content_type=HTML
        ),
        "challenge",
        "title:Human Verification",
    ),
    (
        "incapsula-stub",
        answer(
            200,
            "<html><head><META NAME='robots' CONTENT='noindex'><script src='/_Incapsula_Resource?S=1'></script></head>"
            "<body></body></html>",
        ),
        "challenge",
        "_Incapsula_Resource",
    ),
    (
        "incapsula-incident",
        answer(
            200,
            "<html><iframe src='/_Incapsula_Resource?a'>Request unsuccessful. Incapsula incident ID: 1-2</iframe>",
        ),
        "block_page",
        "Incapsula incident ID",
    ),
    ("vercel-header", answer(429, x_vercel_mitigated="challenge"), "challenge", "x-vercel-mitigated"),
    ("vercel-deny", answer(403, x_vercel_mitigated="deny"), "block_page", "x-vercel-mitigated"),
    (
        "vercel-title",
        answer(429, "<title>Vercel Security Checkpoint</title>"),
        "challenge",
        "title:Vercel Security Checkpoint",
    ),
    ("siteground-header", answer(202, sg_captcha="challenge"), "challenge", "sg-captcha"),
    (
        "sucuri-js",
        answer(200, "<html><title>You are being redirected...</title><script>sucuri_cloudproxy_js=''</script></html>"),
        "challenge",
        "title:You are being redirected...",
    ),
    (
        "sucuri-block",
        answer(403, "<title>Sucuri WebSite Firewall - Access Denied</title>"),
        "block_page",
        "title:Sucuri",
    ),
    (
        "ddos-guard",
        answer(403, "<title>DDoS-Guard</title><a id=link-ddg href=https://ddos-guard.net></a>"),
        "challenge",
        "title:DDoS-Guard",
    ),
    ("stackpath", answer(403, "<html><script>var sbtsck=1</script></html>"), "challenge", "sbtsck"),
    (
        "amazon-title",
        answer(200, "<title dir=ltr>Robot Check</title><form action='/errors/validateCaptcha'>", content_type=HTML),
        "challenge",
        "title:Robot Check",
    ),
    (
        "amazon-continue",
        answer(200, "<html><title>Amazon.com</title><form action='/errors/validateCaptcha'><button></form></html>"),
        "challenge",
        "validateCaptcha",
    ),
    (
        "amazon-503",
        answer(503, "<!-- contact api-services-support@amazon.com --><html></html>", content_type=HTML),
        "block_page",
        "api-services-support",
    ),
    (
        "google-429",
        answer(429, "<html>Our systems have detected unusual traffic from your network</html>"),
        "block_page",
        "unusual traffic",
    ),
    (
        "aliyun",
        answer(200, "<html><script>var arg1='274E1264B626E35EEB058EECE01149F3496502CE';</script></html>"),
        "challenge",
        "arg1",
    ),
    (
        "aliyun-cookie",
        answer(200, "<html><script>setCookie('acw_sc__v2', x)</script></html>"),
        "challenge",
        "acw_sc__v2",
    ),
    ("ruishu", answer(412, "<html><script>$_ts=window['$_ts']</script></html>"), "challenge", "$_ts"),
    (
        "turnstile-stub",
        answer(200, "<html><form><div class='cf-turnstile' data-sitekey=x></div></form></html>"),
        "challenge",
        "widget:cf-turnstile",
    ),
    *(
        (f"{name}-stub", answer(200, f"<html><form>{element}</form></html>"), "challenge", f"widget:{name}")
        for name, element in (
            ("g-recaptcha", "<div class=g-recaptcha data-sitekey=x></div>"),
            ("h-captcha", "<DIV CLASS='big H-Captcha' data-sitekey=x></DIV>"),
            ("cf-turnstile", '<div data-sitekey="x"\nid = "cf-turnstile"></div>'),
        )
    ),
    (
        "recaptcha-at-429",
        answer(429, f"<html><div class='g-recaptcha'></div>{FILL}</html>"),
        "challenge",
        "widget:g-recaptcha",
    ),
    *(
        (
            f"{name}-at-503",
            answer(503, f"<html><h1>One moment</h1><form><div class={name} data-sitekey=x></div></form></html>"),
            "challenge",
            f"widget:{name}",
        )
        for name in ("g-recaptcha", "h-captcha", "cf-turnstile")
    ),
    (
        "hcaptcha-at-429",
        answer(429, "<html><script src='https://hcaptcha.com/1/api.js'></script></html>"),
        "challenge",
        "widget:hcaptcha",
    ),
    (
        "entities-in-the-title",
        answer(403, "<TITLE>Just&#32;a moment&#46;&#46;&#46;</TITLE>", content_type=HTML),
        "challenge",
        "title:Just a moment...",
    ),
]


@pytest.mark.parametrize(("response", "reason", "evidence"), [r[1:] for r in WALL_ROWS], ids=[r[0] for r in WALL_ROWS])
def test_a_wall_is_identity_on_any_status(response, reason, evidence) -> None:
    outcome = judge(response)
    assert (outcome.class_, outcome.reason, outcome.evidence) == (IDENTITY, reason, evidence)
    assert outcome.blame is Blame.SESSION
    assert not outcome.weak


@pytest.mark.parametrize("status", [200, 202, 403, 429, 503])
def test_the_challenge_header_counts_on_every_status(status: int) -> None:
    assert judge(answer(status, cf_mitigated="Challenge ")).reason == "challenge"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["challenge", "block"], id="first-line"),
        pytest.param(["block", "challenge"], id="last-line"),
        pytest.param(["block, Challenge"], id="in-a-list"),
    ],
)
def test_the_challenge_header_counts_among_others(lines: list[str]) -> None:
    assert judge(answer(429, cf_mitigated=lines)).reason == "challenge"


@pytest.mark.parametrize(
    "element",
    ["<input type=hidden id=g-recaptcha-response>", "<p class='g-recaptcha-note'>Protected.</p>"],
    ids=["response-field", "note"],
)
def test_what_is_only_named_like_a_widget_leaves_a_refusal_what_it_is(element: str) -> None:
    assert judge(answer(429, f"<html>{element}Too fast</html>", content_type=HTML)).reason == "too_many_requests"


def test_a_widget_on_a_403_is_weak_for_every_page_of_the_site_may_hold_it() -> None:
    outcome = judge(answer(403, "<html><script src='https://www.google.com/recaptcha/api.js'></script></html>"))
    assert (outcome.reason, outcome.evidence, outcome.weak) == ("challenge", "widget:recaptcha", True)


@pytest.mark.parametrize(
    "widget",
    [
        "<script src='https://www.google.com/recaptcha/api.js?render=key'></script>",
        "<script src='https://www.recaptcha.net/recaptcha/enterprise.js'></script>",
        "<script src='https://js.hcaptcha.com/1/api.js' async></script>",
        "<script src='https://challenges.cloudflare.com/turnstile/v0/api.js'></script>",
        "<div class='g-recaptcha' data-sitekey=x data-size='invisible'></div>",
        "<noscript><div class=g-recaptcha data-sitekey=x></div></noscript>",
    ],
    ids=["recaptcha", "enterprise", "hcaptcha", "turnstile", "badge", "without-scripts"],
)
def test_maintenance_with_a_captchas_script_in_its_frame_is_no_wall(widget: str) -> None:
    page = f"<html><head>{widget}</head><h1>Down for maintenance</h1>We are back at noon.</html>"
    for outcome in (judge(answer(503, page)), judge(answer(503, page + FILL))):
        assert (outcome.class_, outcome.reason) == (TRANSIENT, "unavailable")
    assert judge(answer(503, page, retry_after="60")).class_ == RATE


def test_a_wall_keeps_the_wait_it_names() -> None:
    assert judge(answer(403, "error code: 1005", retry_after="120")).wait == 120


BLOCK_URLS = [
    ("CLS-21", "https://t.example/sorry/index?continue=https://t.example/", "/sorry/index"),
    ("CLS-21-amazon", "https://t.example/errors/validateCaptcha?x=1", "/errors/validateCaptcha"),
    ("CLS-21-px", "https://t.example/blocked?uuid=1&url=eA==", "/blocked"),
    ("CLS-21-captcha", "https://t.example/captcha?back=/", "/captcha"),
    ("CLS-21-blocked", "https://t.example/blocked", "/blocked"),
    ("CLS-21-google", "https://www.google.com/sorry/index?q=EgQ&hl=en", "/sorry/index"),
    ("CLS-21-google-bare", "https://google.co.uk/sorry/", "/sorry/"),
    ("CLS-21-google-old", "https://ipv4.Google.com.br/sorry/IndexRedirect", "/sorry/IndexRedirect"),
    ("CLS-21-captcha-bare", "https://t.example/captcha", "/captcha"),
]


@pytest.mark.parametrize(("url", "path"), [row[1:] for row in BLOCK_URLS], ids=[row[0] for row in BLOCK_URLS])
def test_a_redirect_to_a_block_page_is_identity(url: str, path: str) -> None:
    request = Request(url, meta={"redirect_urls": ["https://t.example/item/7"], "redirect_reasons": [302]})
    outcome = judge(answer(200, "<title>sorry</title>", url), request)
    assert (outcome.class_, outcome.reason, outcome.evidence) == (IDENTITY, "block_url", f"url:{path}")


@pytest.mark.parametrize(
    ("asked", "final"),
    [
        pytest.param("http://t.example/captcha", "https://t.example/captcha", id="it-was-asked-for"),
        pytest.param("https://t.example/a", "https://t.example/captcha-guide", id="another-path"),
        pytest.param("https://t.example/a", "https://t.example/sorry/out-of-stock", id="another-sorry"),
        pytest.param("https://t.example/a", "https://t.example/sorry/index", id="a-sorry-index-of-another"),
        pytest.param("https://t.example/a", "https://google.com.t.example/sorry/index", id="no-google"),
        pytest.param("https://t.example/a", "https://notgoogle.com/sorry/index", id="no-google-either"),
        pytest.param("https://t.example/a", "https://www.google.com/search?q=/sorry/", id="google"),
        pytest.param("https://google.com/sorry/", "https://www.google.com/sorry/index", id="google-as-asked-for"),
        pytest.param("https://t.example/a", "https://consent.google.com/ml?continue=x", id="consent"),
        pytest.param("https://t.example/a", "http://[bad/captcha", id="a-broken-url"),
    ],
)
def test_other_redirects_are_good(asked: str, final: str) -> None:
    request = Request("https://t.example/", meta={"redirect_urls": [asked]})
    response = HtmlResponse("https://t.example/", body=b"<p>page</p>")
    response._set_url(final)
    assert judge(response, request) is OK


def test_without_a_redirect_the_url_says_nothing() -> None:
    assert judge(answer(200, "<p>page</p>", "https://t.example/captcha")) is OK


def test_without_text_rules_no_body_is_looked_into_but_headers_are() -> None:
    page = "<title>Just a moment...</title>"
    assert judge(answer(200, page, content_type=HTML), text_rules=False) is OK
    assert judge(answer(403, page, content_type=HTML), text_rules=False).reason == "forbidden"
    assert judge(answer(403, "hcaptcha.com/", content_type=HTML), text_rules=False).reason == "forbidden"
    assert judge(answer(202, x_amzn_waf_action="challenge"), text_rules=False).reason == "challenge"


@pytest.mark.parametrize(
    ("marker", "body", "found"),
    [
        pytest.param("Robots keep out", b"<p>Robots keep out</p>", True, id="ascii"),
        pytest.param("Robots keep out", b"<p>robots keep out</p>", False, id="letter-case-counts"),
        pytest.param("gesperrt f\u00fcr Sie", "gesperrt f\u00fcr Sie".encode(), True, id="utf-8"),
        pytest.param("gesperrt f\u00fcr Sie", "gesperrt f\u00fcr Sie".encode("latin-1"), True, id="declared-charset"),
        pytest.param("nowhere", b"<p>page</p>", False, id="absent"),
    ],
)
def test_the_users_markers_are_walls(marker: str, body: bytes, found: bool) -> None:
    charset = "latin-1" if b"\xfc" in body else "utf-8"
    outcome = judge(answer(200, body, content_type=f"text/html; charset={charset}"), markers=[marker])
    assert (outcome.reason == "marker") is found
    assert outcome.evidence.isascii()


def test_a_marker_is_found_far_down_the_page() -> None:
    assert judge(answer(200, f"<html>{FILL}<i>WALL</i></html>"), markers=["WALL"]).evidence == "marker:WALL"


@pytest.mark.parametrize("marker", ["gesperrt", "f\u00fcr Sie"])
@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be"])
def test_the_users_markers_are_found_in_utf_16(marker: str, charset: str) -> None:
    page = "<p>gesperrt f\u00fcr Sie</p>".encode(charset)
    assert judge(answer(200, page, content_type="text/html; charset=utf-16"), markers=[marker]).reason == "marker"


def test_a_cached_wall_is_a_wall() -> None:
    """VFN-14: whether guards are touched is for the caller to decide."""
    assert (
        judge(answer(200, "<title>Just a moment...</title>", flags=["cached"], content_type=HTML)).reason == "challenge"
    )
