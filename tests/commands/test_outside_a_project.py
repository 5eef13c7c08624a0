"""``scrapy replay`` where there is no project, and what it sends its user to."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest
from scrapy.exceptions import UsageError
from scrapy.spiderloader import DummySpiderLoader

from scrapy_resiproxy.commands.replay import Command

SETTINGS = {"ADDONS": {"scrapy_resiproxy.Addon": 500}, "FEEDS": {"items.jl": {"format": "jsonlines"}}}


def test_outside_a_project_it_is_said_how_to_run_letters_there(tmp_path, monkeypatch, site):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    (tmp_path / "1.jsonl").write_text("")
    command = Command()
    command.crawler_process = SimpleNamespace(spider_loader=DummySpiderLoader())
    with pytest.raises(UsageError, match=r"^this is no project.*: scrapy runspider FILE\.py -s RESIPROXY_REPLAY=PATH$"):
        command.run(["1.jsonl"], argparse.Namespace())


@pytest.mark.parametrize("offline", [False, True], ids=["sent again", "on the stored page"])
def test_what_is_said_to_be_run_outside_a_project_runs_there(project, site, offline):
    (project.folder / "scrapy.cfg").unlink()
    source = (project.folder / "proj" / "spiders.py").read_text().partition("class OtherSpider")[0]
    (project.folder / "alone.py").write_text(f"{source}    custom_settings = {SETTINGS}\n")
    (project.folder / "broken").touch()
    project.run("runspider", "alone.py", paths=["/1"])
    (project.folder / "broken").unlink()
    (feed,) = project.feeds()
    chosen = ["-s", 'RESIPROXY_REPLAY_FILTER={"offline": true}'] if offline else []
    project.run("runspider", "alone.py", "-s", f"RESIPROXY_REPLAY={feed}", *chosen)
    assert "shop: 1 letter replayed, 1 done, 0 failed again" in project.log
    assert [item["url"] for item in project.items()] == [f"{site.root}/1"]
    assert site.asked == {"/1": 1 if offline else 2}
