from __future__ import annotations

from random import Random

import pytest
from guard_kit import examples
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.guard.circuit import (
    OPEN_JITTER,
    PROBES_WITHOUT_NEWS,
    TRANSITIONS,
    WORSE,
    Circuit,
    Event,
    State,
)
from scrapy_resiproxy.guard.samples import Sample
from scrapy_resiproxy.settings import GuardSettings

LEASE = 210.0
SETTINGS = GuardSettings()


class NoDice:
    def uniform(self, low, high):
        return low


class HighDice:
    def uniform(self, low, high):
        return high


class Bench:
    """A circuit on the bench: virtual time, permits and answers."""

    def __init__(self, rng=None, earlier=0, **own):
        self.settings = GuardSettings(**own)
        self.now = 1000.0
        self.circuit = Circuit(self.settings, rng or NoDice(), self.now, earlier)
        self.events: list[Event] = []

    @property
    def state(self):
        return self.circuit.state

    def note(self, event):
        if event is not None:
            self.events.append(event)
        return event

    def wait(self, seconds):
        return self.until(self.now + seconds)

    def until(self, when):
        self.now = max(self.now, when)
        self.note(self.circuit.tick(self.now))
        return self

    def go(self):
        """One permit, as a governor would give it."""
        permit = object(), self.circuit.generation
        self.circuit.claim(permit[0], self.now + LEASE, self.now)
        return permit

    def answer(self, permit, sample, *, fresh=False):
        return self.note(self.circuit.report(*permit, sample, self.now, fresh=fresh))

    def one(self, sample, *, fresh=False):
        return self.answer(self.go(), sample, fresh=fresh)

    def many(self, samples, step=0.1, fresh=False):
        for sample in samples:
            self.wait(step)
            if self.one(sample, fresh=fresh):
                return self
        return self

    def trip(self, sample=Sample.FAILED):
        self.many([sample] * 20, fresh=sample is Sample.REFUSED)
        assert self.state is State.OPEN
        return self

    def half_open(self):
        self.until(self.circuit.until)
        assert self.state is State.HALF_OPEN
        return self

    def recovering(self):
        self.half_open().one(Sample.OK)
        assert self.state is State.RECOVERING
        return self

    def places(self):
        return self.circuit.places(self.now)


def opened():
    return Bench().trip()


# When it opens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "opens_at"),
    [
        pytest.param("FFFFF", 5, id="five in a row"),
        pytest.param("FFFF", None, id="four in a row"),
        pytest.param("FFFFOFFFF", None, id="a good answer between"),
        pytest.param("FFFFSFNRF", 6, id="what is neither good nor a failure does not count"),
        pytest.param("OF" * 9 + "O", None, id="half of nineteen"),
        pytest.param("OF" * 10, 20, id="half of twenty"),
        pytest.param("OFO" * 10, None, id="a third of thirty"),
        pytest.param("O" * 25 + "OFFF" * 25, 76, id="half of the window in the end"),
        pytest.param("S" * 200, None, id="nothing but 429"),
        pytest.param("N" * 200, None, id="nothing but no news"),
        pytest.param("O" * 200, None, id="nothing but good answers"),
        pytest.param("R" * 200, None, id="worn sessions refused"),
    ],
)
def test_when_it_opens(samples, opens_at):
    letters = {"F": Sample.FAILED, "O": Sample.OK, "S": Sample.SLOWED, "N": Sample.NOTHING, "R": Sample.REFUSED}
    bench = Bench()
    for count, letter in enumerate(samples, start=1):
        bench.wait(0.1)
        bench.one(letters[letter])
        if bench.events:
            assert (bench.events, count) == ([Event.TRIPPED], opens_at)
            return
    assert opens_at is None


