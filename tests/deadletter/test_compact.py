from __future__ import annotations

import stat

import pytest

from scrapy_resiproxy.deadletter import compact as module
from scrapy_resiproxy.deadletter.compact import compact
from scrapy_resiproxy.deadletter.feed import DeadLetterFeed
from scrapy_resiproxy.deadletter.record import encode, make_mark


@pytest.fixture
def feed(tmp_path, letter):
    """A feed with an open letter, a done one, a superseded one, a broken line and a mark for elsewhere."""
    path = tmp_path / "feed.jsonl"
    made = [letter(), letter(), letter()]
    path.write_bytes(
        b"".join(encode(each) for each in made)
        + b"oops\r\n\n"
        + encode(make_mark(made[1]["id"], "done", 0.0))
        + encode(make_mark(made[2]["id"], "superseded", 0.0))
        + encode(make_mark("elsewhere", "done", 0.0))
    )
    path.chmod(0o644)
    return path, encode(made[0]) + b"oops\n" + encode(make_mark("elsewhere", "done", 0.0))


def test_what_is_done_goes_and_all_else_stays(feed):
    path, expected = feed
    assert compact(path) == (3, 4)
    assert path.read_bytes() == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_is_written_meanwhile_is_kept(feed, letter, monkeypatch):
    path, expected = feed
    writer = DeadLetterFeed(path)
    late = [letter(), letter(), letter()]
    writer.open()
    write = module._write

    def write_slowly(draft, lock, lines):
        writer.write(late[0])
        write(draft, lock, lines)
        writer.write(late[1])

    monkeypatch.setattr(module, "_write", write_slowly)
    compact(path)
    writer.write(late[2])
    assert path.read_bytes() == expected + b"".join(encode(each) for each in late)


def test_a_failure_leaves_the_feed_as_it_was(feed, monkeypatch):
    path, _ = feed
    before = path.read_bytes()

    def full(draft, lock, lines):
        draft.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(OSError, match="No space"):
        compact(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
