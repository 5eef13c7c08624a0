"""What a bare status means, to us and by the user's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from classify_kit import (
    AKAMAI,
    BEARER,
    CF_BLOCK,
    CF_PAGE,
    HTML,
    IDENTITY,
    JSON,
    NOW,
    RATE,
    TERMINAL,
    TRANSIENT,
    answer,
    judge,
)
from scrapy import Request

from scrapy_resiproxy.classify.classifier import Classifier
from scrapy_resiproxy.outcome import OK, OutcomeClass

if TYPE_CHECKING:
    from scrapy.http import Response

STATUS_ROWS = [
    ("CLS-16", answer(429, CF_BLOCK, server="cloudflare", retry_after="30"), None, RATE, "rate_limit_page", 30, False),
    (
        "CLS-17-1033",
        answer(530, "error code: 1033", retry_after="120"),
        None,
        TRANSIENT,
        "origin_unreachable",
        120,
        False,
    ),
    ("CLS-18-bare", answer(401, "unauthorized"), None, IDENTITY, "unauthorized", None, True),
    ("CLS-18-asked", answer(401, WWW_Authenticate='Basic realm="x"'), None, TERMINAL, "auth_required", None, False),
    ("CLS-18-sent", answer(401), BEARER, TERMINAL, "auth_required", None, False),
    (
        "CLS-19-permission",
        answer(403, '{"code":"no_permission"}', content_type=JSON),
        BEARER,
        TERMINAL,
        "permission_denied",
        None,
        False,
    ),
    ("CLS-19-unmarked", answer(403, "no"), None, IDENTITY, "forbidden", None, True),
    *(
        (
            f"CLS-19-permission-{type_}",
            answer(403, '{"code":"no_permission"}', content_type=type_),
            BEARER,
            TERMINAL,
            "permission_denied",
            None,
            False,
        )
        for type_ in (
            "application/problem+json",
            "application/vnd.api+json",
            "application/hal+json; charset=utf-8",
            "Application/Problem+JSON",
            "text/json",
        )
    ),
    (
        "CLS-19-json-as-text-with-credentials",
        answer(403, '{"code":"no_permission"}', content_type="text/plain"),
        BEARER,
        IDENTITY,
        "forbidden",
        None,
        True,
    ),
    (
        "CLS-19-html-with-credentials",
        answer(403, "<p>no</p>", content_type=HTML),
        BEARER,
        IDENTITY,
        "forbidden",
        None,
        True,
    ),
    ("CLS-23", answer(404, "<h1>Not found</h1>"), None, TERMINAL, "not_found", None, False),
    ("CLS-25-told", answer(503, "maintenance", Retry_After="3600"), None, RATE, "retry_after", 3600, False),
    ("CLS-25-plain", answer(503), None, TRANSIENT, "unavailable", None, False),
    ("CLS-33-410", answer(410), None, TERMINAL, "gone", None, False),
    ("CLS-33-451", answer(451), None, TERMINAL, "legal_reasons", None, False),
    ("CLS-36-honest", answer(412, '{"error":"precondition failed"}'), None, TERMINAL, "client_error", None, False),
    ("CLS-37-honest", answer(405, Allow="GET"), None, TERMINAL, "method_not_allowed", None, False),
    ("RA-09", answer(429), None, RATE, "too_many_requests", None, False),
    ("429-told", answer(429, Retry_After="7"), None, RATE, "too_many_requests", 7, False),
    (
        "429-told-with-a-widget",
        answer(429, "<html>hcaptcha.com/1/api.js</html>", Retry_After="7"),
        None,
        RATE,
        "too_many_requests",
        7,
        False,
    ),
    ("503-zero-is-no-hint", answer(503, Retry_After="0"), None, TRANSIENT, "unavailable", 0, False),
    ("503-junk", answer(503, Retry_After="soon"), None, TRANSIENT, "unavailable", None, False),
    ("403-told", answer(403, Retry_After="60"), None, RATE, "retry_after", 60, False),
    (
        "403-told-with-credentials",
        answer(403, "{}", content_type=JSON, X_RateLimit_Remaining="0", X_RateLimit_Reset="60"),
        BEARER,
        RATE,
        "retry_after",
        60,
        False,
    ),
    ("500-told-is-a-fault", answer(500, Retry_After="60"), None, TRANSIENT, "server_error", 60, False),
    ("404-told-is-gone", answer(404, Retry_After="60"), None, TERMINAL, "not_found", None, False),
    ("529-told", answer(529, Retry_After="60"), None, RATE, "retry_after", 60, False),
    ("408", answer(408), None, TRANSIENT, "request_timeout", None, False),
    ("421", answer(421), None, TRANSIENT, "misdirected", None, False),
    ("425", answer(425), None, TRANSIENT, "too_early", None, False),
    ("420", answer(420), None, RATE, "too_many_requests", None, False),
    ("509", answer(509), None, RATE, "too_many_requests", None, False),
    ("400", answer(400), None, TERMINAL, "bad_request", None, False),
    ("418", answer(418), None, TERMINAL, "client_error", None, False),
    ("521", answer(521), None, TRANSIENT, "origin_unreachable", None, False),
    ("100", answer(100), None, TRANSIENT, "protocol_error", None, False),
    ("0", answer(0), None, IDENTITY, "odd_status", None, False),
    (
        "mysql-is-not-cloudflare",
        answer(500, "ERROR 1020 (HY000): Record has changed", content_type=HTML),
        None,
        TRANSIENT,
        "server_error",
        None,
        False,
    ),
    (
        "mysql-behind-cloudflare",
        answer(500, "Error 1020: Record has changed", content_type=HTML, server="cloudflare"),
        None,
        TRANSIENT,
        "server_error",
        None,
        False,
    ),
    (
        "an-apis-own-1004-behind-cloudflare",
        answer(404, '{"error":1004}', content_type=JSON, server="cloudflare"),
        None,
        TERMINAL,
        "not_found",
        None,
        False,
    ),
    (
        "an-apis-own-1015-behind-cloudflare",
        answer(400, '{"error_code":1015}', content_type=JSON, server="cloudflare"),
        None,
        TERMINAL,
        "bad_request",
        None,
        False,
    ),
    (
        "an-apis-own-1010-where-it-asks-for-credentials",
        answer(401, '{"error_code":1010}', content_type=JSON, server="cloudflare", WWW_Authenticate="Bearer"),
        None,
        TERMINAL,
        "auth_required",
        None,
        False,
    ),
    (
        "an-apis-own-1005-where-it-was-sent-credentials",
        answer(403, '{"error_code":1005}', content_type=JSON, server="cloudflare"),
        BEARER,
        TERMINAL,
        "permission_denied",
        None,
        False,
    ),
    (
        "an-apis-own-1020-on-a-bare-403",
        answer(403, '{"error_code":1020}', content_type=JSON, server="cloudflare"),
        None,
        IDENTITY,
        "forbidden",
        None,
        True,
    ),
    (
        "a-page-that-tells-of-error-1004",
        answer(404, "<h1>Error: 1004</h1> not here", content_type=HTML, server="cloudflare"),
        None,
        TERMINAL,
        "not_found",
        None,
        False,
    ),
    (
        "a-page-that-tells-of-error-1015",
        answer(404, "<p>Error 1015 help", content_type=HTML, server="cloudflare"),
        None,
        TERMINAL,
        "not_found",
        None,
        False,
    ),
    (
        "a-page-that-tells-of-cloudflares-1033",
        answer(404, f"<p>See {CF_PAGE.format(1033)}", content_type=HTML, server="cloudflare"),
        None,
        TERMINAL,
        "not_found",
        None,
        False,
    ),
    (
        "mysqls-1015-behind-cloudflare",
        answer(500, "MySQL Error 1015: cannot lock file", content_type=HTML, server="cloudflare"),
        None,
        TRANSIENT,
        "server_error",
        None,
        False,
    ),
    (
        "a-forum-that-tells-of-error-1005",
        answer(403, "<p>Members only: how to mend Error 1005", content_type=HTML, server="cloudflare"),
        None,
        IDENTITY,
        "forbidden",
        None,
        True,
    ),
    (
        "a-401-that-asks-for-credentials-with-a-walls-words",
        answer(401, AKAMAI, content_type=HTML, WWW_Authenticate="Basic"),
        None,
        TERMINAL,
        "auth_required",
        None,
        False,
    ),
    *(
        (f"cloudflares-{code}-{kind}", answer(status, body, content_type=type_), None, class_, reason, None, False)
        for kind, type_, text in (
            ("page", HTML, CF_PAGE),
            ("text", "text/plain", "error code: {}"),
            ("markdown", "text/markdown", "---\nerror_code: {}\ncloudflare_error: true\n---"),
            ("json", JSON, '{{"error_code": {}, "cloudflare_error": true}}'),
            (
                "problem",
                "application/problem+json",
                '{{"type": "https://developers.cloudflare.com/x", "error_code":{}}}',
            ),
        )
        for code, status, class_, reason in (
            (1004, 409, TRANSIENT, "origin_unreachable"),
            (1010, 403, IDENTITY, "block_page"),
            (1015, 429, RATE, "rate_limit_page"),
            (1033, 530, TRANSIENT, "origin_unreachable"),
        )
        for body in (text.format(code),)
    ),
    (
        "cloudflare-fault-unknown-code",
        answer(530, "error code: 1016"),
        None,
        TRANSIENT,
        "origin_unreachable",
        None,
        False,
    ),
    (
        "cloudflares-without-a-code",
        answer(502, "<html>bad gateway</html>", server="cloudflare"),
        None,
        TRANSIENT,
        "server_error",
        None,
        False,
    ),
    (
        "403-with-a-telling-header-that-says-nothing",
        answer(403, cf_mitigated="none"),
        None,
        IDENTITY,
        "forbidden",
        None,
        True,
    ),
    ("binary-403", answer(403, b"\x89PNG", content_type="image/png"), None, IDENTITY, "forbidden", None, True),
    (
        "404-with-a-walls-script",
        answer(
            404, "<html><script src='/_Incapsula_Resource'></script><h1>No such page, sorry: try the search</h1></html>"
        ),
        None,
        TERMINAL,
        "not_found",
        None,
        False,
    ),
]


@pytest.mark.parametrize(
    ("response", "sent", "class_", "reason", "wait", "weak"),
    [r[1:] for r in STATUS_ROWS],
    ids=[r[0] for r in STATUS_ROWS],
)
def test_a_bare_status_means(response, sent, class_, reason, wait, weak) -> None:
    outcome = judge(response, Request(response.url, headers=sent))
    assert (outcome.class_, outcome.reason, outcome.wait, outcome.weak) == (class_, reason, wait, weak)


@pytest.mark.parametrize(
    ("flags", "meta", "reason"),
    [
        pytest.param(["dataloss"], {}, "data_loss", id="VFN-17"),
        pytest.param(["dataloss"], {"download_fail_on_dataloss": False}, "ok", id="VFN-17-asked-for"),
        pytest.param(["dataloss"], {"download_fail_on_dataloss": True}, "data_loss", id="VFN-17-not-asked-for"),
        pytest.param(["partial"], {}, "ok", id="close-delimited"),
    ],
)
def test_half_a_page_is_transient_unless_it_was_asked_for(flags, meta, reason) -> None:
    response = answer(200, "<p>half", flags=flags, content_type=HTML)
    assert judge(response, Request(response.url, meta=meta)).reason == reason


def with_settings(response: Response, request: Request | None = None, per_target=None, **settings):
    return Classifier(**settings).judge_response(
        request or Request(response.url), response, now=NOW, via_proxy=False, status_classes=per_target
    )


def test_the_users_word_on_a_status_overrides_ours_and_the_targets_goes_first() -> None:
    general = {404: OutcomeClass.IDENTITY, 202: OutcomeClass.TRANSIENT, 403: OutcomeClass.OK}
    outcome = with_settings(answer(404), status_classes=general)
    assert (outcome.class_, outcome.reason, outcome.blame, outcome.weak) == (IDENTITY, "status_class", "session", True)
    assert with_settings(answer(202, "<p>x</p>"), status_classes=general).class_ is OutcomeClass.TRANSIENT
    assert with_settings(answer(403), status_classes=general) is OK
    assert (
        with_settings(answer(404), per_target={404: OutcomeClass.TERMINAL}, status_classes=general).class_ == TERMINAL
    )
    assert with_settings(answer(503, Retry_After="9"), status_classes={503: OutcomeClass.RATE}).wait == 9


def test_a_walls_page_is_a_wall_whatever_the_user_says_of_its_status() -> None:
    response = answer(404, cf_mitigated="challenge")
    assert with_settings(response, status_classes={404: OutcomeClass.OK}).reason == "challenge"


@pytest.mark.parametrize(
    ("status", "class_"),
    [
        pytest.param(418, TRANSIENT, id="unknown-4xx-is-added"),
        pytest.param(202, TRANSIENT, id="unknown-2xx-is-added"),
        pytest.param(302, TRANSIENT, id="a-redirect-is-added"),
        pytest.param(404, TERMINAL, id="404-stays"),
        pytest.param(403, IDENTITY, id="403-stays"),
        pytest.param(429, RATE, id="429-stays"),
        pytest.param(200, "ok", id="200-stays"),
        pytest.param(999, IDENTITY, id="999-stays"),
        pytest.param(507, TRANSIENT, id="5xx-is-transient-anyway"),
    ],
)
def test_scrapys_retry_codes_add_and_change_nothing(status: int, class_: str) -> None:
    """CLS-39."""
    codes = [418, 202, 302, 404, 403, 429, 200, 999, 507]
    outcome = with_settings(answer(status), retry_http_codes=codes)
    assert outcome.class_ == class_
    assert (outcome.reason == "listed_status") is (status in {418, 202, 302})
