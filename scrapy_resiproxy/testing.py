"""For the tests of a project: would this saved page be delivered, and if not, why?

.. code-block:: python

    from pathlib import Path

    from scrapy_resiproxy import has_css
    from scrapy_resiproxy.testing import check


    def test_a_product_page_passes():
        assert check(has_css("h1.product"), Path("pages/product.html").read_bytes()).ok


    def test_the_shops_own_block_page_is_refused():
        outcome = check(has_css("h1.product"), "<h1>Please wait in line</h1>")
        assert outcome.reason == "soft_block"
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_resiproxy.classify.classifier import Classifier
from scrapy_resiproxy.classify.validators import check_name, resolve, validate_now
from scrapy_resiproxy.outcome import OK, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from scrapy.http import Response

    from scrapy_resiproxy.classify.validators import Judgement, Validator

logger = logging.getLogger(__name__)


def check(
    validator: Validator | str | None,
    html: str | bytes,
    url: str = "https://example.com/",
    status: int = 200,
    headers: Mapping[str, Any] | None = None,
    *,
    rules: bool = True,
) -> Outcome:
    """The outcome of a saved page: what the built-in rules say of it and, where they let it pass, *validator*.

    No reactor and no network are needed, and *validator* (a callable, a dotted path, or None for the rules alone)
    may be asynchronous. *html* given as text is sent as UTF-8; without *headers* it is an HTML page. With
    ``rules=False`` the validator alone is asked. What the validator raises is logged, and its outcome is
    ``validator_error``. Raises ValueError when *validator* cannot be used.
    """
    response = _response(html, url, status, headers)
    if rules:
        # A date in Retry-After counts from the page's own Date header, so that no clock decides a test.
        outcome = Classifier().judge_response(Request(url), response, now=0.0, via_proxy=False)
        if not outcome.ok:
            return outcome
    chosen = resolve(validator) if isinstance(validator, str) else validator
    if chosen is None:
        return OK
    judgement = validate_now(chosen, response)
    outcome, error = judgement if isinstance(judgement, tuple) else _finished(judgement)
    if error is not None:
        logger.error("The validator %s raised", check_name(chosen), exc_info=error)
    return outcome


def _response(html: str | bytes, url: str, status: int, headers: Mapping[str, Any] | None) -> Response:
    body = html.encode() if isinstance(html, str) else html
    if headers is None:
        headers = {"Content-Type": "text/html; charset=utf-8" if isinstance(html, str) else "text/html"}
    given = Headers(headers)
    # As the download handlers choose the class of a response.
    cls = responsetypes.from_args(headers=given, url=url, body=body)
    return cls(url, status=status, headers=given, body=body, request=Request(url))


def _finished(judgement: Awaitable[Judgement]) -> Judgement:
    """The value of *judgement*, also where a loop is already running, as in a notebook."""

    async def wait() -> Judgement:
        return await judgement

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(lambda: asyncio.run(wait())).result()
