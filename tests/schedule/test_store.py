"""The rows of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_resiproxy.schedule.store import GRACE, WaitingStore

if TYPE_CHECKING:
    from pathlib import Path


def ids(store: WaitingStore) -> list[tuple[str, bool]]:
    return [(row.id, row.released) for row in store.load()]


def test_rows_come_back_in_another_process_those_due_first_first(tmp_path: Path) -> None:
    store = WaitingStore(tmp_path / "job" / "x.sqlite")
    store.put("late", 9, {"url": "l"}, {"why": 1})
    store.put("early", 1, {"url": "e"}, {"why": 2}, released=True)
    store.remember("salt", "s")
    again = WaitingStore(tmp_path / "job" / "x.sqlite")
    assert ids(again) == [("early", True), ("late", False)]
    assert again.fact("salt") == "s"
    assert again.fact("nothing") is None
    assert "early" in again
    assert len(again) == 2
    again.close()
    store.close()


def test_a_finished_row_stays_for_a_while_and_goes_at_an_orderly_end(tmp_path: Path) -> None:
    store = WaitingStore(tmp_path / "x.sqlite")
    for name in ("a", "b"):
        store.put(name, 0, {}, {})
    store.finish("a", now=100)
    store.finish("unknown", now=100 + GRACE / 2)
    assert "a" in store
    store.release("b")
    store.finish("b", now=100 + GRACE)
    assert ids(store) == [("b", True)]
    store.close()
    again = WaitingStore(tmp_path / "x.sqlite")
    assert ids(again) == []
    again.close()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    WaitingStore(path).close()
    assert path.stat().st_mode & 0o077 == 0


def test_what_cannot_be_pickled_is_refused_and_leaves_the_rest(tmp_path: Path) -> None:
    store = WaitingStore(tmp_path / "x.sqlite")
    store.put("a", 0, {}, {})
    with pytest.raises((AttributeError, TypeError)):
        store.put("b", 0, {"callback": lambda: None}, {})
    assert ids(store) == [("a", False)]
    store.close()
