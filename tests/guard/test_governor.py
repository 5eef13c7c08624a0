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
    slowed,
)

from scrapy_resiproxy.guard.circuit import State
from scrapy_resiproxy.guard.decide import Charge
from scrapy_resiproxy.guard.governor import GivenUp, Governor, Hold, Permit
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.settings import GuardSettings

GATE = "gw.example:8000"


class NoDice:
    def uniform(self, low, high):
        return low


class Bench:
    """A governor, and a clock that stands still unless told."""

    def __init__(self, overrides=None, **own):
        self.settings = GuardSettings(**own)
        self.governor = Governor(self.settings, NoDice(), overrides)
        self.now = 1000.0

    def wait(self, seconds):
        self.now += seconds
        return self

    def admit(self, target="a", **how):
        return self.governor.admit(target, self.now, **how)

    def permit(self, target="a", **how):
        answer = self.admit(target, **how)
        assert isinstance(answer, Permit), answer
        return answer

    def peek(self, target="a", endpoint=None):
        return self.governor.peek(target, self.now, endpoint)

    def report(self, permit, outcome, *, fresh=True):
        self.governor.report(permit, outcome, self.now, fresh=fresh)

    def one(self, outcome=OK, target="a", *, fresh=True, **how):
        self.report(self.permit(target, **how), outcome, fresh=fresh)
        return self

    def many(self, count, outcome=OK, target="a", *, step=0.0, **how):
        for _ in range(count):
            self.wait(step).one(outcome, target, **how)
        return self

    def trip(self, target="a", outcome=UNAVAILABLE, **how):
        return self.many(5, outcome, target, **how)

    def half_open(self, target="a", endpoint=None):
        """Wait until a probe may go."""
        hold = self.peek(target, endpoint)
        self.now = self.now if hold is None else hold.until
        return self

    def recovering(self, target="a", endpoint=None):
        return self.half_open(target, endpoint).one(OK, target, endpoint=endpoint)

    def gate(self, target="a"):
        return self.governor._targets[target]

    def via(self):
        return self.governor._endpoints[GATE]

    def events(self):
        return [(event.kind, event.target) for event in self.governor.take_events()]


# Admission ----------------------------------------------------------------------------------------------------


def test_a_healthy_target_lets_everything_go_and_nothing_of_it_is_asked():
    bench = Bench().many(100)
    gate = bench.gate()
    assert (gate.gated, gate.circuit, gate.pacer) == (False, None, None)
    assert bench.peek() is None


def test_an_unknown_target_is_not_remembered_because_somebody_looked():
    bench = Bench()
    governor, now = bench.governor, bench.now
    assert governor.peek("a", now) is None
    assert governor.given_up("a", now) is None
    assert not governor.healthy("a", now), "it has not shown yet that it is"
    assert governor.tail_open("a", now)
    assert not governor.still("a", now)
    assert governor.pace("a") is None
    assert governor.view("a", now).state == "closed"
    governor.popped("a", now)
    assert len(governor) == 0


def test_a_permit_says_what_it_is_for():
    permit = Bench().permit("a", endpoint=GATE, retry=True, lease=30.0)
    assert (permit.target, permit.endpoint, permit.retry) == ("a", GATE, True)
    assert (permit.sent_at, permit.lease_until, permit.ended) == (1000.0, 1030.0, False)


def test_a_target_has_the_settings_of_its_override():
    own = GuardSettings(circuit_consecutive=2, budget_min_retries=1)
    bench = Bench({"a": own})
    assert bench.governor.settings_of("a") is own
    assert bench.governor.settings_of("b") is bench.settings
    bench.many(2, UNAVAILABLE).many(2, UNAVAILABLE, "b")
    assert isinstance(bench.admit("a"), Hold)
    assert isinstance(bench.admit("b"), Permit)
    asked = [bench.governor.reserve("a", Charge.TRANSIENT, bench.now) for _ in range(2)]
    assert [bool(each) for each in asked] == [True, False]


def test_the_override_for_all_is_that_of_every_target_without_its_own():
    own, others = GuardSettings(budget_ratio=0.5), GuardSettings(budget_ratio=0.3)
    bench = Bench({"a": own, "*": others})
    assert bench.governor.settings_of("a") is own
    assert bench.governor.settings_of("b") is others


def test_a_window_of_its_own_is_its_own():
    bench = Bench({"a": GuardSettings(budget_window=600.0, budget_min_retries=1)})
    bench.one()
    assert bench.governor.reserve("a", Charge.TRANSIENT, bench.now)
    bench.wait(300.0)
    assert bench.governor.reserve("a", Charge.TRANSIENT, bench.now) is None


# Holds --------------------------------------------------------------------------------------------------------


def test_a_held_target_lets_nothing_go_before_its_time():
    bench = Bench()
    bench.governor.hold("a", 1010.0)
    assert bench.admit() == bench.peek() == Hold(1010.0, "told")
    assert bench.wait(9.999).admit() == Hold(1010.0, "told")
    assert isinstance(bench.wait(0.001).admit(), Permit)


def test_a_hold_only_grows():
    bench = Bench()
    bench.governor.hold("a", 1010.0)
    bench.governor.hold("a", 1005.0)
    assert bench.admit() == Hold(1010.0, "told")
    bench.governor.hold("a", 1020.0)
    assert bench.admit() == Hold(1020.0, "told")


def test_after_its_hold_a_target_costs_one_look_again():
    bench = Bench()
    bench.governor.hold("a", 1010.0)
    bench.wait(10.0).one()
    assert not bench.gate().gated


def test_a_hold_holds_probes_too():
    bench = Bench().trip()
    bench.governor.hold("a", bench.now + 100.0)
    assert bench.wait(50.0).admit() == Hold(1100.0, "told")
    assert isinstance(bench.wait(50.0).admit(), Permit)


# Rate ---------------------------------------------------------------------------------------------------------


def test_a_told_wait_holds_the_whole_target_and_begins_a_pace():
    bench = Bench().many(10)
    bench.one(slowed(3.0))
    assert bench.admit() == Hold(1003.0, "told")
    assert bench.events() == [("paced", "a")]
    assert bench.governor.pace("a") == pytest.approx(0.7 * 10 / 3)
    bench.wait(3.0).permit()
    until = bench.admit().until
    assert bench.admit() == Hold(until, "pace")
    assert until == pytest.approx(1003.0 + 3 / 7)


