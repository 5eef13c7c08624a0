from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest

HTTPX = "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler"
MODES = {
    "asyncio reactor": {},
    "another reactor": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "no reactor": {
        "TWISTED_REACTOR_ENABLED": False,
        "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), HTTPX),
    },
}


HOLD = """
import sys
from scrapy_resiproxy.deadletter.feed import Lock
lock = Lock(sys.argv[1])
print(1, flush=True)
input()
"""


def urls(items):
    return sorted(item["url"].rpartition("/")[2] for item in items)


@pytest.fixture
def lost(project):
    """Writes a feed with letters of an outage that is over."""
    return project.lose


def test_an_outage_and_its_replay(project, site):
    """The whole way: a crawl that fails, its letters, the command, the items."""
    site.status["*"] = 503
    feed = project.crawl("/1", "/2", args=("-a", "category=books"))
    assert project.states(feed) == {"open": 2}
    site.status.clear()
    output = project.run("replay", feed)
    assert output.splitlines() == [
        'shop {"category": "books"}: 2 letters replayed, 2 done, 0 failed again, 0 still open',
        "nothing is left",
    ]
    assert project.states(feed) == {"done": 2}
    assert [(item["extra"], item["tag"], item["category"]) for item in project.items()] == [([1, 2], "t", "books")] * 2


@pytest.mark.parametrize("mode", MODES)
def test_two_crawls_in_a_row_deliver_what_was_lost(mode, project, lost):
    project.settings |= MODES[mode]
    lost("/1", "/2", args={"category": "books"})
    lost("/3", spider="other")
    output = project.run("replay", "deadletter/*/*.jsonl")
    assert output.splitlines() == [
        'shop {"category": "books"}: 2 letters replayed, 2 done, 0 failed again, 0 still open',
        "other: 1 letter replayed, 1 done, 0 failed again, 0 still open",
        "nothing is left",
    ]
    assert {
        (url, item["category"])
        for url, item in zip("123", sorted(project.items(), key=lambda item: item["url"]), strict=True)
    } == {
        ("1", "books"),
        ("2", "books"),
        ("3", None),
    }
    assert {(str(item["extra"]), item["tag"]) for item in project.items()} == {("[1, 2]", "t")}
    assert [dict(project.states(feed)) for feed in project.feeds()] == [{"done": 1}, {"done": 2}]
    assert project.run("replay", "deadletter/*/*.jsonl") == "no open letter to run\n"


def test_what_fails_again_has_a_new_letter_before_the_old_one_is_superseded(project, site, lost):
    feed = lost("/1", "/2")
    old = {letter["request"]["url"]: letter for letter in project.letters(feed)}
    site.status["/2"] = 503
    output = project.run("replay", feed, code=1)
    assert "shop: 2 letters replayed, 1 done, 1 failed again, 0 still open" in output
    assert project.states(feed) == {"done": 1, "superseded": 1}
    (new,) = project.letters(project.feeds()[1])
    before = old[site.root + "/2"]
    assert (new["replay_of"], new["replay_count"], new["key"]) == (before["id"], 0, before["key"])
    assert new["first_seen"] == before["first_seen"]
    assert [line["by"] for line in project.lines(feed) if line.get("state") == "superseded"] == [new["id"]]
    assert output.splitlines()[-2:] == [
        "left: 1 failed again",
        f"1 request ended as a dead letter. To send it again: scrapy replay {project.feeds()[1]}",
    ]
    site.status.clear()
    assert "1 letter replayed, 1 done" in project.run("replay", "deadletter/shop/*.jsonl")


def test_with_one_feed_for_all_runs_a_replay_takes_what_was_there_at_its_start(project, site, lost):
    project.settings["RESIPROXY_DEADLETTER_FILE"] = "dead.jsonl"
    site.status["*"] = 503
    project.run("crawl", "shop", paths=["/1", "/2"])
    output = project.run("replay", "dead.jsonl", code=1)
    assert "2 letters replayed, 0 done, 2 failed again" in output
    assert output.splitlines()[-1] == "left: 2 open"
    assert site.asked == {"/1": 2, "/2": 2}


