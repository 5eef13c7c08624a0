from __future__ import annotations

import pytest

from scrapy_resiproxy.tunnel.idle import DEFAULT_LIMIT, IdleTimes

PATH = ("proxy:1", "origin:2")
OTHER = ("proxy:1", "origin:3")


def learned_from(*events, told=None):
    times = IdleTimes(told)
    for event in events:
        if isinstance(event, tuple):
            times.survived(PATH, event[0])
        else:
            times.seen(PATH, event)
    return times


@pytest.mark.parametrize(
    ("events", "timeout"),
    [
        pytest.param([], None, id="nothing seen"),
        pytest.param([10.0], None, id="once is chance"),
        pytest.param([10.0, 10.02], None, id="twice is chance"),
        pytest.param([10.02, 10.0, 9.98], 9.98, id="three agree: the shortest counts"),
        pytest.param([3.0, 10.0, 25.0, 40.0, 10.1, 9.9], 9.9, id="stray ends do not count"),
        pytest.param([0.1, 0.1, 0.1], None, id="below a second nothing is believed"),
        pytest.param([30.0, 30.0, 30.0, 10.0, 10.0, 10.0], 10.0, id="the shortest of two"),
        pytest.param([2.0, 2.0, 2.0, (3.3,)], None, id="refuted by a survivor"),
        pytest.param([(3.3,), 2.0, 2.0, 2.0], None, id="refuted beforehand"),
        pytest.param([(3.3,), 10.0, 10.0, 10.0], 10.0, id="a shorter survivor refutes nothing"),
    ],
)
def test_an_idle_timeout_is_learned_from_ends_that_agree(events, timeout):
    assert learned_from(*events).timeout(PATH) == timeout


def test_what_is_learned_on_one_path_says_nothing_of_another():
    times = learned_from(5.0, 5.0, 5.0)
    assert times.timeout(OTHER) is None
    assert times.shortest_learned() == 5.0
    assert IdleTimes().shortest_learned() is None


def test_our_limit_is_nine_tenths_of_the_shortest_that_is_known():
    assert IdleTimes().limit(PATH) == DEFAULT_LIMIT
    assert IdleTimes(10.0).limit(PATH) == 9.0
    assert IdleTimes(10.0).limit(PATH, promised=5.0) == 4.5
    assert learned_from(8.0, 8.0, 8.0, told=10.0).limit(PATH) == pytest.approx(7.2)
    assert learned_from(20.0, 20.0, 20.0, told=10.0).limit(PATH) == 9.0


def test_old_paths_are_forgotten():
    times = learned_from(5.0, 5.0, 5.0)
    for n in range(1000):
        times.seen(("proxy", str(n)), 1.0)
    assert times.timeout(PATH) is None