def test_without_a_told_wait_one_interval_of_the_pace_is_waited():
    bench = Bench().many(10)
    bench.one(SLOWED)
    assert bench.admit().until == pytest.approx(1000.0 + 1 / 7)


def test_a_zero_wait_is_no_wait_told():
    bench = Bench().many(10)
    bench.one(slowed(0.0))
    assert bench.admit().until == pytest.approx(1000.0 + 1 / 7)


def test_where_nothing_was_granted_the_wait_told_is_the_first_guess():
    assert Bench().one(slowed(10.0)).governor.pace("a") == pytest.approx(0.07)
    assert Bench().one(SLOWED).governor.pace("a") == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("gap", "told", "pace"),
    [
        pytest.param(0.0, 0.0, 20, id="in this second"),
        pytest.param(1.0, 0.0, 20, id="in the last second"),
        pytest.param(2.0, 0.0, 1, id="long ago"),
        pytest.param(4.0, 10.0, 2, id="over the wait told"),
        pytest.param(20.0, 10.0, 0.1, id="before the wait told"),
    ],
)
def test_the_first_guess_is_what_was_granted_over_the_wait_told(gap, told, pace):
    bench = Bench().many(20).wait(gap)
    assert bench.one(slowed(told)).governor.pace("a") == pytest.approx(0.7 * pace)


def test_the_better_of_the_last_two_seconds_counts():
    bench = Bench().many(20).wait(1.0).many(3)
    assert bench.one(SLOWED).governor.pace("a") == pytest.approx(14.0)
    bench = Bench().many(20).wait(1.0).many(30).wait(1.0).many(3)
    assert bench.one(SLOWED).governor.pace("a") == pytest.approx(21.0)
    bench = Bench().many(20).wait(2.0).many(3)
    assert bench.one(SLOWED).governor.pace("a") == pytest.approx(2.1)


def test_pages_that_do_not_exist_were_granted_too():
    assert Bench().many(20, NOT_FOUND).one(SLOWED).governor.pace("a") == pytest.approx(14.0)


def test_the_refusals_of_one_flight_cut_once_but_a_longer_wait_still_counts():
    bench = Bench().many(10)
    flight = [bench.permit() for _ in range(8)]
    bench.wait(0.1)
    for wait, permit in zip((1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 5.0, 1.0), flight, strict=True):
        bench.report(permit, slowed(wait))
    assert bench.governor.pace("a") == pytest.approx(7.0)
    assert bench.admit() == Hold(1005.1, "told")


def test_a_late_refusal_without_a_told_wait_holds_nothing():
    bench = Bench().many(10)
    flight = [bench.permit() for _ in range(2)]
    bench.report(flight[0], SLOWED)
    until = bench.admit().until
    bench.wait(5.0)
    bench.report(flight[1], SLOWED)
    assert until < bench.now
    assert isinstance(bench.admit(), Permit)


def test_a_second_refusal_after_the_cut_cuts_again():
    bench = Bench().many(10).one(slowed(1.0))
    pace = bench.governor.pace("a")
    bench.wait(1.0).one(slowed(1.0))
    assert bench.governor.pace("a") == pytest.approx(0.7 * pace)


def test_a_pace_is_forgotten_after_ten_quiet_minutes():
    bench = Bench().many(10).one(slowed(1.0)).wait(1.0).one()
    bench.wait(601.0).one()
    assert bench.governor.pace("a") is None
    assert not bench.gate().gated


def test_a_longer_wait_than_the_cap_gives_the_target_up_until_then():
    bench = Bench().one(slowed(301.0))
    assert bench.admit() == bench.peek() == GivenUp("retry_after_too_long", 1301.0)
    assert bench.governor.given_up("a", bench.now) == GivenUp("retry_after_too_long", 1301.0)
    assert bench.events() == [("target_given_up", "a")]
    assert isinstance(bench.admit("b"), Permit)


def test_a_wait_as_long_as_the_cap_is_waited():
    assert Bench().one(slowed(300.0)).admit() == Hold(1300.0, "told")


@pytest.mark.parametrize("wait", [5.0, 5000.0])
def test_a_sessions_own_limit_slows_the_target_and_holds_and_ends_nothing(wait):
    bench = Bench().many(10).one(replace(SESSION_RATE, wait=wait))
    assert bench.governor.pace("a") == pytest.approx(7.0)
    assert isinstance(bench.admit(), Permit)


def test_without_pacing_a_refusal_holds_and_nothing_is_paced():
    bench = Bench(pacing_enabled=False).many(10).one(SLOWED)
    assert bench.admit() == Hold(1002.0, "told")
    bench.wait(2.0).one(slowed(7.0))
    assert bench.admit() == Hold(1009.0, "told")
    assert bench.governor.pace("a") is None
    assert not bench.wait(7.0).one().gate().gated


def test_answers_of_a_paced_target_are_counted_for_its_limit():
    bench = Bench().many(10).one(slowed(1.0)).wait(1.0)
    bench.one().wait(1.0).one(NOT_FOUND)
    assert bench.gate().pacer._granted == 2


# The circuit of a target --------------------------------------------------------------------------------------


def test_an_open_circuit_says_when_to_ask_again():
    bench = Bench().trip()
    assert bench.admit() == bench.peek() == Hold(1030.0, "circuit")
    assert bench.events() == [("circuit_opened", "a")]
    assert isinstance(bench.admit("b"), Permit)


def test_the_event_of_an_opening_says_until_when():
    bench = Bench().trip()
    (event,) = bench.governor.take_events()
    assert (event.kind, event.target, event.now, event.until) == ("circuit_opened", "a", 1000.0, 1030.0)
    assert bench.governor.take_events() == []


def test_one_probe_goes_and_the_others_wait_for_it():
    bench = Bench().trip().wait(30.0)
    bench.permit(lease=40.0)
    assert bench.admit() == Hold(1070.0, "probe")
    assert isinstance(bench.wait(40.0).admit(), Permit), "a lost probe is taken back"


def test_a_way_through_all_its_states_is_told():
    bench = Bench().trip().half_open().one(TIMEOUT)
    bench.recovering().many(5, UNAVAILABLE, step=2.0)
    bench.recovering().wait(60.0).one()
    assert [kind for kind, _ in bench.events()] == [
        "circuit_opened",
        "circuit_half_opened",
        "circuit_opened",
        "circuit_half_opened",
        "circuit_recovering",
        "circuit_opened",
        "circuit_half_opened",
        "circuit_recovering",
        "circuit_closed",
    ]
    assert not bench.gate().gated


