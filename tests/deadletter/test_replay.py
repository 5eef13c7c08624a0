from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.http import Response

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed, Lock
from scrapy_resiproxy.deadletter.index import expand, index
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.deadletter.replay import Filter, select
from scrapy_resiproxy.names import DEAD_LETTER_REASONS

NOW = 1_767_225_600.0


@pytest.fixture
def feed(tmp_path):
    return DeadLetterFeed(tmp_path / "feed.jsonl")


@pytest.fixture
def choose(feed):
    def choosing(*paths, rebuilders=(), **given):
        filter_ = Filter.from_mapping({key.rstrip("_"): value for key, value in given.items()}, now=NOW)
        return select([str(path) for path in paths] or [str(feed.path)], filter_, now=NOW, rebuilders=rebuilders)

    return choosing


ALLOWED = "class, id, limit, now, offline, reason, since, spider, spider_args, target"
CLASSES = "transient, rate, identity, terminal"


def taken(selection):
    return [entry.id for entry in selection.entries]


def test_letters_are_taken_oldest_first(feed, choose, letter):
    later, earlier = letter("http://shop.example/2"), letter("http://shop.example/1", now=NOW - 50)
    feed.write(later)
    feed.write(earlier)
    assert taken(choose()) == [earlier["id"], later["id"]]


def test_only_the_newest_letter_about_a_request_is_taken(feed, choose, letter):
    old, new = letter(now=NOW - 50), letter()
    feed.write(new)
    feed.write(old)
    selection = choose()
    assert taken(selection) == [new["id"]]
    assert [entry.id for entry in selection.older[new["id"]]] == [old["id"]]


def test_the_newest_is_found_over_all_feeds(tmp_path, choose, letter):
    old, new = letter(now=NOW - 50), letter()
    DeadLetterFeed(tmp_path / "a.jsonl").write(new)
    DeadLetterFeed(tmp_path / "b.jsonl").write(old)
    assert taken(choose(tmp_path / "*.jsonl")) == [new["id"]]


@pytest.mark.parametrize("state", ["done", "superseded"])
def test_a_mark_settles_the_older_letters_too(state, feed, choose, letter):
    old, new = letter(now=NOW - 50), letter()
    feed.write(old)
    feed.write(new)
    feed.mark(new["id"], state, NOW)
    assert choose().remaining == 0


def test_a_mark_of_an_older_letter_leaves_the_newer_one(feed, choose, letter):
    old, new = letter(now=NOW - 50), letter()
    feed.write(old)
    feed.write(new)
    feed.mark(old["id"], "superseded", NOW, new["id"])
    selection = choose()
    assert taken(selection) == [new["id"]]
    assert selection.older == {}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"spider_args": {"x": "1"}}, id="spider arguments"),
        pytest.param({"key": "other"}, id="keys"),
        pytest.param({"request": Request("http://shop.example/1")}, id="callbacks"),
    ],
)
def test_letters_of_other_things_are_no_duplicates(other, feed, choose, letter):
    feed.write(letter(key="k"))
    feed.write(letter(**({"key": "k"} | other)))
    assert len(choose().entries) == 2


LEFT = [
    ({"reason": "terminal", "outcome_class": "terminal"}, "unasked"),
    ({"reason": "forbidden", "outcome_class": "terminal"}, "unasked"),
    ({"reason": "dont_retry", "outcome_class": "terminal"}, "unasked"),
    ({"reason": "dont_retry", "outcome_class": "transient"}, None),
    ({"reason": "parse_error", "outcome_class": "terminal"}, None),
    ({"reason": "validator_error", "outcome_class": "terminal"}, None),
    ({"reason": "proxy_refused", "outcome_class": "terminal"}, None),
    ({"reason": "shutdown"}, None),
    ({"replay": {"id": "x", "count": 2}, "reason": "parse_error"}, "poison"),
    ({"replay": {"id": "x", "count": 2}, "reason": "circuit_open"}, None),
    ({"not_before": NOW + 1}, "waiting"),
    ({"not_before": NOW - 1}, None),
    ({"named_session": True}, "unreplayable"),
]


@pytest.mark.parametrize(
    ("given", "why"), LEFT, ids=[f"{next(iter(given.values()))!s:.30} {why}" for given, why in LEFT]
)
def test_what_is_left_alone_by_itself(given, why, feed, choose, letter):
    feed.write(letter(**given))
    selection = choose()
    assert dict(selection.left) == ({} if why is None else {why: 1})
    assert len(selection.entries) == (why is None)
    assert selection.remaining == (why != "unasked")


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"reason": "terminal", "outcome_class": "terminal"}, {"class_": "terminal"}),
        ({"reason": "terminal", "outcome_class": "terminal"}, {"reason": "terminal"}),
        ({"reason": "forbidden", "outcome_class": "terminal"}, {"reason": ["forbidden", "terminal"]}),
        ({"reason": "forbidden", "outcome_class": "identity"}, {"class_": "identity"}),
        ({"not_before": NOW + 1}, {"now": True}),
        ({"named_session": True}, {"rebuilders": {"shop"}}),
    ],
    ids=["class", "reason", "reasons", "class of a wall", "now", "a spider that rebuilds"],
)
def test_what_is_taken_when_asked_for(given, asked, feed, choose, letter):
    feed.write(letter(**given))
    assert len(choose().entries) == 0
    assert len(choose(**asked).entries) == 1


