from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_resiproxy.tunnel.registry import Registry
from scrapy_resiproxy.tunnel.route import TunnelKey


@dataclass(eq=False)
class Item:
    key: TunnelKey


KEYS = [TunnelKey("p", session, origin) for session in "ab" for origin in "xy"]


class Model(RuleBasedStateMachine):
    """The registry against two plain lists."""

    def __init__(self):
        super().__init__()
        self.registry = Registry()
        self.busy, self.idle = [], []

    @rule(key=st.sampled_from(KEYS))
    def add(self, key):
        item = Item(key)
        self.registry.add(item)
        self.busy.append(item)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def put(self, data):
        item = data.draw(st.sampled_from(self.busy))
        self.registry.put(item)
        self.busy.remove(item)
        self.idle.append(item)

    @precondition(lambda self: self.idle)
    @rule(data=st.data())
    def take(self, data):
        item = data.draw(st.sampled_from(self.idle))
        self.registry.take(item)
        self.idle.remove(item)
        self.busy.append(item)

    @precondition(lambda self: self.idle or self.busy)
    @rule(data=st.data())
    def drop_twice(self, data):
        item = data.draw(st.sampled_from(self.idle + self.busy))
        self.registry.drop(item)
        self.registry.drop(item)
        (self.idle if item in self.idle else self.busy).remove(item)

    @invariant()
    def agrees(self):
        everything = self.idle + self.busy
        assert len(self.registry) == len(everything)
        assert set(self.registry.everything()) == set(everything)
        assert self.registry.coldest() is (self.idle[0] if self.idle else None)
        for key in KEYS:
            assert self.registry.idle(key) == [i for i in self.idle if i.key == key]
            assert self.registry.busy(key) == sum(i.key == key for i in self.busy)
            assert self.registry.knows(key) == any(i.key == key for i in everything)
            same = {i for i in everything if i.key.session == key.session}
            assert set(self.registry.of_session(key.session)) == same

    @invariant()
    def keeps_nothing_of_the_dropped(self):
        if not self.idle and not self.busy:
            assert not any((self.registry._shelves, self.registry._sessions, self.registry._cold))


TestRegistry = Model.TestCase
TestRegistry.settings = settings(max_examples=60, stateful_step_count=40)
