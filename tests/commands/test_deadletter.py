from __future__ import annotations

import json
import stat

import pytest

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed


@pytest.fixture
def feeds(project):
    """Two feeds: four letters, of which one is done, one is poison and one cannot be replayed; and a broken line."""
    first, second = project.lose("/1", "/2"), project.lose("/3", "/4", spider="other")
    letters = project.letters(first) + project.letters(second)
    letters[1] |= {"reason": "circuit_open", "replayable": False, "obstacle": "named session"}
    letters[2] |= {"class": "terminal", "reason": "parse_error", "target": "b.example", "replay_count": 3}
    (project.folder / first).write_text("".join(json.dumps(letter) + "\n" for letter in letters[:2]))
    (project.folder / second).write_text("oops\n" + "".join(json.dumps(letter) + "\n" for letter in letters[2:]))
    feed = DeadLetterFeed(project.folder / first)
    feed.mark(letters[0]["id"], "done", 0.0)
    feed.close()
    return letters


def test_the_table_counts_open_letters_by_class_reason_and_target(project, feeds):
    output = project.run("deadletter", "deadletter/*/*.jsonl")
    assert output.splitlines() == [
        "skipped: deadletter/other/1.jsonl:1: not JSON: Expecting value at character 1",
        "4 letters in 2 feeds, 3 open, 1 done, 0 superseded, 1 poison, 1 not replayable",
        "class      reason              target     open",
        "terminal   parse_error         b.example     1",
        "transient  attempts_exhausted  127.0.0.1     1",
        "transient  circuit_open        127.0.0.1     1",
    ]
    assert project.log == ""


def test_a_file_that_holds_no_letter_is_a_wrong_argument(project):
    (project.folder / "items.jsonl").write_text('{"url": "http://a.example/1"}\n' * 30)
    assert project.run("deadletter", "items.jsonl", code=2) == ""
    assert "no dead letter in it; items.jsonl:1: " in project.log
    assert project.log.count("items.jsonl:") == 1


def test_an_older_letter_about_the_same_page_counts_as_superseded(project):
    feeds = [project.lose("/1"), project.lose("/1")]
    output = project.run("deadletter", *feeds)
    assert output.startswith("2 letters in 2 feeds, 1 open, 0 done, 1 superseded\n")
    assert project.run("deadletter", feeds[0]).startswith("1 letter in 1 feed, 1 open")


def test_a_list_has_a_line_for_each_open_letter(project, feeds, site):
    lines = project.run("deadletter", "deadletter/*/*.jsonl", "--list").splitlines()[1:]
    assert lines == [
        f"{letter['time']}  {letter['id']}  {rest}"
        for letter, rest in zip(
            feeds[1:],
            [
                f"transient  circuit_open  127.0.0.1  GET  {site.root}/2  (not replayable: 'named session')",
                f"terminal  parse_error  b.example  GET  {site.root}/3  (poison)",
                f"transient  attempts_exhausted  127.0.0.1  GET  {site.root}/4",
            ],
            strict=True,
        )
    ]


def test_urls_are_bare(project, feeds, site):
    output = project.run("deadletter", "deadletter/*/*.jsonl", "--urls")
    assert output.splitlines() == [f"{site.root}/{number}" for number in (2, 3, 4)]


@pytest.mark.parametrize("letters", [1, 3000], ids=["less than a buffer", "more than a pipe"])
def test_a_reader_that_has_enough_ends_the_list_quietly(letters, project):
    feed = project.lose("/1")
    (letter,) = project.letters(feed)
    many = [letter | {"id": f"x{number}", "key": f"k{number}"} for number in range(letters)]
    (project.folder / feed).write_text("".join(json.dumps(each) + "\n" for each in many))
    with project.start("deadletter", "--list", feed) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_compacting_drops_what_is_done(project, feeds):
    output = project.run("deadletter", "deadletter/*/*.jsonl", "--compact")
    assert output.splitlines() == [
        "deadletter/other/1.jsonl: 3 lines kept, 0 dropped",
        "deadletter/shop/0.jsonl: 1 line kept, 2 dropped",
    ]
    path = project.folder / "deadletter/shop/0.jsonl"
    assert project.lines("deadletter/shop/0.jsonl") == [feeds[1]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_empty_feed_is_no_error(project):
    (project.folder / "empty.jsonl").write_text("")
    assert project.run("deadletter", "empty.jsonl") == "0 letters in 1 feed, 0 open, 0 done, 0 superseded\n"
    assert project.run("deadletter", "empty.jsonl", "--urls") == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name at least one dead-letter feed, such as deadletter/shop/*.jsonl"),
        (("*.gone",), "'*.gone' names no file; it must be the path or a pattern of a feed"),
        (("x", "--lisst"), "--lisst is no option of this command"),
        (("x", "--urls", "--list"), "choose one of --list, --urls and --compact"),
    ],
    ids=["nothing", "no file", "an option", "two options"],
)
def test_wrong_usage_is_one_line(args, message, project):
    (project.folder / "x").write_text("")
    assert project.run("deadletter", *args, code=2) == ""
    assert message in project.log.splitlines()[-1]
    assert "Traceback" not in project.log


@pytest.mark.parametrize("command", ["deadletter", "replay"])
def test_a_feed_that_cannot_be_read_is_one_line(command, project):
    """A file that opens and then fails to be read."""
    project.run(command, "/proc/self/mem", code=2)
    assert project.log.splitlines()[-1].endswith("error: Input/output error")
    assert "Traceback" not in project.log


def test_scrapy_lists_the_commands(project):
    output = project.run()
    assert "deadletter    Show what the given dead-letter feeds hold" in output
    assert "replay        Run the dead letters in the given feeds again" in output