def test_the_classes_that_would_have_to_be_asked_for_are_told(feed, choose, letter):
    feed.write(letter("http://shop.example/1", reason="forbidden", outcome_class="identity"))
    feed.write(letter("http://shop.example/2", reason="terminal", outcome_class="terminal"))
    feed.write(letter("http://shop.example/3"))
    left = choose()
    assert (left.unasked, left.left["unasked"]) == ({"identity", "terminal"}, 2)
    assert len(choose(class_=list(left.unasked)).entries) == 2


def test_an_id_asks_for_terminal_and_poison_letters(feed, choose, letter):
    terminal = letter("http://shop.example/1", reason="terminal", outcome_class="terminal")
    poison = letter("http://shop.example/2", replay={"id": "x", "count": 5})
    other = letter("http://shop.example/3")
    for each in (terminal, poison, other):
        feed.write(each)
    assert taken(choose(id=[terminal["id"], poison["id"]])) == [terminal["id"], poison["id"]]


def test_those_that_wait_say_when_the_first_may_go(feed, choose, letter):
    for number in (3, 1, 2):
        feed.write(letter(f"http://shop.example/{number}", not_before=NOW + number))
    assert choose().waits_until == NOW + 1


PAGE = {"response": Response("http://shop.example/", body=b"x"), "keep_page": True}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({**PAGE}, None, id="a page"),
        pytest.param({}, "no_page", id="no page"),
        pytest.param({**PAGE, "not_before": NOW + 9}, None, id="it need not wait"),
        pytest.param({**PAGE, "named_session": True}, None, id="it needs no session"),
        pytest.param(
            {**PAGE, "request": Request("http://shop.example/", headers={"Authorization": "x"})},
            None,
            id="nor a header",
        ),
        pytest.param(
            {**PAGE, "request": Request("http://shop.example/", cb_kwargs={"x": object()})},
            "no_page",
            id="but its arguments",
        ),
        pytest.param(
            {**PAGE, "request": Request("http://shop.example/", meta={"token": "x"})}, "no_page", id="and its meta"
        ),
        pytest.param({**PAGE, "replay": {"id": "x", "count": 5}}, "poison", id="poison stays"),
    ],
)
def test_offline_takes_what_a_callback_can_run_on(given, why, feed, choose, letter):
    feed.write(letter(**given))
    assert dict(choose(offline=True).left) == ({} if why is None else {why: 1})


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"target": "b.example"}, [2]),
        ({"target": ["a.example", "b.example"]}, [1, 2]),
        ({"class_": "rate"}, [3]),
        ({"reason": "shutdown"}, [2]),
        ({"spider": "other"}, []),
        ({"spider_args": {"page": "2"}}, [2]),
        ({"spider_args": [{"page": "2"}, {}]}, [1, 2, 3]),
        ({"since": "2025-12-31T23:59:57Z"}, [3]),
        ({"since": "4s"}, [3]),
        ({"since": "1.5m"}, [1, 2, 3]),
        ({"limit": 2}, [1, 2]),
        ({"limit": "1"}, [1]),
        ({"limit": None, "now": "false"}, [1, 2, 3]),
    ],
    ids=str,
)
def test_the_filter(asked, numbers, feed, choose, letter):
    made = [
        letter("http://a.example/", target="a.example", now=NOW - 9),
        letter("http://b.example/", target="b.example", reason="shutdown", spider_args={"page": "2"}, now=NOW - 6),
        letter("http://c.example/", target="c.example", outcome_class="rate", now=NOW - 3),
    ]
    for each in made:
        feed.write(each)
    assert taken(choose(**asked)) == [made[number - 1]["id"] for number in numbers]


def test_what_is_over_the_limit_remains(feed, choose, letter):
    for number in range(3):
        feed.write(letter(f"http://shop.example/{number}"))
    selection = choose(limit=1)
    assert (len(selection.entries), selection.left["limit"], selection.remaining) == (1, 2, 3)


def test_letters_are_grouped_by_spider_and_arguments(feed, choose, letter):
    for number, arguments in enumerate([{"a": 1, "b": 2}, {}, {"b": 2, "a": 1}]):
        feed.write(letter(f"http://shop.example/{number}", spider_args=arguments))
    groups = choose().groups()
    assert {key: len(entries) for key, entries in groups.items()} == {
        ("shop", '{"a": 1, "b": 2}'): 2,
        ("shop", "{}"): 1,
    }


