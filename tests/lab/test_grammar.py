from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_resiproxy.lab import Behaviour, Chain, Down, Flaky, Ok, Outage, RateLimit, SoftBlock
from scrapy_resiproxy.lab.grammar import BEHAVIOURS, describe, parse, spell

numbers = st.floats(0, 1e300)
counts = st.integers(0, 10**6)
chances = st.floats(0, 1)
hows = st.sampled_from(["503", "500", "reset", "close", "hang"])
one = st.one_of(
    st.builds(Ok, numbers, counts),
    st.builds(Down, hows, counts),
    st.builds(Outage, numbers, numbers, hows, counts, st.sampled_from(["first", "start"])),
    st.builds(Flaky, chances, hows, st.booleans(), st.integers()),
    st.builds(RateLimit, st.floats(0.001, 1e6), st.floats(1, 1e6), st.booleans(), counts, counts),
    st.builds(SoftBlock, counts, st.sampled_from(["generic", "cloudflare", "validator-only"])),
    st.sampled_from([kind() for kind in BEHAVIOURS.values()]),
)


@given(st.one_of(one, st.lists(one, min_size=2, max_size=4).map(lambda parts: Chain(tuple(parts)))))
@settings(max_examples=200)
def test_what_is_spelled_is_read_back(behaviour):
    assert parse(spell(behaviour)) == behaviour


@pytest.mark.parametrize(
    ("text", "behaviour"),
    [
        ("ok", Ok()),
        ("flaky:p=0.2,seed=7", Flaky(p=0.2, seed=7)),
        ("flaky:once=no", Flaky(once=False)),
        ("ratelimit:rate=5,burst=3", RateLimit(rate=5.0, burst=3.0)),
        (
            "softblock:look=cloudflare+ok:latency=0.05",
            Chain((SoftBlock(look="cloudflare"), Ok(latency=0.05))),
        ),
        (" ok + down:how=reset ", Chain((Ok(), Down("reset")))),
    ],
)
def test_a_text_means_its_behaviour(text, behaviour):
    assert parse(text) == behaviour


@pytest.mark.parametrize("word", BEHAVIOURS)
def test_every_word_stands_alone_and_is_explained(word):
    assert parse(word) == BEHAVIOURS[word]()
    assert f"\n  {word}" in f"\n{describe()}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sleepy", "unknown behaviour 'sleepy': choose from ok, down, outage"),
        ("", "unknown behaviour ''"),
        ("ok+", "unknown behaviour ''"),
        ("flaky:q=1", "flaky: unknown option 'q': choose from p, how, once, seed"),
        ("flaky:,", "flaky: unknown option ''"),
        ("missing:x=1", "missing: unknown option 'x': it has none"),
        ("flaky:p", "flaky: p= is not a number"),
        ("flaky:p=many", "flaky: p=many is not a number"),
        ("flaky:seed=1.5", "flaky: seed=1.5 is not a whole number"),
        ("flaky:once=perhaps", "flaky: once=perhaps is not true or false"),
        ("flaky:p=2", "flaky: p=2.0 is not between 0 and 1"),
        ("outage:duration=inf", "outage: duration=inf is not a finite number"),
        ("down:how=maybe", "down: how='maybe' is not a status"),
    ],
)
def test_a_wrong_text_is_refused_in_one_line_that_says_what_is_allowed(text, message):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_behaviour_of_ones_own_has_no_spelling():
    class Mine(Behaviour):
        pass

    with pytest.raises(ValueError, match="Mine has no word"):
        spell(Mine())