def test_a_recovering_target_holds_what_is_more_than_its_ramp():
    bench = Bench().trip().recovering()
    bench.permit()
    assert bench.admit() == Hold(pytest.approx(bench.now + 1.0), "recovering")


@pytest.mark.parametrize(
    ("seen", "rate"),
    [
        pytest.param(200, 2.0, id="busy: a tenth of what was usual"),
        pytest.param(15, 1.0, id="hardly seen: one a second"),
    ],
)
def test_at_what_pace_a_target_comes_back(seen, rate):
    bench = Bench().many(seen, step=0.05).trip().recovering().one()
    assert bench.admit() == Hold(pytest.approx(bench.now + 1.0 / rate), "recovering")


def test_a_target_that_has_recovered_begins_at_the_pace_of_its_recovery():
    bench = Bench().many(200, step=0.05).trip().recovering()
    begin = bench.now
    for _ in range(2000):
        answer = bench.admit()
        if bench.gate().circuit.state is State.CLOSED:
            break
        if isinstance(answer, Permit):
            bench.report(answer, OK)
        else:
            bench.now = answer.until
    assert bench.now == pytest.approx(begin + 60.0, abs=0.1)
    assert bench.governor.pace("a") == pytest.approx(0.7 * 19.0, rel=0.05)
    assert bench.events()[-2:] == [("paced", "a"), ("circuit_closed", "a")]


def test_a_target_that_was_paced_before_it_opened_keeps_its_pace():
    bench = Bench().many(200, step=0.05).one(slowed(1.0)).wait(1.0)
    bench.many(5, UNAVAILABLE, step=0.2)
    pacer = bench.gate().pacer
    bench.recovering().wait(60.0).one()
    assert bench.gate().circuit.state is State.CLOSED
    assert bench.gate().pacer is pacer


@pytest.mark.parametrize(("pacing", "answers"), [(False, 200), (True, 15)], ids=["no pacing", "too little seen"])
def test_a_target_that_has_recovered_may_have_no_pace(pacing, answers):
    bench = Bench(pacing_enabled=pacing).many(answers, step=0.05).trip().recovering()
    for _ in range(answers):
        bench.now = bench.gate().circuit._free_at
        bench.one()
    bench.now = bench.gate().circuit.since + 60.0
    bench.one()
    assert bench.gate().circuit.state is State.CLOSED
    assert not bench.gate().gated


# Overload -----------------------------------------------------------------------------------------------------


def test_where_a_quarter_says_unavailable_a_slower_pace_is_tried():
    bench = Bench().many(30)
    bench.many(4, UNAVAILABLE).one().many(4, UNAVAILABLE).one()
    bench.many(2, UNAVAILABLE)
    assert bench.governor.pace("a") is None, "ten of 42"
    bench.one(UNAVAILABLE)
    assert bench.governor.pace("a") == pytest.approx(0.7 * 32)
    assert bench.events() == [("paced", "a")]
    assert isinstance(bench.admit(), Permit), "nothing was told: nothing is held"


@pytest.mark.parametrize("outcome", [TIMEOUT, PROXY_DOWN, NO_NETWORK], ids=lambda outcome: outcome.reason)
def test_other_failures_say_nothing_of_the_pace(outcome):
    bench = Bench(circuit_consecutive=100).many(30).many(12, outcome)
    assert bench.governor.pace("a") is None


def test_without_pacing_nothing_is_tried():
    bench = Bench(pacing_enabled=False, circuit_consecutive=100).many(30).many(15, UNAVAILABLE)
    assert bench.gate().pacer is None


def test_a_target_that_opens_is_not_slowed_down_but_left_alone():
    assert Bench().trip().governor.pace("a") is None
    bench = Bench(circuit_consecutive=100, circuit_failure_ratio=0.25).many(15).many(5, UNAVAILABLE)
    assert bench.admit().reason == "circuit"
    assert bench.governor.pace("a") is None


def on_trial():
    bench = Bench(circuit_consecutive=100).many(30).many(11, UNAVAILABLE)
    assert not bench.gate().pacer.is_sure
    return bench


def test_a_trial_that_helps_goes_on():
    bench = on_trial()
    for _ in range(6):
        for _ in range(25):
            bench.now = bench.gate().pacer.free_at()
            bench.one()
        pace = bench.governor.pace("a")
        bench.now = bench.gate().pacer.free_at()
        bench.one(UNAVAILABLE)
        assert bench.governor.pace("a") < pace
    assert bench.events() == [("paced", "a")]


def test_a_trial_that_does_not_help_ends_and_is_not_begun_again_for_a_window():
    bench = on_trial()
    for _ in range(3):
        assert bench.governor.pace("a") is not None
        bench.wait(1.0).one(UNAVAILABLE)
    assert bench.governor.pace("a") is None
    end = bench.now
    while bench.now < end + 59.0:
        bench.wait(1.0).many(2).one(UNAVAILABLE)
        assert bench.governor.pace("a") is None
    assert not bench.gate().gated
    bench.wait(1.0).many(2).one(UNAVAILABLE)
    assert bench.governor.pace("a") is not None


def test_a_few_failures_of_many_do_not_slow_a_trial_down():
    bench = on_trial()
    bench.wait(100.0)
    bench.gate().pacer._grown = 20.0
    bench.many(39, step=1.0)
    pace = bench.governor.pace("a")
    bench.wait(1.0).one(UNAVAILABLE)
    assert bench.governor.pace("a") == pace, "one of forty"
    bench.wait(1.0).one(UNAVAILABLE).wait(1.0).one(UNAVAILABLE)
    assert bench.governor.pace("a") < pace, "three of 42 are more than a twentieth"


def test_a_limit_that_is_named_ends_the_trial_and_stays():
    bench = on_trial()
    bench.wait(1.0).one(slowed(1.0))
    pacer = bench.gate().pacer
    assert pacer.is_sure
    for _ in range(5):
        bench.wait(2.0).one(UNAVAILABLE)
    assert bench.gate().pacer is pacer


def test_a_relapse_remembers_what_the_target_managed():
    bench = Bench().many(200, step=0.05).trip()
    circuit = bench.gate().circuit
    assert circuit.usual_rate == pytest.approx(20.0)
    bench.wait(100.0).recovering()
    for _ in range(120):
        bench.now = max(bench.now, circuit._free_at)
        bench.one()
    bench.now = circuit._free_at
    for _ in range(40):
        if circuit.state is State.RECOVERING:
            bench.now = max(bench.now, circuit._free_at)
            bench.one(UNAVAILABLE)
    assert 4.0 < circuit.usual_rate < 10.0


