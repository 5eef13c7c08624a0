from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.lab import Block403, RateLimit, RedirectBlock, SoftBlock, Visit
from scrapy_resiproxy.lab.behaviours import Answer, Judge, PageKind


def ask(judge: Judge, now: float, path: str = "/item/1", session: str = "a") -> Answer:
    return judge.decide(Visit(path, session), now)


def exhausted(plan: RateLimit, session: str = "a") -> Judge:
    """Return the limit of `plan` after its burst and one refusal at 0."""
    judge = plan.begin(0.0)
    for n in range(int(plan.burst)):
        assert ask(judge, 0.0, f"/burst/{n}", session).outcome == "ok"
    assert ask(judge, 0.0, "/item/1", session).outcome == "limited"
    return judge


class TestWornSessions:
    @pytest.mark.parametrize(
        ("wall", "outcome", "status", "page"),
        [
            pytest.param(SoftBlock(3), "challenge", 200, PageKind.CHALLENGE, id="generic"),
            pytest.param(SoftBlock(3, "cloudflare"), "challenge", 200, PageKind.CLOUDFLARE, id="cloudflare"),
            pytest.param(SoftBlock(3, "validator-only"), "challenge", 200, PageKind.LOOKALIKE, id="lookalike"),
            pytest.param(Block403(3), "blocked", 403, PageKind.BLOCKED, id="403"),
            pytest.param(RedirectBlock(3), "redirected", 302, PageKind.ERROR, id="redirect"),
        ],
    )
    def test_a_session_gets_its_pages_and_then_the_wall(self, wall, outcome, status, page):
        judge = wall.begin(0.0)
        answers = [ask(judge, 0.0, f"/item/{n}") for n in range(5)]
        assert [answer.outcome for answer in answers] == ["ok"] * 3 + [outcome] * 2
        assert [answer.block for answer in answers] == [False, False, False, True, False]
        assert (answers[3].status, answers[3].page) == (status, page)

    def test_another_session_starts_afresh(self):
        judge = SoftBlock(1).begin(0.0)
        assert [ask(judge, 0.0, session=s).outcome for s in "aab"] == ["ok", "challenge", "ok"]

    def test_the_block_page_is_one_page_for_all_and_wears_no_session(self):
        judge = RedirectBlock(1).begin(0.0)
        answers = [ask(judge, 0.0, path) for path in ("/blocked", "/blocked", "/item/1", "/item/2")]
        assert [answer.outcome for answer in answers] == ["block-page", "block-page", "ok", "redirected"]
        assert answers[0].status == 200
        assert dict(answers[3].headers) == {"Location": "/blocked"}

    @pytest.mark.parametrize("make", [SoftBlock, Block403, RedirectBlock])
    def test_pages_below_zero_are_refused(self, make):
        with pytest.raises(ValueError, match="pages=-1 is below 0"):
            make(-1)

    def test_an_unknown_look_is_refused(self):
        with pytest.raises(ValueError, match="look='x' is not one of generic, cloudflare, validator-only"):
            SoftBlock(look="x")