@pytest.mark.parametrize(
    ("refused", "good", "worn", "opens"),
    [
        (18, 2, 0, True),
        (17, 3, 0, False),
        (18, 1, 0, False),
        (19, 0, 0, False),
        (20, 0, 0, True),
        (18, 1, 100, False),
    ],
)
def test_it_opens_when_nearly_every_fresh_session_is_refused(refused, good, worn, opens):
    bench = Bench()
    bench.many([Sample.NOTHING] * worn)
    bench.many([Sample.OK] * good, fresh=True)
    bench.many([Sample.REFUSED] * refused, fresh=True)
    assert (bench.state is State.OPEN) is opens


def test_good_answers_on_worn_sessions_do_not_hide_that_fresh_ones_are_refused():
    bench = Bench().many([Sample.OK] * 100)
    bench.many([Sample.REFUSED] * 20, fresh=True)
    assert bench.state is State.OPEN


def test_failures_say_nothing_of_how_many_fresh_sessions_are_refused():
    bench = Bench(circuit_consecutive=100).many([Sample.FAILED, Sample.NOTHING, Sample.SLOWED], fresh=True)
    bench.many([Sample.REFUSED] * 19, fresh=True)
    assert bench.state is State.CLOSED
    bench.one(Sample.REFUSED, fresh=True)
    assert bench.state is State.OPEN


def test_fresh_refusals_do_not_count_as_failures():
    bench = Bench(circuit_min_requests=30).many([Sample.REFUSED] * 29, fresh=True)
    assert bench.circuit.failure_ratio(bench.now) == 0.0
    assert bench.state is State.CLOSED


@pytest.mark.parametrize(
    ("before", "row"),
    [
        pytest.param("O" * 200, 5, id="where nothing else fails"),
        pytest.param("FO" + "O" * 198, 5, id="where hardly anything fails"),
        pytest.param("FOOOOOOOOO" * 20, 8, id="where a tenth fails"),
        pytest.param("FOOOO" * 40, 11, id="where a fifth fails"),
        pytest.param("FFFOOOOOOO" * 20, 14, id="where three tenths fail"),
        pytest.param("FFOOO" * 40, 17, id="where two fifths fail"),
        pytest.param("FFOOO", 8, id="two of so few that they tell little"),
        pytest.param("", 5, id="from the start"),
    ],
)
def test_the_more_fails_by_chance_the_longer_a_row_must_be(before, row):
    letters = {"F": Sample.FAILED, "O": Sample.OK}
    bench = Bench(circuit_min_requests=20).many([letters[letter] for letter in before], step=0.01)
    assert bench.state is State.CLOSED
    bench.many([Sample.FAILED] * (row - 1), step=0.01)
    assert bench.state is State.CLOSED
    bench.one(Sample.FAILED)
    assert bench.events == [Event.TRIPPED]


def test_a_row_longer_than_the_least_number_of_answers_may_be_asked_for():
    bench = Bench(circuit_min_requests=4, circuit_consecutive=6, circuit_failure_ratio=1.0)
    bench.many([Sample.OK] + [Sample.FAILED] * 5)
    assert bench.state is State.CLOSED
    bench.one(Sample.FAILED)
    assert bench.state is State.OPEN


def test_a_row_that_is_older_than_the_window_still_counts():
    bench = Bench().many([Sample.FAILED] * 4, step=100.0)
    assert bench.wait(100.0).one(Sample.FAILED) is Event.TRIPPED


@pytest.mark.parametrize(("earlier", "opens"), [(0, True), (15, False)])
def test_good_answers_from_before_the_first_failure_count(earlier, opens):
    bench = Bench(earlier=earlier)
    bench.many([Sample.FAILED, Sample.FAILED, Sample.OK] * 7)
    assert (bench.state is State.OPEN) is opens


def test_failures_leave_the_window():
    bench = Bench()
    bench.many([Sample.FAILED, Sample.OK] * 9)
    bench.wait(70.0)
    bench.many([Sample.FAILED, Sample.OK] * 9)
    assert bench.state is State.CLOSED
    assert bench.circuit.failure_ratio(bench.now) == 0.0, "too few to tell"
    bench.many([Sample.OK, Sample.OK])
    assert bench.circuit.failure_ratio(bench.now) == 0.45


