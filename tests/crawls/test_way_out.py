"""The line at the start that says how requests go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from crawl_kit import crawl
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_resiproxy.components.way_out import way_out
from scrapy_resiproxy.runtime import Runtime

if TYPE_CHECKING:
    from pathlib import Path

GATEWAY = "http://user-session-{session}:canary-pa55@gateway.example:7000"
ONE = "http://user:canary-pa55@gateway.example:7000"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "No proxy (RESIPROXY_PROXY is not set): requests go direct, unless the project itself gives them a proxy"),
        ({"RESIPROXY_PROXY": GATEWAY}, "Requests go through the proxy http://gateway.example:7000. Sessions look like"),
        ({"RESIPROXY_PROXY": ONE}, "Requests go through the proxy http://gateway.example:7000, user name and password"),
        (
            {"RESIPROXY_PROXY": ["10.0.0.1:1", "10.0.0.2:1:u:canary-pa55"]},
            "Requests go through a list of proxies, in turn: 2 proxies, the first is http://10.0.0.1:1.",
        ),
        ({"RESIPROXY_MODE": "observe"}, "Observe mode: nothing is changed, and requests go as the project sends them."),
    ],
    ids=["no proxy", "a gateway", "one session", "a list", "observe"],
)
def test_one_line_says_how_requests_go(settings: dict[str, Any], said: str) -> None:
    line = way_out(Runtime.of(get_crawler(Spider, settings)))
    assert line.startswith(said)
    assert "canary" not in line


@pytest.mark.parametrize("switched_on", [True, False])
def test_a_proxy_of_the_environment_is_no_direct_way(
    switched_on: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://u:canary-pa55@10.0.0.1:3128")
    crawled = crawl(tmp_path / "crawl", [], {"HTTPPROXY_ENABLED": switched_on})
    said = [line.partition("INFO: ")[2] for line in crawled.lines("INFO") if "RESIPROXY_PROXY is not set" in line]
    start = "RESIPROXY_PROXY is not set: requests go through the environment's http_proxy http://10.0.0.1:3128, without"
    assert len(said) == 1
    assert said[0].startswith(start if switched_on else "No proxy (RESIPROXY_PROXY is not set): requests go direct")
    assert "canary" not in crawled.log
