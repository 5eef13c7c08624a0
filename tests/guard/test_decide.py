from __future__ import annotations

from dataclasses import replace
from random import Random

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
    examples,
    slowed,
)
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.decide import Charge, Deliver, GiveUp, History, PastAttempt, Retry, decide
from scrapy_resiproxy.names import DEAD_LETTER_REASONS
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.settings import GuardSettings

SETTINGS = GuardSettings()
FIRST = History(sent=1, max_attempts=4)
LAST = History(sent=4, max_attempts=4)

BARE = PastAttempt(OutcomeClass.IDENTITY, "forbidden", fresh=True, weak=True)
WORN_BARE = replace(BARE, fresh=False)
STRONG = replace(BARE, weak=False)
OTHER_WEAK = PastAttempt(OutcomeClass.TRANSIENT, "dns_not_found", fresh=True, weak=True)
NAMELESS = PastAttempt(OutcomeClass.TRANSIENT, "dns_not_found", fresh=True, weak=False)

SESSION_FAULT = Outcome(OutcomeClass.TRANSIENT, "connection_lost", Blame.SESSION)
VALIDATOR_BUG = Outcome(OutcomeClass.TERMINAL, "validator_error", Blame.LOCAL)


def decided(outcome, history, guard=SETTINGS, seed=1):
    return decide(outcome, history, guard, Random(seed))


@pytest.mark.parametrize(
    ("outcome", "history", "reason"),
    [
        pytest.param(NOT_FOUND, FIRST, "terminal", id="404"),
        pytest.param(VALIDATOR_BUG, FIRST, "validator_error", id="a validator that raises"),
        pytest.param(PROXY_AUTH, FIRST, "proxy_refused", id="407"),
        pytest.param(NOT_FOUND, replace(FIRST, retry_allowed=False), "terminal", id="404, dont_retry"),
        pytest.param(UNAVAILABLE, replace(FIRST, retry_allowed=False), "dont_retry", id="503, dont_retry"),
        pytest.param(SLOWED, replace(FIRST, retry_allowed=False), "dont_retry", id="429, dont_retry"),
        pytest.param(REFUSED, replace(FIRST, resendable=False), "dont_retry", id="may not be sent twice"),
        pytest.param(UNAVAILABLE, LAST, "attempts_exhausted", id="503 at the last attempt"),
        pytest.param(UNAVAILABLE, replace(LAST, sent=5), "attempts_exhausted", id="503 beyond the last attempt"),
        pytest.param(SLOWED, LAST, "attempts_exhausted", id="429 at the last attempt"),
        pytest.param(REFUSED, LAST, "identity_exhausted", id="refused at the last attempt"),
        pytest.param(REFUSED, replace(FIRST, can_rotate=False), "identity_exhausted", id="no session to change"),
        pytest.param(REFUSED, replace(FIRST, named=True), "session_lost", id="a named session refused"),
        pytest.param(FORBIDDEN, replace(FIRST, sent=2, past=(BARE,)), "forbidden", id="a second bare 403"),
        pytest.param(NO_NAME, replace(FIRST, sent=2, past=(NAMELESS,)), "terminal", id="a second NXDOMAIN"),
    ],
)
def test_what_is_given_up(outcome, history, reason):
    assert decided(outcome, history) == GiveUp(reason)


@pytest.mark.parametrize(
    ("outcome", "history", "rotate", "charge"),
    [
        pytest.param(UNAVAILABLE, FIRST, False, Charge.TRANSIENT, id="503"),
        pytest.param(UNAVAILABLE, replace(LAST, sent=3), False, Charge.TRANSIENT, id="503 with one attempt left"),
        pytest.param(TIMEOUT, FIRST, False, Charge.TRANSIENT, id="timeout"),
        pytest.param(NO_NAME, FIRST, False, Charge.TRANSIENT, id="a first NXDOMAIN"),
        pytest.param(PROXY_DOWN, FIRST, False, Charge.PROXY, id="the proxy's fault"),
        pytest.param(SESSION_FAULT, FIRST, True, Charge.TRANSIENT, id="the session's fault"),
        pytest.param(SESSION_FAULT, replace(FIRST, named=True), False, Charge.TRANSIENT, id="a named session's fault"),
        pytest.param(SESSION_FAULT, replace(FIRST, can_rotate=False), False, Charge.TRANSIENT, id="no other session"),
        pytest.param(SLOWED, FIRST, False, Charge.PACED, id="429"),
        pytest.param(SESSION_RATE, FIRST, False, Charge.PACED, id="429 of the session"),
        pytest.param(PROXY_RATE, FIRST, False, Charge.PACED, id="429 of the proxy"),
        pytest.param(REFUSED, FIRST, True, Charge.IDENTITY, id="challenge"),
        pytest.param(FORBIDDEN, FIRST, True, Charge.IDENTITY, id="a first bare 403"),
        pytest.param(FORBIDDEN, replace(FIRST, past=(STRONG,)), True, Charge.IDENTITY, id="403 after a challenge"),
        pytest.param(FORBIDDEN, replace(FIRST, past=(WORN_BARE,)), True, Charge.IDENTITY, id="403 on a worn session"),
        pytest.param(FORBIDDEN, replace(FIRST, past=(OTHER_WEAK,)), True, Charge.IDENTITY, id="403 after a weak other"),
        pytest.param(
            FORBIDDEN, replace(FIRST, past=(BARE,), fresh=False), True, Charge.IDENTITY, id="worn now, fresh before"
        ),
        pytest.param(
            FORBIDDEN, replace(FIRST, past=(BARE,), healthy=False), True, Charge.IDENTITY, id="403 of a sick target"
        ),
        pytest.param(REFUSED, replace(FIRST, past=(BARE,)), True, Charge.IDENTITY, id="challenge after a bare 403"),
    ],
)
def test_what_is_sent_again(outcome, history, rotate, charge):
    decision = decided(outcome, history)
    assert isinstance(decision, Retry)
    assert (decision.rotate, decision.charge) == (rotate, charge)