@examples(60)
@given(st.lists(st.sampled_from([Sample.OK, Sample.FAILED, Sample.SLOWED, Sample.NOTHING]), max_size=80), st.data())
def test_how_fast_the_same_answers_come_makes_no_difference_within_the_window(samples, data):
    trips = []
    for _ in range(2):
        step = data.draw(st.floats(0.0, 55.0 / max(1, len(samples))))
        bench, count = Bench(), 0
        for sample in samples:
            bench.wait(step)
            count += 1
            if bench.one(sample):
                break
        trips.append((bench.state, count))
    assert trips[0] == trips[1]


@pytest.mark.parametrize("sample", [Sample.OK, Sample.SLOWED, Sample.NOTHING])
@examples(20)
@given(steps=st.lists(st.floats(0, 30), max_size=60))
def test_answers_that_are_no_failures_never_open_it(sample, steps):
    bench = Bench()
    for step in steps:
        bench.wait(step).one(sample, fresh=True)
    assert bench.events == []


# While it is open ---------------------------------------------------------------------------------------------


def test_closed_it_lets_any_number_go_and_remembers_none_of_them():
    bench = Bench()
    for _ in range(50):
        bench.go()
    assert bench.places() is None
    assert bench.circuit._leases == {}


def test_open_it_lets_none_go_until_its_time_is_over():
    bench = opened()
    assert bench.places() == 0
    assert bench.circuit.ask_again_at(bench.now) == bench.circuit.until
    bench.wait(bench.circuit.until - bench.now - 0.001)
    assert (bench.state, bench.places()) == (State.OPEN, 0)
    bench.until(bench.circuit.until)
    assert (bench.state, bench.places()) == (State.HALF_OPEN, 1)
    assert bench.events == [Event.TRIPPED, Event.COOLED]


@pytest.mark.parametrize(("rng", "spread"), [(NoDice(), 1.0), (HighDice(), 1.0 + OPEN_JITTER)], ids=["low", "high"])
def test_its_time_doubles_with_every_failed_probe_up_to_the_cap_and_is_spread_upwards(rng, spread):
    bench = Bench(rng).trip()
    lengths = []
    for _ in range(8):
        lengths.append(bench.circuit.until - bench.circuit.since)
        bench.half_open().one(Sample.FAILED)
    assert lengths == pytest.approx([spread * length for length in (30, 60, 120, 240, 480, 600, 600, 600)])


def test_a_cap_below_the_first_doubling_is_kept():
    bench = Bench(circuit_cooldown=30.0, circuit_cooldown_max=30.0).trip()
    for _ in range(4):
        assert bench.circuit.until - bench.circuit.since == pytest.approx(30.0)
        bench.half_open().one(Sample.FAILED)


def test_the_level_stops_where_the_time_is_capped():
    bench = opened()
    for _ in range(30):
        bench.half_open().one(Sample.FAILED)
    assert bench.circuit._level == 6


# Probes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probes", [1, 2, 4])
def test_half_open_it_has_as_many_places_as_probes(probes):
    bench = Bench(circuit_probes=probes).trip().half_open()
    for left in range(probes, 0, -1):
        assert bench.places() == left
        bench.go()
    assert bench.places() == 0
    assert bench.circuit.ask_again_at(bench.now) == bench.now + LEASE


