"""What the end of a crawl says about tunnels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from days import pages

LINE = re.compile(
    r"Tunnels \(a vendor's bill may call them sessions\): (?P<opened>\d+) opened in \d+ s, "
    r"(?P<each>[\d,.]+) kB each; overhead (?P<overhead>[\d.]+)% of their bytes "
    r"\((?P<handshakes>[\d.]+)% handshakes, (?P<pings>[\d.]+)% pings\)\."
)
COST = re.compile(r"Estimated cost .* of it bought nothing \((?P<parts>.*)\)\.")


def report_of(crawled: Any) -> str:
    """The table at the end and what stands below it."""
    text: str = crawled.log.partition("What was sent, and what came of it:\n")[2]
    return text.partition("\n2")[0]


def test_tunnels_handshakes_and_pings_stand_below_the_table(day: Any) -> None:
    settings = {
        "RESIPROXY_PRICE_PER_GB": 4,
        "RESIPROXY_TUNNEL_IDLE_TIMEOUT": 0.6,
        "RESIPROXY_SESSIONS_PER_TARGET": 2,
        "DOWNLOAD_DELAY": 0.5,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
    }
    with day("block403:pages=3") as today:
        crawled = today.crawl(pages(8, scheme="https"), settings)
    report, stats = report_of(crawled), crawled.stats
    line = LINE.search(report)
    assert line is not None, report
    assert int(line["opened"]) == stats["resiproxy/tunnel/opened_count"]
    assert abs(float(line["overhead"]) - 100 * stats["resiproxy/tunnel/overhead_ratio"]) < 3
    assert float(line["pings"]) > 0
    assert abs(float(line["handshakes"]) + float(line["pings"]) - float(line["overhead"])) < 0.3
    cost = COST.search(report)
    assert cost is not None, report
    for what in ("fake pages", "handshakes", "pings"):
        assert f"{what} " in cost["parts"]
    assert "downloader/request_method_count/HEAD" not in stats, "a ping is no request of the crawl"


@pytest.mark.parametrize(
    ("meta", "settings"),
    [
        pytest.param({"resiproxy_target": "basket"}, {}, id="named by the request"),
        pytest.param({"download_slot": "own"}, {}, id="a slot of its own"),
        pytest.param({}, {"RESIPROXY_TARGETS": {"shop.example": {"group": "shops"}}}, id="a group"),
    ],
)
def test_tunnels_are_kept_warm_for_a_target_of_any_name(
    day: Any, meta: dict[str, str], settings: dict[str, Any]
) -> None:
    source = f"""
class NamedSpider(ProbeSpider):
    def request(self, url, **kwargs):
        return super().request(url, meta={meta!r}, **kwargs)
"""
    slow = {"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 0.9, "DOWNLOAD_DELAY": 0.5, "RANDOMIZE_DOWNLOAD_DELAY": False}
    with day("ok") as today:
        crawled = today.crawl(pages(4, scheme="https"), {**slow, **settings}, spider=source, name="NamedSpider")
    assert len(crawled.good) == 4
    assert crawled.stats["resiproxy/tunnel/ping_count"] > 0


def test_without_tunnels_nothing_is_said_of_them(day: Any) -> None:
    with day("ok") as today:
        crawled = today.crawl(pages(3), {"RESIPROXY_PRICE_PER_GB": 4})
    report = report_of(crawled)
    assert "Tunnels" not in report
    assert "0% of it bought nothing." in report
