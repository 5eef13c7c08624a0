from __future__ import annotations

import pytest
from guard_kit import (
    FORBIDDEN,
    NO_NAME,
    NO_NETWORK,
    NOT_FOUND,
    PROXY_AUTH,
    PROXY_DOWN,
    PROXY_RATE,
    REFUSED,
    SESSION_RATE,
    SLOWED,
    TIMEOUT,
    UNAVAILABLE,
)

from scrapy_resiproxy.classify.reasons import REASONS
from scrapy_resiproxy.guard.decide import DNS_REASON
from scrapy_resiproxy.guard.samples import (
    ANSWERED,
    UNANSWERED,
    UNREACHABLE,
    Sample,
    endpoint_sample_of,
    is_unreachable,
    sample_of,
)
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass

BUG = Outcome(OutcomeClass.TERMINAL, "error", Blame.LOCAL)
VALIDATOR_BUG = Outcome(OutcomeClass.TERMINAL, "validator_error", Blame.LOCAL)
LAYOUT = Outcome(OutcomeClass.TERMINAL, "layout_changed", Blame.LOCAL)
TARGET_BEHIND_PROXY = Outcome(OutcomeClass.TRANSIENT, "proxy_timeout")
TERMINAL_SESSION = Outcome(OutcomeClass.TERMINAL, "gone", Blame.SESSION)
TRANSIENT_SESSION = Outcome(OutcomeClass.TRANSIENT, "server_error", Blame.SESSION)


@pytest.mark.parametrize(
    ("outcome", "fresh", "worn", "endpoint", "unreachable"),
    [
        pytest.param(OK, Sample.OK, Sample.OK, Sample.OK, False, id="ok"),
        pytest.param(NOT_FOUND, Sample.OK, Sample.OK, Sample.OK, False, id="404"),
        pytest.param(UNAVAILABLE, Sample.FAILED, Sample.FAILED, Sample.OK, False, id="503"),
        pytest.param(TIMEOUT, Sample.FAILED, Sample.FAILED, Sample.NOTHING, False, id="timeout"),
        pytest.param(NO_NAME, Sample.FAILED, Sample.FAILED, Sample.NOTHING, True, id="no such name"),
        pytest.param(NO_NETWORK, Sample.NOTHING, Sample.NOTHING, Sample.NOTHING, True, id="our network"),
        pytest.param(SLOWED, Sample.SLOWED, Sample.SLOWED, Sample.OK, False, id="429"),
        pytest.param(SESSION_RATE, Sample.SLOWED, Sample.SLOWED, Sample.OK, False, id="a session's 429"),
        pytest.param(REFUSED, Sample.REFUSED, Sample.NOTHING, Sample.OK, False, id="challenge"),
        pytest.param(FORBIDDEN, Sample.REFUSED, Sample.NOTHING, Sample.OK, False, id="403"),
        pytest.param(PROXY_DOWN, Sample.NOTHING, Sample.NOTHING, Sample.FAILED, False, id="proxy out of reach"),
        pytest.param(PROXY_RATE, Sample.NOTHING, Sample.NOTHING, Sample.SLOWED, False, id="the proxy's 429"),
        pytest.param(PROXY_AUTH, Sample.NOTHING, Sample.NOTHING, Sample.NOTHING, False, id="407"),
        pytest.param(TARGET_BEHIND_PROXY, Sample.FAILED, Sample.FAILED, Sample.OK, False, id="the proxy's word on it"),
        pytest.param(BUG, Sample.NOTHING, Sample.NOTHING, Sample.NOTHING, False, id="a bug of ours"),
        pytest.param(VALIDATOR_BUG, Sample.OK, Sample.OK, Sample.OK, False, id="a validator that raises"),
        pytest.param(LAYOUT, Sample.OK, Sample.OK, Sample.OK, False, id="layout changed"),
        pytest.param(TERMINAL_SESSION, Sample.OK, Sample.OK, Sample.OK, False, id="terminal, the session's"),
        pytest.param(TRANSIENT_SESSION, Sample.FAILED, Sample.FAILED, Sample.OK, False, id="transient, the session's"),
    ],
)
def test_what_an_outcome_says(outcome, fresh, worn, endpoint, unreachable):
    assert sample_of(outcome, fresh=True) is fresh
    assert sample_of(outcome, fresh=False) is worn
    assert endpoint_sample_of(outcome) is endpoint
    assert is_unreachable(outcome) is unreachable


def test_every_local_transient_fault_may_be_our_own_network():
    assert is_unreachable(Outcome(OutcomeClass.TRANSIENT, "local_limit", Blame.LOCAL))
    assert not is_unreachable(Outcome(OutcomeClass.TERMINAL, "dns_not_found"))


@pytest.mark.parametrize("word", sorted(UNREACHABLE | UNANSWERED | {DNS_REASON}))
def test_a_transient_reason_named_here_is_one_that_the_classifier_gives(word):
    assert word in REASONS[OutcomeClass.TRANSIENT]


@pytest.mark.parametrize("word", sorted(ANSWERED))
def test_a_terminal_reason_named_here_is_one_that_the_classifier_gives(word):
    assert word in REASONS[OutcomeClass.TERMINAL]
