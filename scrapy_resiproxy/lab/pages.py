"""What the site shows: an ordinary shop with lists, details and an API, and pages that pretend to be it.

Every HTML page says in ``<meta name="lab-page" content="good">`` what it is (``good``, ``fake`` or
``error``), and every JSON page in its member ``lab_page``: a measurement needs no guess.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from scrapy_resiproxy.lab.behaviours import PageKind

PER_PAGE: Final = 20
"""Items on a full list page."""
SHORT_LENGTH: Final = 3
"""Items on a short one."""

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_ADJECTIVES: Final = (
    "Walnut",
    "Brass",
    "Linen",
    "Slate",
    "Amber",
    "Birch",
    "Copper",
    "Indigo",
    "Marble",
    "Olive",
)
_NOUNS: Final = (
    "lamp",
    "chair",
    "kettle",
    "shelf",
    "rug",
    "clock",
    "vase",
    "stool",
    "mirror",
    "basket",
    "bench",
)
_BLURB: Final = (
    "Made in small series, finished by hand and packed without plastic. Every piece is checked twice before "
    "it leaves the workshop, and what does not please may come back within thirty days."
)
_STORY: Final = "".join(
    f"<p>{_BLURB} {_BLURB} Chapter {chapter} of the workshop's story.</p>\n" for chapter in range(1, 7)
)


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered page."""

    body: bytes
    content_type: str = HTML
    found: bool = True
    """False when the shop has no such path: then the body is the 404 page."""


def title(n: int) -> str:
    """Return the name of item `n`."""
    return f"{_ADJECTIVES[n % len(_ADJECTIVES)]} {_NOUNS[n % len(_NOUNS)]} {n}"


def price(n: int) -> str:
    """Return the price of item `n`, as it stands on its page."""
    return f"{n * 3779 % 29000 / 100 + 9.5:.2f}"


class Shop:
    """Renders any path of a shop with `items` items on its lists (item pages exist for every number)."""

    def __init__(self, items: int = 2000) -> None:
        self.items = items
        self.page = lru_cache(maxsize=8192)(self._page)

    def _page(self, kind: PageKind, path: str, base: str = "") -> Page:
        """Return the page of `kind` at `path` (with query); `base` goes before every link."""
        if kind in _FAKES:
            return _fake(*_FAKES[kind], base)
        if kind is PageKind.ERROR:
            return _error("This page cannot be shown.", base)
        where, _, query = path.partition("?")
        if where == "/":
            return _html("Home", f'<p><a href="{base}/list">All things</a></p>', base)
        if where == "/robots.txt":
            return Page(b"User-agent: *\nAllow: /\n", TEXT)
        if where == "/list":
            return self._list(_number(query), kind, base)
        if where == "/api/items":
            return self._api_list(_number(query), kind, base)
        return _one_item(where, base)

    def _numbers(self, page: int, kind: PageKind) -> range:
        first = (page - 1) * PER_PAGE + 1
        length = {PageKind.EMPTY: 0, PageKind.SHORT: SHORT_LENGTH}.get(kind, PER_PAGE)
        return range(first, max(first, min(first + length, self.items + 1)))

    def _list(self, page: int, kind: PageKind, base: str) -> Page:
        items = "".join(
            f'<li class="item"><a class="title" href="{base}/item/{n}">{title(n)}</a> '
            f'<span class="price">{price(n)}</span><p>{_BLURB}</p></li>\n'
            for n in self._numbers(page, kind)
        )
        onward = f'<a class="next" href="{base}/list?page={page + 1}">Next</a>' if self._has_next(page) else ""
        body = f'<ul class="items">\n{items}</ul>\n{onward}'
        return _html(f"All things, page {page}", body, base, _marker(kind))

    def _api_list(self, page: int, kind: PageKind, base: str) -> Page:
        return _json(
            {
                "lab_page": _marker(kind),
                "page": page,
                "total": self.items,
                "items": [_record(n, base) for n in self._numbers(page, kind)],
                "next": f"{base}/api/items?page={page + 1}" if self._has_next(page) else None,
            }
        )

    def _has_next(self, page: int) -> bool:
        return page * PER_PAGE < self.items


def _number(query: str) -> int:
    """Return the page asked for; what is no number is the first."""
    text = parse_qs(query).get("page", ["1"])[-1]
    return max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1


def _marker(kind: PageKind) -> str:
    return "good" if kind is PageKind.GOOD else "fake"


def _one_item(where: str, base: str) -> Page:
    folder, _, number = where.rpartition("/")
    if not number.isdecimal() or len(number) > 12:
        return _error("There is no such page.", base, found=False)
    if folder == "/item":
        return _detail(int(number), base)
    if folder == "/api/items":
        return _json({"lab_page": "good", **_record(int(number), base)})
    return _error("There is no such page.", base, found=False)


def _record(n: int, base: str) -> dict[str, object]:
    return {"id": n, "title": title(n), "price": price(n), "url": f"{base}/item/{n}"}


def _detail(n: int, base: str) -> Page:
    related = "".join(f'<li><a href="{base}/item/{other}">{title(other)}</a></li>\n' for other in range(n + 1, n + 6))
    body = (
        f'<h1 class="title">{title(n)}</h1>\n<span class="price">{price(n)}</span>\n'
        f'<div class="description">\n{_STORY}</div>\n'
        f"<table><tr><th>Number</th><td>{n}</td></tr>\n"
        f"<tr><th>Weight</th><td>{n % 90 + 10} kg</td></tr></table>\n"
        f'<ul class="related">\n{related}</ul>'
    )
    return _html(title(n), body, base)


def _html(name: str, body: str, base: str, marker: str = "good", *, found: bool = True) -> Page:
    text = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="lab-page" content="{marker}">\n<title>{html.escape(name)}</title>\n</head>\n<body>\n'
        f'<nav><a href="{base}/">Home</a> <a href="{base}/list">All things</a></nav>\n'
        f"<main>\n{body}\n</main>\n"
        "<footer>Open on weekdays from nine to five.</footer>\n</body>\n</html>\n"
    )
    return Page(text.encode(), found=found)


def _json(value: object) -> Page:
    return Page(json.dumps(value, indent=1).encode(), JSON)


def _error(text: str, base: str, *, found: bool = True) -> Page:
    return _html("Error", f"<p>{text}</p>", base, "error", found=found)


def _fake(name: str, body: str, base: str) -> Page:
    return _html(name, body, base, "fake")


_FAKES: Final[dict[PageKind, tuple[str, str]]] = {
    PageKind.CHALLENGE: (
        "One more step",
        '<h1>One more step</h1><form method="post">Confirm that you are a human. <button>Go</button></form>',
    ),
    PageKind.CLOUDFLARE: (
        "Just a moment...",
        "<h1>Checking your browser</h1><script>window._cf_chl_opt={cType:'managed'};</script>",
    ),
    PageKind.LOOKALIKE: ("All things", "<p>We are putting the shelves in order. Have a look round.</p>"),
    PageKind.BLOCKED: (
        "Access denied",
        "<h1>Access denied</h1><p>Your address has been blocked because of unusual activity.</p>",
    ),
}
