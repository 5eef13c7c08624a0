"""What the proxy itself says, in the place of the target's answer."""

from __future__ import annotations

import pytest
from classify_kit import IDENTITY, RATE, TERMINAL, TRANSIENT, answer, judge

from scrapy_resiproxy.outcome import OK

PROXY_ROWS = [
    ("CLS-01-response", answer(407, "zone unknown", "http://t.example/"), TERMINAL, "proxy_auth", "proxy"),
    (
        "CLS-03-header",
        answer(407, url="http://t.example/", X_Error_Description="Access denied: traffic limit reached"),
        TERMINAL,
        "proxy_quota",
        "proxy",
    ),
    ("CLS-03-traffic", answer(407, "TRAFFIC_EXHAUSTED", "http://t.example/"), TERMINAL, "proxy_quota", "proxy"),
    ("CLS-03-threads", answer(407, "THREADS_EXHAUSTED", "http://t.example/"), RATE, "proxy_concurrency", "proxy"),
    ("CLS-06-post", answer(402, x_brd_err_code="policy_20130"), TERMINAL, "proxy_policy", "proxy"),
    ("CLS-06-target", answer(403, x_brd_err_code="policy_20052"), TERMINAL, "proxy_policy", "proxy"),
    (
        "CLS-06-rfc9209",
        answer(
            403,
            Proxy_Status='brd.superproxy.io; received-status=403; error="destination_ip_prohibited"'
            '; details="client_10260: x"',
        ),
        TERMINAL,
        "proxy_policy",
        "proxy",
    ),
    (
        "rfc9209-known-code",
        answer(502, Proxy_Status='brd; error="dns_error"; details="client-10100: x"'),
        TERMINAL,
        "proxy_quota",
        "proxy",
    ),
    (
        "rfc9209-unknown-error",
        answer(502, Proxy_Status='brd; error=odd; details="peer_39: x"'),
        IDENTITY,
        "proxy_session_lost",
        "session",
    ),
    ("CLS-07-account", answer(429, x_brd_err_code="client_10110"), RATE, "proxy_rate", "proxy"),
    ("CLS-07-session", answer(429, x_brd_err_code="policy_20222"), RATE, "proxy_rate", "session"),
    ("CLS-07-domain", answer(429, x_brd_err_code="policy_20223"), RATE, "proxy_rate", "target"),
    ("CLS-08-dns", answer(502, x_brd_err_code="target_40001"), TRANSIENT, "dns_not_found", "target"),
    ("CLS-08-spend", answer(502, x_brd_err_code="client_10100"), TERMINAL, "proxy_quota", "proxy"),
    ("CLS-08-city", answer(502, x_brd_err_code="peer_30030"), TERMINAL, "proxy_config", "proxy"),
    ("CLS-08-timeout", answer(502, x_brd_err_code="target_40020"), TRANSIENT, "proxy_error", "target"),
    ("CLS-08-peer", answer(408, x_brd_err_code="peer_30040"), IDENTITY, "proxy_session_lost", "session"),
    *(
        (
            f"CLS-08-code-and-text-{number}",
            answer(408, x_brd_err_code=value),
            IDENTITY,
            "proxy_session_lost",
            "session",
        )
        for number, value in enumerate(
            ("peer_30040: no peer", "peer_30040 no peer", "peer_30040; no peer", ["peer_30040", "other"])
        )
    ),
    ("CLS-08-reroute", answer(502, x_brd_err_code="client_10120"), TRANSIENT, "proxy_error", "proxy"),
    ("CLS-08-unknown-client", answer(502, x_brd_err_code="client_19999"), TERMINAL, "proxy_config", "proxy"),
    ("CLS-08-unknown-policy", answer(502, x_brd_err_code="policy_29999"), TERMINAL, "proxy_policy", "proxy"),
    ("CLS-08-unknown-peer", answer(502, x_brd_err_code="peer_39999"), IDENTITY, "proxy_session_lost", "session"),
    ("CLS-08-unknown-target", answer(502, x_brd_err_code="target_49999"), TRANSIENT, "proxy_error", "target"),
    ("CLS-08-old-header", answer(502, x_luminati_error_code="peer_30040"), IDENTITY, "proxy_session_lost", "session"),
    ("CLS-08-dashed", answer(400, x_brd_err_code="client-10060"), TERMINAL, "proxy_config", "proxy"),
    (
        "CLS-09-session",
        answer(502, url="http://t.example/", X_Error_Description="session failed"),
        IDENTITY,
        "proxy_session_lost",
        "session",
    ),
    (
        "CLS-09-502",
        answer(502, url="http://t.example/", X_Error_Description="Bad gateway"),
        IDENTITY,
        "proxy_session_lost",
        "session",
    ),
    (
        "CLS-09-525",
        answer(525, url="http://t.example/", X_Error_Description="no exit"),
        IDENTITY,
        "proxy_session_lost",
        "session",
    ),
    ("CLS-09-522", answer(522, url="http://t.example/", X_Error_Description="x"), TRANSIENT, "proxy_timeout", "target"),
    ("CLS-09-bare-522", answer(522), TRANSIENT, "origin_unreachable", "target"),
    ("CLS-09-bare-525", answer(525), TRANSIENT, "origin_unreachable", "target"),
    ("CLS-14", answer(200, x_brd_err_code="client_10050", Content_Length="0"), TERMINAL, "proxy_config", "proxy"),
    ("a-word-that-is-no-code", answer(407, "SOME_OTHER_WORD", "http://t.example/"), TERMINAL, "proxy_auth", "proxy"),
    ("only-a-message", answer(502, x_brd_error="something new"), IDENTITY, "proxy_session_lost", "session"),
    ("only-a-message-empty-200", answer(200, x_brd_error="zone is dead"), TRANSIENT, "proxy_protocol", "proxy"),
    ("zyte-banned", answer(503, X_Crawlera_Error="banned"), IDENTITY, "proxy_banned", "session"),
    ("zyte-session-limit", answer(400, X_Crawlera_Error="user_session_limit"), RATE, "proxy_concurrency", "proxy"),
    ("webshare-bandwidth", answer(402, X_Webshare_Reason="bandwidthlimit"), TERMINAL, "proxy_quota", "proxy"),
    ("thordata-region", answer(400, X_thor_error_code="client_101"), TERMINAL, "proxy_config", "proxy"),
    (
        "squid-dns",
        answer(503, url="http://t.example/", X_Squid_Error="ERR_DNS_FAIL 0"),
        TRANSIENT,
        "dns_not_found",
        "target",
    ),
]


