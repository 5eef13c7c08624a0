from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scrapy_resiproxy.deadletter.feed import DeadLetterFeed, Lock, LockedError, read_feed
from scrapy_resiproxy.deadletter.record import encode


def ids(path):
    return [data.get("id") or (data["mark"], data["state"], data["by"]) for _, data in read_feed(path)]


def test_nothing_is_made_before_the_first_line(tmp_path):
    feed = DeadLetterFeed(tmp_path / "a" / "b.jsonl")
    feed.close()
    assert list(tmp_path.iterdir()) == []


def test_letters_and_marks_are_lines_of_one_private_file(tmp_path, letter):
    feed = DeadLetterFeed(str(tmp_path / "a" / "b" / "feed.jsonl"))
    made = letter()
    feed.write(made)
    feed.mark(made["id"], "superseded", 0.0, "newer")
    feed.mark(made["id"], "done", 0.0)
    feed.close()
    feed.close()
    assert ids(feed.path) == [made["id"], (made["id"], "superseded", "newer"), (made["id"], "done", None)]
    assert feed.written == 1
    assert stat.S_IMODE(feed.path.stat().st_mode) == 0o600


def test_a_torn_line_of_an_earlier_process_is_closed_first(tmp_path, letter):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b'{"id":"x","te')
    made = letter()
    DeadLetterFeed(path).write(made)
    assert ids(path) == [made["id"]]


@pytest.mark.parametrize("before", [b"", b"\n", b'{"v":1}\n'], ids=["empty", "blank", "whole"])
def test_a_whole_line_is_followed_by_no_blank_one(before, tmp_path, letter):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(before)
    made = letter()
    DeadLetterFeed(path).write(made)
    assert path.read_bytes() == before + encode(made)


def test_one_letter_is_one_write(tmp_path, letter, monkeypatch):
    sizes = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(len(data)) or write(fd, data))
    feed = DeadLetterFeed(tmp_path / "feed.jsonl")
    made = letter(spider_args={"x": "y" * 300_000})
    feed.write(made)
    assert sizes == [len(encode(made))]


def test_a_full_disk_raises_and_the_next_line_is_whole(tmp_path, letter, monkeypatch):
    feed = DeadLetterFeed(tmp_path / "feed.jsonl")
    first, lost, last = letter(), letter(), letter()
    feed.write(first)
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write(fd, data[:50]))
        with pytest.raises(OSError, match="No space left") as caught:
            feed.write(lost)
    assert caught.value.errno == errno.ENOSPC
    feed.write(last)
    assert ids(feed.path) == [first["id"], last["id"]]
    assert feed.written == 2


def test_what_json_cannot_hold_is_not_half_written(tmp_path):
    feed = DeadLetterFeed(tmp_path / "feed.jsonl")
    with pytest.raises(ValueError, match="Out of range"):
        feed.write({"x": float("nan")})
    assert not feed.path.exists()


def test_a_feed_that_was_moved_gets_the_next_line_where_it_is_now(tmp_path, letter):
    feed = DeadLetterFeed(tmp_path / "feed.jsonl")
    made = [letter(), letter()]
    feed.write(made[0])
    feed.path.rename(tmp_path / "moved.jsonl")
    feed.write(made[1])
    assert ids(tmp_path / "moved.jsonl") == [each["id"] for each in made]


def test_a_feed_that_was_deleted_or_replaced_loses_no_line(tmp_path, letter):
    feed = DeadLetterFeed(tmp_path / "feed.jsonl")
    made = [letter(), letter(), letter()]
    feed.write(made[0])
    (tmp_path / "new").write_bytes(b"")
    (tmp_path / "new").replace(feed.path)
    feed.write(made[1])
    feed.write(made[2])
    assert ids(feed.path) == [made[1]["id"], made[2]["id"]]