@pytest.mark.parametrize("wait", [0.0, 500.0])
def test_a_relapse_that_saw_too_little_remembers_what_was_usual(wait):
    bench = Bench().many(200, step=0.05).trip().wait(wait).recovering().many(5, UNAVAILABLE, step=5.0)
    assert bench.gate().circuit.state is State.OPEN
    assert bench.gate().circuit.usual_rate == pytest.approx(20.0)


def test_a_failed_probe_does_not_forget_what_was_usual():
    bench = Bench().many(200, step=0.05).trip().wait(100.0).half_open().one(UNAVAILABLE)
    assert bench.gate().circuit.usual_rate == pytest.approx(20.0)


@pytest.mark.parametrize(("earlier", "opens"), [(100, False), (0, True)])
def test_earlier_good_answers_keep_a_blip_from_opening_it(earlier, opens):
    bench = Bench().many(earlier)
    for _ in range(4):
        bench.many(4, UNAVAILABLE).one()
    bench.one(UNAVAILABLE)
    assert isinstance(bench.admit(), Hold) is opens


def test_earlier_good_answers_count_only_for_the_window():
    bench = Bench().many(100).wait(70.0)
    for _ in range(4):
        bench.many(4, UNAVAILABLE).one()
    bench.one().one(UNAVAILABLE)
    assert bench.gate().circuit.failure_ratio(bench.now) > 0.5


def test_a_slow_answer_from_before_the_opening_does_not_close_it():
    bench = Bench()
    slow = bench.permit()
    bench.trip().wait(30.0)
    bench.permit()
    bench.report(slow, OK)
    assert isinstance(bench.admit(), Hold)
    assert bench.gate().circuit.state is State.HALF_OPEN


@pytest.mark.parametrize("outcome", [NOT_FOUND, SLOWED, OK, FORBIDDEN], ids=lambda outcome: outcome.reason)
def test_no_amount_of_these_opens_a_circuit(outcome):
    bench = Bench(pacing_enabled=False, rate_backoff_base=0.1)
    for _ in range(200):
        bench.wait(0.2).one(outcome, fresh=False)
    assert bench.gate().circuit is None


def test_refused_fresh_sessions_open_it():
    assert Bench().many(20, REFUSED).admit().reason == "circuit"


@pytest.mark.parametrize("first", ["report", "cancel"])
def test_a_permit_ends_once(first):
    bench = Bench(circuit_consecutive=2)
    permit = bench.permit()
    if first == "cancel":
        bench.governor.cancel(permit, bench.now)
    else:
        bench.report(permit, UNAVAILABLE)
    bench.report(permit, UNAVAILABLE)
    bench.report(permit, SLOWED)
    bench.governor.cancel(permit, bench.now)
    assert isinstance(bench.admit(), Permit)


def test_a_cancelled_probe_gives_its_place_back_and_closes_nothing():
    bench = Bench().trip().wait(30.0)
    for _ in range(2):
        bench.governor.cancel(bench.permit(), bench.now)
    assert bench.gate().circuit.state is State.HALF_OPEN
    bench.governor.cancel(bench.permit(), bench.now)
    assert bench.admit() == Hold(1060.0, "circuit")


def test_a_report_for_a_forgotten_target_is_taken():
    bench = Bench()
    permit, other = bench.permit(), bench.permit()
    bench.wait(601.0)
    assert bench.governor.evict(bench.now) == 1
    bench.governor.cancel(other, bench.now)
    assert len(bench.governor) == 0
    bench.report(permit, UNAVAILABLE)
    assert bench.gate().circuit is not None


# Given up -----------------------------------------------------------------------------------------------------


def test_a_target_that_is_gone_for_too_long_is_given_up():
    bench = Bench().trip()
    for _ in range(40):
        hold = bench.admit()
        if isinstance(hold, GivenUp):
            break
        bench.now = hold.until
        answer = bench.admit()
        if isinstance(answer, Permit):
            bench.report(answer, TIMEOUT)
    assert hold == GivenUp("circuit_open")
    assert bench.now == 1900.0, "the last hold ends when it is given up, not when it would have cooled"
    assert bench.events()[-1] == ("target_given_up", "a")


def test_with_no_patience_it_is_given_up_as_soon_as_it_opens():
    bench = Bench(target_give_up=0.0).trip()
    assert bench.events() == [("circuit_opened", "a"), ("target_given_up", "a")]
    assert bench.admit() == GivenUp("circuit_open")


def test_a_probe_that_is_out_is_waited_for():
    bench = Bench(target_give_up=31.0).trip().wait(30.0)
    probe = bench.permit()
    bench.wait(100.0)
    assert bench.admit().reason == "probe"
    bench.report(probe, OK)
    assert bench.governor.given_up("a", bench.now) is None
    assert isinstance(bench.admit(), Permit)


def test_a_probe_that_fails_too_late_ends_it():
    bench = Bench(target_give_up=31.0).trip().wait(30.0)
    probe = bench.permit()
    bench.wait(100.0)
    bench.report(probe, TIMEOUT)
    assert bench.admit() == GivenUp("circuit_open")


def test_one_that_nobody_asked_for_is_probed_before_it_is_given_up():
    bench = Bench().trip().wait(5000.0)
    assert bench.governor.given_up("a", bench.now) is None
    bench.one(UNAVAILABLE)
    assert bench.admit() == GivenUp("circuit_open")


def test_a_relapse_begins_the_time_anew():
    bench = Bench(target_give_up=100.0).trip().wait(95.0).one(OK)
    bench.many(5, UNAVAILABLE, step=2.0)
    assert bench.wait(59.0).admit().reason == "circuit"


def test_asking_whether_it_is_given_up_gives_it_up():
    bench = Bench(target_give_up=20.0).trip().wait(20.0)
    assert bench.governor.given_up("a", bench.now) == GivenUp("circuit_open")


def test_the_first_reason_to_give_up_stands():
    bench = Bench()
    bench.governor.give_up("a", "retry_after_too_long", bench.now, 2000.0)
    bench.governor.give_up("a", "circuit_open", bench.now)
    assert bench.admit() == GivenUp("retry_after_too_long", 2000.0)
    assert bench.events() == [("target_given_up", "a")]


# Endpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "event"), [("circuit_open", "endpoint_given_up"), ("proxy_refused", "endpoint_refused")]
)
def test_an_endpoint_that_is_given_up_stands_before_every_target_behind_it(reason, event):
    bench = Bench().one(OK, "a")
    bench.governor.give_up(GATE, reason, bench.now, endpoint=True)
    assert bench.admit("a", endpoint=GATE) == bench.peek("b", GATE) == GivenUp(reason)
    assert isinstance(bench.admit("a"), Permit), "another way is free"
    assert bench.events() == [(event, GATE)]


def test_a_proxy_that_fails_holds_every_target_behind_it_and_charges_none():
    bench = Bench()
    for target in "abcde":
        bench.one(PROXY_DOWN, target, endpoint=GATE)
    assert bench.admit("f", endpoint=GATE) == bench.peek("f", GATE) == Hold(1030.0, "circuit")
    assert bench.admit("a", endpoint=GATE) == bench.peek("a", GATE) == Hold(1030.0, "circuit")
    assert isinstance(bench.admit("a"), Permit), "another way is free"
    assert bench.events() == [("circuit_opened", GATE)]
    assert bench.gate("a").circuit is None


def test_a_proxy_comes_back_with_one_probe_and_a_ramp():
    bench = Bench().trip("a", PROXY_DOWN, endpoint=GATE).wait(30.0)
    probe = bench.permit("a", endpoint=GATE)
    assert bench.admit("b", endpoint=GATE).reason == "probe"
    bench.report(probe, UNAVAILABLE)
    assert bench.via().circuit.state is State.RECOVERING, "a bad answer of the target came through"
    bench.permit("b", endpoint=GATE)
    assert bench.admit("a", endpoint=GATE).reason == "recovering"
    bench.wait(60.0).permit("a", endpoint=GATE)
    assert bench.events()[-1] == ("circuit_closed", GATE)
    assert not bench.via().gated


@pytest.mark.parametrize("outcome", [TIMEOUT, PROXY_AUTH, NO_NETWORK], ids=lambda outcome: outcome.reason)
def test_a_probe_of_a_proxy_that_proves_nothing_does_not_close_it(outcome):
    bench = Bench().trip("a", PROXY_DOWN, endpoint=GATE).wait(30.0)
    bench.one(outcome, "b", endpoint=GATE)
    assert bench.via().circuit.state is State.HALF_OPEN


def test_targets_and_proxies_of_the_same_name_are_two():
    bench = Bench().trip(GATE, PROXY_DOWN, endpoint=GATE)
    assert isinstance(bench.admit(GATE), Permit)
    bench.trip(GATE)
    assert bench.governor.view(GATE, bench.now).state == "open"


def test_good_answers_through_a_proxy_keep_a_blip_from_opening_it():
    bench = Bench()
    bench.many(100, endpoint=GATE)
    for _ in range(20):
        bench.many(4, PROXY_DOWN, endpoint=GATE).one(endpoint=GATE)
    assert isinstance(bench.admit(endpoint=GATE), Permit)


def test_a_proxy_that_is_gone_for_too_long_is_given_up():
    bench = Bench(target_give_up=20.0).trip("a", PROXY_DOWN, endpoint=GATE).wait(20.0)
    assert bench.admit("b", endpoint=GATE) == GivenUp("circuit_open")
    assert bench.governor.given_up("b", bench.now, GATE) == GivenUp("circuit_open")
    assert bench.governor.given_up("b", bench.now) is None
    assert bench.governor.given_up("b", bench.now, "other") is None
    assert bench.events()[-1] == ("endpoint_given_up", GATE)


def test_three_terminal_refusals_in_a_row_mean_that_the_plan_is_dead():
    bench = Bench().many(2, PROXY_AUTH, endpoint=GATE)
    bench.one(endpoint=GATE).many(2, PROXY_AUTH, endpoint=GATE)
    bench.one(NO_NETWORK, endpoint=GATE).one(TIMEOUT, endpoint=GATE)
    assert isinstance(bench.admit(endpoint=GATE), Permit)
    bench.one(PROXY_AUTH, endpoint=GATE)
    assert bench.admit("b", endpoint=GATE) == GivenUp("proxy_refused")
    assert bench.events() == [("endpoint_refused", GATE)]
    late = Permit("a", GATE, retry=False, sent_at=1.0, lease_until=9.0, generation=0, endpoint_generation=0)
    bench.report(late, PROXY_AUTH)
    assert bench.events() == []


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(replace(PROXY_AUTH, reason="proxy_policy"), id="about-a-target"),
        pytest.param(replace(PROXY_AUTH, reason="proxy_config"), id="about-how-it-was-asked"),
        pytest.param(replace(PROXY_AUTH, weak=True), id="inside-tls"),
    ],
)
def test_what_need_not_hold_for_other_targets_ends_no_plan(outcome):
    bench = Bench().many(9, outcome, endpoint=GATE)
    assert isinstance(bench.admit("b", endpoint=GATE), Permit)


def test_faults_of_our_own_are_no_refusals_of_the_proxy():
    bug = Outcome(OutcomeClass.TERMINAL, "error", Blame.LOCAL)
    assert isinstance(Bench().many(5, bug, endpoint=GATE).admit(endpoint=GATE), Permit)


def test_a_proxy_that_is_too_busy_is_held_and_the_target_is_not():
    bench = Bench().one(replace(PROXY_RATE, wait=7.0), endpoint=GATE)
    assert bench.admit("b", endpoint=GATE) == Hold(1007.0, "told")
    assert isinstance(bench.admit("a"), Permit)
    assert bench.governor.pace("a") is None
    bench.wait(7.0).one(PROXY_RATE, endpoint=GATE)
    assert bench.admit("b", endpoint=GATE) == Hold(1009.0, "told")
    assert bench.via().pacer is None
    assert bench.wait(2.0).one(endpoint=GATE).via().gated is False


def test_a_proxy_that_tells_us_to_stay_away_is_given_up_and_the_target_is_not():
    bench = Bench().one(replace(PROXY_RATE, wait=301.0), endpoint=GATE)
    assert bench.admit("b", endpoint=GATE) == GivenUp("retry_after_too_long", 1301.0)
    assert isinstance(bench.admit("a"), Permit)
    assert bench.events() == [("endpoint_given_up", GATE)]


def test_a_proxy_that_nobody_named_slows_the_target():
    assert Bench().one(replace(PROXY_RATE, wait=7.0)).admit() == Hold(1007.0, "told")


# Own network --------------------------------------------------------------------------------------------------


