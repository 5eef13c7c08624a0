"""What a person reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass
from scrapy_resiproxy.report import Sickness, aligned, cost_line, replay_lines, sick_line, stats_of, table, tunnel_line
from scrapy_resiproxy.tally import AllCounts, Counts, Tally
from scrapy_resiproxy.tunnel.totals import Figures

REFUSED = Outcome(OutcomeClass.IDENTITY, "forbidden", Blame.SESSION)


def counts() -> AllCounts:
    found = AllCounts(firsts=8, retries=2, asked=3, letters=1)
    for _ in range(6):
        found.judge(OK, 1_000_000, fresh=False)
    for fresh in (True, True, False, False):
        found.judge(REFUSED, 500_000, fresh=fresh)
    return found


def sickness(state: str = "failing", **known: Any) -> Sickness:
    nothing: dict[str, Any] = dict.fromkeys(("for_seconds", "before", "next_probe", "give_up", "held", "rate"))
    given = {**nothing, "span": 60.0, "proxied": True, "waiting": 0, **known}
    return Sickness(target="shop.example", state=state, **given)


def test_a_sick_target_is_told_with_why_whose_fault_what_next_and_what_to_do() -> None:
    sick = sickness("open", for_seconds=90, waiting=12, next_probe=30, give_up=800, held=5, rate=2.5)
    assert sick_line(sick, counts()) == (
        "shop.example: circuit open for 90 s; in the last 60 s 4 of 10 answers failed, mostly identity/forbidden "
        "(fault of the session), 100% of fresh sessions refused, 2.0 MB wasted; 12 waiting, paced at 2.5/s, held 5 s, "
        "next probe in 30 s, given up in 800 s; sessions are refused: slow down, try another RESIPROXY_COUNTRY or "
        "better exits"
    )


@pytest.mark.parametrize(("class_", "reason"), [("identity", "forbidden"), ("identity", "challenge")])
def test_without_a_proxy_nothing_is_said_of_sessions_or_countries(class_: str, reason: str) -> None:
    found = AllCounts()
    found.judge(Outcome(OutcomeClass(class_), reason, Blame.SESSION), 0, fresh=True)
    line = sick_line(sickness(proxied=False), found)
    assert line == (
        f"shop.example: failing; in the last 60 s 1 of 1 answer failed, mostly {class_}/{reason} (fault of our address)"
        "; the site refuses us: slow down, or go through a proxy (RESIPROXY_PROXY)"
    )


def test_where_nothing_came_in_the_span_it_is_said_what_came_before_it() -> None:
    before = ("transient", "unavailable", "target")
    assert sick_line(sickness("half_open", span=600.0, before=before), Counts()) == (
        "shop.example: circuit half open; no answer in the last 10 min, before that mostly transient/unavailable "
        "(fault of the target); the site fails: nothing to do but wait, it is probed"
    )


@pytest.mark.parametrize(
    ("class_", "reason", "blame", "whose", "advice"),
    [
        ("transient", "network_down", Blame.LOCAL, "the network", "our own network fails"),
        ("terminal", "validator_error", Blame.LOCAL, "our own code", "our own code fails"),
        ("terminal", "dns_not_found", Blame.TARGET, "the target", "its name does not resolve: check the host"),
        ("transient", "tls_error", Blame.TARGET, "the target", "TLS fails: check the certificate, the TLS versions"),
    ],
)
def test_who_is_at_fault_and_what_to_do_is_said(
    class_: str, reason: str, blame: Blame, whose: str, advice: str
) -> None:
    found = AllCounts()
    found.judge(Outcome(OutcomeClass(class_), reason, blame), 0, fresh=True)
    line = sick_line(sickness(), found)
    assert f"mostly {class_}/{reason} (fault of {whose});" in line
    assert advice in line


def test_what_is_not_known_is_left_out() -> None:
    assert sick_line(sickness(), Counts()) == "shop.example: failing; no answer in the last 60 s"


def test_a_target_that_was_given_up_is_not_said_to_be_probed() -> None:
    found = AllCounts()
    found.judge(UNAVAILABLE, 40_000, fresh=False)
    assert sick_line(sickness("given up", for_seconds=20.0, waiting=3), found) == (
        "shop.example: given up; in the last 60 s 1 of 1 answer failed, mostly transient/unavailable (fault of the "
        "target); 3 waiting; nothing more is sent there in this run"
    )


def test_the_table_begins_with_the_worst_and_ends_with_all() -> None:
    tally = Tally()
    tally.targets |= {"good.example": Counts(), "bad.example": counts()}
    tally.total = counts()
    lines = table(tally, most=5)
    assert [line.split()[0] for line in lines] == ["target", "bad.example", "good.example", "all"]
    assert "identity/forbidden" in lines[1]


@pytest.mark.parametrize(
    ("failures", "letters", "said"),
    [
        ([], {"parse_error": 3}, "terminal/parse_error"),
        ([], {"item_error": 1, "shutdown": 9}, "terminal/item_error"),
        ([REFUSED] * 2, {"parse_error": 3}, "terminal/parse_error"),
        ([REFUSED] * 4, {"parse_error": 3}, "identity/forbidden"),
        ([], {}, "-"),
    ],
)
def test_a_page_that_failed_after_it_was_delivered_is_a_failure_in_the_table(
    failures: list[Outcome], letters: dict[str, int], said: str
) -> None:
    tally = Tally()
    of_target = tally.of("a.example")
    for outcome in failures:
        of_target.judge(outcome, 0, fresh=False)
    of_target.letter_reasons.update(letters)
    assert table(tally, most=5)[1].split()[-1] == said


def test_columns_stand_below_each_other() -> None:
    assert aligned([("a", "1", "x"), ("long", "200", "yz")]) == ["a       1  x", "long  200  yz"]


def test_the_cost_is_told_for_a_thousand_good_pages_and_for_nothing() -> None:
    assert cost_line(counts(), 4.0) == (
        "Estimated cost 0.032 (8.0 MB): 5.333 per 1,000 good pages; 25% of it bought nothing (fake pages 0.008)."
    )
    assert "no good page; 0%" in cost_line(Counts(), 4.0)


TUNNELS = Figures(opened=18, seconds=240.0, wire_bytes=2_700_000, payload_bytes=2_400_000, ping_bytes=190_000)
UNAVAILABLE = Outcome(OutcomeClass.TRANSIENT, "unavailable", Blame.TARGET)


@pytest.mark.parametrize(
    ("seconds", "said"), [(6.0, "in 6 s"), (240.0, "in 4 min"), (1200.0, "in 20 min, 54 per hour")]
)
def test_tunnels_are_told_by_what_each_carried_and_by_the_hour_where_there_was_time_for_it(
    seconds: float, said: str
) -> None:
    assert tunnel_line(replace(TUNNELS, seconds=seconds)) == (
        f"Tunnels (a vendor's bill may call them sessions): 18 opened {said}, 150.0 kB each; "
        "overhead 11.1% of their bytes (4.1% handshakes, 7.0% pings)."
    )


@pytest.mark.parametrize(
    ("letters", "stored", "final", "said"),
    [
        (0, 0, {}, []),
        (1, 0, {}, ["1 request ended as a dead letter. To send it again: scrapy replay d/a.jsonl"]),
        (2, 0, {}, ["2 requests ended as dead letters. To send them again: scrapy replay d/a.jsonl"]),
        (
            3,
            1,
            {"terminal": 1, "circuit_open": 0},
            [
                "3 requests ended as dead letters. To send 2 of these again: scrapy replay d/a.jsonl",
                (
                    "1 of these has its page with it: to run a fixed callback there and send nothing: "
                    "scrapy replay --offline d/a.jsonl"
                ),
                (
                    "1 of these had a final answer, to be run again only when asked for: "
                    "scrapy replay --reason terminal d/a.jsonl"
                ),
            ],
        ),
        (
            2,
            0,
            {"terminal": 1, "forbidden": 1},
            [
                (
                    "2 requests ended as dead letters, as the answer was final. They run again only when asked for: "
                    "scrapy replay --reason forbidden --reason terminal d/a.jsonl"
                )
            ],
        ),
        (
            1,
            0,
            {"forbidden": 1},
            [
                (
                    "1 request ended as a dead letter, as the answer was final. It runs again only when asked for: "
                    "scrapy replay --reason forbidden d/a.jsonl"
                )
            ],
        ),
    ],
    ids=["none", "one", "two", "of all kinds", "only final ones", "one final one"],
)
def test_a_lost_request_comes_with_the_command_that_gets_it_back(
    letters: int, stored: int, final: dict[str, int], said: list[str]
) -> None:
    assert replay_lines("d/a.jsonl", letters, stored=stored, final=final) == said


def test_the_path_in_a_command_can_be_pasted() -> None:
    assert replay_lines("my letters.jsonl", 1, stored=0, final={})[0].endswith("scrapy replay 'my letters.jsonl'")


def test_what_bought_nothing_is_told_apart() -> None:
    found = counts()
    found.judge(UNAVAILABLE, 1_000_000, fresh=False)
    assert cost_line(found, 4.0, TUNNELS).endswith(
        "35% of it bought nothing (fake pages 0.008, other failed answers 0.004, handshakes 0.00044, pings 0.00076)."
    )


def test_small_amounts_are_no_powers_of_ten() -> None:
    found = AllCounts(valid=1, bytes_ok=2_000)
    assert cost_line(found, 1.0) == (
        "Estimated cost 0.000002 (0.0 MB): 0.002 per 1,000 good pages; 0% of it bought nothing."
    )


def test_figures_of_no_tunnel_are_no_division_by_nothing() -> None:
    nothing = Figures(0, 0.0, 0, 0, 0)
    assert (nothing.per_hour, nothing.bytes_each, nothing.overhead_ratio) == (0.0, 0.0, 0.0)


def test_stats_tell_the_demand_for_retries_beside_what_was_sent() -> None:
    found = stats_of(counts())
    assert found["retry_ratio"] == 0.25
    assert found["retry_demand_ratio"] == 0.375
    assert found["valid_ratio"] == 0.6
    assert found["outcome_count/identity"] == found["outcome_reason_count/identity/forbidden"] == 4
    assert found["bytes/identity"] == found["wasted_bytes"] == 2_000_000
