"""What a person reads."""

from __future__ import annotations

from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.report import Sickness, aligned, cost_line, sick_line, stats_of, table
from scrapy_resiproxy.tally import Counts, Tally

REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)


def counts() -> Counts:
    found = Counts(requests=10, firsts=8, retries=2, asked=3, letters=1)
    for _ in range(6):
        found.judge(OK, 1_000_000, fresh=False)
    for fresh in (True, True, False, False):
        found.judge(REFUSED, 500_000, fresh=fresh)
    return found


def test_a_sick_target_is_told_with_why_whose_fault_what_next_and_what_to_do() -> None:
    sick = Sickness("shop.example", "open", 90, 12, 30, 800, 5, 2.5)
    assert sick_line(sick, counts()) == (
        "shop.example: open for 90 s, mostly identity/forbidden (fault of the session), 100% of fresh sessions "
        "refused, 12 waiting, paced at 2.5/s, held 5 s, next probe in 30 s, given up in 800 s, 2.0 MB wasted; sessions "
        "are refused: slow down, try another RESIPROXY_COUNTRY or better exits"
    )


def test_what_is_not_known_is_left_out() -> None:
    sick = Sickness("a", "failing", None, 0, None, None, None, None)
    assert sick_line(sick, Counts()) == "a: failing"


def test_our_own_network_is_called_so() -> None:
    found = Counts()
    found.judge(Outcome(OutcomeClass.TRANSIENT, "network_down", Blame.LOCAL), 0, fresh=True)
    assert "(fault of the network)" in sick_line(Sickness("a", "failing", None, 0, None, None, None, None), found)


def test_the_table_begins_with_the_worst_and_ends_with_all() -> None:
    tally = Tally()
    tally.targets |= {"good.example": Counts(requests=1, judged=1, valid=1), "bad.example": counts()}
    tally.total = counts()
    lines = table(tally, most=5)
    assert [line.split()[0] for line in lines] == ["target", "bad.example", "good.example", "all"]
    assert "identity/forbidden" in lines[1]


def test_columns_stand_below_each_other() -> None:
    assert aligned([("a", "1", "x"), ("long", "200", "yz")]) == ["a       1  x", "long  200  yz"]


def test_the_cost_is_told_for_a_thousand_good_pages_and_for_nothing() -> None:
    assert cost_line(counts(), 4.0) == (
        "Estimated cost 0.032 (8.0 MB): 5.333 per 1,000 good pages; 25% of it bought nothing."
    )
    assert "no good page; 0%" in cost_line(Counts(), 4.0)


def test_stats_tell_the_demand_for_retries_beside_what_was_sent() -> None:
    found = stats_of(counts())
    assert found["retry_ratio"] == 0.25
    assert found["retry_demand_ratio"] == 0.375
    assert found["valid_ratio"] == 0.6
    assert found["outcome_count/identity"] == found["outcome_reason_count/identity/forbidden"] == 4
    assert found["bytes/identity"] == found["wasted_bytes"] == 2_000_000


def test_counts_add_up() -> None:
    total = Counts()
    total.add(counts())
    total.add(counts())
    assert stats_of(total)["outcome_count/identity"] == 8
    assert total.bytes_ok == 12_000_000
