from __future__ import annotations

import base64
import builtins
import importlib
import logging
import sys
import zlib

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import HtmlResponse, JsonRequest, Response, TextResponse, XmlRpcRequest
from w3lib.url import is_url

from scrapy_resiproxy import min_items
from scrapy_resiproxy.deadletter import rebuild
from scrapy_resiproxy.deadletter.permitted import PermittedValidators
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.deadletter.record import encode, read_letter, to_request, to_response


def come_back(made, spider):
    return to_request(read_letter(encode(made)), spider)


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://shop.example/", method="POST", body=b"x"),
        FormRequest("http://shop.example/", formdata={"a": "1"}),
        JsonRequest("http://shop.example/", data={"a": 1}),
        XmlRpcRequest("http://shop.example/", methodname="m", params=(1,)),
    ],
    ids=lambda request: type(request).__name__,
)
def test_scrapys_own_request_classes_come_back(request_, letter, spider):
    rebuilt = come_back(letter(request_), spider)
    assert type(rebuilt) is type(request_)
    assert (rebuilt.body, rebuilt.headers, rebuilt.method) == (request_.body, request_.headers, request_.method)


@pytest.mark.parametrize(
    ("name", "cls"),
    [("scrapy.Request", Request), ("scrapy.FormRequest", FormRequest), ("scrapy.http.JsonRequest", JsonRequest)],
)
def test_their_public_names_are_known_too(name, cls, letter, spider):
    made = letter()
    made["request"]["_class"] = name
    assert type(come_back(made, spider)) is cls


@pytest.mark.parametrize(
    "name",
    ["antigravity.Request", "os.system", "subprocess.Popen", "scrapy.http.request.Request.__class__", "", "scrapy"],
)
def test_nothing_else_is_imported_and_the_fall_back_is_reported(name, letter, spider, caplog, monkeypatch):
    def no_import(*args, **kwargs):
        raise AssertionError(f"imported {args}")

    made = letter()
    made["request"]["_class"] = name
    line = encode(made)
    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr(importlib, "import_module", no_import)
        monkeypatch.setattr(builtins, "__import__", no_import)
        try:
            rebuilt = to_request(read_letter(line), spider)
        finally:
            monkeypatch.undo()
    assert type(rebuilt) is Request
    assert made["id"] in caplog.text
    assert "plain Request" in caplog.text


HOSTILE = [
    "__class__",
    "__init__",
    "__reduce__",
    "start.__globals__",
    "parse.__func__",
    "parse_page()",
    "from_crawler",
    "update_settings",
    "close",
    "start",
    "log",
    "_set_crawler",
    "crawler",
    "settings",
    "name",
    "gone",
    "",
    "loader",
    "helper",
]


class Helped(Spider):
    name = "helped"
    loader = staticmethod(print)

    @classmethod
    def helper(cls): ...


@pytest.mark.parametrize("field", ["callback", "errback"])
@pytest.mark.parametrize("name", HOSTILE)
def test_only_a_method_of_the_spider_is_a_callback(name, field, letter):
    made = letter()
    made["request"][field] = name
    spider = Helped()
    with pytest.raises(LetterError) as caught:
        come_back(made, spider)
    if field == "callback":
        assert str(caught.value) == f"request.callback is {name!a}; it must be the name of a method of 'helped'"


def test_a_callback_that_the_machinery_uses_may_be_the_spiders_own(letter):
    class Own(Spider):
        name = "own"

        def log(self, response): ...

    made = letter()
    made["request"]["callback"] = "log"
    spider = Own()
    assert come_back(made, spider).callback == spider.log


@pytest.mark.parametrize("name", ["parse", "_parse"])
def test_the_default_callbacks_are_allowed(name, letter, spider):
    made = letter()
    made["request"]["callback"] = name
    assert come_back(made, spider).callback == getattr(spider, name)


def test_our_own_meta_cannot_be_forged(letter, spider):
    made = letter()
    made["request"]["meta"] = {"_resiproxy": {"id": "x"}, "_resiproxy_replay": {"id": "x"}, "depth": 2}
    assert come_back(made, spider).meta == {"depth": 2}


def with_validator(made, value):
    made["request"]["meta"] = {"resiproxy_validator": value}
    return made


def checks_of_the_project(response): ...


HERE = __name__
UNKNOWN_VALIDATORS = [
    "evilmod.check",
    "antigravity.fly",
    "sys.exit",
    "builtins.breakpoint",
    "scrapy.utils.misc.load_object",
    "scrapy_resiproxy.classify.validators.resolve",
    "scrapy_resiproxy.not_there",
    f"{HERE}.not_there",
    f"{HERE}.__class__",
    f"{HERE}.sys.exit",
    f"{HERE}.not_loaded.check",
    "checks_of_the_project",
    "close",
    "__init__",
    ".",
    "",
    5,
    True,
    ["sys.exit"],
    {},
]


@pytest.mark.parametrize("value", UNKNOWN_VALIDATORS, ids=repr)
def test_a_validator_that_the_project_has_not_loaded_is_refused_and_nothing_is_imported(
    value, letter, spider, monkeypatch
):
    def no_import(*args, **kwargs):
        raise AssertionError(f"imported {args}")

    loaded = set(sys.modules)
    line = encode(with_validator(letter(), value))
    monkeypatch.setattr(importlib, "import_module", no_import)
    with pytest.raises(LetterError) as caught:
        to_request(read_letter(line), spider)
    package = type(spider).__module__.partition(".")[0]
    assert str(caught.value) == (
        f"request.meta.resiproxy_validator is {value!a}; it must be the name of a method of 'shop', or the dotted name "
        f"of a validator in a module of {package} that is loaded already, of scrapy_resiproxy or in RESIPROXY_TARGETS"
    )
    assert set(sys.modules) == loaded


