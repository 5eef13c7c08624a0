"""Whether an answer is a wall's and not the target's: by header, by final URL, by title, by token.

A wall's page names itself in a few places only, and these are looked at in the order of their price. Pages
with a good status are searched in their head, small ones in full; refused ones up to ``page.SCAN`` bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from scrapy.http import Headers, HtmlResponse, TextResponse

from scrapy_resiproxy.classify import marks
from scrapy_resiproxy.classify.page import HEAD, SCAN, SMALL, UNSEEN, is_stub, narrow, pieces, survey, title_of
from scrapy_resiproxy.classify.reasons import identity, one_line, rate, transient
from scrapy_resiproxy.outcome import Blame, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_resiproxy.classify.marks import Mark

_REFUSALS: Final = frozenset({401, 403, 405, 406, 412, 420, 428, 429, 430, 503})
_KASADA_STATUSES: Final = frozenset({403, 429})
_WIDGET_STATUSES: Final = frozenset({403, 429, 503})

# Names as Headers itself spells them, so that one set operation tells whether any of them is there.
_TELLING: Final = frozenset(Headers(dict.fromkeys((*marks.HEADER_VALUES, *marks.KASADA_HEADERS), b"")))
_ALIYUN: Final = re.compile(marks.ALIYUN)
_WIDGET_ELEMENT: Final = re.compile(marks.WIDGET_ELEMENT, re.IGNORECASE)
_WIDGET_INVISIBLE: Final = re.compile(marks.WIDGET_INVISIBLE)
_CLOUDFLARE_CODE: Final = re.compile(marks.CLOUDFLARE_CODE)
_BLOCK_PATH: Final = re.compile(r"/(?:errors/validateCaptcha|sorry/index\?.*continue=|(?:blocked|captcha)(?:[/?]|$))")
_GOOGLE: Final = re.compile(r"(?:[a-z0-9-]+\.)*google\.(?:com?\.)?[a-z]{2,3}")
_GOOGLE_BLOCK_PATH: Final = re.compile(r"/sorry/\w*")


def find_wall(
    request: Request, response: Response, *, text_rules: bool = True, markers: Sequence[str] = ()
) -> Outcome | None:
    """The outcome of an answer that is a wall's beyond doubt, or ``None``.

    *markers* are the user's own tokens; without *text_rules* neither they nor any part of the body count.
    """
    wall = None if _TELLING.isdisjoint(response.headers) else _by_header(response)
    if wall is not None or 300 <= response.status < 400:
        return wall
    if "redirect_urls" in request.meta:
        wall = _by_url(request, response)
    if wall is not None or not text_rules or not isinstance(response, TextResponse):
        return wall
    if markers and (wall := _by_marker(response, markers)) is not None:
        return wall
    refused = not 200 <= response.status < 400
    if not refused and not _looks_like_html(response):
        return None
    body = response.body
    if not body:
        return None
    return _by_refused_page(response, narrow(body)) if refused else _by_good_page(narrow(body))


def find_widget(response: Response) -> Outcome | None:
    """The outcome of a refusal that shows a captcha's widget, which goes after everything else.

    A site may have the widget in the frame of all its pages, so an honest 403 may show it: then it is weak. On a 503
    its script alone says nothing, for that is the status of maintenance: there must be something to click.
    """
    if response.status not in _WIDGET_STATUSES or not isinstance(response, TextResponse):
        return None
    body = narrow(response.body)
    if response.status == 503:
        shown = _shown_widget(body) if _names_widget(body) else None
        return _wall("challenge", shown) if shown else None
    name = next((name for token, name in marks.WIDGETS if body.find(token, 0, SCAN) >= 0), None)
    if name is None and _names_widget(body):
        found = _WIDGET_ELEMENT.search(body, 0, SCAN)
        name = found and _widget_name(found)
    return identity("challenge", Blame.SESSION, name, weak=response.status == 403) if name else None


def _wall(reason: str, evidence: str) -> Outcome:
    return identity(reason, Blame.SESSION, evidence)


def _is_refusal(status: int) -> bool:
    return status in _REFUSALS or not 100 <= status <= 599


def _by_header(response: Response) -> Outcome | None:
    headers = response.headers
    for name, values in marks.HEADER_VALUES.items():
        for said in b",".join(headers.getlist(name)).split(b","):
            reason = values.get(said.strip().lower())
            if reason:
                return _wall(reason, name)
    if response.status in _KASADA_STATUSES:
        for name in marks.KASADA_HEADERS:
            if name in headers:
                return _wall("challenge", name)
    return None


def _by_url(request: Request, response: Response) -> Outcome | None:
    asked = request.meta["redirect_urls"]
    path = _block_path(response.url) if asked else None
    # Who asked for a page with such an address got what he asked for.
    if path is None or _block_path(str(asked[0])) is not None:
        return None
    return _wall("block_url", "url:" + one_line(path, 40))


def _block_path(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    match = _BLOCK_PATH.match(f"{parts.path}?{parts.query}" if parts.query else parts.path)
    if match is None and _GOOGLE.fullmatch(host):
        match = _GOOGLE_BLOCK_PATH.match(parts.path)
    return match and match[0].partition("?")[0]


def _by_marker(response: TextResponse, markers: Sequence[str]) -> Outcome | None:
    body = narrow(response.body)
    for marker in markers:
        spellings = {marker.encode("utf-8", "replace")}
        if not marker.isascii():
            spellings.add(marker.encode(response.encoding, "replace"))
        if any(body.find(spelling, 0, SCAN) >= 0 for spelling in spellings):
            return _wall("marker", "marker:" + one_line(ascii(marker)[1:-1], 60))
    return None


def _looks_like_html(response: TextResponse) -> bool:
    # A list asked for as CSV may come back as a wall's page that names no type.
    return isinstance(response, HtmlResponse) or (
        type(response) is TextResponse and response.body[:64].lstrip().startswith(b"<")
    )


def _by_good_page(body: bytes) -> Outcome | None:
    end = SMALL if len(body) <= SMALL else HEAD
    wall = _by_title(body) or _first(marks.MARKS, body, end)
    if wall is None and body.find(b"aptcha", 0, end) >= 0:
        wall = _first(marks.CAPTCHA_MARKS, body, end)
    if wall is None and _has_script(body, end):
        wall = _by_script(body, end)
    return wall or (_by_stub(body) if len(body) <= SMALL else None)


def _has_script(body: bytes, end: int) -> bool:
    return body.find(b"<script", 0, end) >= 0 or body.find(b"<SCRIPT", 0, end) >= 0


def _by_script(body: bytes, end: int) -> Outcome | None:
    wall = _first(marks.SCRIPT_MARKS, body, end)
    if wall is None and body.find(b"var arg1", 0, end) >= 0 and _ALIYUN.search(body, 0, end):
        return _wall("challenge", "arg1")
    return wall


def _by_title(body: bytes) -> Outcome | None:
    title = title_of(body)
    if not title:
        return None
    mark = marks.TITLES.get(title) or marks.TITLES.get(title.rstrip(b"."))
    if mark is None:
        mark = next((mark for end, mark in marks.TITLE_ENDS if title.endswith(end)), None)
    return _wall(mark.reason, mark.name) if mark and mark.on(body, SCAN) else None


def _first(table: Iterable[Mark], body: bytes, end: int) -> Outcome | None:
    find = body.find
    for mark in table:
        # The first token is looked for right here: most pages hold none, and this runs on every page.
        if find(mark.tokens[0], 0, end) < 0 or not mark.on(body, end):
            continue
        if not mark.bare or is_stub(body, text=mark.bare):
            return _wall(mark.reason, mark.name)
    return None


def _by_stub(body: bytes) -> Outcome | None:
    if marks.INCAPSULA.on(body, SMALL) and is_stub(body, text=1) and survey(body).scripts <= 1:
        return _wall("challenge", marks.INCAPSULA.name)
    name = _shown_widget(body) if _names_widget(body) else None
    return _wall("challenge", name) if name and is_stub(body) else None


def _names_widget(body: bytes) -> bool:
    return body.find(b"aptcha", 0, SCAN) >= 0 or body.find(b"turnstile", 0, SCAN) >= 0


def _shown_widget(body: bytes) -> str | None:
    for _, tag, markup in pieces(body):
        found = _WIDGET_ELEMENT.search(markup) if tag and tag not in UNSEEN else None
        if found and not _WIDGET_INVISIBLE.search(markup):
            return _widget_name(found)
    return None


def _widget_name(found: re.Match[bytes]) -> str:
    return f"widget:{found[1].decode().lower()}"


def _by_refused_page(response: TextResponse, body: bytes) -> Outcome | None:
    # A genuine 401 (RFC 9110, 15.5.2) is about credentials, whatever its page says.
    if response.status == 401 and "WWW-Authenticate" in response.headers:
        return None
    tables = [marks.MARKS, marks.SCRIPT_MARKS, marks.CAPTCHA_MARKS]
    if _is_refusal(response.status):
        tables.append(marks.REFUSAL_MARKS)
    # The code goes before any script on the page, which is a challenge's too.
    wall = _by_cloudflare_code(response.status, body) or _by_title(body)
    for table in tables:
        wall = wall or _first(table, body, SCAN)
    return wall or _by_stub(body)


def _by_cloudflare_code(status: int, body: bytes) -> Outcome | None:
    if status not in marks.CLOUDFLARE_STATUSES or not _is_cloudflares(body):
        return None
    match = _CLOUDFLARE_CODE.search(body, 0, SCAN)
    code = int(match[1]) if match else 0
    if code in marks.CLOUDFLARE_FAULTS:
        return transient("origin_unreachable", Blame.TARGET, f"error-code:{code}")
    if code == marks.CLOUDFLARE_RATE:
        return rate("rate_limit_page", Blame.TARGET, f"error-code:{code}")
    if code in marks.CLOUDFLARE_BLOCKS and _is_refusal(status):
        return _wall("block_page", f"error-code:{code}")
    return None


def _is_cloudflares(body: bytes) -> bool:
    start = body[:32].lstrip()
    if start.startswith(b"error code: "):
        return True
    tokens = marks.CLOUDFLARE_JSON if start.startswith(b"{") else marks.CLOUDFLARE_PAGE
    return any(body.find(token, 0, SCAN) >= 0 for token in tokens)
