"""What a good page looks like. Nobody but you can know that, and it is all that scrapy_resiproxy wants to be told.

A validator gets the response and returns True (good), or says what is wrong: False or a text for a page that somebody
without our bad name would not have got, a Verdict for anything else.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrapy_resiproxy import Verdict, all_of, has_css, has_xpath, json_has, lacks_text, min_items

if TYPE_CHECKING:
    from scrapy.http import Response

PER_PAGE = 20
"""Products on each page of a list but the last."""


def full_list(response: Response) -> bool | Verdict:
    """A custom one: a list that goes on, but is short, is half a page. It is asked for again, on the same session.

    The last page may be short. A validator knows no more than the page tells: the API's, below, knows better.
    """
    found = len(response.css("li.item"))
    if response.css("a.next") and found < PER_PAGE:
        return Verdict.transient(f"{found} of {PER_PAGE}")
    return True


def full_api_page(response: Response) -> bool | Verdict:
    """The same for the API, which says how many products there are."""
    page = json.loads(response.body)
    expected = min(PER_PAGE, page["total"] - PER_PAGE * (page["page"] - 1))
    return len(page["items"]) >= expected or Verdict.transient(f"{len(page['items'])} of {expected}")


list_page = all_of(min_items("li.item", 1), full_list)
"""Ready-made ones and a custom one together; the first that is not content decides."""

detail_page = all_of(has_css("h1.title"), has_xpath("//span[@class='price']"), lacks_text("Access denied"))

api_page = all_of(json_has("items"), json_has("total"), full_api_page)
