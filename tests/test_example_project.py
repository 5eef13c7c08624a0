"""The example project does what its README says: its own commands, in processes of their own, against a bad day."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scrapy_resiproxy.lab import running_lab
from scrapy_resiproxy.testing import check

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "example_project"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
BAD_DAY = dict(re.findall(r"--host (\w+\.example)=(\S+)", README))
ITEMS = 60
IMPATIENT = ["-s", "RESIPROXY_TARGET_GIVE_UP=3", "-s", "RESIPROXY_CIRCUIT_COOLDOWN=1"]


class Project:
    """A copy of the example project, and what its commands leave behind."""

    def __init__(self, folder: Path, proxy: str) -> None:
        self.folder = folder
        self._proxy = proxy
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "products.db*", "deadletter"))
        with (folder / "shopwatch" / "settings.py").open("a", encoding="utf-8") as settings:
            # The package need not be installed where the tests run; then it has no entry points.
            settings.write('\nCOMMANDS_MODULE = "scrapy_resiproxy.commands"\nTELNETCONSOLE_ENABLED = False\n')

    def scrapy(self, *command: str, code: int = 0) -> str:
        """Run a scrapy command; its standard output. The log is in ``self.log``."""
        foreign = {"SCRAPY_PROJECT", "SCRAPY_SETTINGS_MODULE"}
        environment = {name: value for name, value in os.environ.items() if name not in foreign}
        environment |= {"PYTHONPATH": str(ROOT), "RESIPROXY_PROXY": self._proxy, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", *command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.log = done.stderr
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def letters(self) -> list[str]:
        return [str(path.relative_to(self.folder)) for path in self.folder.glob("deadletter/*/*.jsonl")]

    def rows(self) -> list[tuple[str, str, str]]:
        with closing(sqlite3.connect(self.folder / "products.db")) as connection:
            return connection.execute("SELECT url, title, price FROM products ORDER BY rowid").fetchall()


def shop(first: int = 1, last: int = ITEMS) -> set[str]:
    return {f"http://shop.example/item/{number}" for number in range(first, last + 1)}


def api(first: int = 1, last: int = ITEMS) -> set[str]:
    return {url.replace("shop", "api") for url in shop(first, last)}


@pytest.fixture
def lab():
    with running_lab(BAD_DAY, items=ITEMS) as running:
        yield running


@pytest.fixture
def project(tmp_path, lab):
    return Project(tmp_path / "example", lab.proxy("{session}"))


def test_both_spiders_bring_every_product_once_on_the_bad_day_of_the_readme(project, lab):
    assert set(BAD_DAY) == {"shop.example", "api.example"}
    # Its limit and its short pages are met with so few pages, too, and by a slow machine.
    rate, short = "rate=1,burst=1", "p=0.9"
    lab.set_behaviour("api.example", BAD_DAY["api.example"].replace("rate=5,burst=10", rate).replace("p=0.3", short))
    for spider in ("shop", "api"):
        project.scrapy("crawl", spider)
    rows = project.rows()
    assert {url for url, _, _ in rows} == shop() | api()
    assert len(rows) == 2 * ITEMS
    assert all(title and re.fullmatch(r"\d+\.\d\d", price) for _, title, price in rows)
    outcomes = lab.summary()["outcomes"]
    assert {"fail-503", "empty", "short", "limited"} <= set(outcomes)
    assert "blocked" not in outcomes
    assert project.letters() == []


def test_a_second_crawl_makes_no_second_row(project, lab):
    for host in BAD_DAY:
        lab.set_behaviour(host, "ok")
    for spider in ("shop", "api", "shop", "api"):
        project.scrapy("crawl", spider)
    assert len(project.rows()) == 2 * ITEMS


def test_what_an_outage_cost_comes_back_with_the_replay_and_no_row_twice(project, lab):
    # One page after the other takes six seconds at least; the first one has three, however slow the machine is.
    lab.set_behaviour("shop.example", "ok:latency=0.1+outage:start=3,duration=3600")
    project.scrapy("crawl", "shop", *IMPATIENT, "-s", "CONCURRENT_REQUESTS=1")
    before = project.rows()
    assert 0 < len(before) < ITEMS
    assert "scrapy replay" in project.log
    assert "circuit_open" in project.scrapy("deadletter", "deadletter/shop/*.jsonl")

    lab.set_behaviour("shop.example", BAD_DAY["shop.example"])
    output = project.scrapy("replay", "deadletter/shop/*.jsonl")
    assert "nothing is left" in output
    rows = project.rows()
    assert {url for url, _, _ in rows} == shop()
    assert len(rows) == ITEMS

    assert "no open letter to run" in project.scrapy("replay", "deadletter/shop/*.jsonl")
    assert project.rows() == rows


@pytest.mark.parametrize(
    ("spider", "line", "from_stored_pages", "code"),
    [
        ("shop", "        product = Product(", shop(), 0),
        # A page of the API leads on to the next one, which is not asked for offline: its letter stays open.
        ("api", "        page = json.loads(", api(last=20), 1),
    ],
    ids=["shop", "api"],
)
def test_a_mended_parser_runs_on_the_stored_pages_and_writes_the_rows_of_their_keys(
    project, lab, spider, line, from_stored_pages, code
):
    for host in BAD_DAY:
        lab.set_behaviour(host, "ok")
    path = project.folder / "shopwatch" / "spiders" / f"{spider}.py"
    good = path.read_text()
    assert line in good
    path.write_text(good.replace(line, f'        raise KeyError("price")\n{line}'))
    project.scrapy("crawl", spider)
    assert project.rows() == []
    path.write_text(good)
    requests = lab.summary()["requests"]
    project.scrapy("replay", "--offline", "--reason", "parse_error", "deadletter/*/*.jsonl", code=code)
    assert lab.summary()["requests"] == requests
    assert {url for url, _, _ in project.rows()} == from_stored_pages
    project.scrapy("crawl", spider)
    assert len(project.rows()) == ITEMS


@pytest.mark.parametrize(
    ("validator", "page", "class_"),
    [
        ("list_page", "<ul class=items></ul><a class=next>Next</a> A lamp, a chair, a kettle, a shelf", "identity"),
        ("list_page", "<ul class=items><li class=item>A lamp</li></ul><a class=next>Next</a>", "transient"),
        ("list_page", "<ul class=items><li class=item>A lamp, the last one</li></ul>", "ok"),
        ("detail_page", "<h1 class=title>A lamp</h1><span class=price>1.00</span>", "ok"),
        ("detail_page", "<h1>One more step</h1><p>Please confirm that you are a human being.</p>", "identity"),
        ("api_page", '{"total": 3, "page": 1, "items": [1, 2, 3]}', "ok"),
        ("api_page", '{"total": 30, "page": 1, "items": [1, 2, 3]}', "transient"),
        ("api_page", '{"error": "busy"}', "identity"),
    ],
)
def test_its_validators_tell_good_pages_from_others(monkeypatch, validator, page, class_):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    headers = {"Content-Type": "application/json"} if page.startswith("{") else None
    assert check(f"shopwatch.validators.{validator}", page, headers=headers).class_ == class_


def test_each_setting_is_explained_and_none_holds_a_proxy():
    lines = (EXAMPLE / "shopwatch" / "settings.py").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Z_]+ = ", line):
            assert lines[number - 1].startswith("#"), line
            assert not line.startswith("RESIPROXY_PROXY")