def test_terminal_letters_are_run_when_asked_for_and_a_page_that_is_gone_is_done(project, site):
    site.status |= {"/1": 400, "/2": 400}
    feed = project.crawl("/1", "/2")
    assert project.run("replay", feed).splitlines() == [
        "left: 2 final and not asked for (add --class or --reason)",
        "NOT RUN: 2 letters whose answer was final. To run them, give the same command with --class terminal",
    ]
    site.status |= {"/1": 404, "/2": 200}
    assert "2 letters replayed, 2 done" in project.run("replay", feed, "--class", "terminal")
    assert urls(project.items()) == ["2"]


def test_a_fixed_parser_runs_on_the_stored_pages_and_nothing_is_sent(project, site):
    project.settings["ROBOTSTXT_OBEY"] = True
    project.switch("broken")
    feed = project.crawl(*[f"/{number}" for number in range(4)])
    assert [letter["reason"] for letter in project.letters(feed)] == ["parse_error"] * 4
    project.switch("broken", on=False)
    site.asked.clear()
    output = project.run("replay", feed, "--offline")
    assert "4 letters replayed, 4 done" in output
    assert site.asked == {}
    assert urls(project.items()) == ["0", "1", "2", "3"]
    assert project.items()[0]["text"].startswith("<html><body><p>page /")
    assert project.states(feed) == {"done": 4}


def test_the_commands_that_a_crawl_gives_at_its_end_get_everything_back(project, site):
    project.switch("broken")
    site.status |= {"/2": 503, "/3": 400}
    project.crawl("/1", "/2", "/3")
    commands = re.findall(r"scrapy (replay .*)$", project.log, re.MULTILINE)
    assert len(commands) == 3
    project.switch("broken", on=False)
    site.status.clear()
    send, offline, asked = (shlex.split(command) for command in commands)
    site.asked.clear()
    assert "1 done" in project.run(*offline, code=None)
    assert site.asked == {}
    assert "1 done" in project.run(*send)
    assert "1 done" in project.run(*asked)
    assert urls(project.items()) == ["1", "2", "3"]


def test_an_offline_replay_sends_no_follow_up_and_keeps_the_letter(project, site):
    project.switch("broken")
    feed = project.crawl("/1")
    project.switch("broken", on=False)
    project.switch("follows")
    site.asked.clear()
    output = project.run("replay", feed, "--offline", code=1)
    assert "1 letter replayed, 0 done, 0 failed again, 1 still open, 1 follow-up request not sent (offline)" in output
    assert site.asked == {}
    assert "1 letter replayed, 1 done" in project.run("replay", feed)
    assert site.asked == {"/1": 1, "/follow": 1}


def test_what_has_no_page_is_left_by_an_offline_replay(project, site, lost):
    feed = lost("/1")
    output = project.run("replay", feed, "--offline", code=1)
    assert output == "left: 1 without a stored page to run offline\n"


def test_a_parser_that_stays_broken_makes_poison_of_its_letter(project, site):
    project.switch("broken")
    project.crawl("/1")
    for count in (1, 2, 3):
        assert "1 failed again" in project.run("replay", "deadletter/shop/*.jsonl", code=1)
        assert project.letters(project.feeds()[-1])[0]["replay_count"] == count
    site.asked.clear()
    assert (
        project.run("replay", "deadletter/shop/*.jsonl", code=1) == "left: 1 poison: failed in 3 replays (add --id)\n"
    )
    assert site.asked == {}
    project.switch("broken", on=False)
    (poison,) = project.letters(project.feeds()[-1])
    assert "1 done" in project.run("replay", "deadletter/shop/*.jsonl", "--id", poison["id"])


def test_an_item_that_does_not_pass_the_pipelines_is_no_success(project, lost):
    feed = lost("/1")
    project.switch("item-fails")
    output = project.run("replay", feed, code=1)
    assert "1 letter replayed, 0 done, 1 failed again" in output
    assert project.states(feed) == {"superseded": 1}
    project.switch("item-fails", on=False)
    assert "1 letter replayed, 1 done" in project.run("replay", "deadletter/shop/*.jsonl")


def test_an_item_that_a_pipeline_drops_has_passed(project, lost):
    feed = lost("/1")
    project.switch("drop")
    assert "1 letter replayed, 1 done" in project.run("replay", feed)


