from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scrapy_resiproxy.lab import demo
from scrapy_resiproxy.lab.badday import play as playing
from scrapy_resiproxy.lab.badday.counts import count
from scrapy_resiproxy.lab.badday.day import CHEAP_ITEMS, DOWN_HOST, LIMITED_HOST, Day

# Slower than stock Scrapy on the slowest machine, or nobody would block it.
ROOT = Path(__file__).parents[2]
SMALL_DAY = Day(pages=30, outage=2.0, give_up=7.0, rate=1.5, patience=5, latency=0.01)
WANTED = sum(len(site.items) for site in SMALL_DAY.sites())


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A small bad day, its folder and all that it said."""
    directory = tmp_path_factory.mktemp("badday")
    said: list[str] = []
    return playing.play(SMALL_DAY, directory, said.append), directory, said


def test_each_wanted_page_is_delivered_fake_kept_or_lost(played):
    result, _, _ = played
    for counts in (result.stock, result.guarded, result.replayed):
        assert counts.delivered + counts.fake + counts.kept + counts.lost == counts.wanted == WANTED


def test_stock_scrapy_stores_fake_pages_loses_urls_and_earns_a_block(played):
    result, _, _ = played
    assert min(result.stock.fake, result.stock.lost, result.stock.blocks) > 0
    assert result.stock.kept == 0
    assert result.stock.requests > WANTED
    assert result.fake["kind"] == "fake"
    assert result.fake["title"] in {"One more step", "Access denied"}


def test_with_the_package_nothing_is_fake_lost_or_blocked(played):
    result, _, _ = played
    for counts in (result.guarded, result.replayed):
        assert (counts.fake, counts.lost, counts.blocks) == (0, 0, 0)
    assert result.guarded.requests < result.stock.requests
    # The site that is down all day, and the pages that the parser cannot read, at least.
    assert result.guarded.kept >= SMALL_DAY.pages + len(CHEAP_ITEMS)
    assert result.guarded.delivered > result.stock.delivered


def test_the_replay_delivers_every_page_that_was_kept(played):
    result, _, _ = played
    assert (result.replayed.delivered, result.replayed.kept) == (WANTED, 0)


def test_the_fixed_parser_runs_on_stored_pages_and_asks_for_none_again(played):
    _, directory, _ = played
    rows = [json.loads(line) for line in (directory / "lab" / "ledger.jsonl").read_text().splitlines()]
    asked = [row["path"] for row in rows if row.get("host") == "shop.example"]
    assert sorted(asked) == sorted(f"/item/{item}" for item in (*range(1, SMALL_DAY.pages + 1), *CHEAP_ITEMS))


def test_the_counts_are_those_of_the_ledger_and_of_the_items(played):
    result, directory, _ = played
    rows = [json.loads(line) for line in (directory / "lab" / "ledger.jsonl").read_text().splitlines()]
    assert sum(row["event"] == "request" for row in rows) == result.replayed.requests
    items = [json.loads(line) for line in (directory / "guarded" / "items.jsonl").read_text().splitlines()]
    assert len({item["asked"] for item in items if item["kind"] == "good"}) == result.replayed.delivered


def test_one_line_for_each_step_and_how_far_it_is(played):
    result, _, said = played
    assert [line[:6] for line in said if " of 4: " in line] == [f"{step} of 4" for step in (1, 2, 3, 4)]
    sent = r" +(?:done in )?\d+ s: (?:no request sent|(\d+) requests? sent, \d+ good pages? came back)"
    done = [found[1] for line in said if "done in" in line and (found := re.fullmatch(sent, line))]
    assert len([line for line in said if re.fullmatch(sent, line)]) == len(said) - 4
    # What is said of a step is that step's: offline, nothing is sent.
    assert done == [
        str(result.stock.requests),
        str(result.guarded.requests),
        None,
        str(result.replayed.requests - result.guarded.requests),
    ]


def test_the_table_is_small_and_says_what_its_words_mean(played):
    result, _, _ = played
    lines = demo.table(result)
    assert len(lines) == 8
    assert lines[0].split("  ")[-1].strip() == "after the replay"
    assert lines[2].split()[-3:] == [str(each.delivered) for each in (result.stock, result.guarded, result.replayed)]
    text = lines + demo.remarks(result) + demo.introduction(SMALL_DAY)
    assert max(map(len, text)) <= 120
    assert all(line.isascii() for line in text)
    assert LIMITED_HOST in " ".join(demo.remarks(result))


def test_a_url_with_an_open_letter_is_kept_and_one_with_a_mark_is_not(tmp_path):
    (tmp_path / "deadletter" / "x").mkdir(parents=True)
    lines = [{"id": f"l{n}", "request": {"url": f"http://a/{n}"}} for n in (1, 2, 3)]
    lines += [{"mark": "l2", "state": "done"}]
    (tmp_path / "deadletter" / "x" / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    items = [{"asked": "http://a/3", "kind": "good"}, {"asked": "http://a/4", "kind": "fake"}]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    ledger = {"requests": 9, "blocks": 5, "hosts": {"a": {"blocks": 2}}, "gateway": {"bytes_down": 7}}
    counts = count(tmp_path, [f"http://a/{n}" for n in range(6)], ledger, limited="a")
    assert (counts.wanted, counts.delivered, counts.fake, counts.kept, counts.lost) == (6, 1, 1, 1, 3)
    assert (counts.requests, counts.bytes, counts.blocks, counts.sessions) == (9, 7, 2, 3)
    assert count(tmp_path, [], ledger, limited="b").blocks == 0


def _fake_play(result):
    def play(day, directory, say):
        say(f"playing in {directory.name}")
        if isinstance(result, BaseException):
            raise result
        return result

    return play


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (playing.DemoError("no port"), 1, "The demo cannot go on: no port\n"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(monkeypatch, tmp_path, capsys, error, code, line):
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "play", _fake_play(error))
    assert demo.main([]) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("error", "stays"), [(playing.DemoError("x"), True), (KeyboardInterrupt(), False), (None, False)]
)
def test_the_folder_stays_only_for_an_error_that_names_its_logs(played, monkeypatch, tmp_path, error, stays):
    result, _, _ = played
    monkeypatch.setattr(demo, "play", _fake_play(error or result))
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    demo.main([])
    assert bool(list(tmp_path.iterdir())) is stays


def test_a_folder_of_ones_own_is_kept_and_must_be_new(played, monkeypatch, tmp_path, capsys):
    result, _, _ = played
    monkeypatch.setattr(demo, "play", _fake_play(result))
    assert demo.main(["--keep", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert f"items and dead letters are in {tmp_path / 'new'}, " in out
    assert out.endswith(f"scrapy deadletter {tmp_path / 'new' / 'guarded' / 'deadletter'}/*/*.jsonl\n")
    assert demo.main(["--keep", str(tmp_path / "new")]) == 1
    assert "must name a folder that does not exist yet" in capsys.readouterr().err


def test_without_a_folder_the_last_lines_say_how_to_have_one(played, monkeypatch, tmp_path, capsys):
    result, _, _ = played
    monkeypatch.setattr(demo, "play", _fake_play(result))
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    assert demo.main([]) == 0
    assert "make demo KEEP=DIR" in capsys.readouterr().out
    assert "$(if $(KEEP),--keep" in (ROOT / "Makefile").read_text()


def test_the_letters_of_a_folder_that_is_kept_are_where_it_says(played):
    _, directory, _ = played
    command = demo.what_is_there(directory)[-1]
    pattern = command.removeprefix("scrapy deadletter ").removeprefix(f"{directory}/")
    assert list(directory.glob(pattern))


def test_a_lab_that_cannot_start_is_one_line_that_says_why(monkeypatch, tmp_path, capfd):
    (tmp_path / "lab").write_text("in the way")
    with pytest.raises(playing.DemoError, match=r"^the lab did not start: .*File exists.*lab\.log\)$"):
        playing.play(SMALL_DAY, tmp_path, print)
    assert capfd.readouterr().err == ""


def test_a_crawl_that_breaks_is_one_line_that_says_why(monkeypatch, tmp_path):
    (tmp_path / "broken" / "scrapy_resiproxy").mkdir(parents=True)
    (tmp_path / "broken" / "scrapy_resiproxy" / "__init__.py").write_text("raise ImportError('a broken checkout')")
    monkeypatch.setattr(playing, "_IMPORT_ROOT", tmp_path / "broken")
    why = r"^scrapy crawl ended with exit code 1: ImportError: a broken checkout \(see .*scrapy\.log\)$"
    with pytest.raises(playing.DemoError, match=why):
        playing.play(SMALL_DAY, tmp_path, print)


def test_a_crawl_that_refuses_to_start_is_one_line_that_says_why(lab, tmp_path):
    day = Day(pages=1, give_up=-1)
    why = r"^scrapy crawl ended with exit code 1: .* RESIPROXY_TARGET_GIVE_UP is -?1"
    with pytest.raises(playing.DemoError, match=why):
        playing._Play(day, tmp_path, lab, print)._crawl(tmp_path / "guarded")


def test_a_crawl_that_sends_nothing_is_no_day(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(playing._Play, "_scrapy", lambda self, directory, *words: (directory / "scrapy.log").touch())
    with pytest.raises(playing.DemoError, match=r"^the crawl sent no request: it said nothing"):
        playing._Play(SMALL_DAY, tmp_path, lab, print)._crawl(tmp_path / "guarded")


def test_a_crawl_that_hangs_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(playing, "TIME_LIMIT", 0.0)
    with pytest.raises(playing.DemoError, match="a crawl did not end within 0 seconds"):
        playing.play(SMALL_DAY, tmp_path, print)


def test_the_site_that_is_down_is_among_the_sites():
    assert DOWN_HOST in {site.host for site in Day().sites()}
