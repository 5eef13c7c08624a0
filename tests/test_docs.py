"""The reference and the code name the same things, and what the documentation shows compiles."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
from argparse import ArgumentParser
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

import scrapy_resiproxy
from scrapy_resiproxy import exceptions, names, settings, signals
from scrapy_resiproxy.classify.reasons import REASONS
from scrapy_resiproxy.components.extension import ResiproxyExtension
from scrapy_resiproxy.outcome import OK, Outcome, OutcomeClass
from scrapy_resiproxy.redact import DEFAULT_REDACT
from scrapy_resiproxy.sessions.presets import PRESETS
from scrapy_resiproxy.settings_reader import CHECKS, OTHER_NAMES, TARGET_KEYS
from scrapy_resiproxy.tunnel.ledger import COLUMNS
from scrapy_resiproxy.tunnel.totals import Totals

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.rst") if "_build" not in path.parts)]
SETTINGS_CLASSES = [
    settings.GeneralSettings,
    settings.SessionSettings,
    settings.WaitingSettings,
    settings.GuardSettings,
    settings.DeadLetterSettings,
    settings.ReportSettings,
    settings.TunnelSettings,
]


def reference(name: str) -> str:
    return (DOCS / "reference" / f"{name}.rst").read_text(encoding="utf-8")


def directives(kind: str, text: str) -> list[str]:
    """The arguments of every directive of that kind."""
    return re.findall(rf"^ *\.\. {kind}:: ([^(\n]+?)(?:\(.*\))?$", text, re.MULTILINE)


def section(text: str, title: str) -> str:
    """What stands under *title*, up to the next title with the same underline."""
    start = re.search(rf"^{re.escape(title)}\n([=-])\1+\n", text, re.MULTILINE)
    assert start, f"there is no section {title!r}"
    rest = text[start.end() :]
    end = re.search(rf"^\S.*\n{re.escape(start[1])}{{3,}}\n", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def first_column(text: str) -> list[str]:
    """The literals in the first column of every list-table."""
    cells = re.findall(r"^ +\* - (.*)$", text, re.MULTILINE)
    return [literal for cell in cells for literal in re.findall(r"``([^`]+)``", cell)]


def code_blocks(path: Path) -> list[str]:
    """The Python in a page, each block without its indentation."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^( *)\.\. code-block:: python\n\n((?:\1 +\S.*\n|\s*\n)+)", text + "\n", re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


# Settings


SETTINGS = reference("settings")
DEFAULTS = {
    entry.name: entry.default if entry.default is not MISSING else entry.default_factory()  # type: ignore[misc]
    for cls in SETTINGS_CLASSES
    for entry in fields(cls)
}


def test_the_reference_has_every_setting_and_no_other():
    assert sorted(directives("setting", SETTINGS)) == sorted(
        settings.PREFIX + name.upper() for name in CHECKS.keys() | OTHER_NAMES
    )


