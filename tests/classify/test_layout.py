from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_resiproxy.classify.layout import LayoutWatch

T, C = "t.example", "has_css('h1')"


def feed(watch: LayoutWatch, count: int, *, sessions: int = 3, fresh: bool = True, walled: bool = False) -> list[bool]:
    return [
        watch.note(T, C, passed=False, session=f"s{n % sessions}", fresh=fresh, walled=walled) for n in range(count)
    ]


def test_twenty_refusals_over_three_sessions_say_so_once() -> None:
    """VFP-13."""
    watch = LayoutWatch()
    assert feed(watch, 30) == [False] * 19 + [True] + [False] * 10
    assert watch.changed(T, C)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"count": 19}, id="too-few"),
        pytest.param({"count": 60, "sessions": 2}, id="two-sessions"),
        pytest.param({"count": 60, "fresh": False}, id="worn-sessions-only"),
        pytest.param({"count": 60, "walled": True}, id="a-wall-was-seen"),
    ],
)
def test_anything_less_is_no_sign(options) -> None:
    watch = LayoutWatch()
    assert not any(feed(watch, **options))
    assert not watch.changed(T, C)


def test_one_fresh_session_among_them_is_enough() -> None:
    watch = LayoutWatch()
    watch.note(T, C, passed=False, session="new", fresh=True, walled=False)
    assert any(feed(watch, 19, fresh=False))


def test_enough_refusals_wait_for_the_sessions() -> None:
    watch = LayoutWatch()
    feed(watch, 40, sessions=1)
    watch.note(T, C, passed=False, session="second", fresh=True, walled=False)
    assert watch.note(T, C, passed=False, session="third", fresh=True, walled=False)


def test_one_pass_clears_it_and_starts_anew() -> None:
    watch = LayoutWatch()
    feed(watch, 20)
    assert not watch.note(T, C, passed=True, session="s", fresh=True, walled=False)
    assert not watch.changed(T, C)
    assert feed(watch, 20)[-1]


def test_a_walls_mark_starts_anew() -> None:
    watch = LayoutWatch()
    feed(watch, 19)
    watch.note(T, C, passed=False, session="s", fresh=True, walled=True)
    assert not any(feed(watch, 19))


def test_checks_and_targets_are_kept_apart() -> None:
    watch = LayoutWatch()
    feed(watch, 20)
    assert not watch.changed(T, "has_css('h2')")
    assert not watch.changed("other.example", C)


@given(st.lists(st.integers(0, 30), max_size=200))
def test_its_memory_is_bounded(targets: list[int]) -> None:
    watch = LayoutWatch(kept=5)
    for number in targets:
        watch.note(str(number), C, passed=False, session="s", fresh=True, walled=False)
    assert len(watch._spells) <= 5
    assert not targets or (str(targets[-1]), C) in watch._spells
