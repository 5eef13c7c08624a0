"""The help of the commands, as it is printed."""

from __future__ import annotations

import argparse
from importlib import import_module
from itertools import pairwise

import pytest
from scrapy.commands import ScrapyHelpFormatter
from scrapy.settings import Settings

GROUPS = {
    "replay": {"Which Letters", "How To Run Them"},
    "deadletter": {"What To Show"},
    "tunnel": {"For Probe", "For Watch", "For Stats"},
}


def help_of(name):
    command = import_module(f"scrapy_resiproxy.commands.{name}").Command()
    command.settings = Settings()
    parser = argparse.ArgumentParser(
        usage=f"scrapy {name} {command.syntax()}",
        description=command.long_desc(),
        formatter_class=ScrapyHelpFormatter,
        conflict_handler="resolve",
    )
    command.add_options(parser)
    return command, parser.format_help()


@pytest.mark.parametrize("columns", ["120", "80", "60"])
@pytest.mark.parametrize("name", GROUPS)
def test_no_line_of_the_help_is_taken_for_a_heading(name, columns, monkeypatch):
    """Scrapy's formatter underlines what ends a line in a colon."""
    monkeypatch.setenv("COLUMNS", columns)
    _, shown = help_of(name)
    headings = {before for before, line in pairwise(shown.splitlines()) if line and set(line) <= set("=-")}
    assert headings == {"Usage", "Options", "Global Options", *GROUPS[name]}


@pytest.mark.parametrize("name", GROUPS)
def test_the_help_tells_what_the_exit_codes_mean(name):
    command, shown = help_of(name)
    text = " ".join(shown.split())
    promised = {word.strip(".,():") for word in (command.__doc__ or "").partition("Exit codes:")[2].split()}
    told = {word.strip(".,():") for word in text.partition("Exit codes are")[2].partition(" Options ")[0].split()}
    codes = {word for word in promised if word.isdecimal()}
    assert codes
    assert codes == {word for word in told if word.isdecimal()}
