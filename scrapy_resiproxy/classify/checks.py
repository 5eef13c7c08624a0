"""Validators that are ready to use.

Called with a response, each returns True where the answer is good, None where it has nothing to say (a picture
has no text), and otherwise False or what is wrong.
"""
# ruff: noqa: N801
# They are written like functions in a spider, has_css("h1"), and are classes only to be values.

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from parsel import Selector, css2xpath
from scrapy.http import HtmlResponse, TextResponse, XmlResponse
from w3lib.html import remove_tags

from scrapy_resiproxy.classify.check import Check, CheckOfMany
from scrapy_resiproxy.classify.counts import declared_count
from scrapy_resiproxy.classify.json_type import is_json
from scrapy_resiproxy.classify.page import SMALL, is_stub
from scrapy_resiproxy.classify.verdict import Verdict

if TYPE_CHECKING:
    from scrapy.http import Response

_STUB: Final = 2_048
_JSON: Final = re.compile(r"[ \t\n\r]*[\[{]")


class _TextCheck(Check):
    """A check of a text; anything else passes unseen."""

    def __call__(self, response: Response) -> Any:
        return self.test(response) if isinstance(response, TextResponse) else None

    def test(self, response: TextResponse) -> Any:
        raise NotImplementedError


class _MarkupCheck(_TextCheck):
    """A check of a document with elements; JSON passes unseen, whatever type it is sent as."""

    def __call__(self, response: Response) -> Any:
        return None if is_json(response) or _holds_json(response) else super().__call__(response)


@dataclass(frozen=True, repr=False)
class has_css(_MarkupCheck):
    """Good where the CSS *query* finds something."""

    query: str

    def __post_init__(self) -> None:
        _check_css(self, self.query)

    def test(self, response: TextResponse) -> bool:
        return bool(response.css(self.query))


@dataclass(frozen=True, repr=False)
class has_xpath(_MarkupCheck):
    """Good where the XPath *query* finds something."""

    query: str

    def __post_init__(self) -> None:
        _check_text(self, self.query)
        try:
            Selector(text="<a/>").xpath(self.query)
        except ValueError as error:
            raise ValueError(f"{self!r}: {error}") from None

    def test(self, response: TextResponse) -> bool:
        return bool(response.xpath(self.query))


@dataclass(frozen=True, repr=False)
class has_text(_TextCheck):
    """Good where *text* is on the page, in these letters."""

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)

    def test(self, response: TextResponse) -> bool:
        return self.text in response.text


@dataclass(frozen=True, repr=False)
class lacks_text(_TextCheck):
    """Good where *text* is not on the page."""

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)

    def test(self, response: TextResponse) -> bool:
        return self.text not in response.text


@dataclass(frozen=True, repr=False)
class min_length(_TextCheck):
    """Good where the body has at least *size* bytes."""

    size: int

    def __post_init__(self) -> None:
        _check_number(self, self.size)

    def test(self, response: TextResponse) -> bool | str:
        length = len(response.body)
        return length >= self.size or f"{length} bytes"


@dataclass(frozen=True, repr=False)
class min_items(_MarkupCheck):
    """Good where the CSS *query* finds at least *count* elements."""

    query: str
    count: int

    def __post_init__(self) -> None:
        _check_css(self, self.query)
        _check_number(self, self.count)

    def test(self, response: TextResponse) -> bool | str:
        found = len(response.css(self.query))
        return found >= self.count or f"{found} found"


@dataclass(frozen=True, repr=False)
class expect_count(_MarkupCheck):
    """Good where a list is as long as its page says: half a list is asked for again, on the same session.

    *items* is the CSS query of the entries, *declared* that of the text that counts them: ``1-50 of 900`` stands
    for 50, ``12 results`` for 12; thousands may be grouped, as in ``10,001-10,050``. A page that declares nothing, or
    what may be misread, passes; ``has_css(declared)`` sees to that.
    """

    items: str
    declared: str

    def __post_init__(self) -> None:
        _check_css(self, self.items)
        _check_css(self, self.declared)

    def test(self, response: TextResponse) -> bool | Verdict | None:
        expected = declared_count(" ".join(remove_tags(text) for text in response.css(self.declared).getall()))
        if expected is None:
            return None
        found = len(response.css(self.items))
        return found >= expected or Verdict.transient(f"{found} of {expected}")


@dataclass(frozen=True, repr=False)
class json_has(_TextCheck):
    """Good where the JSON body has *path*: keys and list positions with dots between them, ``data.items.0.id``."""

    path: str

    def __post_init__(self) -> None:
        _check_text(self, self.path)

    def test(self, response: TextResponse) -> bool | str:
        try:
            value = response.json()
        except (ValueError, RecursionError):
            return "not JSON"
        for step in self.path.split("."):
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                return False
        return True


@dataclass(frozen=True, repr=False)
class not_stub(_TextCheck):
    """Good unless the page is a short document without anything to read: the wall that no list knows yet."""

    def test(self, response: TextResponse) -> bool:
        body = response.body
        is_markup = body[:SMALL].lstrip()[:1] == b"<"
        return not (is_markup and len(body) < _STUB and is_stub(body, text=1))


class content_type_is(CheckOfMany):
    """Good where the answer has one of these content types: ``"text/csv"``, or ``"image/"`` for a family.

    An answer without a type passes.
    """

    def _accept(self, part: Any) -> None:
        if not isinstance(part, str) or "/" not in part:
            raise ValueError(f"content_type_is(): a type looks like 'text/csv' or 'image/', not {part!r}.")

    def __call__(self, response: Response) -> bool | None:
        declared = (response.headers.get("Content-Type") or b"").decode("latin-1")
        name = declared.partition(";")[0].strip().lower()
        if not name:
            return None
        return any(name.startswith(part) if part.endswith("/") else name == part for part in self.parts)


class url_lacks(CheckOfMany):
    """Good where the final URL holds none of these texts: a redirect to ``/login`` is no answer."""

    def _accept(self, part: Any) -> None:
        if not isinstance(part, str) or not part:
            raise ValueError(f"url_lacks(): a part of a URL must be a text, not {part!r}.")

    def __call__(self, response: Response) -> bool:
        return not any(part in response.url for part in self.parts)


def _holds_json(response: Response) -> bool:
    # HTML and XML have classes of their own; what has neither may be a document, or JSON under another name.
    if not isinstance(response, TextResponse) or isinstance(response, (HtmlResponse, XmlResponse)):
        return False
    if not _JSON.match(response.text):
        return False
    try:
        json.loads(response.text)
    except RecursionError:
        return True  # and too deep to be read
    except ValueError:
        return False
    return True


def _check_text(check: Check, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise ValueError(f"{check!r}: a text is needed, not {text!r}.")


def _check_css(check: Check, query: object) -> None:
    _check_text(check, query)
    try:
        css2xpath(str(query))
    except (ValueError, SyntaxError, RuntimeError) as error:  # cssselect raises them all
        raise ValueError(f"{check!r}: {error}") from None


def _check_number(check: Check, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{check!r}: a whole number of 0 or more is needed, not {number!r}.")
