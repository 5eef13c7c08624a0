from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.deadletter.plain import NotPlainError, plain, plain_items


class Word(StrEnum):
    A = "a"


CYCLE: list = []
CYCLE.append(CYCLE)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
@settings(max_examples=100)
def test_what_json_holds_comes_back_as_it_was(value):
    assert json.loads(json.dumps(plain(value))) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param((1, (2,)), [1, [2]], id="tuples become lists"),
        pytest.param({1: "x", "2": "y"}, {"1": "x", "2": "y"}, id="integer keys become strings"),
        pytest.param(Word.A, "a", id="a string subclass becomes its text"),
        pytest.param(True, True, id="a boolean stays one"),
    ],
)
def test_plain_changes_only_the_container(value, expected):
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(10**5000, id="a number that json.loads refuses"),
        pytest.param(b"x", id="bytes"),
        pytest.param({1.5: 2}, id="a float key"),
        pytest.param({True: 2}, id="a boolean key"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), id="datetime"),
        pytest.param({"x": [object()]}, id="an object deep inside"),
        pytest.param(CYCLE, id="a cycle"),
        pytest.param({1, 2}, id="a set"),
    ],
)
def test_what_json_does_not_hold_is_refused(value):
    with pytest.raises(NotPlainError):
        plain(value)


def test_each_item_that_is_not_plain_is_dropped_by_its_path():
    dropped: list[str] = []
    assert plain_items({"a": 1, "b": object(), (1, 2): 3}, "meta", dropped) == {"a": 1}
    assert dropped == ["meta.b", "meta.(1, 2)"]