def test_a_page_with_follow_ups_is_done_when_the_crawl_has_finished(project, site, lost):
    feed = lost("/1", "/2")
    project.switch("follows")
    site.gates["/follow"] = threading.Event()
    process = project.start("replay", feed)
    wait_for(lambda: site.asked["/follow"])
    assert project.marks(feed) == {}
    process.send_signal(signal.SIGTERM)
    site.gates["/follow"].set()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "0 done, 0 failed again" in output
    assert "the crawl ended with shutdown" in output
    assert project.states(feed) == {"open": 2}

    assert "2 letters replayed, 2 done" in project.run("replay", feed)
    assert set((project.folder / "follow-meta").read_text().split()) == {"false"}


def test_a_follow_up_that_fails_has_a_letter_of_its_own(project, site, lost):
    feed = lost("/1")
    project.switch("follows")
    site.status["/follow"] = 503
    output = project.run("replay", feed)
    assert "1 letter replayed, 1 done, 0 failed again" in output
    new = project.feeds()[1]
    again = f"1 request ended as a dead letter. To send it again: scrapy replay {new}"
    assert output.splitlines()[-2:] == ["nothing is left", again]
    (letter,) = project.letters(project.feeds()[1])
    assert (letter["request"]["url"], letter["replay_of"]) == (f"{site.root}/follow", None)


def test_a_status_that_the_spider_handles_itself_is_a_page(project, site, lost):
    feed = lost("/1", spider="other")
    site.status["/1"] = 418
    assert "1 letter replayed, 1 done" in project.run("replay", feed)


def test_after_sigterm_no_further_crawl_is_started(project, site, lost):
    lost("/1")
    lost("/2", spider="other")
    site.gates["/1"] = threading.Event()
    process = project.start("replay", "deadletter/*/*.jsonl")
    wait_for(lambda: site.asked["/1"])
    process.send_signal(signal.SIGTERM)
    site.gates["/1"].set()
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert site.asked["/2"] == 0


