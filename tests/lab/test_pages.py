from __future__ import annotations

import json
import re

import pytest

from scrapy_resiproxy.lab.behaviours import PageKind
from scrapy_resiproxy.lab.pages import PER_PAGE, SHORT_LENGTH, Page, Shop, price, title

SHOP = Shop(items=45)


def marker(page: Page) -> str:
    return page.body.decode().partition('<meta name="lab-page" content="')[2].partition('"')[0]


def listed(page: Page) -> list[int]:
    return [int(n) for n in re.findall(rb'<li class="item"><a class="title" href="[^"]*/item/(\d+)">', page.body)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (PageKind.GOOD, "good"),
        (PageKind.EMPTY, "fake"),
        (PageKind.SHORT, "fake"),
        (PageKind.CHALLENGE, "fake"),
        (PageKind.CLOUDFLARE, "fake"),
        (PageKind.LOOKALIKE, "fake"),
        (PageKind.BLOCKED, "fake"),
        (PageKind.ERROR, "error"),
    ],
)
def test_every_page_says_what_it_is(kind, expected):
    assert marker(SHOP.page(kind, "/list")) == expected


def test_following_next_from_the_first_list_finds_every_item_once():
    path, found = "/list", []
    while path:
        page = SHOP.page(PageKind.GOOD, path)
        found += listed(page)
        path = page.body.decode().partition('<a class="next" href="')[2].partition('"')[0]
    assert found == list(range(1, 46))


def test_following_next_in_the_api_finds_every_item_once():
    path, found = "/api/items", []
    while path:
        page = json.loads(SHOP.page(PageKind.GOOD, path).body)
        assert (page["lab_page"], page["total"]) == ("good", 45)
        found += [item["id"] for item in page["items"]]
        path = page["next"]
    assert found == list(range(1, 46))


@pytest.mark.parametrize(("kind", "length"), [(PageKind.EMPTY, 0), (PageKind.SHORT, SHORT_LENGTH)])
def test_spoilt_lists_are_short_in_html_and_json(kind, length):
    assert len(listed(SHOP.page(kind, "/list?page=2"))) == length
    answer = json.loads(SHOP.page(kind, "/api/items?page=2").body)
    assert (answer["lab_page"], len(answer["items"])) == ("fake", length)


@pytest.mark.parametrize("number", [1, 45, 46, 10**11])
def test_item_pages_exist_for_every_number_with_title_and_price(number):
    html = SHOP.page(PageKind.GOOD, f"/item/{number}").body.decode()
    assert f'<h1 class="title">{title(number)}</h1>' in html
    assert f'<span class="price">{price(number)}</span>' in html
    record = json.loads(SHOP.page(PageKind.GOOD, f"/api/items/{number}").body)
    assert record == {
        "lab_page": "good",
        "id": number,
        "title": title(number),
        "price": price(number),
        "url": f"/item/{number}",
    }


@pytest.mark.parametrize(
    "path", ["/nothing", "/item/", "/item/x", "/item/²", "/item/1/2", "/what/7", "/item/" + "9" * 13]
)
def test_an_unknown_path_is_not_found(path):
    page = SHOP.page(PageKind.GOOD, path)
    assert (page.found, marker(page)) == (False, "error")


@pytest.mark.parametrize("query", ["page=x", "page=0", "page=-3", "page=" + "9" * 40, "page=²", ""])
def test_a_page_number_that_is_none_means_the_first(query):
    assert listed(SHOP.page(PageKind.GOOD, f"/list?{query}")) == list(range(1, PER_PAGE + 1))


def test_a_list_beyond_the_last_is_a_good_page_without_items():
    page = SHOP.page(PageKind.GOOD, "/list?page=9")
    assert (marker(page), listed(page)) == ("good", [])


def test_every_link_starts_with_the_base():
    for path in ("/", "/list", "/item/3"):
        links = re.findall(rb'href="([^"]*)"', SHOP.page(PageKind.GOOD, path, "/shop.example").body)
        assert links
        assert all(link.startswith(b"/shop.example/") for link in links)


def test_the_root_leads_to_the_lists_and_robots_may_come():
    assert b'href="/list"' in SHOP.page(PageKind.GOOD, "/").body
    assert SHOP.page(PageKind.GOOD, "/robots.txt").body == b"User-agent: *\nAllow: /\n"


def test_only_the_lookalike_and_the_generic_challenge_carry_no_vendors_mark():
    assert b"_cf_chl_opt" in SHOP.page(PageKind.CLOUDFLARE, "/").body
    for kind in (PageKind.CHALLENGE, PageKind.LOOKALIKE):
        assert b"cf" not in SHOP.page(kind, "/").body