def test_writers_do_not_cut_each_others_lines(tmp_path, letter):
    path = tmp_path / "feed.jsonl"
    made = letter(spider_args={"x": "y" * 200_000})

    def write_twenty():
        feed = DeadLetterFeed(path)
        for _ in range(20):
            feed.write(made)

    threads = [threading.Thread(target=write_twenty) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(path) == [made["id"]] * 60


@pytest.mark.parametrize(
    ("make", "path", "message"),
    [
        ("", "feed.jsonl", None),
        ("", "new/folder/feed.jsonl", None),
        ("file", "file", None),
        ("folder/x", "folder", "{}/folder is no regular file"),
        ("file", "file/feed.jsonl", "{}/file is no folder"),
        ("file", "file/new/folder/feed.jsonl", "{}/file is no folder"),
        ("", f"{'x' * 300}/feed.jsonl", f"{{}}/{'x' * 300}: File name too long"),
        ("", f"{'x' * 300}.jsonl", f"{{}}/{'x' * 300}.jsonl: File name too long"),
    ],
    ids=["a new file", "new folders", "a file", "a folder", "below a file", "far below a file", "folder", "name"],
)
def test_check_writable_says_why_not(make, path, message, tmp_path):
    if make:
        (tmp_path / make).parent.mkdir(exist_ok=True)
        (tmp_path / make).write_text("")
    said = DeadLetterFeed.check_writable(tmp_path / path)
    assert said == (message and message.format(tmp_path))


def test_check_writable_leaves_no_new_file_and_no_mark_on_an_old_one(tmp_path):
    DeadLetterFeed.check_writable(tmp_path / "new" / "feed.jsonl")
    assert list((tmp_path / "new").iterdir()) == []
    old = tmp_path / "old.jsonl"
    old.write_text("{}")
    DeadLetterFeed.check_writable(old)
    assert old.read_text() == "{}"


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="Linux")
def test_check_writable_tries_for_root_has_every_right_on_paper():
    assert DeadLetterFeed.check_writable("/proc/new/feed.jsonl") == "/proc/new: No such file or directory"
    assert str(DeadLetterFeed.check_writable("/proc/self/new.jsonl")).startswith("/proc/self/new.jsonl: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("exists", [True, False])
def test_check_writable_asks_for_the_right_to_write(exists, tmp_path):
    path = tmp_path / "feed"
    if exists:
        path.touch(0o400)
    tmp_path.chmod(0o500)
    assert DeadLetterFeed.check_writable(path) == f"{path}: Permission denied"


HOLD = """
import sys
from scrapy_resiproxy.deadletter.lock import Lock
lock = Lock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def held_elsewhere(tmp_path):
    """The path of a feed that another process has locked, and that process."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.communicate()


def test_two_processes_do_not_hold_one_lock(held_elsewhere):
    path, process = held_elsewhere
    with pytest.raises(LockedError, match=r"feed\.jsonl is being replayed or compacted by another process"):
        Lock(path)
    process.communicate("\n")
    with Lock(path):
        pass


def test_a_killed_process_holds_no_lock(held_elsewhere):
    path, process = held_elsewhere
    process.kill()
    process.communicate()
    with Lock(path):
        pass


def test_a_writer_is_not_kept_out(held_elsewhere, letter):
    path, _ = held_elsewhere
    DeadLetterFeed(path).write(letter())
    assert len(ids(path)) == 1


def test_a_process_that_holds_the_lock_gets_it_again(tmp_path):
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"abc")
    outer = Lock(path)
    with Lock(path) as inner:
        assert inner.read(1, 2) == b"bc"
    assert outer.read(0, 1) == b"a"
    assert outer.rest(1) == b"bc"
    outer.release()
    outer.release()
    with Lock(path):
        pass


def test_a_lock_needs_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Lock(tmp_path / "gone")


def test_the_file_that_is_there_after_locking_is_the_one_that_is_locked(tmp_path, monkeypatch):
    """Between open and lock another process may put a new file in its place."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"old")
    flock = fcntl.flock

    def replace_then_lock(fd, how):
        if path.read_bytes() == b"old":
            (tmp_path / "new").write_bytes(b"new")
            (tmp_path / "new").replace(path)
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", replace_then_lock)
    with Lock(path) as lock:
        assert lock.read(0, 3) == b"new"
