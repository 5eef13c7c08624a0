"""What others write into a request's meta under our names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from scrapy_resiproxy.components.flow import State, again, original_of, state_of, story_of, with_attempt
from scrapy_resiproxy.components.foreign import FACTS as KEPT
from scrapy_resiproxy.components.foreign import STATE, stamp_of
from scrapy_resiproxy.components.offline import put_up, stored_response, take_down
from scrapy_resiproxy.components.surfaced import last_outcome
from scrapy_resiproxy.outcome import OutcomeClass

FACTS: dict[str, Any] = {
    "outcome": "transient",
    "reason": "timeout",
    "blame": "proxy",
    "evidence": "x",
    "session": "abcd",
    "worn": True,
    "status": 502,
    "error": "builtins.TimeoutError",
    "wait": 2.5,
}
GOOD: dict[str, Any] = {
    "id": "a-1",
    "first": 1.5,
    "sent": 2,
    "free": 1,
    "log": [[1.5, FACTS], (2, {"outcome": "identity", "reason": "block_page"})],
    "prefer": None,
    "session": "abcd",
    "avoid": "efgh",
    "filter": False,
    "slot": None,
    "hop": True,
    "uncounted": True,
    "base": 1,
    "verdict": "circuit_open",
    "not_before": 3,
}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def use(state: State) -> None:
    """What is done with a state, wherever it is trusted."""
    meta = {"_resiproxy": state, "redirect_urls": ["http://a/0", "http://a/1"], "redirect_reasons": [302, 302]}
    request = Request("http://a/2", meta=meta)
    assert state_of(again(request, state)) is not None
    if state.get("base", 0) < 2:
        original_of(request, state)
    story_of(state.get("log", ()))
    assert "uncounted" not in state or (state["log"][-1][1]["reason"] and state["sent"])
    outcome = last_outcome(state)
    assert outcome is None or outcome.class_ in OutcomeClass
    after = with_attempt(state, (0.0, FACTS), free=True)  # type: ignore[arg-type]
    assert max(1, after["sent"] - after["free"]) > 0
    assert {state["id"]: 1, state.get("session"): 2, state.get("avoid"): 3, state.get("slot"): 4}


def seen(value: Any) -> State | None:
    return state_of(Request("http://a/", meta={"_resiproxy": value}))


def test_a_state_of_ours_is_known() -> None:
    assert seen(GOOD) is GOOD
    assert seen({"id": "a-1"}) is not None
    assert seen({"id": "a-1", "of a later version": object()}) is not None
    use(GOOD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        "text",
        5,
        True,
        ["id"],
        {},
        {"sent": 1},
        {"id": None},
        {"id": 5},
        {"id": ["a"]},
        *({**GOOD, key: 1j} for key in STATE),
        *({**GOOD, key: -1} for key in ("sent", "free", "base")),
        {**GOOD, "verdict": "nonsense"},
        {"id": "a", "uncounted": True},
        {**GOOD, "uncounted": True, "log": []},
        {**GOOD, "uncounted": True, "sent": 0},
        {**GOOD, "log": [5]},
        {**GOOD, "log": [[1.0]]},
        {**GOOD, "log": [["then", FACTS]]},
        {**GOOD, "log": [[1.0, "facts"]]},
        *({**GOOD, "log": [[1.0, {**FACTS, key: ["x"]}]]} for key in KEPT),
        {**GOOD, "log": [[1.0, {**FACTS, "blame": "weather"}]]},
        {**GOOD, "log": [[1.0, {**FACTS, "outcome": "bad"}]]},
        {**GOOD, "log": [[1.0, {"outcome": "rate"}]]},
    ],
)
def test_what_is_no_state_is_as_if_it_were_not_there(value: Any) -> None:
    assert seen(value) is None


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), JUNK), JUNK)
def test_whatever_passes_for_a_state_can_be_used(changed: dict[str, Any], instead: Any) -> None:
    for value in ({**GOOD, **changed}, instead):
        state = seen(value)
        if state is not None:
            use(state)


@pytest.mark.parametrize(
    "value", ["x", 5, [], {}, {"id": "a"}, {"id": 5, "by": "me", "count": 0}, {"id": "a", "by": []}]
)
def test_what_is_no_stamp_of_a_replay_is_as_if_it_were_not_there(value: Any) -> None:
    request = Request("http://a/", meta={"_resiproxy_replay": value})
    assert stamp_of(request.meta) is None
    put_up("me", None)  # type: ignore[arg-type]
    try:
        assert stored_response(request) is None
    finally:
        take_down("me")


def test_a_count_of_retries_that_is_none_is_begun_anew() -> None:
    for value in ("2", None, 1.5):
        assert "retry_times" not in again(Request("http://a/", meta={"retry_times": value}), {"id": "a"}).meta
    assert again(Request("http://a/", meta={"retry_times": 2}), {"id": "a"}).meta["retry_times"] == 2