def cut_off(targets=12, **own):
    bench = Bench(**own)
    for number in range(targets):
        bench.wait(0.01).one(OK, f"t{number}")
    for number in range(targets):
        bench.wait(0.01)
        answer = bench.admit(f"t{number}")
        if isinstance(answer, Permit):
            bench.report(answer, NO_NAME)
    return bench


def test_in_an_outage_of_our_own_one_canary_a_second_goes():
    bench = cut_off()
    assert bench.governor.own_outage
    bench.wait(1.0)
    went = []
    for step in range(100):
        bench.wait(0.1)
        answer = bench.admit(f"t{step % 12}")
        if isinstance(answer, Permit):
            went.append(bench.now)
            bench.report(answer, NO_NAME)
        else:
            assert answer == bench.peek(f"t{step % 12}") == bench.peek("another") == Hold(answer.until, "outage")
    assert 9 <= len(went) <= 10
    assert bench.events() == []


def test_in_an_outage_of_our_own_nothing_opens_and_no_budget_is_spent():
    bench = cut_off(budget_min_retries=0, budget_ratio=0.0)
    for _ in range(60):
        bench.wait(1.0).one(NO_NAME, "t0")
    assert bench.gate("t0").circuit is None or bench.gate("t0").circuit.state is State.CLOSED
    assert bench.governor.reserve("t0", Charge.TRANSIENT, bench.now) is not None
    assert bench.governor.still("t0", bench.now)
    assert not bench.governor.tail_open("t0", bench.now)


def test_the_first_answer_ends_an_outage_of_our_own():
    bench = cut_off(budget_min_retries=0, budget_ratio=0.0).wait(5.0).one(UNAVAILABLE, "t5")
    assert not bench.governor.own_outage
    assert all(isinstance(bench.admit(f"t{number}"), Permit) for number in range(12))
    assert bench.governor.reserve("t0", Charge.TRANSIENT, bench.now) is None
    assert not bench.governor.still("t0", bench.now)


def test_with_few_targets_every_one_has_its_own_fault():
    bench = cut_off(targets=3)
    assert not bench.governor.own_outage
    assert bench.many(4, NO_NAME, "t0").admit("t0").reason == "circuit"


# Budget -------------------------------------------------------------------------------------------------------


def reserved(bench, charge, most=1000, target="a", **how):
    """How many retries are granted in a row, at most *most*."""
    granted = 0
    while granted < most and bench.governor.reserve(target, charge, bench.now, **how) is not None:
        granted += 1
    return granted


@pytest.mark.parametrize(
    ("charge", "firsts", "granted"),
    [
        (Charge.TRANSIENT, 0, 10),
        (Charge.TRANSIENT, 90, 10),
        (Charge.TRANSIENT, 250, 25),
        (Charge.IDENTITY, 0, 10),
        (Charge.IDENTITY, 250, 250),
        (Charge.PROXY, 250, 25),
        ("transient", 250, 25),
        ("identity", 250, 250),
    ],
)
def test_each_charge_has_its_ratio_and_a_floor(charge, firsts, granted):
    assert reserved(Bench().many(firsts), charge) == granted


def test_a_paced_retry_is_free():
    assert reserved(Bench(budget_min_retries=0), Charge.PACED) == 1000
    assert reserved(Bench(budget_min_retries=0), "paced") == 1000


def test_transient_and_identity_retries_are_charged_apart():
    bench = Bench()
    assert (reserved(bench, Charge.TRANSIENT), reserved(bench, Charge.IDENTITY)) == (10, 10)


def test_the_proxys_fault_is_charged_to_the_proxy_alone():
    bench = Bench().many(30, endpoint=GATE)
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 10
    assert reserved(bench, Charge.TRANSIENT) == 10
    bench = Bench(budget_global_min_retries=1, budget_global_ratio=0.0)
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 10
    assert reserved(bench, Charge.PROXY) == 1


def test_first_attempts_earn_for_the_proxy_too_and_retries_for_nobody():
    bench = Bench().many(200, endpoint=GATE)
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 20
    bench = Bench().many(200, endpoint=GATE, retry=True)
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 10
    assert reserved(bench, Charge.TRANSIENT) == 10


def test_all_targets_together_keep_the_budget_of_the_crawl():
    bench = Bench()
    for number in range(20):
        bench.many(5, OK, f"t{number}")
    granted = sum(reserved(bench, Charge.TRANSIENT, target=f"t{number}") for number in range(20))
    assert granted == 60, "the floor of the crawl: a fifth of 100 is less"


def test_what_the_crawl_denies_is_not_charged_to_the_target():
    bench = Bench(budget_global_min_retries=3, budget_global_ratio=0.0)
    assert reserved(bench, Charge.TRANSIENT, target="a") == 3
    assert reserved(bench, Charge.TRANSIENT, target="b") == 0
    assert reserved(bench, Charge.IDENTITY, target="b") == 10


def test_what_is_given_back_can_be_had_again():
    bench = Bench()
    last = [bench.governor.reserve("a", Charge.TRANSIENT, bench.now) for _ in range(10)][-1]
    assert reserved(bench, Charge.TRANSIENT) == 0
    bench.governor.refund(last, bench.now)
    bench.governor.refund(last, bench.now)
    assert reserved(bench, Charge.TRANSIENT) == 1


def test_an_exhausted_budget_is_told_once_until_there_is_some_again():
    bench = Bench()
    for _ in range(3):
        reserved(bench, Charge.TRANSIENT)
        reserved(bench, Charge.TRANSIENT)
    assert bench.events() == [("budget_exhausted", "a")]
    bench.wait(70.0)
    reserved(bench, Charge.TRANSIENT)
    assert bench.events() == [("budget_exhausted", "a")]
    reserved(bench, Charge.PROXY, endpoint=GATE)
    assert bench.events() == [("budget_exhausted", GATE)]


@pytest.mark.parametrize("how", [{}, {"endpoint": GATE}], ids=["direct", "through a proxy"])
def test_what_was_never_sent_has_earned_nothing(how):
    bench = Bench(budget_min_retries=0, budget_global_min_retries=0, budget_global_ratio=0.1)
    for _ in range(100):
        bench.governor.cancel(bench.permit(**how), bench.now)
    assert reserved(bench, Charge.TRANSIENT) == 0
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 0
    bench.many(9, **how)
    assert reserved(bench, Charge.TRANSIENT) == 0
    bench.many(1, **how)
    assert reserved(bench, Charge.TRANSIENT) == 1