class HereSpider(Spider):
    name = "here"

    def parse_page(self, response): ...

    def is_good(self, response): ...


@pytest.fixture
def here(monkeypatch):
    """A spider of this module, which is loaded under its name."""
    module = type(sys)(HERE)
    vars(module).update(checks_of_the_project=checks_of_the_project)
    monkeypatch.setitem(sys.modules, HERE, module)
    return HereSpider()


@pytest.mark.parametrize("value", [f"{HERE}.checks_of_the_project", "scrapy_resiproxy.not_stub", None])
def test_a_validator_of_the_spiders_package_or_of_ours_stays_as_it_is(value, letter, here):
    assert come_back(with_validator(letter(), value), here).meta == {"resiproxy_validator": value}


def test_a_validator_that_is_a_method_comes_back_as_the_spiders_own(letter, here):
    assert come_back(with_validator(letter(), "is_good"), here).meta == {"resiproxy_validator": here.is_good}


@pytest.mark.parametrize(
    ("named", "value", "accepted"),
    [
        ("json.loads", "json.loads", True),
        ("json.loads", "json.dumps", False),
        (len, "builtins.breakpoint", False),
        ("w3lib.url.is_url", "w3lib.url.is_url", True),
        ("w3lib.url.is_url", "w3lib.html.remove_tags", True),
        (is_url, "w3lib.html.remove_tags", True),
        (is_url, "parsel.Selector", False),
        (min_items("li", 1), "scrapy_resiproxy.classify.validators.resolve", False),
        (None, "w3lib.html.remove_tags", False),
    ],
    ids=lambda part: getattr(part, "__name__", None) or str(part),
)
def test_what_the_project_names_for_a_target_opens_its_package_but_never_the_standard_library(
    named, value, accepted, letter, spider
):
    permitted = PermittedValidators.of(spider, [named])
    made = read_letter(encode(with_validator(letter(), value)))
    if accepted:
        assert to_request(made, spider, permitted).meta == {"resiproxy_validator": value}
    else:
        with pytest.raises(LetterError, match=r"^request\.meta\.resiproxy_validator is "):
            to_request(made, spider, permitted)


def test_a_spider_of_scrapys_own_class_opens_nothing_of_scrapy(letter):
    made = with_validator(letter(Request("http://shop.example/")), "scrapy.utils.misc.load_object")
    with pytest.raises(LetterError, match=r"of scrapy_resiproxy or in RESIPROXY_TARGETS$"):
        come_back(made, Spider("plain"))


def test_what_scrapy_refuses_is_one_line(letter, spider):
    made = letter()
    made["request"]["encoding"] = "no-such-encoding"
    made["request"]["url"] = "http://shop.example/\xe4"
    with pytest.raises(LetterError, match=r"^request: LookupError$"):
        come_back(made, spider)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        pytest.param(
            HtmlResponse("http://shop.example/x", body="<p>\u20ac</p>".encode(), encoding="utf-8"),
            TextResponse,
            id="sniffed",
        ),
        pytest.param(
            Response(
                "http://shop.example/x", headers={"Content-Type": "text/html; charset=cp1252"}, body=b"<p>\x80</p>"
            ),
            HtmlResponse,
            id="by its header",
        ),
        pytest.param(Response("http://shop.example/x", status=201, body=b"\x00\x01\x02"), Response, id="binary"),
        pytest.param(Response("http://shop.example/x"), Response, id="empty"),
    ],
)
def test_a_stored_page_comes_back_as_the_response_that_it_was(response, kind, letter, spider):
    made = read_letter(encode(letter(response=response, keep_page=True)))
    request = to_request(made, spider)
    stored = to_response(made, request)
    assert isinstance(stored, kind)
    assert (stored.url, stored.status, stored.body) == (response.url, response.status, response.body)
    assert stored.request is request
    assert stored.flags == ["resiproxy_stored"]
    if isinstance(stored, HtmlResponse):
        assert stored.css("p::text").get() == "\u20ac"


def test_a_letter_without_a_page_has_none(letter, spider):
    request = Request("http://shop.example/")
    assert to_response(letter(), request) is None
    assert to_response(letter(response=Response("http://shop.example/")), request) is None


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"not zlib", "response.page.body cannot be unpacked; it must be base64 of zlib"),
        (zlib.compress(b"x" * 1000)[:-6], "response.page.body is torn or unpacks to more than 2000 bytes"),
        (zlib.compress(b"x" * 2001), "response.page.body is torn or unpacks to more than 2000 bytes"),
    ],
    ids=["not packed", "torn", "a bomb"],
)
def test_a_page_that_cannot_be_unpacked_is_one_line(packed, message, letter, monkeypatch):
    monkeypatch.setattr(rebuild, "PAGE_MAX", 2000)
    made = letter(response=Response("http://shop.example/", body=b"x"), keep_page=True)
    made["response"]["page"]["body"] = base64.b64encode(packed).decode()
    with pytest.raises(LetterError) as caught:
        to_response(made, Request("http://shop.example/"))
    assert str(caught.value) == message