def wait_for(happened, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_killed_half_way_the_next_replay_goes_on_and_no_item_is_lost(project, site, lost):
    paths = [f"/{number}" for number in range(30)]
    project.settings["CONCURRENT_REQUESTS"] = 2
    feed = lost(*paths)
    for path in paths[15:]:
        site.gates[path] = threading.Event()
    process = project.start("replay", feed)
    wait_for(lambda: project.states(feed)["done"] >= 8)
    process.kill()
    process.communicate()
    done = project.states(feed)["done"]
    marks = project.marks(feed)
    by_id = {letter["id"]: letter["request"]["url"] for letter in project.letters(feed)}
    assert {by_id[letter_id] for letter_id in marks} <= {item["url"] for item in project.items()}, "marked, but lost"
    for gate in site.gates.values():
        gate.set()
    assert f"{30 - done} letters replayed, {30 - done} done" in project.run("replay", feed)
    assert set(urls(project.items())) == {path[1:] for path in paths}


@pytest.mark.parametrize("fails", [False, True], ids=["stored", "not stored"])
def test_items_that_are_uploaded_at_the_end_count_when_they_are_stored(fails, project, site, lost):
    project.settings["FEEDS"] = {"upload://bucket/%(time)s.jl": {"format": "jsonlines"}}
    feed = lost("/1", "/2")
    if fails:
        project.switch("upload-fails")
    output = project.run("replay", feed, code=int(fails))
    assert (
        "2 letters replayed, 0 done, 0 failed again, 2 still open" if fails else "2 letters replayed, 2 done"
    ) in output
    assert len(project.items("uploaded.jl")) == (0 if fails else 2)


def test_arguments_of_the_command_line_lie_over_those_of_the_letters(project, lost):
    lost("/1", args={"category": "books", "x": "1"})
    lost("/2", args={"category": "music", "x": "1"})
    output = project.run("replay", "deadletter/shop/*.jsonl", "-a", "category=all")
    assert "2 letters replayed, 2 done" in output
    assert [item["category"] for item in project.items()] == ["all", "all"]


def test_a_secret_argument_must_be_given_again(project, lost):
    feed = lost("/1", args={"password": "hunter2canary"})
    assert "hunter2canary" not in (project.folder / feed).read_text()
    output = project.run("replay", feed, code=1)
    assert "shop: 1 letter is left, for no letter holds a secret: add -a password=VALUE" in output
    output = project.run("replay", feed, "-a", "password=hunter2canary")
    assert "1 letter replayed, 1 done" in output
    assert "hunter2canary" not in output


def test_only_what_is_asked_for_is_run(project, site, lost):
    feed = lost("/1", "/2", "/3")
    output = project.run("replay", feed, "--limit", "2", "--reason", "attempts_exhausted", code=1)
    assert "2 letters replayed, 2 done" in output
    assert output.splitlines()[-1] == "left: 1 open"
    assert project.run("replay", feed, "--target", "elsewhere.example", "--since", "1h") == "no open letter to run\n"
    assert "1 letter replayed, 1 done" in project.run("replay", feed, "--target", "127.0.0.1", "--since", "1h")


def test_what_should_wait_waits_unless_told_now(project, site, lost):
    feed = lost("/1")
    (letter,) = project.letters(feed)
    letter["not_before"] = "2099-01-01T00:00:00.000000Z"
    (project.folder / feed).write_text(json.dumps(letter) + "\n")
    output = project.run("replay", feed, code=1)
    assert output == (
        "left: 1 not due before their not_before (add --now), the first is due at 2099-01-01T00:00:00.000000Z\n"
    )
    assert "1 letter replayed, 1 done" in project.run("replay", feed, "--now")


def test_a_dry_run_says_what_would_run_and_runs_nothing(project, site, lost):
    feed = lost("/1", "/2", args={"category": "books"})
    output = project.run("replay", feed, "--dry-run")
    assert output.splitlines() == ['shop {"category": "books"}: 2 letters would be replayed', "nothing would be left"]
    assert (site.asked, project.items()) == ({}, [])


def test_a_feed_that_is_being_replayed_has_its_own_exit_code(project, site, lost):
    feed = lost("/1")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(project.folder / feed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    try:
        assert project.run("replay", feed, code=3) == f"{feed} is being replayed or compacted by another process\n"
        assert project.run("deadletter", feed, "--compact", code=3).endswith("by another process\n")
        project.run("crawl", "shop", "-s", f"RESIPROXY_REPLAY={feed}", code=None)
        assert f"{feed} is being replayed or compacted by another process" in project.log
        assert "Traceback" not in project.log
    finally:
        process.communicate(b"\n")
    assert site.asked == {}


def test_broken_lines_are_named_and_skipped(project, lost):
    feed = lost("/1")
    path = project.folder / feed
    path.write_bytes(b"oops\n" * 25 + path.read_bytes() + b'{"torn')
    output = project.run("replay", feed)
    assert f"skipped: {feed}:1: not JSON: Expecting value at character 1" in output
    assert "skipped: 6 more lines" in output
    assert "1 letter replayed, 1 done" in output
    assert "Skipped: 6 more lines" in project.log


def test_a_file_that_is_no_feed_is_one_line(project, site):
    (project.folder / "items.jsonl").write_text('{"url": "x"}\n' * 300)
    assert project.run("replay", "items.jsonl", code=2) == ""
    assert "no dead letter in it; items.jsonl:1: v is None" in project.log
    assert site.asked == {}


@pytest.mark.parametrize("proxy", [None, "http://u-{session}:p@127.0.0.1:1"])
def test_an_offline_replay_speaks_of_no_way_out_and_of_no_ratio(project, site, proxy):
    (project.folder / "broken").touch()
    feed = project.crawl("/1")
    (project.folder / "broken").unlink()
    project.settings["RESIPROXY_PROXY"] = proxy
    assert "1 letter replayed, 1 done" in project.run("replay", "--offline", feed)
    assert "RESIPROXY_PROXY" not in project.log
    assert "Requests go through" not in project.log
    assert "resiproxy/valid_ratio" not in project.log
    assert "resiproxy/incomplete_count" in project.log


OVERWRITTEN = {
    "overwrite": {"items.jl": {"format": "jsonlines", "overwrite": True}},
    "s3": {"s3://u:hunter2@bucket/items.jl": {"format": "jsonlines"}},
}


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_a_feed_that_would_be_overwritten_stops_the_replay(case, project, site, lost):
    feed = lost("/1")
    project.settings["FEEDS"] = OVERWRITTEN[case]
    project.run("replay", feed, code=2)
    shown = "s3://bucket/items.jl" if case == "s3" else "items.jl"
    assert f"would overwrite the item feed {shown}: name another with -o FEED, or add --allow-overwrite" in project.log
    assert "Traceback" not in project.log
    assert site.asked == {}


def test_another_feed_or_the_users_word_lets_it_run(project, lost):
    first, second = lost("/1"), lost("/2")
    (project.folder / "items.jl").write_text('{"url": "x/kept"}\n')
    project.settings["FEEDS"] = OVERWRITTEN["overwrite"]
    assert "1 done" in project.run("replay", first, "-o", "mine.jl")
    assert (urls(project.items()), urls(project.items("mine.jl"))) == (["kept"], ["1"])
    assert "1 done" in project.run("replay", second, "--allow-overwrite")
    assert urls(project.items()) == ["2"]


def test_items_on_standard_output_are_not_mixed_with_words(project, lost):
    feed = lost("/1")
    output = project.run("replay", feed, "-o", "-:jsonlines")
    assert urls(json.loads(line) for line in output.splitlines()) == ["1"]
    assert "shop: 1 letter replayed, 1 done" in project.log


@pytest.mark.parametrize("where", ["project", "command line"])
def test_a_replay_does_not_touch_the_job(where, project, lost):
    feed = lost("/1")
    if where == "project":
        project.settings["JOBDIR"] = "job"
    assert "1 done" in project.run("replay", feed, *(["-s", "JOBDIR=job"] if where == "command line" else []))
    assert not (project.folder / "job").exists()


def test_without_the_add_on_a_replay_runs_letters_and_no_start_requests(project, site, lost):
    project.settings |= {"ADDONS": {}, "SPIDER_MIDDLEWARES": {"scrapy_resiproxy.ReplaySpiderMiddleware": None}}
    feed = lost("/1", "/2")
    site.status["/2"] = 500
    project.settings["RETRY_ENABLED"] = False
    output = project.run("replay", feed, paths=["/start"], code=1)
    assert "2 letters replayed, 1 done, 0 failed again, 1 still open" in output
    assert site.asked == {"/1": 1, "/2": 1}
    assert project.states(feed) == {"done": 1, "open": 1}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "name at least one dead-letter feed, such as deadletter/shop/*.jsonl"),
        (("gone.jsonl",), "'gone.jsonl' names no file; it must be the path or a pattern of a feed"),
        (("x", "--frobnicate"), "--frobnicate is no option of this command"),
        (("x", "--since", "soon"), "--since is 'soon'; it must be an ISO 8601 time"),
        (("x", "--class", "identty"), "--class is ['identty']; it must be one or a list of"),
        (("x", "--class", "rate,identity"), "transient, rate, identity, terminal"),
        (("x", "--reason", "shutdown", "--reason", "outage"), "--reason is ['shutdown', 'outage']; it must be one or"),
        (("x", "--limit", "none"), "--limit is 'none'; it must be a whole number of 1 or more"),
        (("x", "-a", "novalue"), "Invalid -a value, use -a NAME=VALUE"),
        (("x", "-o", "x.nonsense"), "Unrecognized output format 'nonsense'"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_one_line(args, message, project):
    (project.folder / "x").write_text("")
    assert project.run("replay", *args, code=2) == ""
    assert message in project.log.splitlines()[-1]
    assert "Traceback" not in project.log


def test_letters_of_a_spider_or_a_method_that_is_gone_are_left(project, site, lost):
    feed = lost("/1", "/2")
    first, second = project.letters(feed)
    first["spider"] = "gone"
    second["request"]["callback"] = "parse_gone"
    (project.folder / feed).write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    output = project.run("replay", feed, code=1)
    assert "gone: 1 letter is left, for this project has no spider of that name" in output
    assert "shop: 0 letters replayed, 0 done, 0 failed again, 0 still open, 1 could not be rebuilt" in output
    assert (
        f"{feed}:2 is left: request.callback is 'parse_gone'; it must be the name of a method of 'shop'" in project.log
    )
    assert output.splitlines()[-1] == "left: 2 open"
    assert (site.asked, project.states(feed)) == ({}, {"open": 2})


HOSTILE_VALIDATOR = """
from pathlib import Path
Path("imported").touch()
def check(response):
    Path("called").touch()
"""


OWN_VALIDATORS = """
def good(response):
    Path("asked-a-function").touch()

def is_good(spider, response):
    Path("asked-a-method").touch()

ShopSpider.is_good = is_good
"""


def name_validators(project, feed, *names):
    """Have the letters of *feed* name these, in their order; None for none."""
    letters = project.letters(feed)
    for letter, name in zip(letters, names, strict=True):
        letter["request"]["meta"]["resiproxy_validator"] = name
    (project.folder / feed).write_text("".join(json.dumps(letter) + "\n" for letter in letters))


@pytest.mark.parametrize("name", ["evilmod.check", "sys.exit"])
def test_a_validator_that_a_letter_names_is_neither_imported_nor_called(name, project, site, lost):
    (project.folder / "evilmod.py").write_text(HOSTILE_VALIDATOR)
    feed = lost("/1", "/2")
    name_validators(project, feed, None, name)
    output = project.run("replay", feed, code=1)
    assert f"{feed}:2 is left: request.meta.resiproxy_validator is '{name}'; it must be" in project.log
    assert output.splitlines()[-1] == "left: 1 open"
    assert project.states(feed) == {"done": 1, "open": 1}
    assert not site.asked["/2"]
    assert not [path for path in ("imported", "called") if (project.folder / path).exists()]


def test_the_projects_own_validators_judge_a_replay(project, lost):
    spiders = project.folder / "proj" / "spiders.py"
    spiders.write_text(spiders.read_text() + OWN_VALIDATORS)
    feed = lost("/1", "/2")
    name_validators(project, feed, "proj.spiders.good", "is_good")
    assert "2 letters replayed, 2 done" in project.run("replay", feed)
    assert sorted(path.name for path in project.folder.glob("asked-*")) == ["asked-a-function", "asked-a-method"]


def test_a_spider_may_rebuild_or_refuse_a_request(project, site, lost):
    feed = lost("/?token=old", "/refuse", "/wrong", "/raise", spider="rebuild")
    output = project.run("replay", feed, code=1)
    assert "rebuild: 1 letter replayed, 1 done, 0 failed again, 0 still open" in output
    assert "1 refused by replay_request, 2 could not be rebuilt" in output
    assert site.asked == {"/?token=fresh": 1}
    assert "replay_request returned a str; it must be a Request or None" in project.log
    assert "RuntimeError: boom" in project.log


def test_the_hook_need_not_be_async(project, site, lost):
    assert "1 letter replayed, 1 done" in project.run("replay", lost("/?token=old", spider="sync"))
    assert site.asked == {"/?token=fresh": 1}


def test_what_cannot_be_rebuilt_is_left(project, site, lost):
    feed = lost("/?token=old")
    assert project.run("replay", feed, code=1) == "left: 1 not replayable (scrapy deadletter --list says why)\n"
    assert site.asked == {}


def test_older_letters_about_the_same_page_are_settled_with_the_newest(project, lost):
    feeds = [lost("/1"), lost("/1")]
    assert "1 letter replayed, 1 done" in project.run("replay", *feeds)
    assert [dict(project.states(feed)) for feed in feeds] == [{"done": 1}, {"done": 1}]


def test_a_crawl_that_cannot_start_is_one_line_and_the_next_one_runs(project, lost):
    lost("/1", args={"category": "books"})
    lost("/2", spider="other")
    spiders = project.folder / "proj" / "spiders.py"
    spiders.write_text(
        spiders.read_text()
        + "\n\ndef fail(self, *args, **kwargs):\n    raise ValueError('no category')\nShopSpider.__init__ = fail\n"
    )
    output = project.run("replay", "deadletter/*/*.jsonl", code=1)
    assert 'shop {"category": "books"}: did not run, see the log' in output
    assert "other: 1 letter replayed, 1 done" in output
    assert "ValueError: no category" in project.log


def test_spider_arguments_from_a_hostile_feed_do_no_more_than_fail(project, lost):
    lost("/1", args={"crawler_or_spidercls": "x"})
    lost("/2", args={"crawler": "x"})
    lost("/3", spider="other")
    output = project.run("replay", "deadletter/*/*.jsonl", code=1)
    assert output.count("did not run, see the log") == 2
    assert "other: 1 letter replayed, 1 done" in output


def test_a_setting_replays_too(project, site, lost):
    feed = lost("/1", "/2", args={"category": "books"})
    lost("/3", spider="other")
    setting = ("-s", "RESIPROXY_REPLAY=deadletter/*/*.jsonl")
    project.run("crawl", "shop", *setting, paths=["/start"])
    assert "2 of other spider arguments" in project.log
    assert site.asked == {}, "not even its start requests"
    project.run("crawl", "shop", *setting, "-a", "category=books", "-s", 'RESIPROXY_REPLAY_FILTER={"limit": 1}')
    assert "Replay: shop: 1 letter replayed, 1 done" in project.log
    assert project.states(feed) == {"done": 1, "open": 1}


def test_the_addon_keeps_a_replay_by_setting_out_of_the_job(project, site):
    (project.folder / "x").write_text("")
    project.run("crawl", "shop", "-s", "RESIPROXY_REPLAY=x", "-s", "JOBDIR=job", code=None, paths=[])
    assert not (project.folder / "job").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["RESIPROXY_REPLAY=gone.jsonl"], "RESIPROXY_REPLAY: 'gone.jsonl' names no file"),
        (["RESIPROXY_REPLAY=x", 'RESIPROXY_REPLAY_FILTER={"limit": 0}'], "RESIPROXY_REPLAY_FILTER: limit is 0"),
        (["RESIPROXY_REPLAY=x", "RESIPROXY_MODE=odd"], "RESIPROXY_MODE is 'odd'"),
    ],
    ids=["path", "filter", "another setting"],
)
def test_a_wrong_setting_stops_the_crawl_before_its_start_requests(settings, message, project, site):
    (project.folder / "x").write_text("")
    args = [part for setting in settings for part in ("-s", setting)]
    project.run("crawl", "shop", *args, code=None, paths=["/start"])
    assert message in project.log
    assert "Traceback" not in project.log
    assert site.asked == {}