class TestRateLimit:
    def test_beyond_the_burst_it_is_429_with_a_wait_in_whole_seconds(self):
        judge = exhausted(RateLimit(rate=0.4, burst=3))
        answer = ask(judge, 0.0)
        assert answer.status == 429
        assert dict(answer.headers) == {"Retry-After": "3"}

    def test_at_its_rate_it_never_refuses(self):
        judge = RateLimit(rate=10, burst=1).begin(0.0)
        assert {ask(judge, n / 10, f"/item/{n}").outcome for n in range(300)} == {"ok"}

    def test_the_bucket_is_one_for_all_sessions(self):
        judge = RateLimit(burst=2).begin(0.0)
        assert [ask(judge, 0.0, session=s).outcome for s in "abc"] == ["ok", "ok", "limited"]

    def test_who_asks_inside_the_wait_is_blocked_at_the_twentieth_time(self):
        judge = exhausted(RateLimit(rate=0.01))
        answers = [ask(judge, 0.3 + n / 100) for n in range(20)]
        assert [answer.outcome for answer in answers] == ["limited"] * 19 + ["blocked"]
        assert (answers[-1].status, answers[-1].block) == (403, True)

    def test_what_was_on_its_way_when_the_wait_was_announced_counts_nothing(self):
        judge = exhausted(RateLimit(rate=0.01))
        assert {ask(judge, 0.29).outcome for _ in range(100)} == {"limited"}

    def test_refusals_prolong_the_wait_but_not_the_grace(self):
        judge = exhausted(RateLimit(rate=0.01, block_ignorers=1))
        ask(judge, 0.2)
        assert ask(judge, 0.3).outcome == "blocked"

    def test_a_page_given_out_inside_the_wait_counts_too(self):
        judge = exhausted(RateLimit(rate=10, block_ignorers=2))
        assert [ask(judge, 0.5).outcome, ask(judge, 0.6).outcome] == ["ok", "blocked"]

    def test_a_new_wait_has_a_grace_of_its_own(self):
        judge = exhausted(RateLimit(rate=1, burst=1, block_ignorers=1))
        assert [ask(judge, 2.0).outcome, ask(judge, 2.1).outcome, ask(judge, 2.3).outcome] == [
            "ok", "limited", "limited",
        ]  # fmt: skip

    def test_a_block_is_for_everyone_and_ends(self):
        judge = exhausted(RateLimit(rate=1, block_ignorers=1))
        assert ask(judge, 0.5).outcome == "blocked"
        later = [ask(judge, 30.0, session="b"), ask(judge, 60.4), ask(judge, 60.5)]
        assert [answer.outcome for answer in later] == ["blocked", "blocked", "ok"]
        assert not later[0].block

    def test_the_same_path_through_other_sessions_before_its_time_is_evasion(self):
        judge = RateLimit(rate=0.01, burst=3, block_ignorers=0, block_evaders=2).begin(0.0)
        for session in "abc":
            ask(judge, 0.0, f"/known/{session}", session)
        assert ask(judge, 0.0, "/item/1", "a").outcome == "limited"
        assert [ask(judge, 0.1, "/item/1", "b").outcome, ask(judge, 0.1, "/item/1", "c").outcome] == [
            "limited", "blocked",
        ]  # fmt: skip

    def test_another_path_through_a_known_session_is_no_evasion(self):
        judge = RateLimit(rate=0.01, burst=2, block_ignorers=0, block_evaders=1).begin(0.0)
        for session in "ab":
            ask(judge, 0.0, f"/known/{session}", session)
        ask(judge, 0.0, "/item/1", "a")
        assert ask(judge, 0.1, "/item/2", "b").outcome == "limited"

    def test_a_session_first_seen_during_a_wait_is_evasion(self):
        judge = exhausted(RateLimit(rate=1, block_ignorers=0, block_evaders=1))
        assert ask(judge, 0.9, "/new", "b").outcome == "blocked"

    def test_a_new_session_after_the_wait_is_welcome(self):
        judge = exhausted(RateLimit(rate=1, block_evaders=1))
        assert ask(judge, 1.0, "/new", "b").outcome == "ok"

    def test_a_path_that_was_given_out_is_forgotten(self):
        judge = exhausted(RateLimit(rate=10, block_ignorers=0, block_evaders=1))
        assert ask(judge, 0.1, "/item/1", "a").outcome == "ok"
        ask(judge, 1.1, "/other", "b")
        assert ask(judge, 1.2, "/item/1", "b").outcome == "ok"

    def test_without_an_announcement_nobody_can_ignore_or_evade_it(self):
        judge = exhausted(RateLimit(rate=0.001, announce=False, block_ignorers=1, block_evaders=1))
        answers = [ask(judge, n / 10, session=str(n)) for n in range(50)]
        assert {answer.outcome for answer in answers} == {"limited"}
        assert {answer.headers for answer in answers} == {()}

    def test_with_both_switched_off_it_only_refuses(self):
        judge = exhausted(RateLimit(rate=0.001, block_ignorers=0, block_evaders=0))
        assert {ask(judge, n / 10, session=str(n)).outcome for n in range(500)} == {"limited"}

    def test_by_session_only_the_deaf_one_is_counted_and_blocked(self):
        judge = RateLimit(rate=0.01, burst=2, scope="session", block_ignorers=2).begin(0.0)
        for session in "ab":
            ask(judge, 0.0, f"/known/{session}", session)
        ask(judge, 0.0, "/1", "a")
        assert [ask(judge, 0.5, f"/{n}", "b").outcome for n in range(2, 5)] == ["limited"] * 3
        assert [ask(judge, 0.6, "/5", "a").outcome, ask(judge, 0.7, "/5", "a").outcome] == ["limited", "blocked"]
        assert ask(judge, 0.75, "/6", "b").outcome == "limited"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rate": 0}, "rate=0 is not above 0"),
            ({"burst": 0.5}, "burst=0.5 is below 1"),
            ({"scope": "city"}, "scope='city' is not target or session"),
            ({"grace": -1}, "grace=-1 is below 0"),
            ({"block_evaders": -1}, "block_evaders=-1 is below 0"),
        ],
    )
    def test_a_wrong_option_is_named(self, options, message):
        with pytest.raises(ValueError, match=message):
            RateLimit(**options)


@given(
    rate=st.floats(0.5, 50),
    burst=st.integers(1, 20),
    gaps=st.lists(st.floats(0, 2), min_size=1, max_size=80),
)
@settings(max_examples=100)
def test_no_span_of_time_gives_out_more_than_the_burst_and_the_rate(rate, burst, gaps):
    judge = RateLimit(rate=rate, burst=burst, block_ignorers=0, block_evaders=0).begin(0.0)
    now, given_out = 0.0, []
    for gap in gaps:
        now += gap
        if ask(judge, now).outcome == "ok":
            given_out.append(now)
    for first, start in enumerate(given_out):
        for last in range(first, len(given_out)):
            assert last - first + 1 <= burst + rate * (given_out[last] - start) + 1e-6


@given(rate=st.floats(0.2, 20), burst=st.integers(1, 20), seed=st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_who_waits_as_told_on_the_same_session_is_never_blocked_and_gets_everything(rate, burst, seed):
    judge = RateLimit(rate=rate, burst=burst, block_ignorers=1, block_evaders=1).begin(0.0)
    now = 0.0
    for n in range(60):
        while (answer := ask(judge, now, f"/item/{n}")).outcome != "ok":
            assert answer.outcome == "limited"
            now += int(dict(answer.headers)["Retry-After"])
        now += seed.random() / rate
    assert now <= 60 * (1 + math.ceil(1 / rate))