@pytest.mark.parametrize(
    ("opened_by", "sample", "state", "event"),
    [
        (Sample.FAILED, Sample.OK, State.RECOVERING, Event.PROBE_OK),
        (Sample.FAILED, Sample.REFUSED, State.RECOVERING, Event.PROBE_OK),
        (Sample.FAILED, Sample.FAILED, State.OPEN, Event.PROBE_FAILED),
        (Sample.FAILED, Sample.SLOWED, State.OPEN, Event.PROBE_LOST),
        (Sample.FAILED, Sample.NOTHING, State.HALF_OPEN, None),
        (Sample.REFUSED, Sample.OK, State.RECOVERING, Event.PROBE_OK),
        (Sample.REFUSED, Sample.REFUSED, State.OPEN, Event.PROBE_FAILED),
        (Sample.REFUSED, Sample.FAILED, State.OPEN, Event.PROBE_FAILED),
    ],
)
def test_what_a_probe_decides(opened_by, sample, state, event):
    bench = Bench().trip(opened_by).half_open()
    assert bench.one(sample, fresh=True) is event
    assert bench.state is state


def test_a_walled_target_whose_probe_fails_is_still_walled():
    bench = Bench().trip(Sample.REFUSED).half_open()
    bench.one(Sample.FAILED)
    bench.half_open()
    assert bench.one(Sample.REFUSED, fresh=True) is Event.PROBE_FAILED


def test_a_refusal_after_it_closed_is_judged_anew():
    bench = Bench().trip(Sample.REFUSED).recovering().wait(60.0)
    assert bench.state is State.CLOSED
    bench.trip(Sample.FAILED).half_open()
    assert bench.one(Sample.REFUSED, fresh=True) is Event.PROBE_OK