@pytest.mark.parametrize("add_on", [True, False])
def test_an_offline_setting_needs_handlers_that_send_nothing(add_on, project, site):
    project.switch("broken")
    feed = project.crawl("/1")
    project.switch("broken", on=False)
    site.asked.clear()
    setting = ("-s", f"RESIPROXY_REPLAY={feed}", "-s", 'RESIPROXY_REPLAY_FILTER={"offline": true}')
    project.settings["SPIDER_MIDDLEWARES"] = {"scrapy_resiproxy.ReplaySpiderMiddleware": 10}
    if not add_on:
        project.settings["ADDONS"] = {}
        project.run("crawl", "shop", *setting, code=None, paths=["/start"])
        assert "RESIPROXY_REPLAY_FILTER has offline set; that needs `scrapy replay --offline`" in project.log
    handler = "scrapy_resiproxy.components.offline.StoredPageHandler"
    schemes = ["http", "https", "ftp", "s3", "file", "data"]
    project.settings["DOWNLOAD_HANDLERS"] = dict.fromkeys(schemes, handler)
    project.run("crawl", "shop", *setting)
    assert "1 letter replayed, 1 done" in project.log
    assert site.asked == {}


@pytest.mark.parametrize(
    ("session", "options", "proxy", "lines"),
    [("a1b2c3d4", [], None, 1), (None, [], None, 0), ("a1b2c3d4", ["--offline"], None, 0), ("a1b2c3d4", [], "list", 0)],
    ids=["no proxy now", "it had none", "nothing is sent", "there is one"],
)
def test_letters_that_went_through_a_proxy_are_not_sent_without_one_silently(
    session, options, proxy, lines, project, site, lost
):
    feed = lost("/1")
    (letter,) = project.letters(feed)
    letter["attempts"] = [{"class": "transient", "reason": "unavailable", "session": session}]
    (project.folder / feed).write_text(json.dumps(letter) + "\n")
    project.settings["RESIPROXY_PROXY"] = proxy and [site.root]
    project.run("replay", feed, *options, code=None)
    said = [line for line in project.log.splitlines() if "RESIPROXY_PROXY is not set now" in line]
    assert len(said) == lines
    assert all("WARNING: 1 of these letters went through a session of a proxy when it failed" in line for line in said)
