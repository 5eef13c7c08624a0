"""With what a crawl's dead letters can be run again: that depends on how the crawl itself was started."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.spiderloader import DummySpiderLoader
from scrapy.utils.misc import load_object
from scrapy.utils.project import inside_project

from scrapy_resiproxy.deadletter.arguments import spider_arguments
from scrapy_resiproxy.report import in_project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler

    from scrapy_resiproxy.report import Command


def command_of(crawler: Crawler) -> Command:
    """What to tell the user: ``scrapy replay`` only finds the spiders of a project."""
    module = crawler.spidercls.__module__
    packages = crawler.settings.getlist("SPIDER_MODULES")
    if any(f"{module}.".startswith(f"{package}.") for package in packages) and inside_project():
        return in_project
    if load_object(crawler.settings["SPIDER_LOADER_CLASS"]) is DummySpiderLoader:
        file = getattr(sys.modules.get(module), "__file__", None) or f"{module}.py"
        return partial(_with_runspider, file, spider_arguments(crawler))
    return _in_settings


def _with_runspider(
    file: str, arguments: Mapping[str, Any], path: str, *, offline: bool = False, reasons: Sequence[str] = ()
) -> str:
    words = ["scrapy", "runspider", file]
    for name, value in arguments.items():
        words += ["-a", f"{name}={value}"]
    words += ["-s", f"RESIPROXY_REPLAY={path}"]
    if chosen := _filter(offline=offline, reasons=reasons):
        words += ["-s", f"RESIPROXY_REPLAY_FILTER={json.dumps(chosen)}"]
    return shlex.join(words)


def _in_settings(path: str, *, offline: bool = False, reasons: Sequence[str] = ()) -> str:
    chosen = _filter(offline=offline, reasons=reasons)
    also = f" and RESIPROXY_REPLAY_FILTER = {chosen!r}" if chosen else ""
    return f"RESIPROXY_REPLAY = {path!r}{also} in the settings"


def _filter(*, offline: bool, reasons: Sequence[str]) -> dict[str, Any]:
    """As ``RESIPROXY_REPLAY_FILTER`` spells it."""
    return ({"offline": True} if offline else {}) | ({"reason": list(reasons)} if reasons else {})
