"""Counts of a crawl: those of all are the sum of those of its targets, however little is kept for each."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.report import stats_of
from scrapy_resiproxy.tally import AllCounts, Counts, Tally

REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)
UNAVAILABLE = Outcome(OutcomeClass.TRANSIENT, "unavailable", Blame.TARGET)

names = st.sampled_from(["a", "b", "c", "d", "e"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("departed"), names, st.booleans()),
        st.tuples(st.just("judged"), names, st.sampled_from([OK, OK, OK, REFUSED, UNAVAILABLE]), st.booleans()),
        st.tuples(st.just("asked"), names, st.booleans()),
        st.tuples(st.just("letter"), names),
    ),
    max_size=60,
)


def lived(steps: list[tuple[Any, ...]]) -> Tally:
    tally = Tally()
    for now, (kind, target, *words) in enumerate(steps):
        if kind == "departed":
            tally.departed(target, float(now), retry=words[0])
        elif kind == "judged":
            tally.judged(target, words[0], 100, fresh=words[1])
        else:
            for counts in tally.both(target):
                counts.asked += kind == "asked"
                counts.denied += kind == "asked" and words[0]
                counts.letters += kind == "letter"
    return tally


@given(steps)
@settings(max_examples=100, deadline=None)
def test_every_step_is_counted_once_for_its_target(steps: list[tuple[Any, ...]]) -> None:
    tally = lived(steps)
    for target, counts in tally.targets.items():
        own = [step for step in steps if step[1] == target]
        departed = [step[2] for step in own if step[0] == "departed"]
        outcomes = [step[2] for step in own if step[0] == "judged"]
        reasons = Counter((each.class_.value, each.reason, each.blame.value) for each in outcomes if not each.ok)
        assert (counts.requests, counts.retries) == (len(departed), sum(departed))
        assert (counts.judged, counts.valid) == (len(outcomes), outcomes.count(OK))
        assert (counts.bytes_ok, counts.bytes_bad) == (100 * counts.valid, 100 * counts.failed)
        assert counts.fresh == sum(step[3] for step in own if step[0] == "judged")
        assert counts.fresh_refused == sum(step[3] for step in own if step[0] == "judged" and step[2] is REFUSED)
        assert (counts.asked, counts.letters) == tuple(sum(s[0] == kind for s in own) for kind in ("asked", "letter"))
        assert (counts.reasons or {}) == reasons


@given(steps, st.sets(names))
@settings(max_examples=100, deadline=None)
def test_the_whole_less_some_is_the_sum_of_the_others(steps: list[tuple[Any, ...]], some: set[str]) -> None:
    tally = lived(steps)
    left = stats_of(tally.total.less(tally.targets[name] for name in some & tally.targets.keys()))
    others = stats_of(lived([step for step in steps if step[1] not in some]).total)
    assert left == others


@given(steps)
@settings(max_examples=50, deadline=None)
def test_the_worst_come_first(steps: list[tuple[Any, ...]]) -> None:
    tally = lived(steps)
    failed = [tally.targets[name].failed for name in tally.worst(9)]
    assert failed == sorted((counts.failed for counts in tally.targets.values()), reverse=True)
    assert tally.worst(2) == tally.worst(9)[:2]


def test_the_last_first_attempt_of_a_target_is_never_taken_for_older_than_it_is() -> None:
    """Until its first failure nobody asks, so none is kept: then the latest of all stands for its own."""
    tally = Tally()
    tally.departed("a", 5.0, retry=False)
    tally.departed("b", 7.0, retry=False)
    tally.judged("a", UNAVAILABLE, 0, fresh=True)
    assert tally.of("a").last_first == 7.0
    tally.departed("a", 9.0, retry=False)
    tally.departed("b", 11.0, retry=False)
    tally.departed("a", 12.0, retry=True)
    assert tally.of("a").last_first == 9.0


def test_a_target_that_is_only_ever_well_keeps_four_numbers() -> None:
    tally = Tally()
    for second in range(3):
        tally.departed("shop.example", float(second), retry=False)
        tally.judged("shop.example", OK, 10, fresh=second == 0)
    counts = tally.targets["shop.example"]
    assert type(counts) is Counts
    assert not hasattr(counts, "__dict__")
    assert (counts.requests, counts.judged, counts.valid_ratio, counts.retry_ratio) == (3, 3, 1.0, 0.0)
    assert stats_of(counts)["bytes/ok"] == 30


def test_the_first_failure_takes_over_what_was_counted() -> None:
    tally = Tally()
    tally.departed("shop.example", 5.0, retry=False)
    tally.judged("shop.example", OK, 10, fresh=True)
    tally.judged("shop.example", REFUSED, 20, fresh=True)
    counts = tally.targets["shop.example"]
    assert type(counts) is AllCounts
    assert (counts.requests, counts.judged, counts.bytes_ok, counts.fresh) == (1, 2, 10, 2)
    assert counts.top_reason() == ("identity", "forbidden", "session")
