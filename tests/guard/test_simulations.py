"""Whole crawls against sites that misbehave, in virtual time: what the guards are for, in numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from guard_kit import (
    NO_NAME,
    TIMEOUT,
    UNAVAILABLE,
    Cold,
    Crawl,
    Down,
    FailsOnce,
    FixedWindow,
    Site,
    TokenBucket,
)

from scrapy_resiproxy.outcome import OK
from scrapy_resiproxy.settings import GuardSettings

SETTINGS = GuardSettings()


def opening(crawl, kind="circuit_opened"):
    return [event.now for event in crawl.events if event.kind == kind]


# Rate limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_ten_a_second_is_found_with_a_dozen_refusals(seed):
    crawl = Crawl({"x": TokenBucket(10, 10)}, 300, seed=seed)
    crawl.now = crawl.start = 1000.0 + 0.23 * seed
    crawl.run()
    assert crawl.delivered["x"] == 300
    assert crawl.count("rate") <= 12
    assert crawl.seconds <= 33.0
    assert crawl.inside_waits() == []


@pytest.mark.parametrize(
    ("site", "urls", "ideal"),
    [
        pytest.param(lambda: TokenBucket(3, 10), 300, 97, id="3/s, burst 10"),
        pytest.param(lambda: TokenBucket(50, 10), 5000, 100, id="50/s, burst 10"),
        pytest.param(lambda: TokenBucket(100, 100, rtt=0.05), 6000, 59, id="100/s, burst 100"),
        pytest.param(lambda: TokenBucket(3, 1), 400, 133, id="3/s, no burst"),
        pytest.param(lambda: TokenBucket(10, 1), 2000, 200, id="10/s, no burst"),
        pytest.param(lambda: TokenBucket(50, 1), 10_000, 200, id="50/s, no burst"),
        pytest.param(lambda: TokenBucket(10, 10, rtt=0.2), 600, 59, id="10/s, burst 10, 200 ms away"),
        pytest.param(lambda: TokenBucket(3, 1, rtt=0.2), 400, 133, id="3/s, no burst, 200 ms away"),
        pytest.param(lambda: TokenBucket(10, 1, rtt=0.2), 2000, 200, id="10/s, no burst, 200 ms away"),
        pytest.param(lambda: TokenBucket(6, 6, rtt=1.0), 600, 99, id="6/s, burst 6, a second away"),
        pytest.param(lambda: TokenBucket(10, 10, tells=False), 600, 59, id="10/s, says only 429"),
        pytest.param(lambda: TokenBucket(10, 1, tells=False), 1200, 120, id="10/s, no burst, says only 429"),
        pytest.param(lambda: TokenBucket(3, 1, tells=False), 400, 133, id="3/s, no burst, says only 429"),
        pytest.param(lambda: FixedWindow(100, 60), 800, 420, id="100 a minute, told to its end"),
        pytest.param(lambda: FixedWindow(100, 10), 2000, 190, id="100 in ten seconds"),
        pytest.param(lambda: FixedWindow(10, 1), 900, 89, id="10 in every second"),
        pytest.param(
            lambda: TokenBucket(lambda now: 10 if now < 1030 else 5, 10), 600, 30 + 290 / 5, id="10/s, then 5/s"
        ),
        pytest.param(
            lambda: TokenBucket(lambda now: 5 if now < 1030 else 10, 10), 1000, 30 + 840 / 10, id="5/s, then 10/s"
        ),
    ],
)
def test_a_limit_is_found_and_used_with_few_refusals(site, urls, ideal):
    crawl = Crawl({"x": site()}, urls).run()
    first_flight = crawl.concurrency - 1
    assert crawl.delivered["x"] == urls
    assert crawl.inside_waits() == []
    assert crawl.count("rate") <= first_flight + 0.025 * urls
    assert crawl.seconds <= ideal / 0.8


def test_in_the_long_run_less_than_one_in_a_hundred_is_refused():
    crawl = Crawl({"x": TokenBucket(lambda now: 5 if now < 1900 else 2, 5, rtt=0.1)}, 6000).run(1800)
    late = [sent for sent in crawl.log if sent.at > crawl.start + 60]
    assert sum(not sent.outcome.ok for sent in late) < 0.01 * len(late)
    assert len(late) > 0.85 * (840 * 5 + 900 * 2)


def test_a_site_that_refuses_everything_is_asked_less_and_less():
    crawl = Crawl({"x": TokenBucket(0.001, 1, tells=False)}, 500).run(1200)
    assert crawl.admissions(crawl.start + 600, crawl.start + 1200) <= 11


def test_nothing_is_refused_or_paced_where_there_is_no_limit():
    crawl = Crawl({"x": Site(0.01)}, 3000).run()
    assert crawl.seconds == pytest.approx(3000 / 800, rel=0.01)
    assert crawl.denied["x"] == 0


# Outages ------------------------------------------------------------------------------------------------------

FAST = replace(SETTINGS, circuit_cooldown=1.0, circuit_cooldown_max=20.0, target_give_up=30.0)


def test_a_site_that_is_down_for_ever_costs_a_tenth_of_a_request_for_each_url():
    crawl = Crawl({"x": Down(rtt=0.01)}, 2000, FAST).run()
    assert crawl.sent() <= 0.10 * 2000
    assert crawl.kinds()["target_given_up"] == 1
    assert crawl.reasons == {"circuit_open": 2000}
    assert crawl.seconds < 70.0


@pytest.mark.parametrize("seed", range(3))
def test_a_short_outage_costs_little_and_loses_nothing(seed):
    settings = replace(SETTINGS, circuit_cooldown=0.5, circuit_recovery=2.0)
    crawl = Crawl({"x": Down(1010.0, rtt=0.01)}, 2000, settings, seed=seed).run()
    assert crawl.delivered["x"] == 2000
    assert crawl.sent() <= 1.15 * 2000
    (closed,) = opening(crawl, "circuit_closed")
    assert all(at < 1010.0 for at in opening(crawl))
    assert closed < 1010.0 + 0.5 * 2**5 * 1.25 + 2.1


def test_after_a_long_outage_from_the_start_there_is_no_herd_and_full_speed_in_the_end():
    crawl = Crawl({"x": Down(1090.0)}, 12_000).run()
    full = 8 / 0.05
    (back,) = opening(crawl, "circuit_closed")
    back -= SETTINGS.circuit_recovery
    assert crawl.delivered["x"] == 12_000
    assert all(at < 1090.0 for at in opening(crawl))
    assert crawl.admissions(back, back + 1) <= 0.3 * full
    seconds = [crawl.admissions(back + n, back + n + 1) for n in range(12)]
    assert all(later <= earlier + 0.3 * full for earlier, later in pairwise(seconds))
    assert crawl.admissions(back + 60, back + 70) == pytest.approx(10 * full, rel=0.02)


def test_after_an_outage_in_mid_crawl_it_comes_back_from_a_tenth_of_its_speed():
    crawl = Crawl({"x": Down(1120.0, start=1030.0)}, 12_000).run()
    full = 8 / 0.05
    (closed,) = opening(crawl, "circuit_closed")
    back = closed - SETTINGS.circuit_recovery
    for second in range(60):
        most = full * max(0.1, (second + 1) / 60)
        assert crawl.admissions(back + second, back + second + 1) <= most + 2
    assert crawl.admissions(closed + 2, closed + 12) == pytest.approx(10 * full, rel=0.02)
    assert crawl.delivered["x"] == 12_000
    assert crawl.sent() <= 1.01 * 12_000


@pytest.mark.parametrize("start", [1030.0, 1000.0], ids=["in mid-crawl", "from the start"])
@pytest.mark.parametrize("seed", range(3))
def test_a_site_that_starts_cold_is_not_overloaded_again(start, seed):
    crawl = Crawl({"x": Cold(100, start, 1120.0)}, 10_000, concurrency=9, interval=1 / 90, seed=seed).run()
    assert crawl.delivered["x"] == 10_000
    assert all(at < 1120.0 for at in opening(crawl))
    late = [sent for sent in crawl.log if sent.at >= 1120.0]
    assert sum(not sent.outcome.ok for sent in late) <= 0.01 * len(late)
    (closed,) = opening(crawl, "circuit_closed")
    assert crawl.admissions(closed + 1, closed + 11) >= 0.95 * 900


class Shedding(TokenBucket):
    """Says a bare 503 when it is asked too fast."""

    def answer(self, now, url):
        return OK if super().answer(now, url).ok else UNAVAILABLE


@pytest.mark.parametrize(
    ("rate", "burst", "concurrency", "rtt", "urls", "most"),
    [
        pytest.param(10, 10, 8, 0.01, 1000, 280, id="10/s, asked eighty times too fast"),
        pytest.param(10, 20, 8, 0.2, 1000, 190, id="10/s, asked four times too fast"),
        pytest.param(50, 20, 16, 0.1, 5000, 210, id="50/s, asked three times too fast"),
        pytest.param(50, 20, 8, 0.1, 5000, 110, id="50/s, asked half too fast"),
    ],
)
def test_a_limit_that_is_told_as_an_outage_is_found_too(rate, burst, concurrency, rtt, urls, most):
    crawl = Crawl({"x": Shedding(rate, burst, rtt)}, urls, concurrency=concurrency).run()
    assert len(opening(crawl)) <= 2
    assert crawl.delivered["x"] >= 0.998 * urls
    assert crawl.sent() <= 1.3 * urls
    assert crawl.seconds <= most


class Flaky(Site):
    """A share of all attempts fails, whatever the pace: bad exits, a broken backend."""

    def __init__(self, share, outcome, seed):
        super().__init__()
        self.share, self.outcome, self.rng = share, outcome, Random(seed)

    def answer(self, now, url):
        return self.outcome if self.rng.random() < self.share else OK


@pytest.mark.parametrize("outcome", [TIMEOUT, UNAVAILABLE], ids=lambda outcome: outcome.reason)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.3])
def test_a_site_that_fails_by_chance_is_neither_taken_for_dead_nor_slowed_down(share, outcome):
    crawl = Crawl({"x": Flaky(share, outcome, seed=1)}, 3000, seed=1).run()
    assert crawl.kinds()["circuit_opened"] == 0
    assert set(crawl.reasons) <= {"attempts_exhausted"}
    assert crawl.delivered["x"] >= 3000 * (1.0 - 1.5 * share**4) - 2
    assert crawl.admissions(crawl.start, crawl.start + 18) >= 0.85 * 3000


@pytest.mark.parametrize("seed", range(4))
def test_where_a_fifth_fails_once_everything_is_delivered_in_the_end(seed):
    crawl = Crawl({"x": FailsOnce(0.2, Random(seed))}, 2000, seed=seed).run()
    assert crawl.delivered["x"] == 2000
    assert crawl.sent() <= 1.3 * 2000


def test_without_any_budget_the_tail_still_delivers_everything():
    settings = replace(SETTINGS, budget_ratio=0.0, budget_min_retries=0)
    crawl = Crawl({"x": FailsOnce(0.2, Random(2))}, 300, settings, seed=2).run()
    assert crawl.delivered["x"] == 300
    assert crawl.sent() <= 1.3 * 300


def test_without_any_budget_an_outage_at_the_end_is_outlasted():
    """Only retries without budget are left, nothing else is there to be the probe, and still it ends."""
    settings = replace(SETTINGS, budget_ratio=0.0, budget_min_retries=0)
    crawl = Crawl({"x": Down(1100.0, start=1000.5)}, 80, settings, interval=0.01).run(3600)
    assert crawl.delivered["x"] == 80
    assert crawl.sent() <= 1.3 * 80


class Hanging(Site):
    def serve(self, now, url):
        return 5.0, TIMEOUT


def test_a_hanging_site_is_left_alone_after_its_first_flight():
    crawl = Crawl({"x": Hanging()}, 100).run(3600)
    (first, *_) = opening(crawl)
    assert first == crawl.start + 5.0
    assert sum(sent.at <= first for sent in crawl.log) <= 8 + 4
    assert sum(sent.at > first for sent in crawl.log) <= 6
    assert crawl.reasons == {"circuit_open": 100}


@pytest.mark.parametrize("site", [Down, Hanging], ids=["refusing", "hanging"])
def test_one_site_that_is_down_hinders_no_other(site):
    crawl = Crawl({**{f"t{n}": Site() for n in range(9)}, "bad": site()}, 200).run(1800)
    for number in range(9):
        assert crawl.denied[f"t{number}"] == 0
        assert crawl.delivered[f"t{number}"] == 200
    last = max(sent.answered for sent in crawl.log if sent.target != "bad")
    assert last == pytest.approx(crawl.start + 200 * 0.05 / 8, rel=0.01)


class CutOff(Site):
    """Our own network is down from 1005 to 1065; no name resolves."""

    def answer(self, now, url):
        return NO_NAME if 1005.0 <= now < 1065.0 else OK


def test_an_outage_of_our_own_opens_nothing_and_ends_with_the_first_answer():
    crawl = Crawl({f"t{n}": CutOff() for n in range(12)}, 600, concurrency=2).run()
    assert opening(crawl) == []
    assert crawl.lost == {}
    assert sum(crawl.delivered.values()) == 12 * 600
    canaries = [sent.at for sent in crawl.log if 1006.5 <= sent.at < 1064.9]
    assert 50 <= len(canaries) <= 59
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(canaries))
    back = min(sent.answered for sent in crawl.log if sent.at >= 1064.9 and sent.outcome.ok)
    assert back < 1066.2
    assert crawl.admissions(back + 1.1, back + 2.1) == pytest.approx(12 * 2 / 0.05, rel=0.06)


def test_with_three_targets_an_outage_is_each_ones_own():
    crawl = Crawl({f"t{n}": CutOff() for n in range(3)}, 600, concurrency=2).run()
    assert len(opening(crawl)) >= 3
    assert sum(crawl.delivered.values()) == 3 * 600
    assert all(not sent.outcome.ok or not 1005.0 <= sent.at < 1064.9 for sent in crawl.log)
