from __future__ import annotations

import asyncio
import logging

import pytest
from scrapy.http import HtmlResponse, JsonResponse, Response
from twisted.internet.defer import succeed

from scrapy_resiproxy.classify.validators import Verdict, has_css, json_has
from scrapy_resiproxy.outcome import OK
from scrapy_resiproxy.testing import check


def test_a_good_page_passes() -> None:
    assert check(has_css("h1"), "<h1>Shop</h1>") is OK


def test_a_page_the_validator_refuses_is_a_soft_block() -> None:
    outcome = check(has_css("h1"), b"<p>Please wait in line</p>")
    assert (outcome.reason, outcome.evidence) == ("soft_block", "has_css('h1')")


def test_the_rules_go_first_unless_they_are_switched_off() -> None:
    wall = "<title>Just a moment...</title><h1>x</h1>"
    assert check(has_css("h1"), wall).reason == "challenge"
    assert check(has_css("h1"), wall, rules=False) is OK


def test_without_a_validator_the_rules_alone_are_asked() -> None:
    assert check(None, "<p>page") is OK
    assert check(None, "", status=404).reason == "not_found"
    assert check(None, "", status=503, headers={"Retry-After": "60"}).wait == 60


@pytest.mark.parametrize(
    ("body", "url", "headers", "cls"),
    [
        pytest.param("<p>", "https://t.example/", None, HtmlResponse, id="html"),
        pytest.param("{}", "https://t.example/", {"Content-Type": "application/json"}, JsonResponse, id="json"),
        pytest.param(b"\x89PNG\r\n\x1a\n", "https://t.example/a.png", {}, Response, id="by-address"),
    ],
)
def test_the_response_is_of_the_class_scrapy_would_choose(body, url, headers, cls) -> None:
    seen = []
    assert check(seen.append, body, url, headers=headers) is OK
    assert type(seen[0]) is cls
    assert seen[0].request.url == url


def test_text_keeps_its_letters() -> None:
    assert check(lambda response: "\u017e" in response.text, "<p>\u017elutý") is OK


def refuse(response):
    return False


def test_a_dotted_path_may_be_given() -> None:
    assert check(f"{__name__}.refuse", "<p>").reason == "soft_block"
    with pytest.raises(ValueError, match="cannot be loaded"):
        check("no.such.thing", "<p>")


async def later(response):
    await asyncio.sleep(0)
    return Verdict.transient("half")


@pytest.mark.parametrize(
    ("validator", "reason"),
    [(later, "validator_transient"), (lambda response: succeed(False), "soft_block")],
    ids=["coroutine", "deferred"],
)
def test_asynchronous_validators_need_no_loop(validator, reason: str) -> None:
    assert check(validator, "<p>").reason == reason


def test_nor_do_they_mind_a_running_one() -> None:
    async def in_a_notebook():
        return check(later, "<p>")

    assert asyncio.run(in_a_notebook()).reason == "validator_transient"


def test_a_validators_traceback_is_logged(caplog) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = check(json_has, "<p>")
    assert outcome.reason == "validator_error"
    assert "json_has" in caplog.text
    assert "Traceback" in caplog.text