def test_a_good_answer_is_delivered_whatever_went_before():
    assert decided(OK, replace(LAST, retry_allowed=False)) == Deliver()


@pytest.mark.parametrize("outcome", [SLOWED, UNAVAILABLE, REFUSED, PROXY_RATE], ids=lambda outcome: outcome.reason)
def test_who_is_told_to_stay_away_for_too_long_does_not_come_back_in_this_run(outcome):
    assert decided(replace(outcome, wait=300.5), FIRST) == GiveUp("retry_after_too_long", 300.5)
    assert isinstance(decided(replace(outcome, wait=300.0), FIRST), Retry)


@pytest.mark.parametrize("outcome", [NO_NAME, NO_NETWORK], ids=lambda outcome: outcome.reason)
def test_what_our_own_network_did_costs_a_request_nothing(outcome):
    history = replace(LAST, sent=40, past=(NAMELESS,) * 39, own_outage=True)
    decision = decided(outcome, history)
    assert isinstance(decision, Retry)
    assert (decision.rotate, decision.charge) == (False, Charge.PACED)
    assert decided(UNAVAILABLE, history) == GiveUp("attempts_exhausted")


@pytest.mark.parametrize(
    ("outcome", "ceilings"),
    [
        pytest.param(UNAVAILABLE, (1, 2, 4, 8, 16, 32, 60), id="transient"),
        pytest.param(SLOWED, (2, 4, 8, 16, 32, 60), id="rate"),
        pytest.param(REFUSED, (1, 2, 4, 8, 16, 32, 60), id="identity"),
    ],
)
def test_each_class_has_its_own_base(outcome, ceilings):
    for sent, ceiling in enumerate(ceilings, start=1):
        delays = [decided(outcome, History(sent, 99), seed=seed).delay for seed in range(200)]
        assert 0.9 * ceiling < max(delays) <= ceiling


@examples(100)
@given(
    st.sampled_from([UNAVAILABLE, TIMEOUT, SLOWED, REFUSED, PROXY_DOWN]),
    st.floats(0, 300),
    st.integers(1, 3),
    st.integers(0, 999),
)
def test_no_retry_is_earlier_than_the_server_told(outcome, wait, sent, seed):
    decision = decided(replace(outcome, wait=wait), History(sent, 4), seed=seed)
    assert isinstance(decision, Retry)
    assert decision.delay >= wait
    assert decision.delay <= max(wait, 60.0) + 30.0


@examples(150)
@given(
    st.sampled_from([OK, NOT_FOUND, UNAVAILABLE, slowed(400.0), SLOWED, REFUSED, FORBIDDEN, NO_NAME, PROXY_AUTH]),
    st.builds(
        History,
        sent=st.integers(1, 9),
        max_attempts=st.integers(1, 6),
        past=st.lists(st.sampled_from([BARE, STRONG, NAMELESS]), max_size=3).map(tuple),
        fresh=st.booleans(),
        can_rotate=st.booleans(),
        named=st.booleans(),
        resendable=st.booleans(),
        retry_allowed=st.booleans(),
        healthy=st.booleans(),
    ),
)
def test_nothing_is_sent_more_often_than_allowed_and_every_end_has_a_name(outcome, history):
    decision = decided(outcome, history)
    if isinstance(decision, Retry):
        assert history.sent < history.max_attempts
        assert history.retry_allowed
        assert history.resendable
    elif isinstance(decision, GiveUp):
        assert decision.reason in DEAD_LETTER_REASONS
    else:
        assert outcome.ok
