from __future__ import annotations

import ipaddress

import pytest

from scrapy_resiproxy.lab import Behaviour, Flaky, Ok, Visit
from scrapy_resiproxy.lab.exits import Exits, session_finder
from scrapy_resiproxy.lab.targets import Targets


@pytest.mark.parametrize(
    ("pattern", "user", "session"),
    [
        ("-session-<id>", "lab-session-a1", "a1"),
        ("-session-<id>", "lab-country-de-session-x_9.z~-ttl-5", "x_9.z~"),
        ("-session-<id>", "lab", "-"),
        ("-sessid-<id>-", "customer-bob-sessid-77-sesstime-10", "77"),
        ("-sessid-<id>-", "customer-bob-sessid-77", "-"),
        (".+<id>", "a.+b", "b"),
        ("<id>", "a1", "a1"),
    ],
)
def test_the_session_stands_where_the_pattern_says(pattern, user, session):
    assert session_finder(pattern)(user) == session


def test_a_pattern_without_a_place_for_the_session_is_refused():
    with pytest.raises(ValueError, match="session_pattern='-session-' lacks <id>"):
        session_finder("-session-")


def test_a_session_keeps_its_address_and_shares_it_with_nobody():
    exits = Exits()
    given = [exits.sticky(session).address for session in ("a", "b", "a")] + [exits.fresh("a").address]
    assert given[0] == given[2]
    assert len(set(given)) == 3
    assert all(ipaddress.ip_address(address) in ipaddress.ip_network("100.64.0.0/10") for address in given)


def decide(targets: Targets, path: str = "/item/1") -> str:
    return targets.decide("shop.example", Visit(path, "a")).outcome


def test_a_host_is_known_by_its_name_in_lower_case():
    targets = Targets({"Shop.Example": Ok()}, lambda: 0.0)
    assert "shop.example" in targets
    assert "other.example" not in targets
    assert targets.behaviours() == {"shop.example": Ok()}


def test_a_host_that_is_set_anew_or_begins_again_remembers_nothing():
    targets = Targets({"shop.example": Flaky(p=1)}, lambda: 0.0)
    assert [decide(targets), decide(targets)] == ["fail-503", "ok"]
    targets.begin_again()
    assert [decide(targets), decide(targets)] == ["fail-503", "ok"]
    targets.set("shop.example", Flaky(p=1))
    assert decide(targets) == "fail-503"


def test_behaviours_begin_at_the_clock_of_the_lab():
    begun = []

    class Recorder(Behaviour):
        def begin(self, now):
            begun.append(now)
            return self

    now = 3.0
    targets = Targets({"shop.example": Recorder()}, lambda: now)
    now = 8.0
    targets.begin_again()
    assert begun == [3.0, 8.0]
    assert targets.reachable("shop.example")


@pytest.mark.parametrize(
    "host", ["", "shop example", "shop/", "-x.example", "shop..example", "shop.example:80", "a\nb"]
)
def test_what_is_no_host_name_is_refused(host):
    with pytest.raises(ValueError, match=r"is not a host name such as shop\.example"):
        Targets({host: Ok()}, lambda: 0.0)


def test_a_judge_must_decide():
    with pytest.raises(NotImplementedError):
        Behaviour().begin(0.0).decide(Visit("/", "a"), 0.0)