def test_arguments_that_do_not_fit_are_left(feed, letter):
    feed.write(letter())
    selection = select([str(feed.path)], Filter(), now=NOW, fits=lambda entry: False)
    assert dict(selection.left) == {"arguments": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"clas": "x"},
            f"'clas' is no key of a replay filter; allowed are {ALLOWED}",
        ),
        ({"target": 5}, "target is 5; it must be a string or a list of strings"),
        ({"target": []}, "target is []; it must be a string or a list of strings"),
        ({"id": ["x", 1]}, "id is ['x', 1]; it must be a string or a list of strings"),
        ({"class": 5}, f"class is 5; it must be one or a list of {CLASSES}"),
        ({"class": ["rate", "x"]}, f"class is ['rate', 'x']; it must be one or a list of {CLASSES}"),
        ({"reason": "outage"}, f"reason is 'outage'; it must be one or a list of {', '.join(DEAD_LETTER_REASONS)}"),
        (
            {"since": "soon"},
            "since is 'soon'; it must be an ISO 8601 time (UTC unless it says otherwise) or an age like 90m, 6h, 2d",
        ),
        (
            {"since": 5},
            "since is 5; it must be an ISO 8601 time (UTC unless it says otherwise) or an age like 90m, 6h, 2d",
        ),
        ({"limit": 0}, "limit is 0; it must be a whole number of 1 or more"),
        ({"limit": 1.5}, "limit is 1.5; it must be a whole number of 1 or more"),
        ({"limit": True}, "limit is True; it must be a whole number of 1 or more"),
        ({"limit": "x"}, "limit is 'x'; it must be a whole number of 1 or more"),
        ({"now": "perhaps"}, "now is 'perhaps'; it must be true or false"),
        ({"offline": []}, "offline is []; it must be true or false"),
        ({"spider_args": "x=1"}, "spider_args is 'x=1'; it must be an object of spider arguments or a list of them"),
        ({"spider_args": []}, "spider_args is []; it must be an object of spider arguments or a list of them"),
    ],
    ids=str,
)
def test_a_wrong_filter_is_one_line(given, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Filter.from_mapping(given, now=NOW)
    assert str(caught.value) == message


@pytest.mark.parametrize(("value", "result"), [(True, True), (1, True), ("TRUE", True), (0, False), ("False", False)])
def test_flags_may_be_spelt_as_settings_are(value, result):
    assert Filter.from_mapping({"now": value}, now=NOW).now is result


def test_broken_lines_are_named_by_file_and_number(feed, choose, letter):
    feed.path.write_bytes(b"oops\n")
    feed.write(letter())
    selection = choose()
    assert selection.problems == [f"{feed.path}:1: not JSON: Expecting value at character 1"]
    assert len(selection.entries) == 1


def test_a_feed_is_read_to_the_size_that_it_had(feed, letter, monkeypatch):
    """A line that is written while the feed is being read is the next replay's."""
    feed.write(letter("http://shop.example/1"))
    stat = feed.path.stat()
    feed.write(letter("http://shop.example/2"))
    monkeypatch.setattr("pathlib.Path.stat", lambda self, **given: stat)
    assert len(index([str(feed.path)]).entries) == 1


def test_an_entry_finds_its_letter_again(feed, letter):
    made = [letter("http://shop.example/1"), letter("http://shop.example/2")]
    feed.path.write_bytes(b"\xef\xbb\xbf")
    feed.write(made[0])
    feed.write(made[1])
    feed.path.write_bytes(feed.path.read_bytes().replace(b"\n", b"\r\n").replace(b"\r\n", b"", 1))
    first, second = index([str(feed.path)]).entries
    assert [first.read(), second.read()] == made
    with Lock(feed.path) as lock:
        feed.path.rename(feed.path.with_name("moved"))
        assert second.load(lock) == made[1]


def test_an_entry_whose_file_was_rewritten_says_so(feed, letter):
    feed.write(letter())
    (entry,) = index([str(feed.path)]).entries
    feed.path.write_bytes(b"x" * 10_000)
    with pytest.raises(LetterError):
        entry.read()


def test_patterns_name_each_file_once_in_order(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    paths = [f"{tmp_path}/b.jsonl", f"{tmp_path}/*.jsonl", f"{tmp_path}/**/*.jsonl"]
    assert expand(paths) == [f"{tmp_path}/{name}" for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl")]


@pytest.mark.parametrize("path", ["gone.jsonl", "*.gone", "."])
def test_a_path_that_names_no_file_is_one_line(path):
    with pytest.raises(ValueError, match=r"names no file; it must be the path or a pattern of a feed$"):
        expand([path])
