"""What the user is told to do with dead letters: a command that replays them as it stands, and shows no secret."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import pytest
from crawl_kit import crawl
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_resiproxy.components import replay_hint
from scrapy_resiproxy.components.replay_hint import command_of

if TYPE_CHECKING:
    from pathlib import Path

FILE, SCRIPT = "scrapy.spiderloader.DummySpiderLoader", "scrapy.spiderloader.SpiderLoader"
OWN_SETTINGS = """
    custom_settings = {
        "ADDONS": {"scrapy_resiproxy.Addon": 500}, "RESIPROXY_MAX_ATTEMPTS": 1, "TELNETCONSOLE_ENABLED": False,
        "RESIPROXY_DEADLETTER_REDACT": ["pin"],
    }
"""
WITH_OPTIONS = (
    "-s 'ADDONS={\"scrapy_resiproxy.Addon\": 500}' -s RESIPROXY_MAX_ATTEMPTS=1 -s TELNETCONSOLE_ENABLED=False"
)
REPLAYED = "Replaying 1 dead letter from "


def shell(directory: Path, command: str) -> str:
    """The log of *command*, run as a user would paste it."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        command, shell=True, cwd=directory, capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    return ended.stderr


def spider(directory: Path, settings: str = OWN_SETTINGS) -> None:
    (directory / "items.py").write_text(
        "import scrapy\n\nclass Items(scrapy.Spider):\n    name = 'items'\n    start_urls = ['http://127.0.0.1:9/']\n"
        + settings
    )


def feed_of(directory: Path) -> str:
    (feed,) = directory.glob("deadletter/**/*.jsonl")
    return str(feed.relative_to(directory))


def hint(log: str) -> str:
    (line,) = [line for line in log.splitlines() if "To send it again: " in line]
    return line.partition("To send it again: ")[2]


def test_a_spider_of_a_file_gets_a_command_that_replays_its_letters(tmp_path: Path) -> None:
    spider(tmp_path)
    command = hint(shell(tmp_path, "scrapy runspider items.py -a 'shop=a b'"))
    assert command == (
        f"scrapy runspider {tmp_path / 'items.py'} -a 'shop=a b' -s RESIPROXY_REPLAY={feed_of(tmp_path)}"
    )
    again = shell(tmp_path, command)
    assert REPLAYED in again
    assert hint(again).startswith(f"scrapy runspider {tmp_path / 'items.py'} -a 'shop=a b' -s RESIPROXY_REPLAY=")


def test_where_the_add_on_came_with_the_command_the_same_command_is_asked_for(tmp_path: Path) -> None:
    spider(tmp_path, "")
    first = f"scrapy runspider items.py -a 'shop=a b' {WITH_OPTIONS}"
    said = hint(shell(tmp_path, first))
    assert said == f"the same command with -s RESIPROXY_REPLAY={feed_of(tmp_path)}"
    assert REPLAYED in shell(tmp_path, f"{first} {said.removeprefix('the same command with ')}")


def test_no_secret_argument_is_shown_and_its_letters_are_replayed(tmp_path: Path) -> None:
    spider(tmp_path)
    secret = "-a password=canary-pa55 -a api_key=canary-k3y -a pin=canary-p1n -a via=http://u:canary-l0gin@127.0.0.1:9"
    log = shell(tmp_path, f"scrapy runspider items.py -a shop=a {secret}")
    command = hint(log)
    assert "-a shop=a -a 'password=<password>' -a 'api_key=<api_key>' -a 'pin=<pin>' -a 'via=<via>' -s " in command
    assert "canary-" not in log
    for name, value in (part.split("=", 1) for part in secret.removeprefix("-a ").split(" -a ")):
        command = command.replace(f"<{name}>", value)
    again = shell(tmp_path, command)
    assert REPLAYED in again
    assert "canary-" not in again


def test_a_script_gets_the_setting_that_replays_its_letters(tmp_path: Path) -> None:
    crawled = crawl(tmp_path / "first", ["http://127.0.0.1:9/item/1"], {"RESIPROXY_MAX_ATTEMPTS": 1})
    said = f"set RESIPROXY_REPLAY = '{feed_of(tmp_path / 'first')}' in the settings and run the script again"
    assert hint(crawled.log) == said


def told(loader: str, on_command_line: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """How all letters of a feed, those with a page, and final ones are run again, by a spider of no project."""

    class Other(Spider):
        name = "other"

    settings = Settings({"SPIDER_LOADER_CLASS": loader, "SPIDER_MODULES": ["shop.spiders"], **more})
    settings.setdict(on_command_line or {}, priority="cmdline")
    command = command_of(Crawler(Other, settings))
    return [command("a.jsonl"), command("a.jsonl", offline=True), command("a.jsonl", reasons=["terminal"])]


COMMAND = f"scrapy runspider {__file__} -s RESIPROXY_REPLAY=a.jsonl"
SAME = "the same command with -s RESIPROXY_REPLAY=a.jsonl"
FILTERS = [
    "",
    """ -s 'RESIPROXY_REPLAY_FILTER={"offline": true}'""",
    """ -s 'RESIPROXY_REPLAY_FILTER={"reason": ["terminal"]}'""",
]


def test_a_command_for_a_file_says_all_that_is_wanted() -> None:
    assert told(FILE) == [COMMAND + chosen for chosen in FILTERS]


@pytest.mark.parametrize("name", ["ADDONS", "RESIPROXY_PROXY", "DOWNLOADER_MIDDLEWARES", "USER_AGENT"])
def test_what_came_with_the_command_is_asked_for_and_not_repeated(name: str) -> None:
    assert told(FILE, {name: "{}"}) == [SAME + chosen for chosen in FILTERS]


def test_what_a_replay_was_told_is_not_told_the_next() -> None:
    before = {"RESIPROXY_REPLAY": "b.jsonl", "RESIPROXY_REPLAY_FILTER": '{"offline": true}'}
    assert told(FILE, before)[0] == COMMAND + " -s 'RESIPROXY_REPLAY_FILTER={}'"
    assert told(FILE, {**before, "ADDONS": "{}"})[0] == SAME + " -s 'RESIPROXY_REPLAY_FILTER={}'"
    assert "RESIPROXY_REPLAY_FILTER = {} in" in told(SCRIPT, RESIPROXY_REPLAY_FILTER={"offline": True})[0]


def test_arguments_are_hidden_by_the_names_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_hint, "spider_arguments", lambda crawler: {"card": "1", "token": "2", "shop": "3"})

    class Other(Spider):
        name = "other"

    command = command_of(Crawler(Other, Settings({"SPIDER_LOADER_CLASS": FILE})), ["card"])
    assert "-a 'card=<card>' -a 'token=<token>' -a shop=3 " in command("a.jsonl")


def test_settings_for_a_script_say_all_that_is_wanted() -> None:
    assert told(SCRIPT) == [
        f"set RESIPROXY_REPLAY = 'a.jsonl'{also} in the settings and run the script again"
        for also in (
            "",
            " and RESIPROXY_REPLAY_FILTER = {'offline': True}",
            " and RESIPROXY_REPLAY_FILTER = {'reason': ['terminal']}",
        )
    ]