def test_a_cancelled_retry_takes_no_credit_away():
    bench = Bench(budget_min_retries=0).many(10, endpoint=GATE)
    bench.governor.cancel(bench.permit(retry=True, endpoint=GATE), bench.now)
    assert reserved(bench, Charge.TRANSIENT) == 1
    assert reserved(bench, Charge.PROXY, endpoint=GATE) == 1


def test_a_credit_is_taken_back_where_it_was_earned():
    bench = Bench(budget_min_retries=0)
    early = bench.permit()
    bench.wait(30.0).many(9)
    bench.wait(20.0)
    bench.governor.cancel(early, bench.now)
    assert reserved(bench, Charge.TRANSIENT) == 0
    bench.many(1)
    assert reserved(bench, Charge.TRANSIENT) == 1


# Waiting for budget -------------------------------------------------------------------------------------------


def test_the_clock_of_those_who_wait_for_budget_stands_still_while_nothing_can_go():
    bench = Bench()
    governor = bench.governor
    bench.one()
    assert not governor.still("a", bench.now)
    governor.hold("a", 1010.0)
    assert governor.still("a", 1009.0)
    assert not governor.still("a", 1010.0)
    bench.now = 1010.0
    bench.trip()
    assert governor.still("a", bench.now)
    assert not governor.still("b", bench.now)
    bench.recovering()
    assert governor.still("a", bench.now + 59.0)
    assert not governor.still("a", bench.now + 60.0), "time alone ends a recovery, also when nobody asks for a permit"


def test_it_stands_still_while_the_proxy_is_down():
    bench = Bench().trip("a", PROXY_DOWN, endpoint=GATE)
    assert bench.governor.still("a", bench.now, GATE)
    assert bench.governor.still("unknown", bench.now, GATE)
    assert not bench.governor.still("a", bench.now)
    assert not bench.governor.still("a", bench.now, "other")
    assert not bench.governor.tail_open("a", bench.now, GATE)
    assert bench.governor.tail_open("a", bench.now)
    assert bench.governor.tail_open("a", bench.now + 30.0, GATE), "it may be the proxy's probe"


def test_the_tail_is_open_while_the_target_is_well():
    bench = Bench()
    governor = bench.governor
    assert governor.tail_open("a", bench.now)
    bench.many(20).many(4, UNAVAILABLE)
    assert governor.tail_open("a", bench.now)
    governor.hold("a", bench.now + 5.0)
    assert not governor.tail_open("a", bench.now)
    assert governor.tail_open("a", bench.now + 5.0)


def test_the_tail_is_shut_while_too_many_answers_fail():
    bench = Bench(circuit_failure_ratio=0.3, circuit_consecutive=100).many(12)
    bench.many(7, UNAVAILABLE)
    assert bench.governor.tail_open("a", bench.now), "too few to tell"
    bench.one()
    assert bench.gate().circuit.state is State.CLOSED
    assert not bench.governor.tail_open("a", bench.now)


def test_where_only_retries_without_budget_are_left_one_of_them_may_be_the_probe():
    bench = Bench().trip()
    assert not bench.governor.tail_open("a", bench.now)
    bench.wait(30.0)
    assert bench.governor.tail_open("a", bench.now)
    bench.permit(retry=True)
    assert not bench.governor.tail_open("a", bench.now)


def test_no_probe_goes_to_a_held_target():
    bench = Bench().trip()
    bench.governor.hold("a", 1100.0)
    assert not bench.governor.tail_open("a", 1050.0)
    assert bench.governor.tail_open("a", 1100.0)


def test_the_tail_of_a_recovering_target_goes_one_by_one():
    bench = Bench().trip().recovering()
    assert bench.governor.tail_open("a", bench.now)
    bench.permit()
    assert not bench.governor.tail_open("a", bench.now)
    assert bench.governor.tail_open("a", bench.now + 60.0)


def test_a_target_that_is_gone_is_given_up_although_nobody_asks_for_a_permit():
    bench = Bench(target_give_up=20.0).trip()
    bench.events()
    assert bench.governor.still("a", bench.now + 20.0)
    assert bench.events() == [("target_given_up", "a")]


# In transit ---------------------------------------------------------------------------------------------------


def paced(bench):
    return bench.many(10).one(slowed(1.0)).wait(1.0)


def test_what_left_the_queue_counts_until_it_has_asked():
    bench = paced(Bench())
    assert bench.peek() is None
    bench.governor.popped("a", bench.now)
    assert bench.peek() == Hold(bench.now + 0.02, "transit")
    assert isinstance(bench.admit(), Permit)
    assert bench.peek().reason == "pace"


def test_what_never_asks_is_forgotten():
    bench = paced(Bench())
    bench.governor.popped("a", bench.now)
    assert bench.wait(0.99).peek() == Hold(pytest.approx(bench.now + 0.01), "transit")
    assert bench.wait(0.01).peek() is None
    bench.governor.popped("a", bench.now)
    bench.permit()
    assert bench.wait(5.0).peek() is None, "the one that never asked is not counted twice"


@pytest.mark.parametrize("probes", [1, 3])
def test_as_many_are_in_transit_as_probes_may_go(probes):
    bench = Bench(circuit_probes=probes).trip().wait(30.0)
    for _ in range(probes):
        assert bench.peek() is None
        bench.governor.popped("a", bench.now)
    assert bench.peek().reason == "transit"


def test_each_that_asks_frees_its_own_place_in_transit():
    bench = Bench(circuit_probes=3).trip().wait(30.0)
    for _ in range(3):
        bench.governor.popped("a", bench.now)
    bench.permit()
    assert bench.peek().reason == "transit"


def test_a_hold_is_told_before_what_is_in_transit():
    bench = paced(Bench())
    bench.governor.popped("a", bench.now)
    bench.governor.hold("a", bench.now + 5.0)
    assert bench.peek() == Hold(bench.now + 5.0, "told")


def test_what_never_asked_is_not_counted_again_with_the_next_one():
    bench = Bench(circuit_probes=2).trip().wait(30.0)
    bench.governor.popped("a", bench.now)
    bench.wait(2.0)
    bench.governor.popped("a", bench.now)
    assert bench.peek() is None


def test_a_paced_target_has_one_in_transit_however_many_probes_may_go():
    bench = paced(Bench(circuit_probes=3)).many(5, UNAVAILABLE, step=1.0).wait(100.0)
    bench.governor.popped("a", bench.now)
    assert bench.peek().reason == "transit"


def test_a_healthy_target_has_any_number_in_transit():
    bench = Bench().one()
    for _ in range(100):
        bench.governor.popped("a", bench.now)
    assert bench.peek() is None
    assert bench.gate().in_transit == 0


