"""The waiting room: everything that goes in comes out once, not before it is due."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scrapy_resiproxy.schedule.waiting import Waiting, WaitingRoom


def entry(name: str, due: float, target: str = "a", reason: str = "backoff") -> Waiting[str]:
    return Waiting(id=name, request=name, target=target, due=due, reason=reason, sent=1)


@given(st.lists(st.floats(0, 100), max_size=30))
@settings(max_examples=60, deadline=None)
def test_entries_come_out_in_the_order_of_their_due_times(dues: list[float]) -> None:
    room: WaitingRoom[str] = WaitingRoom()
    for number, due in enumerate(dues):
        room.park(entry(str(number), due))
    assert room.pop_due(min(dues, default=0) - 1) is None
    out = []
    while (found := room.pop_due(100)) is not None:
        room.remove(found.id)
        out.append(found.due)
    assert out == sorted(dues)
    assert len(room) == 0


def test_those_that_are_due_at_once_come_out_in_the_order_of_their_requests() -> None:
    room: WaitingRoom[str] = WaitingRoom()
    for number in (20, 3, 11, 1, 2, 100):
        room.park(entry(f"run{number:x}", 5))
    found = [room.pop_due(5) for _ in range(6)]
    assert [each.id for each in found if each is not None] == [f"run{number:x}" for number in (1, 2, 3, 11, 20, 100)]


def test_an_entry_of_the_same_id_replaces_the_first() -> None:
    room: WaitingRoom[str] = WaitingRoom()
    room.park(entry("x", 1, reason="hold"))
    room.park(entry("x", 5))
    assert len(room) == room.count("a") == 1
    assert room.holds == 0
    assert room.next_due() == 5


def test_a_postponed_entry_comes_again() -> None:
    room: WaitingRoom[str] = WaitingRoom()
    room.park(entry("x", 1))
    first = room.pop_due(1)
    assert first is not None
    room.postpone(first, 9)
    assert room.pop_due(8) is None
    assert room.pop_due(9) is first


def test_the_budget_clock_counts_only_the_seconds_in_which_the_target_was_well() -> None:
    room: WaitingRoom[str] = WaitingRoom()
    first, second = entry("x", 0), entry("y", 0)
    for each in (first, second):
        room.park(each)
    room.wait_for_budget(first, 10)
    room.turn_budget_clock("a", 20, still=False)
    room.turn_budget_clock("a", 120, still=True)
    room.wait_for_budget(second, 120)
    room.turn_budget_clock("a", 125, still=False)
    assert room.first_without_budget("a") == (first, 15)
    room.remove("x")
    assert room.first_without_budget("a") == (second, 5)
    room.remove("y")
    assert room.first_without_budget("a") is None
    assert room.targets_without_budget() == []
    room.turn_budget_clock("a", 130, still=False)


class Room(RuleBasedStateMachine):
    """Against a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.room: WaitingRoom[str] = WaitingRoom()
        self.model: dict[str, Waiting[str]] = {}
        self.looks: dict[str, float] = {}

    def held(self, target: str) -> list[Waiting[str]]:
        return [each for each in self.model.values() if each.target == target and each.reason == "hold"]

    @rule(name=st.sampled_from("abcdef"), due=st.floats(0, 9), host=st.sampled_from("xy"), hold=st.booleans())
    def park(self, name: str, due: float, host: str, hold: bool) -> None:
        self.model.pop(name, None)
        if not self.held(host):
            self.looks.pop(host, None)
        self.model[name] = entry(name, due, host, "hold" if hold else "backoff")
        self.room.park(self.model[name])
        if hold:
            self.looks[host] = min(due, self.looks.get(host, due))

    @rule(name=st.sampled_from("abcdef"))
    def remove(self, name: str) -> None:
        assert self.room.remove(name) is self.model.pop(name, None)

    @rule(now=st.floats(0, 9))
    def take_what_is_due(self, now: float) -> None:
        found = self.room.pop_due(now)
        due = [each for each in self.model.values() if each.due <= now and each.reason != "hold"]
        assert (found is None) == (not due)
        if found is not None:
            assert found.due == min(each.due for each in due)
            self.room.remove(found.id)
            del self.model[found.id]

    @rule(now=st.floats(0, 9), again=st.none() | st.floats(0, 9))
    def look_at_what_is_held(self, now: float, again: float | None) -> None:
        target = self.room.pop_look(now)
        due = [name for name, when in self.looks.items() if when <= now and self.held(name)]
        assert (target is None) == (not due)
        if target is not None:
            assert target in due
            assert self.room.first_held(target) is self.held(target)[0]
            del self.looks[target]
            if again is not None:
                self.looks[target] = again
                self.room.look_at(target, again)

    @invariant()
    def it_says_when_it_wants_a_turn(self) -> None:
        entries = [each.due for each in self.model.values() if each.reason != "hold"]
        looks = [when for name, when in self.looks.items() if self.held(name)]
        assert self.room.next_due() == min([*entries, *looks], default=None)
        # A line that is empty wants no look, and the next one in it is not looked at for the sake of those before.
        self.looks = {name: when for name, when in self.looks.items() if self.held(name)}

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.room) == len(self.model)
        assert {each.id for each in self.room} == set(self.model)
        assert set(self.room.targets_held()) >= {name for name in "xy" if self.held(name)}
        assert self.room.holds == sum(each.reason == "hold" for each in self.model.values())
        for target in "xy":
            assert self.room.count(target) == sum(entry.target == target for entry in self.room)
            assert self.room.count(target) == sum(each.target == target for each in self.model.values())


TestRoom = Room.TestCase
TestRoom.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