@pytest.mark.parametrize(
    ("response", "class_", "reason", "blame"), [r[1:] for r in PROXY_ROWS], ids=[r[0] for r in PROXY_ROWS]
)
def test_what_the_proxy_says_goes_before_the_status(response, class_, reason, blame) -> None:
    outcome = judge(response)
    assert (outcome.class_, outcome.reason, outcome.blame) == (class_, reason, blame)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("status", [407, 502])
def test_a_refusal_inside_tls_may_be_the_targets_own_words(scheme, status) -> None:
    outcome = judge(answer(status, "", f"{scheme}://t.example/", x_brd_err_code="client_10002"))
    assert (outcome.reason, outcome.weak) == ("proxy_auth", scheme == "https")


def test_the_evidence_names_the_header_and_the_code() -> None:
    assert judge(answer(502, x_brd_err_code="client_10002")).evidence == "x-brd-err-code:client_10002"


@pytest.mark.parametrize("value", ["<script>secret</script>", "peer_30040<secret", "client secret", "peer" * 20])
def test_a_header_that_is_no_code_never_becomes_evidence(value: str) -> None:
    outcome = judge(answer(502, x_brd_err_code=value))
    assert outcome.evidence == "x-brd-err-code:502"


def test_the_text_after_a_code_never_becomes_evidence() -> None:
    assert judge(answer(502, x_brd_err_code="peer_30040: secret")).evidence == "x-brd-err-code:peer_30040"


def test_a_vendors_header_means_nothing_without_a_proxy() -> None:
    assert judge(answer(200, "page", x_brd_err_code="client_10050"), via_proxy=False) is OK


def test_a_407_is_the_proxys_even_where_we_know_of_none() -> None:
    outcome = judge(answer(407), via_proxy=False)
    assert (outcome.class_, outcome.reason, outcome.evidence) == (TERMINAL, "proxy_auth", "status:407")


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(answer(407, "session expired", "http://t.example/"), id="a-word"),
        pytest.param(answer(407, x_brd_err_code="peer_30040"), id="a-code"),
        pytest.param(answer(407, "<html>no balance in this long page</html>", "http://t.example/"), id="a-page"),
        pytest.param(answer(407, x_brd_error="?"), id="a-message"),
    ],
)
def test_a_407_is_terminal_whatever_else_is_said(response) -> None:
    assert judge(response).reason == "proxy_auth"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(answer(403, X_Error_Description="session failed"), id="description"),
        pytest.param(answer(403, X_Squid_Error="ERR_ACCESS_DENIED 0"), id="squid"),
        pytest.param(answer(403, Proxy_Status='ExampleCDN; error="http_request_denied"'), id="a-cdn"),
    ],
)
def test_a_header_that_anybody_may_set_is_not_believed_inside_tls(response) -> None:
    assert judge(response).reason == "forbidden"


def test_a_message_beside_a_good_page_is_a_remark() -> None:
    assert judge(answer(200, "<h1>page</h1>", x_brd_error="slow peer")) is OK


def test_a_proxys_wait_is_kept() -> None:
    assert judge(answer(429, x_brd_err_code="client_10110", Retry_After="30")).wait == 30