def test_an_unpaced_closed_target_that_is_held_has_any_number_in_transit():
    bench = Bench()
    bench.governor.hold("a", 1010.0)
    for _ in range(3):
        bench.governor.popped("a", 1009.5)
    bench.now = 1010.0
    assert bench.peek() is None


# Looking ------------------------------------------------------------------------------------------------------


def test_a_target_is_healthy_while_few_fail():
    bench = Bench(pacing_enabled=False).many(40)
    healthy = bench.governor.healthy
    assert healthy("a", bench.now)
    bench.many(3, UNAVAILABLE).one().many(3, UNAVAILABLE).one()
    assert healthy("a", bench.now)
    for _ in range(4):
        bench.many(3, UNAVAILABLE).one()
    assert not healthy("a", bench.now)
    assert not healthy("b", bench.now), "nobody knows"
    bench.one(target="b")
    assert healthy("b", bench.now)
    bench.trip("b")
    assert not healthy("b", bench.now)


def test_the_view_of_a_healthy_target():
    view = Bench().one().governor.view("a", 1000.0)
    assert view.state == "closed"
    assert (view.since, view.next_probe, view.gone_since, view.give_up_at) == (None, None, None, None)
    assert (view.hold_until, view.rate, view.failure_ratio, view.given_up) == (None, None, 0.0, None)


def test_the_view_of_a_sick_target():
    bench = Bench().many(100).trip().wait(1.0)
    bench.governor.hold("a", 1005.0)
    view = bench.governor.view("a", bench.now)
    assert view.state == "open"
    assert (view.since, view.next_probe, view.gone_since, view.give_up_at) == (1000.0, 1030.0, 1000.0, 1900.0)
    assert view.hold_until == 1005.0
    assert view.failure_ratio == pytest.approx(5 / 105)
    assert bench.governor.view("a", 1005.0).hold_until is None
    bench.wait(29.0).permit()
    assert bench.governor.view("a", bench.now).next_probe is None


def test_the_view_of_a_paced_and_of_a_given_up_target():
    bench = paced(Bench())
    assert bench.governor.view("a", bench.now).rate == bench.governor.pace("a") == pytest.approx(7.0)
    bench.governor.give_up("a", "circuit_open", bench.now)
    assert bench.governor.view("a", bench.now).given_up == GivenUp("circuit_open")


# Forgetting ---------------------------------------------------------------------------------------------------


def test_targets_that_were_only_ever_well_are_forgotten_with_their_window_a_few_at_a_time():
    bench = Bench()
    for number in range(25):
        bench.one(OK, f"t{number}")
    assert bench.governor.evict(bench.now + 64.9, most=100) == 0
    assert bench.governor.evict(bench.now + 65.0, most=10) == 10
    assert bench.governor.evict(bench.now + 65.0, most=10) == 10
    assert bench.governor.evict(bench.now + 65.0, most=10) == 5
    assert len(bench.governor) == 0
    assert bench.governor.evict(bench.now + 65.0) == 0


def test_a_target_that_has_had_trouble_is_remembered_for_ten_quiet_minutes():
    bench = Bench().one(OK).one(UNAVAILABLE)
    assert bench.governor.evict(bench.now + 599.0) == 0
    assert bench.governor.evict(bench.now + 600.0) == 1


def test_a_target_whose_window_is_longer_than_that_is_remembered_until_it_is_over():
    bench = Bench(budget_window=1200.0).one(OK).one(UNAVAILABLE)
    assert bench.governor.evict(bench.now + 1200.0) == 0
    assert bench.governor.evict(bench.now + 1300.0) == 1


def test_a_target_that_is_still_counted_as_active_is_remembered():
    bench = Bench(budget_window=5.0).one()
    assert bench.governor.evict(bench.now + 30.0) == 0
    assert bench.governor.evict(bench.now + 30.25) == 1


def test_new_targets_push_out_those_that_nothing_is_known_of_any_more():
    bench = Bench()
    for number in range(2000):
        bench.wait(1.0).one(OK, f"t{number}")
    assert 65 <= len(bench.governor) <= 2 * 65 + 1


def test_new_targets_push_out_no_others():
    bench = Bench().one(UNAVAILABLE, "a")
    for number in range(500):
        bench.one(OK, "often").wait(1.0).one(OK, f"t{number}")
    assert bench.gate("a").circuit is not None
    assert bench.governor.evict(bench.now, most=1000) < 65 + 2
    assert bench.gate("often")


def test_a_target_that_was_seen_again_since_it_was_looked_at_stays():
    bench = Bench().one(OK, "a").one(OK, "b")
    assert bench.governor.evict(bench.now, most=1) == 0
    bench.wait(600.0).one(OK, "a").one(OK, "b")
    assert bench.governor.evict(bench.now, most=1) == 0
    assert len(bench.governor) == 2


@pytest.mark.parametrize("state", ["held", "open", "half-open", "given up", "waiting for budget"])
def test_what_has_something_to_say_is_never_forgotten(state):
    bench = Bench().one()
    quiet = 600.0
    if state == "held":
        bench.governor.hold("a", bench.now + 601.0)
    elif state == "given up":
        bench.governor.give_up("a", "circuit_open", bench.now)
    elif state == "waiting for budget":
        bench.wait(300.0)
        bench.governor.reserve("a", Charge.TRANSIENT, bench.now)
        quiet = 599.0
    else:
        bench.trip()
        if state == "half-open":
            bench.wait(30.0).permit(lease=10_000.0)
    assert bench.governor.evict(bench.now + quiet) == 0


def test_a_recovery_that_nobody_watched_to_its_end_is_forgotten():
    bench = Bench().trip().recovering()
    assert bench.governor.evict(bench.now + 600.0) == 1
    assert bench.events()[-1] == ("circuit_closed", "a")


def test_a_pace_is_forgotten_with_its_target():
    bench = paced(Bench()).one()
    assert bench.governor.evict(bench.now + 600.0) == 0
    assert bench.governor.evict(bench.now + 601.0) == 1


def test_the_dice_are_those_that_were_given():
    untils = []
    for _ in range(2):
        governor = Governor(GuardSettings(), Random(5))
        for _ in range(5):
            governor.report(governor.admit("a", 1000.0), UNAVAILABLE, 1000.0)
        untils.append(governor.peek("a", 1000.0).until)
    assert untils[0] == untils[1]
    assert 1030.0 < untils[0] < 1037.5
