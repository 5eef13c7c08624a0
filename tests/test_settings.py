"""Settings: defaults, what is taken over from Scrapy's, and one line for every wrong value."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.settings import Settings

from scrapy_resiproxy.adopted_settings import RETRIES
from scrapy_resiproxy.components.flow import host_of
from scrapy_resiproxy.outcome import OutcomeClass
from scrapy_resiproxy.settings import Config, SettingError
from scrapy_resiproxy.settings_reader import CHECKS, GUARD_NAMES, TARGET_KEYS, read

PROXY = "http://user:canary-pa55@gateway.example:7000"


def config(**settings: Any) -> Config:
    return read(Settings({f"RESIPROXY_{name}": value for name, value in settings.items()}))


def test_every_field_that_a_user_sets_has_a_check() -> None:
    ours = {
        entry.name
        for group in fields(Config)
        if is_dataclass(value := getattr(Config(), group.name))
        for entry in fields(value)
    }
    from_scrapy = {entry for entry in ours if entry.startswith("retry_") and entry not in CHECKS}
    assert ours - from_scrapy - {"download_timeout", "logstats_interval"} == set(CHECKS)


def test_nothing_set_gives_the_defaults() -> None:
    plain = config()
    assert plain.guard == Config().guard
    assert plain.general.max_attempts == 4
    assert plain.sessions.sessions_per_target == 8
    assert plain.user_set == frozenset()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("BUDGET_RATIO", "0.25", 0.25),
        ("MAX_ATTEMPTS", "3", 3),
        ("SESSION_MAX_REQUESTS", "None", None),
        ("SESSION_COOKIES", "false", False),
        ("STATUS_CLASSES", '{"404": "identity"}', {404: OutcomeClass.IDENTITY}),
        ("DEADLETTER_REDACT", "sku, secret", ("sku", "secret")),
        ("DEADLETTER_EXCLUDE_HTTP_CODES", [404], (404,)),
        ("REPLAY", "a.jsonl", ("a.jsonl",)),
        ("REPLAY", ["a.jsonl", "b.jsonl"], ("a.jsonl", "b.jsonl")),
        ("REPLAY_FILTER", '{"limit": 3}', {"limit": 3}),
        ("PROXY", [PROXY, PROXY], (PROXY, PROXY)),
        ("PROXY", "", None),
    ],
)
def test_values_are_taken_as_the_command_line_gives_them(name: str, value: Any, expected: Any) -> None:
    read_back = config(**{name: value})
    groups = [getattr(read_back, entry.name) for entry in fields(Config)]
    [found] = [getattr(group, name.lower()) for group in groups if hasattr(group, name.lower())]
    assert found == expected


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("BUDGET_RATIO", -1, "a number from 0 to 10"),
        ("BUDGET_RATIO", "nan", "a number from 0 to 10"),
        ("BUDGET_RATIO", True, "a number from 0 to 10"),
        ("MAX_ATTEMPTS", 2.5, "a whole number of 1 or more"),
        ("MAX_ATTEMPTS", "many", "a whole number of 1 or more"),
        ("SESSION_MAX_REQUESTS", 0, "a whole number of 1 or more, or None"),
        ("SESSION_COOKIES", "perhaps", "True or False"),
        ("SESSION_COOKIES", [], "True or False"),
        ("SESSION_MODE", "both", "'sticky' or 'rotate'"),
        ("TRANSIENT_EXCEPTIONS", 5, "a list of dotted names"),
        ("TRANSIENT_EXCEPTIONS", [3], "a list of dotted names"),
        ("TRANSIENT_EXCEPTIONS", ["a b"], "a list of dotted names"),
        ("TRANSIENT_EXCEPTIONS", [KeyError], "a list of dotted names"),
        ("DEADLETTER_REDACT", [1], "a list of names"),
        ("DEADLETTER_REDACT", [""], "a list of names"),
        ("DEADLETTER_EXCLUDE_HTTP_CODES", ["x"], "a list of HTTP status codes, each from 100 to 999"),
        ("DEADLETTER_EXCLUDE_HTTP_CODES", [99999], "a list of HTTP status codes, each from 100 to 999"),
        ("DEADLETTER_EXCLUDE_HTTP_CODES", [404.5], "a list of HTTP status codes, each from 100 to 999"),
        ("DEADLETTER_EXCLUDE_HTTP_CODES", [True], "a list of HTTP status codes, each from 100 to 999"),
        ("REPLAY", [1], "a path, or a list of paths"),
        ("REPLAY", False, "a path, or a list of paths"),
        ("BUDGET_WAIT", math.nan, "a number of 0 or more"),
        ("BUDGET_WAIT", math.inf, "a number from 0 to 1e+19"),
        ("BUDGET_WAIT", "inf", "a number from 0 to 1e+19"),
        ("MAX_ATTEMPTS", 10**400, "a whole number from 1 to 1e+19"),
        ("MAX_ATTEMPTS", math.inf, "a whole number of 1 or more"),
        ("PRICE_PER_GB", [], "a number of 0 or more, or None"),
        ("TUNNEL_IDLE_TIMEOUT", {}, "a number of 0.1 or more, or None"),
        ("TUNNEL_PING_PATH", "ping", "a path that begins with '/', in ASCII and without spaces, or None"),
        ("TUNNEL_PING_PATH", "/a b", "a path that begins with '/', in ASCII and without spaces, or None"),
        ("TUNNEL_PING_PATH", "", "a path that begins with '/', in ASCII and without spaces, or None"),
        ("TUNNEL_PING_PATH", "/\r\nX: y", "a path that begins with '/', in ASCII and without spaces, or None"),
        ("DEADLETTER_FILE", "", "a path"),
        ("DEADLETTER_FILE", None, "a path (RESIPROXY_DEADLETTER_ENABLED = False is for no feed at all)."),
        ("DEADLETTER_FILE", "None", "a path (RESIPROXY_DEADLETTER_ENABLED = False is for no feed at all)."),
        ("PROVIDER", " ", "a non-empty, printable string, or None"),
        ("COUNTRY", "d\ne", "a non-empty, printable string, or None"),
        ("TUNNEL_LEDGER", "led\0ger", "a non-empty, printable string, or None"),
        ("REPLAY_FILTER", "[", "a dict"),
        ("REPLAY_FILTER", dict, "a dict"),
        ("STATUS_CLASSES", {404: "odd"}, "a dict of HTTP status (100 to 999) to one of"),
        ("STATUS_CLASSES", {99999: "rate"}, "a dict of HTTP status (100 to 999) to one of"),
        ("PROXY", 5, "a proxy URL, a template, a list of URLs or the path of a file"),
    ],
)
def test_a_wrong_value_is_one_line_with_name_value_and_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(SettingError) as caught:
        config(**{name: value})
    line = str(caught.value)
    assert line.startswith(f"RESIPROXY_{name} is ")
    assert allowed in line
    assert "\n" not in line


JUNK: list[Any] = [
    *(None, True, False, object, b"x", 1j, -1, 0, 0.5, 2.5, 10**9, 10**400, 1e308, math.nan, math.inf, -math.inf),
    *("nan", "inf", "-inf", "1e999", "", " ", "x", "None", "[", "{", "a\nb", "\0", "\ud800", "/x", "%", "%(nope)s"),
    *([], [None], [1], [""], [[]], ["a\nb"], (1,), {1}, {}, {"a": 1}, {1: 2}, {"x" * 999: None}, "x" * 999),
]
"""What a setting may be by mistake."""


def is_one_line(line: str) -> bool:
    return line.isprintable() and len(line) < 500


def told(settings: dict[str, Any]) -> str:
    """The one line that *settings* get; nothing where they are taken."""
    try:
        read(Settings(settings))
    except SettingError as error:
        assert is_one_line(str(error))
        return str(error)
    return ""


@pytest.mark.parametrize("name", [*CHECKS, "targets"])
def test_whatever_a_setting_is_by_mistake_is_told_in_one_line_of_that_name(name: str) -> None:
    setting = f"RESIPROXY_{name.upper()}"
    for value in JUNK:
        line = told({setting: value})
        # A maximum that is below the default of what it limits.
        assert not line or line.startswith((setting, setting.removesuffix("_MAX") + " is 30; it must not be more"))


@pytest.mark.parametrize("key", sorted(TARGET_KEYS | GUARD_NAMES))
def test_whatever_a_targets_key_is_by_mistake_is_told_in_one_line_that_names_it(key: str) -> None:
    for value in JUNK:
        line = told({"RESIPROXY_TARGETS": {"shop.example": {key: value}}})
        assert not line or line.startswith(f"RESIPROXY_TARGETS['shop.example']['{key.removesuffix('_max')}")


SCRAPYS = ["RETRY_TIMES", *RETRIES, "DOWNLOAD_TIMEOUT", "LOGSTATS_INTERVAL", "CONCURRENT_REQUESTS_PER_DOMAIN"]


@pytest.mark.parametrize("name", SCRAPYS)
def test_whatever_a_setting_of_scrapys_is_by_mistake_is_told_in_one_line_of_that_name(name: str) -> None:
    for value in JUNK:
        line = told({name: value})
        assert not line or line.startswith(f"{name} is ")


@pytest.mark.parametrize("name", ["PROVIDER", "COUNTRY", "TUNNEL_LEDGER", "TUNNEL_PING_PATH"])
def test_none_on_the_command_line_is_none(name: str) -> None:
    read_back = config(**{name: "None"})
    assert getattr(read_back.tunnel if name.startswith("TUNNEL") else read_back.sessions, name.lower()) is None


def test_the_proxys_value_is_never_shown() -> None:
    with pytest.raises(SettingError) as caught:
        config(PROXY={"canary-pa55": 1})
    assert "canary-pa55" not in str(caught.value)
    assert "canary-pa55" not in repr(config(PROXY=PROXY))


def test_a_file_of_proxies_is_read(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text(f"{PROXY}\n# a comment\n{PROXY}\n")
    assert config(PROXY=str(file)).sessions.proxy == (PROXY, "# a comment", PROXY)


@pytest.mark.parametrize(
    "path",
    [
        "proxies.txt",
        "PROXIES.TXT",
        "proxies",
        "./proxies",
        "lists/eu",
        "lists\\eu.txt",
        "C:\\proxies.txt",
        "~/p.lst",
        "a@b/c",
    ],
)
def test_a_file_of_proxies_that_is_not_there_is_told_as_such(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (path, Path(path)):
        with pytest.raises(SettingError) as caught:
            config(PROXY=given)
        line = str(caught.value)
        assert line.startswith("RESIPROXY_PROXY is <hidden>; it must be a proxy URL, ")
        assert "there is no such file" in line
        assert str(tmp_path) in line
        assert "\n" not in line


@pytest.mark.parametrize(
    "proxy",
    [
        "gateway.example:7000",
        "//gateway.example:7000",
        "gateway.example:7000/",
        "[::1]:7000:user:pa/ss",
        "gateway.example:7000:user:pa/ss.txt",
        "user:pa/ss@gateway.example:7000",
        "KEY@gateway.example:7000",
        "user-{session}:pass@gw.example:{port:10000-20000}",
        "{session}.gw.example:{port:10000-20000}",
        "user:password",
        f"u:{'x' * 300}/@gateway.example:7000",
        "http://user:pa/ss@gateway",
        "http://user:pa\0ss@gateway",
        "gateway\0:7000",
    ],
)
def test_an_address_is_not_taken_for_a_path(proxy: str) -> None:
    assert config(PROXY=proxy).sessions.proxy == proxy


def test_a_file_of_proxies_needs_no_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proxies").write_text(PROXY)
    monkeypatch.chdir(tmp_path)
    assert config(PROXY="proxies").sessions.proxy == (PROXY,)


def test_a_file_of_proxies_that_is_no_text_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_bytes(b"\xff\xfecanary-pa55")
    with pytest.raises(SettingError, match=r"^RESIPROXY_PROXY is <hidden>; .*a file in UTF-8") as caught:
        config(PROXY=str(file))
    assert "canary-pa55" not in str(caught.value)


def test_a_file_of_proxies_that_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text(PROXY)

    def refused(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(SettingError, match=r"^RESIPROXY_PROXY is <hidden>; .*cannot be read: Permission denied"):
        config(PROXY=str(file))


def test_the_environment_stands_in_for_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESIPROXY_PROXY", PROXY)
    assert config().sessions.proxy == PROXY
    assert config(PROXY="http://other.example:1").sessions.proxy == "http://other.example:1"
    assert config(PROXY=None).sessions.proxy is None


def test_retry_times_counts_where_attempts_were_not_set() -> None:
    adopted = read(Settings({"RETRY_TIMES": 1}))
    assert adopted.general.max_attempts == 2
    assert adopted.adopted == ("RETRY_TIMES=1 (at most 2 attempts)",)
    assert read(Settings({"RETRY_TIMES": 1, "RESIPROXY_MAX_ATTEMPTS": 5})).general.max_attempts == 5


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("RETRY_TIMES", "often", "a whole number of 0 or more"),
        ("RETRY_TIMES", -1, "a whole number of 0 or more"),
        ("RETRY_ENABLED", "maybe", "True or False"),
        ("RETRY_HTTP_CODES", "50x", "a list of HTTP status codes"),
        ("RETRY_EXCEPTIONS", 5, "a list of dotted names or exception classes"),
        ("RETRY_EXCEPTIONS", [int], "a list of dotted names or exception classes"),
        ("LOGSTATS_INTERVAL", "often", "a number of 0 or more, or None"),
        ("LOGSTATS_INTERVAL", -1, "a number of 0 or more, or None"),
        ("LOGSTATS_INTERVAL", math.nan, "a number of 0 or more, or None"),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", -1, "a whole number of 0 or more"),
        ("RETRY_PRIORITY_ADJUST", "up", "a whole number"),
        ("RETRY_GIVE_UP_LOG_LEVEL", "LOUD", "one of CRITICAL, FATAL, ERROR, "),
        ("DOWNLOAD_TIMEOUT", "long", "a number of 0 or more"),
    ],
)
def test_a_wrong_setting_of_scrapys_own_is_named_like_ours(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(SettingError, match=re.escape(f"{name} is {value!r}; it must be {allowed}")):
        read(Settings({name: value}))


@pytest.mark.parametrize("name", ["RETRY_HTTP_CODES", "RETRY_EXCEPTIONS"])
@pytest.mark.parametrize("nothing", [None, "", []], ids=repr)
def test_a_list_of_scrapys_that_is_nothing_is_empty_as_for_scrapy(name: str, nothing: Any) -> None:
    settings = Settings({name: nothing})
    assert settings.getlist(name) == []
    adopted = read(settings)
    assert getattr(adopted.general, name.lower()) == ()
    assert adopted.adopted == (f"{name}=[]",)


def test_all_that_was_adopted_from_scrapys_retry_settings_is_named() -> None:
    settings = {
        "RETRY_TIMES": 2,
        "RETRY_ENABLED": False,
        "RETRY_HTTP_CODES": "500,418",
        "RETRY_EXCEPTIONS": [OSError, "a.Error"],
        "RETRY_PRIORITY_ADJUST": 3,
        "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
    }
    assert read(Settings(settings)).adopted == (
        "RETRY_TIMES=2 (at most 3 attempts)",
        "RETRY_ENABLED=False",
        "RETRY_HTTP_CODES=[500, 418]",
        "RETRY_EXCEPTIONS=[OSError, a.Error]",
        "RETRY_PRIORITY_ADJUST=3",
        "RETRY_GIVE_UP_LOG_LEVEL=INFO",
    )
    assert read(Settings()).adopted == ()


def test_to_wait_without_end_is_a_thing_that_scrapy_can_do() -> None:
    assert read(Settings({"DOWNLOAD_TIMEOUT": math.inf})).general.download_timeout == math.inf


def test_an_unknown_name_is_told_with_the_nearest_that_is_known() -> None:
    hint = "RESIPROXY_BUDGET_RATO is no setting of scrapy_resiproxy; did you mean RESIPROXY_BUDGET_RATIO?"
    assert config(BUDGET_RATO=1).unknown == (hint,)
    assert config(ZZZ=1).unknown == ("RESIPROXY_ZZZ is no setting of scrapy_resiproxy",)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([], "must be a dict of host name to dict"),
        ({"a.example": 5}, "must be a dict"),
        ({"a.example": {"validater": 1}}, "has the key 'validater'"),
        ({"a.example": {"proxy": "http://x:1"}}, "can only be None"),
        ({"a.example": {"budget_ratio": -1}}, "['budget_ratio'] is -1; it must be a number from 0 to 10"),
        ({"a.example": {"country": 5}}, "['country'] is 5; it must be a non-empty, printable string, or None"),
        (
            {"a.example": {"group": ["shop"]}},
            "['group'] is ['shop']; it must be a non-empty, printable string, or None",
        ),
        ({"a.example": {"markers": 5}}, "['markers'] is 5; it must be a list of texts that are not empty"),
        ({"a.example": {"markers": "a, b"}}, "['markers'] is 'a, b'; it must be a list of texts that are not empty"),
        ({"a.example": {"markers": [""]}}, "['markers'] is ['']; it must be a list of texts that are not empty"),
        ({"a.example": {"status_classes": {1: "ok"}}}, "['status_classes'] is {1: 'ok'}; it must be a dict of HTTP"),
        ({"a.example": {"status_classes": False}}, "['status_classes'] is False; it must be a dict of HTTP status"),
        ({"a.example": {"budget_global_ratio": 1}}, "has the key 'budget_global_ratio'; allowed are"),
        (
            {"a.example": {"circuit_cooldown": 700}},
            "['circuit_cooldown'] is 700; it must not be more than circuit_cooldown_max, 600.",
        ),
        (
            {"a.example": {"circuit_cooldown_max": 20}},
            "['circuit_cooldown'] is 30; it must not be more than circuit_cooldown_max, 20.",
        ),
        ({"a.example": {}, "A.EXAMPLE.": {}}, "['A.EXAMPLE.']: a.example has an entry already, by another spelling."),
    ],
)
def test_a_wrong_target_is_named(targets: Any, said: str) -> None:
    with pytest.raises(SettingError, match="RESIPROXY_TARGETS") as caught:
        config(TARGETS=targets)
    assert said in str(caught.value)


NO_HOST = [
    *("", " ", ".", "*.", "*.a", "*a", "**", "a b", "a.example ", "a..b", ".a.example", "a.example..", "a,b", "a%2eb"),
    *("http://a.example", "http://a.example/", "//a.example", "a.example/", "a.example/x", "a?b", "a#b", "a\\b"),
    *("a.example:80", "x:99999", "a:", "user@a.example", "[::1]:80", "[::1", "::1]", "[]", "[a.example]", "1::2::3"),
    *("a" * 64 + ".example", ".".join(["abcdefghi"] * 26), "é" * 70, "\ud800", None, 5, b"a.example"),
]


@pytest.mark.parametrize("key", NO_HOST)
def test_what_no_host_is_called_names_no_target(key: Any) -> None:
    allowed = "a host name or an IP address, without scheme, port and path, or '*' for every other host"
    with pytest.raises(SettingError) as caught:
        config(TARGETS={key: {}})
    assert str(caught.value) == f"RESIPROXY_TARGETS[{key!r:.80}]: a target must be {allowed}."


def test_a_key_that_holds_a_credential_does_not_show_it() -> None:
    with pytest.raises(SettingError) as caught:
        config(TARGETS={PROXY: {}})
    assert "gateway.example" in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "url"),
    [
        ("a.example", "http://a.example/"),
        ("A.Example", "http://a.EXAMPLE:8080/x"),
        ("a.example.", "http://a.example/"),
        ("a.example", "http://a.example./"),
        ("localhost", "http://localhost:1/"),
        ("a_b-.example", "http://a_b-.example/"),
        ("bücher.example", "http://BÜCHER.example/"),
        ("xn--bcher-kva.example", "http://bücher.example/"),
        ("straße.example", "http://straße.example/"),
        ("127.0.0.1", "http://127.0.0.1:80/"),
        ("::1", "http://[::1]/"),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]:8080/"),
        ("2001:DB8:0::1", "http://user@[2001:db8::1]/"),
    ],
)
def test_a_target_is_found_however_its_host_is_spelt(key: str, url: str) -> None:
    found = config(TARGETS={key: {"group": "it"}})
    assert found.target_key(host_of(Request(url))) == "it"


@pytest.mark.parametrize(
    "url", ["data:,pass/word/secret.example", "data:,a//secret.example", "about:blank", "file:/a/b"]
)
def test_what_has_no_host_has_none(url: str) -> None:
    assert host_of(Request(url)) == ""


def test_targets_are_found_by_host_then_by_star() -> None:
    found = config(
        TARGETS={
            "a.example": {"group": "shop", "budget_ratio": 0.5, "markers": ["denied"]},
            "cdn.example": {"proxy": None, "country": "de"},
            "*": {"status_classes": {404: "identity"}},
        }
    )
    assert found.target_key("a.example") == "shop"
    assert found.target("a.example").guard is not None
    assert found.target("a.example").guard.budget_ratio == 0.5  # type: ignore[union-attr]
    assert found.target("cdn.example").direct
    assert found.target("other.example").status_classes == {404: OutcomeClass.IDENTITY}
    assert found.target_key("other.example") == "other.example"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"CIRCUIT_COOLDOWN": 700}, "RESIPROXY_CIRCUIT_COOLDOWN is 700; it must not be more than"),
        (
            {"TUNNEL_PING_INTERVAL": 10, "TUNNEL_IDLE_TIMEOUT": 10},
            "RESIPROXY_TUNNEL_PING_INTERVAL is 10; it must be less than RESIPROXY_TUNNEL_IDLE_TIMEOUT, 10",
        ),
        ({"PROVIDER": "oxylabs"}, "RESIPROXY_PROVIDER is 'oxylabs'; it needs RESIPROXY_PROXY"),
    ],
)
def test_what_does_not_go_together_is_told(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as caught:
        config(**settings)
    assert said in str(caught.value)
