from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.lab import (
    Chain,
    Down,
    Drip,
    EmptyList,
    Flaky,
    Missing,
    Ok,
    Outage,
    ShortList,
    Truncated,
    Unauthorized,
    Visit,
)
from scrapy_resiproxy.lab.behaviours import How, Judge, PageKind


def visit(path: str, session: str = "100.64.0.1") -> Visit:
    return Visit(path, session)


def outcomes(judge: Judge, paths: list[str], now: float = 0.0) -> list[str]:
    return [judge.decide(visit(path), now).outcome for path in paths]


@pytest.mark.parametrize(
    ("behaviour", "status", "outcome", "how"),
    [
        pytest.param(Ok(), 200, "ok", How.SEND, id="ok"),
        pytest.param(Down(), 503, "fail-503", How.SEND, id="503"),
        pytest.param(Down("520"), 520, "fail-520", How.SEND, id="520"),
        pytest.param(Down("reset"), 0, "reset", How.RESET, id="reset"),
        pytest.param(Down("close"), 0, "close", How.CLOSE, id="close"),
        pytest.param(Down("hang"), 0, "hang", How.HANG, id="hang"),
        pytest.param(Down("refuse"), 0, "refused", How.REFUSE, id="refuse"),
        pytest.param(Missing(), 404, "missing", How.SEND, id="404"),
        pytest.param(Drip(), 200, "drip", How.DRIP, id="drip"),
        pytest.param(Truncated(), 200, "truncated", How.TRUNCATE, id="truncated"),
        pytest.param(Truncated(chunked=True), 200, "truncated", How.TRUNCATE_CHUNKED, id="chunked"),
    ],
)
def test_a_fault_answers_as_its_name_says(behaviour, status, outcome, how):
    answer = behaviour.begin(0.0).decide(visit("/item/1"), 0.0)
    assert (answer.status, answer.outcome, answer.how) == (status, outcome, how)


@pytest.mark.parametrize("how", ["503", "reset", "close", "hang", "refuse"])
def test_only_a_refusing_host_is_out_of_reach(how):
    assert Down(how).begin(0.0).reachable(0.0) is (how != "refuse")


def test_a_503_can_announce_when_to_come_back():
    assert Down(retry_after=120).decide(visit("/"), 0.0).headers == (("Retry-After", "120"),)


@pytest.mark.parametrize("challenge", [True, False])
def test_401_carries_a_challenge_only_when_told_to(challenge):
    headers = dict(Unauthorized(challenge).decide(visit("/"), 0.0).headers)
    assert ("WWW-Authenticate" in headers) is challenge


def test_an_outage_counts_from_the_first_request():
    judge = Outage(start=2, duration=10).begin(100.0)
    times = [500.0, 501.9, 502.0, 511.9, 512.0]
    assert [judge.decide(visit("/"), now).outcome for now in times] == [
        "ok", "ok", "fail-503", "fail-503", "ok",
    ]  # fmt: skip


def test_an_outage_can_count_from_the_start_of_the_lab():
    judge = Outage(start=0, duration=10, since="start").begin(100.0)
    assert [judge.decide(visit("/"), now).outcome for now in (109.9, 110.0)] == ["fail-503", "ok"]


def test_a_refusing_outage_is_out_of_reach_while_it_lasts_and_the_first_connection_starts_it():
    judge = Outage(duration=10, how="refuse").begin(0.0)
    assert [judge.reachable(now) for now in (50.0, 59.9, 60.0)] == [False, False, True]


def test_an_outage_with_a_status_is_in_reach():
    assert Outage(duration=10).begin(0.0).reachable(0.0)


PATHS = [f"/item/{n}" for n in range(2000)]


def test_flaky_fails_the_same_urls_once_in_every_run():
    first, second = Flaky(p=0.2).begin(0.0), Flaky(p=0.2).begin(7.0)
    failed = outcomes(first, PATHS)
    assert failed == outcomes(second, PATHS)
    assert failed.count("fail-503") == pytest.approx(400, rel=0.1)
    assert set(outcomes(first, PATHS)) == {"ok"}


def test_another_seed_fails_other_urls():
    assert outcomes(Flaky(seed=1).begin(0.0), PATHS) != outcomes(Flaky(seed=2).begin(0.0), PATHS)


def test_flaky_for_ever_rolls_anew_at_each_attempt():
    judge = Flaky(p=0.5, once=False).begin(0.0)
    rounds = [outcomes(judge, PATHS[:200]) for _ in range(3)]
    assert rounds[0] != rounds[1] != rounds[2]
    assert all(60 < answers.count("fail-503") < 140 for answers in rounds)


@given(p=st.floats(0, 1), seed=st.integers(), paths=st.lists(st.text(max_size=8), unique=True, max_size=30))
@settings(max_examples=100)
def test_no_url_fails_twice_when_it_fails_once(p, seed, paths):
    judge = Flaky(p=p, seed=seed).begin(0.0)
    outcomes(judge, paths)
    assert set(outcomes(judge, paths)) <= {"ok"}


@pytest.mark.parametrize(
    ("behaviour", "page"),
    [
        pytest.param(EmptyList(p=1), PageKind.EMPTY, id="empty"),
        pytest.param(ShortList(p=1), PageKind.SHORT, id="short"),
    ],
)
def test_only_lists_come_back_empty_or_short(behaviour, page):
    judge = behaviour.begin(0.0)
    paths = ["/list?page=2", "/list", "/api/items?page=1", "/item/1", "/api/items/1"]
    pages = [judge.decide(visit(path), 0.0).page for path in paths]
    assert pages == [page, page, page, PageKind.GOOD, PageKind.GOOD]


def test_a_chain_lets_the_first_unhappy_part_decide_and_adds_delays_and_padding():
    chain = Ok(latency=0.5, padding=10) + Flaky(p=1) + Ok(latency=0.25, padding=5)
    judge = chain.begin(0.0)
    failed, good = (judge.decide(visit("/item/1"), 0.0) for _ in range(2))
    assert (failed.outcome, failed.delay, failed.padding) == ("fail-503", 0.5, 10)
    assert (good.outcome, good.delay, good.padding) == ("ok", 0.75, 15)


def test_a_chain_is_out_of_reach_when_any_part_is():
    assert not Chain((Ok(), Down("refuse"))).begin(0.0).reachable(0.0)
    assert Chain((Ok(), Down())).begin(0.0).reachable(0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Flaky(p=1.5), "p=1.5 is not between 0 and 1", id="chance"),
        pytest.param(lambda: Flaky(p=float("nan")), "p=nan is not between 0 and 1", id="nan"),
        pytest.param(lambda: Flaky(how="refuse"), "not for single paths", id="flaky refuse"),
        pytest.param(lambda: Down(how="200"), "how='200' is not a status from 400 to 599", id="status"),
        pytest.param(lambda: Down(how="²"), "is not a status", id="digit that is no number"),
        pytest.param(lambda: Outage(how="sulk"), "one of reset, close, hang, refuse", id="how"),
        pytest.param(lambda: Outage(start=-1), "start=-1 is below 0", id="start"),
        pytest.param(lambda: Outage(since="noon"), "since='noon' is not first or start", id="since"),
        pytest.param(lambda: Ok(latency=-1), "latency=-1 is below 0", id="latency"),
        pytest.param(lambda: Drip(seconds=-1), "seconds=-1 is below 0", id="drip"),
        pytest.param(lambda: Chain(()), "at least one", id="empty chain"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(make, message):
    with pytest.raises(ValueError, match=message):
        make()
