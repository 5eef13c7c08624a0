"""How far a measurement is, with tqdm and without it, on a terminal and off one."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from scrapy_resiproxy.commands.progress import progress


class Bar:
    """Stands for tqdm's bar, which is installed nowhere for our sake."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, **options):
        self.options, self.total, self.n, self.seen, self.closed = options, options["total"], 0.0, [], False
        Bar.made.append(self)

    def refresh(self):
        self.seen.append(self.n)

    def close(self):
        self.closed = True


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=Bar))
    Bar.made.clear()


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard error one. To be called in the test: only there it is what will be written to."""
    return lambda: monkeypatch.setattr("sys.stderr.isatty", lambda: True)


def test_where_tqdm_is_installed_its_bar_goes_from_nothing_to_all(installed, terminal, capsys):
    terminal()
    with progress("silent tunnels") as show:
        for left in (90.0, 60.0, 0.0):
            show(left)
    (bar,) = Bar.made
    assert (bar.total, bar.seen, bar.closed) == (90.0, [0.0, 30.0, 90.0], True)
    assert bar.options["desc"] == "silent tunnels"
    assert bar.options["file"] is sys.stderr
    assert capsys.readouterr() == ("", "")


def test_a_bar_that_was_never_shown_is_not_made(installed, terminal):
    terminal()
    with progress("silent tunnels"):
        pass
    assert Bar.made == []


def test_without_tqdm_a_counter_stands_on_one_line_and_is_taken_away(missing, terminal, capsys):
    terminal()
    with progress("silent tunnels") as show:
        show(90.0)
        show(3.0)
    out, err = capsys.readouterr()
    *shown, blank, end = err.split("\r")
    assert [text.strip() for text in shown] == [
        "",
        "silent tunnels:   90 s left at most",
        "silent tunnels:    3 s left at most",
    ]
    assert len(blank) >= max(map(len, shown))
    assert (out, blank.strip(), end) == ("", "", "")


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_off_a_terminal_it_is_one_plain_line(with_tqdm, request, capsys):
    request.getfixturevalue("installed" if with_tqdm else "missing")
    with progress("silent tunnels") as show:
        show(90.0)
    assert capsys.readouterr() == ("Measuring silent tunnels ...\n", "")


def test_the_counter_is_taken_away_when_the_measurement_fails(missing, terminal, capsys):
    terminal()

    def fail():
        with progress("silent tunnels") as show:
            show(90.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert capsys.readouterr().err.endswith("\r")
