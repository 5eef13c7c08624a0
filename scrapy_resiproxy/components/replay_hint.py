"""With what a crawl's dead letters can be run again: that depends on how the crawl itself was started."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.spiderloader import DummySpiderLoader
from scrapy.utils.misc import load_object
from scrapy.utils.project import inside_project

from scrapy_resiproxy.deadletter.arguments import spider_arguments
from scrapy_resiproxy.deadletter.describe import Notes
from scrapy_resiproxy.deadletter.hide import hide_values
from scrapy_resiproxy.redact import DEFAULT_REDACT
from scrapy_resiproxy.report import in_project

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_resiproxy.report import Command

REPLAYS = frozenset({"RESIPROXY_REPLAY", "RESIPROXY_REPLAY_FILTER"})
"""Settings that every such command says anew."""


def command_of(crawler: Crawler, redact: Collection[str] = ()) -> Command:
    """What to tell the user: ``scrapy replay`` only finds the spiders of a project.

    *redact* names spider arguments that are secret besides the defaults: they are not shown.
    """
    settings = crawler.settings
    module = crawler.spidercls.__module__
    packages = settings.getlist("SPIDER_MODULES")
    if any(f"{module}.".startswith(f"{package}.") for package in packages) and inside_project():
        return in_project
    filtered = bool(settings.get("RESIPROXY_REPLAY_FILTER"))
    if load_object(settings["SPIDER_LOADER_CLASS"]) is not DummySpiderLoader:
        return partial(_in_settings, filtered)
    if _needs_its_options(settings):
        return partial(_on_command_line, "the same command with ", [], filtered)
    file = getattr(sys.modules.get(module), "__file__", None) or f"{module}.py"
    words = ["scrapy", "runspider", file, *_arguments(crawler, (*DEFAULT_REDACT, *redact))]
    return partial(_on_command_line, "", words, filtered)


def _needs_its_options(settings: BaseSettings) -> bool:
    """Whether the crawl's command line set what a replay must have too: the add-on, a proxy, a pipeline …

    Such options are not repeated: their values may be long, and secret.
    """
    lowest = SETTINGS_PRIORITIES["cmdline"]
    return any((settings.getpriority(name) or 0) == lowest for name in settings if name not in REPLAYS)


def _arguments(crawler: Crawler, secret: Collection[str]) -> list[str]:
    """The spider's arguments as options; in the place of a secret stands a word for what belongs there."""
    words = []
    for name, value in spider_arguments(crawler).items():
        notes = Notes(secret)
        hide_values({name: value}, "", notes)
        words += ["-a", f"{name}=<{name}>" if notes.redacted else f"{name}={value}"]
    return words


def _on_command_line(
    before: str, words: Sequence[str], filtered: bool, path: str, *, offline: bool = False, reasons: Sequence[str] = ()
) -> str:
    options = ["-s", f"RESIPROXY_REPLAY={path}"]
    if (chosen := _filter(offline=offline, reasons=reasons)) or filtered:
        options += ["-s", f"RESIPROXY_REPLAY_FILTER={json.dumps(chosen)}"]
    return before + shlex.join([*words, *options])


def _in_settings(filtered: bool, path: str, *, offline: bool = False, reasons: Sequence[str] = ()) -> str:
    chosen = _filter(offline=offline, reasons=reasons)
    also = f" and RESIPROXY_REPLAY_FILTER = {chosen!r}" if chosen or filtered else ""
    return f"set RESIPROXY_REPLAY = {path!r}{also} in the settings and run the script again"


def _filter(*, offline: bool, reasons: Sequence[str]) -> dict[str, Any]:
    """As ``RESIPROXY_REPLAY_FILTER`` spells it; empty where all letters are wanted."""
    return ({"offline": True} if offline else {}) | ({"reason": list(reasons)} if reasons else {})
