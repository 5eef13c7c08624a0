"""Pages that look like a wall's to a careless reader: every one of them must be delivered."""

from __future__ import annotations

import pytest
from classify_kit import FILL, HTML, JSON, answer, judge

from scrapy_resiproxy.outcome import OK

GUIDE = "<title>Guide</title><article>How captcha systems work. " + "More about it. " * 280 + "</article>"

GOOD_ROWS = [
    ("VFP-01", answer(200, GUIDE, content_type=HTML)),
    ("VFP-01-widget", answer(200, f"<div class=g-recaptcha></div>{GUIDE}", content_type=HTML)),
    (
        "VFP-02",
        answer(
            200,
            "<title>Contact</title><script src=https://www.google.com/recaptcha/api.js></script>"
            "<form id=contact><input name=a><textarea></textarea><div class='g-recaptcha'></div></form> Write to us.",
            content_type=HTML,
        ),
    ),
    (
        "VFP-02-login",
        answer(200, "<form><input type='password'><div class=cf-turnstile></div></form>", content_type=HTML),
    ),
    (
        "VFP-02-spa-shell",
        answer(
            200,
            "<html><div id=app></div><script src=https://www.google.com/recaptcha/api.js?render=x></script>"
            "<script src=/app.js></script></html>",
        ),
    ),
    *(
        (f"VFP-02-{name}", answer(200, f"<title>Thanks</title>{markup}<p>Thank you.</p>", content_type=HTML))
        for name, markup in (
            ("response-field", '<input type="hidden" id="g-recaptcha-response" name="g-recaptcha-response">'),
            ("note", '<p class="g-recaptcha-note">Protected by a captcha</p>'),
            ("note-of-two-classes", "<p class='small h-captcha-note'>Protected by a captcha</p>"),
            ("other-attribute", '<p data-class="g-recaptcha">Protected by a captcha</p>'),
            ("prefixed", '<p class="my-cf-turnstile">Protected by a turnstile</p>'),
            ("script", "<script>var box = '<div class=\"g-recaptcha\"></div>'</script>"),
            ("template", "<template><div class='h-captcha'></div></template>"),
            ("comment", "<!-- <div class=g-recaptcha></div> -->"),
            ("invisible", '<div id=app></div><div class="g-recaptcha" data-size="invisible"></div>'),
            ("invisible-bare", "<div data-size=invisible class=h-captcha></div><script src=/app.js></script>"),
        )
    ),
    (
        "VFP-03",
        answer(
            200,
            "<h1>Shop</h1>...<script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js></script>",
            content_type=HTML,
            server="cloudflare",
            cf_ray="x",
        ),
    ),
    (
        "VFP-05",
        answer(
            200,
            "<p>normal page</p>",
            content_type=HTML,
            Set_Cookie="__cf_bm=x; path=/",
            x_iinfo="1-2",
            x_datadome="protected",
        ),
    ),
    ("VFP-05-kasada", answer(200, "<p>normal page</p>", content_type=HTML, x_kpsdk_ct="abc")),
    ("VFP-05-cf-mitigated-other", answer(200, "<p>normal page</p>", content_type=HTML, cf_mitigated="none")),
    ("VFP-06", answer(200, "<style>.ifh-captcha-x{display:block}</style><h1>Article</h1>", content_type=HTML)),
    ("VFP-07-text", answer(200, "scrapy==2.19\n", content_type="text/plain")),
    ("VFP-07-list", answer(200, "[]", content_type=JSON)),
    ("VFP-07-object", answer(200, "{}", content_type=JSON)),
    ("VFP-08", answer(200, "<p class=count>0 results</p><ul class=hits></ul>", content_type=HTML)),
    ("VFP-09", answer(200, f"<title>Troubleshooting Access Denied errors</title>{FILL}", content_type=HTML)),
    ("VFP-09-exact-title", answer(200, f"<title>Access Denied</title><h1>A film review</h1>{FILL}", content_type=HTML)),
    ("VFP-10", answer(302, Location="/y")),
    ("VFP-10-with-a-body", answer(302, "<title>Just a moment...</title>", content_type=HTML, Location="/y")),
    ("VFP-11", answer(200, b"\x89PNG...", content_type="image/png")),
    ("204", answer(204)),
    ("304", answer(304)),
    ("empty-html", answer(200, "", content_type=HTML)),
    ("VFN-15-is-opt-in", answer(200, "<html><script>var arg1='...';</script></html>")),
    (
        "article-on-cloudflare",
        answer(
            200,
            f"<title>On _cf_chl_opt</title><meta name=description content='what _cf_chl_opt is'>{FILL}",
            content_type=HTML,
        ),
    ),
    (
        "csp-names-datadome",
        answer(
            200,
            "<meta http-equiv=Content-Security-Policy content='frame-src geo.captcha-delivery.com'><h1>Shop</h1>"
            "<link rel=preconnect href='https://ct.captcha-delivery.com'>",
            content_type=HTML,
        ),
    ),
    (
        "incapsula-on-a-shell",
        answer(
            200,
            "<html><div id=app></div><script src=/app.js></script>"
            "<script src='/_Incapsula_Resource?a'></script></html>",
        ),
    ),
    ("incapsula-on-a-page", answer(200, f"<html><script src='/_Incapsula_Resource?a'></script>{FILL}</html>")),
    (
        "px-sensor",
        answer(200, f"<html><script>window._pxAppId='PXa'</script><style>#px-captcha{{}}</style>{FILL}</html>"),
    ),
    ("acw-cookie-read", answer(200, f"<html><script>read('acw_sc__v2')</script>{FILL}</html>")),
    ("svg-title", answer(200, "<svg><title>Access denied</title></svg><h1>Icons</h1>", content_type=HTML)),
    ("unclosed-title", answer(200, "<title" + "x" * 500, content_type=HTML)),
    ("title-without-an-end", answer(200, "<title>" + "x" * 500, content_type=HTML)),
    (
        "rss",
        answer(
            200, "<rss><channel><title>Just a moment...</title></channel></rss>", content_type="application/rss+xml"
        ),
    ),
    ("empty-title", answer(200, "<title></title><p>x</p>", content_type=HTML)),
    ("squid-header-on-a-good-page", answer(200, "x", "http://t.example/", X_Squid_Error="?")),
]


@pytest.mark.parametrize("response", [row[1] for row in GOOD_ROWS], ids=[row[0] for row in GOOD_ROWS])
def test_a_good_answer_is_delivered(response) -> None:
    assert judge(response) is OK
