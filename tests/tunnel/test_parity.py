"""Whatever Scrapy's own handler gives through a proxy, ours gives too."""

from __future__ import annotations

import json

import pytest
from parity_cases import PATHS

REACTORS = {
    "asyncio": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "epoll": "twisted.internet.epollreactor.EPollReactor",
}


@pytest.fixture(scope="module", params=REACTORS)
def report(request, run_program, pki):
    return json.loads(run_program("run_parity.py", pki.good, REACTORS[request.param]))


def connection_of(result):
    """Certificate and address are known to ours for every response, to Scrapy's not always."""
    response = result.get("stopped", result)
    return response.pop("ip", None), response.pop("certificate", None)


@pytest.mark.parametrize("name", [path for path in PATHS if path != "badline"])
def test_ours_gives_what_scrapys_gives(report, name):
    ours, stock = report[name]["ours"], report[name]["stock"]
    our_connection, stock_connection = connection_of(ours), connection_of(stock)
    assert ours == stock
    assert stock_connection in {our_connection, ("None", False)}
    if "status" in ours:
        assert our_connection == ("127.0.0.1", "origin.test")


def test_a_header_line_without_a_colon_is_skipped(report):
    ours = report["badline"]["ours"]
    assert (ours["status"], ours["body"]) == (200, "hello")
    assert ours["headers"] == [["Content-Length", ["5"]], ["X-A", ["1"]]]


def test_the_origin_never_sees_the_proxys_credentials(report):
    for name in PATHS:
        if name.startswith("echo"):
            assert "proxy-authorization" not in report[name]["ours"]["body"]
            assert "user-agent" in report[name]["ours"]["body"]