def test_every_setting_has_a_section_of_its_name():
    for name in directives("setting", SETTINGS):
        assert re.search(rf"^\.\. setting:: {name}\n\n{name}\n-{{{len(name)}}}\n\n:Default: ", SETTINGS, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_the_default_in_the_reference_is_the_real_one(name: str):
    text = section(SETTINGS, settings.PREFIX + name.upper())
    shown = re.search(r"^:Default: ``(.*?)``", text, re.MULTILINE)
    assert shown, f"{name} shows no default"
    assert as_plain(ast.literal_eval(shown[1])) == as_plain(DEFAULTS[name])


def as_plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_the_default_passes_its_own_check(name: str):
    CHECKS[name](DEFAULTS[name])


def test_the_reference_has_every_key_of_a_target():
    text = section(SETTINGS, "RESIPROXY_TARGETS")
    documented = set(first_column(text))
    assert documented >= TARGET_KEYS
    guards = {entry.name for entry in fields(settings.GuardSettings)}
    spelt = section(SETTINGS, "RESIPROXY_TARGETS").partition("Overrides it")[2]
    patterns = [name.replace("…", ".*") for name in re.findall(r"``([a-z_…]+)``", spelt)]
    assert not [name for name in guards if not any(re.fullmatch(pattern, name) for pattern in patterns)]


# Names


def test_the_reference_has_every_meta_key_and_no_other():
    public = {value for name, value in vars(names).items() if name.startswith("META_") and not value.startswith("_")}
    assert set(directives("reqmeta", reference("meta"))) == public


def test_the_reference_has_every_signal_and_no_other():
    sent = {name for name, value in vars(signals).items() if type(value) is object}
    assert set(directives("signal", reference("signals"))) == sent


def test_the_reference_has_every_exception_and_no_other():
    raised = {
        name
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and value.__module__ == exceptions.__name__
    }
    assert set(directives("exception", reference("exceptions"))) == raised


@pytest.mark.parametrize("class_", list(OutcomeClass))
def test_the_reference_has_every_reason_of_a_class_and_no_other(class_: OutcomeClass):
    assert first_column(section(reference("outcomes"), class_.value)) == list(REASONS[class_])


def test_the_reference_has_every_dead_letter_reason_and_no_other():
    text = section(reference("deadletter-format"), "The reasons")
    assert first_column(text) == list(names.DEAD_LETTER_REASONS)


def test_the_reference_has_every_validator_and_no_other():
    text = reference("validators")
    documented = {*directives("function", text), *directives("decorator", text)} - {"check"}
    assert documented == {name for name in scrapy_resiproxy.__all__ if name[0].islower()}


def test_the_guide_has_every_provider_and_says_how_it_is_known():
    text = (DOCS / "guides" / "proxies-and-sessions.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^   \* - ``(\w+)``\n     - (documented|public code)$", text, re.MULTILINE)
    assert dict(rows) == {name: preset.source for name, preset in PRESETS.items()}


# The dead-letter format


SCHEMA = json.loads((ROOT / "scrapy_resiproxy" / "deadletter" / "schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("title", "part"), [("A letter", "letter"), ("A mark", "mark")])
def test_the_reference_has_every_field_of_the_schema_and_no_other(title: str, part: str):
    text = section(reference("deadletter-format"), title)
    cells = re.findall(r"^   \* - ``(\w+)``$", text, re.MULTILINE)
    assert cells == list(SCHEMA["$defs"][part]["properties"])


@pytest.mark.parametrize("part", ["request", "response"])
def test_the_reference_has_every_member_of_a_letters_parts(part: str):
    text = section(reference("deadletter-format"), "A letter")
    sentence = re.search(rf"^``{part}`` holds (.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert sentence
    assert set(SCHEMA["$defs"][part]["properties"]) <= set(re.findall(r"``(\w+)``", sentence[1]))


def test_the_reference_names_what_is_never_stored():
    sentence = section(reference("deadletter-format"), "What is never stored").partition("of these names")[2]
    listed = set(re.findall(r"``([a-z-]+)``", sentence.partition("the names of")[0]))
    assert set(DEFAULT_REDACT) <= listed | {"proxy-authorization", "cookies"}
    assert listed - {"cb_kwargs"} <= set(DEFAULT_REDACT)


# Stats


def written_stats() -> set[str]:
    """The keys of a crawl in which everything has happened once, without ``resiproxy/``."""
    crawler = get_crawler(settings_dict={"RESIPROXY_PROXY": "http://u-{session}:p@127.0.0.1:1", "LOG_ENABLED": False})
    extension = ResiproxyExtension.from_crawler(crawler)
    for counts in extension.runtime.tally.both("shop.example"):
        counts.firsts = 2
        counts.judge(OK, 10, fresh=True)
        counts.judge(Outcome(OutcomeClass.IDENTITY, "challenge"), 10, fresh=True)
    extension.crawl.office.reasons["terminal"] = 1
    extension.crawl.office.failed_writes = 1
    extension.finish()
    return {key.removeprefix("resiproxy/") for key in crawler.stats.get_stats() if key.startswith("resiproxy/")}


def general(key: str) -> str:
    """*key* with braces for what differs from crawl to crawl."""
    for pattern, shown in (
        (r"^targets/[^/]+/", ""),
        (r"^circuit/state/.+", "circuit/state/{target}"),
        (r"^deadletter/reason_count/.+", "deadletter/reason_count/{reason}"),
        (r"^outcome_reason_count/.+", "outcome_reason_count/{class}/{reason}"),
        (r"^(outcome_count|bytes)/.+", r"\1/{class}"),
        (r"^(tunnel/close_reason_count)/.+", r"\1/{reason}"),
        (r"^(tunnel/connect_status_count)/.+", r"\1/{status}"),
    ):
        key = re.sub(pattern, shown, key)
    return key


def test_the_reference_has_every_stat_and_no_other():
    documented = [key for key in first_column(reference("stats")) if not key.startswith("tunnel/")]
    assert set(documented) == {general(key) for key in written_stats()}
    assert len(documented) == len(set(documented))


def tunnel_stats() -> set[str]:
    """The keys of a transport of which one tunnel was closed and another refused."""
    totals = Totals(0.0)
    totals.refused(407)
    tls, traffic = SimpleNamespace(resumed=True), SimpleNamespace(total=10)
    totals.gone(SimpleNamespace(close_reason="idle", tls=tls, traffic=traffic, pings=1, ping_bytes=1, payload_bytes=5))
    return {f"tunnel/{key}" for key in totals.stats(1.0, [], 1)}


def test_the_reference_has_every_stat_of_tunnels_and_no_other():
    documented = [key for key in first_column(reference("stats")) if key.startswith("tunnel/")]
    assert set(documented) == {general(key) for key in tunnel_stats()}


# Commands


COMMANDS = ["replay", "deadletter", "tunnel"]


def test_the_reference_has_every_command_and_no_other():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered = {name: f"scrapy_resiproxy.commands.{name}:Command" for name in COMMANDS}
    assert project["entry-points"]["scrapy.commands"] == registered
    assert directives("command", reference("commands")) == COMMANDS


def command(name: str) -> Any:
    return import_module(f"scrapy_resiproxy.commands.{name}").Command


def options_of(cls: type) -> set[str]:
    """The options that a command adds to those of its Scrapy base."""
    made = cls()
    made.settings = Settings()
    found = []
    for owner in (cls, cls.__mro__[1]):
        parser = ArgumentParser(add_help=False)
        owner.add_options(made, parser)
        found.append({text for action in parser._actions for text in action.option_strings if text.startswith("--")})
    return found[0] - found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_every_option_of_a_command_and_no_other(name: str):
    text = section(reference("commands"), f"scrapy {name}")
    documented = {literal.partition(" ")[0] for literal in first_column(text) if literal.startswith("--")}
    assert documented == options_of(command(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_the_exit_codes_that_a_command_promises(name: str):
    codes = {code for code in first_column(section(reference("commands"), f"scrapy {name}")) if code.isdecimal()}
    promised = (command(name).__doc__ or "").partition("Exit codes:")[2]
    assert codes == set(re.findall(r"(?<![\w.])\d+\b", promised))


@pytest.mark.parametrize("module", ["scrapy_resiproxy.lab.__main__", "scrapy_resiproxy.lab.demo"])
def test_the_reference_has_the_exit_codes_of_the_lab(module: str):
    program = f"python -m {module.removesuffix('.__main__')}"
    told = import_module(module)._DESCRIPTION.partition("Exit codes:")[2]
    codes = {code for code in first_column(section(reference("commands"), program)) if code.isdecimal()}
    assert codes == set(re.findall(r"\b\d+\b", told))


def test_the_reference_has_every_column_of_the_tunnel_ledger_and_no_other():
    assert first_column(section(reference("commands"), "The tunnel ledger")) == list(COLUMNS)


# What the pages show


every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


@every_page
def test_the_python_of_a_page_compiles(path: Path):
    for block in code_blocks(path):
        compile(block, str(path), "exec")


def test_a_page_with_python_is_found_to_have_it():
    assert len(code_blocks(DOCS / "tutorial.rst")) >= 5
    assert len(code_blocks(ROOT / "README.md")) >= 2


@every_page
def test_a_page_names_only_settings_that_exist(path: Path):
    known = {settings.PREFIX + name.upper() for name in CHECKS.keys() | OTHER_NAMES}
    named = set(re.findall(r"\bRESIPROXY_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert {name for name in named if name.rstrip("_") + "_" != "RESIPROXY_"} <= known


@every_page
def test_a_page_imports_only_public_names(path: Path):
    for block in code_blocks(path):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scrapy_resiproxy"):
                module = import_module(str(node.module))
                assert not [alias.name for alias in node.names if not hasattr(module, alias.name)]


@every_page
def test_a_page_shows_only_options_that_exist(path: Path):
    for line in re.findall(
        r"^ *\$ scrapy ((?:replay|deadletter|tunnel) .*)$", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        name, _, rest = line.partition(" ")
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options_of(command(name))


def test_the_tests_that_a_page_shows_pass():
    guide = DOCS / "guides" / "validators.rst"
    shown = [block for block in code_blocks(guide) if "scrapy_resiproxy.testing" in block]
    space: dict[str, Any] = {}
    exec(compile(shown[0], str(guide), "exec"), space)
    tests = [value for name, value in space.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 5
    assert not [link for link in links if not (ROOT / link).exists()]