@pytest.mark.parametrize("probes", [1, 2, 3, 4, 7])
def test_lost_probes_are_taken_back_and_three_of_them_open_it_again_at_the_same_level(probes):
    bench = Bench(circuit_probes=probes).trip()
    first = bench.circuit.until - bench.circuit.since
    bench.half_open()
    for _ in range(-(-PROBES_WITHOUT_NEWS // probes)):
        assert bench.state is State.HALF_OPEN
        for _ in range(probes):
            bench.go()
        assert bench.places() == 0
        bench.until(bench.circuit.ask_again_at(bench.now))
    assert bench.events[-1] is Event.PROBE_LOST
    assert bench.state is State.OPEN
    assert bench.places() == 0
    assert bench.circuit.until - bench.circuit.since == pytest.approx(first)
    assert bench.circuit.until > bench.now


def test_the_first_lease_to_end_is_when_to_ask_again():
    bench = Bench(circuit_probes=3).trip().half_open()
    for lease in (20.0, 10.0, 30.0):
        bench.circuit.claim(object(), bench.now + lease, bench.now)
    assert bench.circuit.ask_again_at(bench.now) == bench.now + 10.0


def test_a_lost_probe_makes_room_for_another():
    bench = opened().half_open()
    bench.go()
    assert bench.wait(LEASE - 0.01).places() == 0
    assert bench.wait(0.01).places() == 1


def test_cancelled_probes_never_close_it():
    bench = opened().half_open()
    for left in (State.HALF_OPEN, State.HALF_OPEN, State.OPEN):
        bench.one(Sample.NOTHING)
        assert bench.state is left
    assert bench.events[-1] is Event.PROBE_LOST


def test_news_in_between_ends_the_row_of_probes_without():
    bench = opened().half_open()
    bench.one(Sample.NOTHING)
    bench.one(Sample.NOTHING)
    bench.one(Sample.FAILED)
    bench.half_open()
    bench.one(Sample.NOTHING)
    assert bench.state is State.HALF_OPEN


def test_a_lost_probe_that_answers_after_all_decides_nothing():
    bench = opened().half_open()
    late = bench.go()
    bench.wait(LEASE)
    bench.answer(late, Sample.OK)
    assert bench.state is State.HALF_OPEN
    assert bench.places() == 1


def test_a_second_report_of_a_probe_decides_nothing():
    bench = Bench(circuit_probes=2).trip().half_open()
    probe = bench.go()
    bench.answer(probe, Sample.NOTHING)
    assert bench.answer(probe, Sample.FAILED) is None
    assert bench.state is State.HALF_OPEN


# Late answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", list(Sample))
@pytest.mark.parametrize("state", [State.OPEN, State.HALF_OPEN, State.RECOVERING, State.CLOSED])
def test_an_answer_of_an_earlier_generation_changes_nothing(sample, state):
    bench = Bench()
    late = [bench.go() for _ in range(30)]
    bench.trip()
    if state is State.HALF_OPEN:
        bench.half_open()
        bench.go()
    elif state is not State.OPEN:
        bench.recovering()
        bench.many([Sample.OK] * 3)
        if state is State.CLOSED:
            bench.wait(60.0)
    assert bench.state is state

    def everything():
        circuit = bench.circuit
        inner = {name: getattr(circuit, name) for name in Circuit.__slots__ if name not in {"_ring", "_leases"}}
        return inner, dict(circuit._leases), [circuit._ring.at_most(series, bench.now) for series in range(4)]

    before = everything()
    for permit in late:
        assert bench.answer(permit, sample, fresh=True) is None
    assert everything() == before


def test_a_late_failure_does_not_help_a_new_one_to_a_relapse():
    bench = Bench()
    late = bench.go()
    bench.trip().recovering()
    bench.many([Sample.FAILED] * 4)
    bench.answer(late, Sample.FAILED)
    assert bench.state is State.RECOVERING


# Recovering ---------------------------------------------------------------------------------------------------


def ramp(bench, usual=0.0, answer=Sample.OK):
    """Seconds since the recovery began at which one could go, each answered at once."""
    bench.circuit.usual_rate = usual
    bench.recovering()
    begin, sent = bench.now, []
    while bench.state is State.RECOVERING:
        if bench.places():
            bench.one(answer)
            sent.append(bench.now - begin)
        bench.until(bench.circuit.ask_again_at(bench.now))
        assert len(sent) < 20_000, "it never ends"
    return sent


def per_second(sent, at):
    return sum(at <= when < at + 1.0 for when in sent)


@pytest.mark.parametrize("recovery", [60.0, 6.0])
def test_at_a_known_rate_it_begins_at_a_tenth_of_it_and_ends_near_all_of_it(recovery):
    scale = recovery / 60.0
    sent = [when / scale for when in ramp(Bench(circuit_recovery=recovery).trip(), 100.0 / scale)]
    assert per_second(sent, 0.0) == pytest.approx(10, abs=1)
    assert per_second(sent, 5.0) == pytest.approx(10, abs=2)
    assert per_second(sent, 29.5) == pytest.approx(50, abs=2)
    assert per_second(sent, 58.0) == pytest.approx(97, abs=3)


def test_where_nothing_is_known_it_begins_at_one_a_second_and_doubles_every_six():
    sent = ramp(Bench().trip())
    assert [per_second(sent, at) for at in (0.0, 2.0)] == [1, 1]
    for at, most in ((12, 4), (24, 16), (36, 64), (48, 256)):
        assert per_second(sent, at - 0.5) == pytest.approx(most, rel=0.1, abs=1)


def test_one_goes_at_a_time_and_no_more_are_out_than_went_well():
    bench = Bench().trip()
    bench.circuit.usual_rate = 1000.0
    bench.recovering()
    out = []
    for well in range(5):
        while bench.wait(0.1).places() and len(out) < 20:
            assert bench.places() == 1
            out.append(bench.go())
        assert len(out) == well + 1
        bench.answer(out.pop(), Sample.OK)


def test_time_alone_gives_a_recovering_target_no_places():
    bench = opened().recovering()
    bench.go()
    assert bench.wait(59.0).places() == 0


def test_those_out_take_their_place_until_the_end_of_the_recovery():
    bench = opened().recovering()
    bench.go()
    bench.wait(2.0)
    assert bench.circuit.ask_again_at(bench.now) == bench.circuit.since + 60.0


def test_expired_leases_give_their_places_back_while_it_recovers():
    bench = Bench(circuit_recovery=1000.0).trip().recovering()
    bench.go()
    lost = bench.now + LEASE
    assert bench.wait(LEASE - 1.0).places() == 0
    assert bench.circuit.ask_again_at(bench.now) == lost
    assert bench.wait(1.0).places() == 1
    assert bench.state is State.RECOVERING


def test_the_first_lease_to_end_makes_room_while_it_recovers():
    bench = Bench(circuit_recovery=1000.0).trip().recovering()
    bench.one(Sample.OK)
    for lease in (80.0, 60.0):
        bench.wait(10.0)
        bench.circuit.claim(object(), bench.now + lease, bench.now)
    assert bench.wait(10.0).places() == 0
    assert bench.circuit.ask_again_at(bench.now) == bench.now + 50.0


def test_what_was_not_used_of_the_ramp_is_not_made_up_for():
    bench = opened()
    bench.circuit.usual_rate = 100.0
    bench.recovering().many([Sample.OK] * 10, step=1.0)
    bench.wait(10.0).one(Sample.OK)
    assert bench.circuit.ask_again_at(bench.now) > bench.now + 0.01


@examples(60)
@given(
    st.floats(0, 59.99), st.sampled_from([60.0, 7.0, 0.3]), st.integers(0, 40), st.sampled_from([0.0, 0.1, 3.0, 200.0])
)
def test_asking_again_at_the_time_it_named_is_never_asking_at_once(wait, recovery, good, usual):
    bench = Bench(circuit_recovery=recovery).trip()
    bench.circuit.usual_rate = usual
    bench.recovering()
    for _ in range(good):
        bench.one(Sample.OK)
    bench.wait(wait * recovery / 60.0)
    for _ in range(100):
        if bench.places():
            bench.go()
    if bench.state is State.RECOVERING:
        again = bench.circuit.ask_again_at(bench.now)
        assert bench.now < again <= bench.circuit.since + recovery + 1e-6


@pytest.mark.parametrize(
    ("samples", "relapses"),
    [
        pytest.param("FFFF", False, id="four in a row"),
        pytest.param("FFFFF", True, id="five in a row"),
        pytest.param("OOOFFFFF", True, id="five in a row after good ones"),
        pytest.param("OF" * 9 + "O", False, id="half of nineteen"),
        pytest.param("OF" * 10, True, id="half of twenty"),
        pytest.param("OOFF" * 4, False, id="half of sixteen"),
        pytest.param("FSFNFFF", True, id="what is neither does not count"),
        pytest.param("R" * 30, False, id="refusals, of one that had failed"),
    ],
)
def test_when_it_relapses(samples, relapses):
    letters = {"F": Sample.FAILED, "O": Sample.OK, "S": Sample.SLOWED, "N": Sample.NOTHING, "R": Sample.REFUSED}
    bench = opened().recovering()
    for letter in samples:
        bench.one(letters[letter], fresh=letter != "R")
    assert (bench.state is State.OPEN) is relapses
    if relapses:
        assert bench.events[-1] is Event.RELAPSED


def test_what_failed_before_it_opened_is_not_held_against_its_recovery():
    bench = Bench().many([Sample.OK, Sample.FAILED] * 9).trip().recovering()
    assert bench.circuit.failure_ratio(bench.now) == 0.0
    bench.many([Sample.FAILED] * 4)
    assert bench.state is State.RECOVERING


def test_a_walled_target_relapses_on_refusals():
    bench = Bench().trip(Sample.REFUSED).recovering()
    bench.many([Sample.REFUSED] * 20, fresh=True)
    assert bench.events[-1] is Event.RELAPSED
    bench.half_open()
    assert bench.one(Sample.REFUSED, fresh=True) is Event.PROBE_FAILED


@pytest.mark.parametrize("recovery", [60.0, 5.0])
def test_after_its_time_it_is_closed(recovery):
    bench = Bench(circuit_recovery=recovery).trip().recovering()
    bench.one(Sample.OK)
    bench.one(Sample.FAILED)
    bench.wait(recovery - 0.01)
    assert bench.state is State.RECOVERING
    bench.wait(0.01)
    assert bench.state is State.CLOSED
    assert bench.events[-1] is Event.RECOVERED
    bench.many([Sample.FAILED] * 4)
    assert bench.state is State.CLOSED


def test_without_a_recovery_time_it_closes_at_once():
    bench = Bench(circuit_recovery=0.0).trip().recovering().wait(0.0)
    assert bench.state is State.CLOSED


# Level, and how long it has been gone -------------------------------------------------------------------------


def test_closing_does_not_reset_the_level_but_every_quiet_window_lowers_it():
    bench = opened()
    for _ in range(3):
        bench.half_open().one(Sample.FAILED)
    bench.recovering().wait(60.0)
    assert (bench.state, bench.circuit._level) == (State.CLOSED, 4)
    for level in (4, 3, 2, 1, 0, 0):
        bench.wait(0.1).one(Sample.OK)
        assert bench.circuit._level == level
        bench.wait(60.0)


def test_quiet_windows_count_although_nobody_came():
    bench = opened().recovering().wait(60.0)
    assert bench.circuit._level == 1
    bench.wait(125.0).one(Sample.OK)
    assert bench.circuit._level == 0


def test_good_answers_of_a_recovery_do_not_calm_down():
    bench = Bench(circuit_recovery=300.0).trip().recovering()
    bench.wait(200.0).one(Sample.OK)
    assert bench.circuit._level == 1


def test_it_is_gone_from_its_opening_until_its_recovery():
    bench = Bench()
    assert bench.circuit.gone_since is None
    bench.many([Sample.FAILED] * 4)
    assert bench.circuit.gone_since is None
    bench.one(Sample.FAILED)
    gone = bench.circuit.gone_since
    assert gone == bench.now
    for _ in range(3):
        bench.half_open()
        assert bench.circuit.gone_since == gone
        bench.one(Sample.FAILED)
        assert bench.circuit.gone_since == gone
    bench.recovering()
    assert bench.circuit.gone_since is None
    bench.many([Sample.FAILED] * 5)
    assert bench.circuit.gone_since == bench.now
    bench.recovering().wait(60.0)
    assert bench.circuit.gone_since is None


# The table ----------------------------------------------------------------------------------------------------


def test_every_state_can_be_left_and_reached_and_every_event_is_in_the_table():
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert set(TRANSITIONS.values()) == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert {to for (_, event), to in TRANSITIONS.items() if event in WORSE} == {State.OPEN}


def test_every_change_of_state_is_in_the_table_and_begins_a_generation():
    rng = Random(5)
    bench = Bench(rng, circuit_cooldown=1.0, circuit_cooldown_max=4.0, circuit_recovery=3.0, circuit_min_requests=4)
    seen = set()
    permits = [bench.go()]
    for _ in range(4000):
        before, generation, count = bench.state, bench.circuit.generation, len(bench.events)
        if rng.random() < 0.5:
            bench.wait(rng.choice([0.0, 0.1, 1.0, 5.0]))
        elif bench.places() != 0:
            permits.append(bench.go())
        elif permits:
            bench.answer(permits.pop(rng.randrange(len(permits))), rng.choice([*Sample, Sample.FAILED]), fresh=True)
        if permits and rng.random() < 0.5:
            bench.answer(permits.pop(), rng.choice([Sample.OK, Sample.FAILED]))
        for event in bench.events[count:]:
            assert bench.circuit._leases == {} or len(bench.events) - count > 1
            before = TRANSITIONS[before, event]
            seen.add(event)
        assert bench.state is before
        assert bench.circuit.generation == generation + len(bench.events) - count
    assert seen == set(Event)
