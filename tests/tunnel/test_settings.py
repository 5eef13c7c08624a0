from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.settings import Settings
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.testing import MemoryReactorClock

from scrapy_resiproxy.components.tunnel_settings import Router, call_of, options_of
from scrapy_resiproxy.settings import Config, TargetSettings
from scrapy_resiproxy.settings_reader import read
from scrapy_resiproxy.tunnel.route import host_port, proxy_endpoint


def options(**given):
    settings = Settings(given)
    return options_of(settings, read(settings))


def test_the_defaults_are_those_of_the_settings():
    found = options()
    assert (found.connect_timeout, found.max_tunnels, found.idle_per_key, found.max_age) == (20.0, 100, 16, 600.0)
    assert (found.idle_timeout, found.interval, found.reuse) == (None, None, True)
    assert found.tls.verify is False


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ({"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 9}, 3.0),
        ({"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 9, "RESIPROXY_TUNNEL_PING_INTERVAL": 7}, 7.0),
        ({"RESIPROXY_TUNNEL_PING_INTERVAL": 7}, None),
        ({"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 9, "RESIPROXY_TUNNEL_PING_PATH": None}, None),
        ({"RESIPROXY_TUNNEL_IDLE_TIMEOUT": 9, "RESIPROXY_SESSION_MODE": "rotate"}, None),
    ],
)
def test_pings_need_an_idle_timeout_a_path_and_tunnels_that_are_kept(given, interval):
    assert options(**given).interval == interval


def test_the_age_limit_follows_the_sessions():
    assert options(RESIPROXY_SESSION_TTL=120).max_age == 120
    assert options(RESIPROXY_SESSION_TTL=120, RESIPROXY_TUNNEL_MAX_AGE=60).max_age == 60


def test_as_many_tunnels_are_kept_for_a_key_as_may_work_at_once():
    assert options(CONCURRENT_REQUESTS=5).idle_per_key == 5
    assert options(CONCURRENT_REQUESTS=0, RESIPROXY_TUNNEL_MAX=30).idle_per_key == 30


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, (None, None)),
        ({"DOWNLOAD_TLS_MIN_VERSION": "TLSv1.2", "DOWNLOAD_TLS_MAX_VERSION": "TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"DOWNLOADER_CLIENT_TLS_METHOD": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"DOWNLOADER_CLIENT_TLS_METHOD": "TLSv1.2", "DOWNLOAD_TLS_MAX_VERSION": "TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"DOWNLOADER_CLIENT_TLS_METHOD": "TLS"}, (None, None)),
    ],
)
def test_tls_versions_old_and_new(given, limits):
    tls = options(**given).tls
    assert (tls.min_version, tls.max_version) == limits


def test_a_wrong_version_is_named_with_its_setting():
    with pytest.raises(ValueError, match=r"DOWNLOAD_TLS_MIN_VERSION is 'x'; it must be one of TLSv1\.0"):
        options(DOWNLOAD_TLS_MIN_VERSION="x")


def test_session_keys_go_where_the_environment_says(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    assert options().tls.keylog == str(tmp_path / "keys")
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path))
    assert options().tls.keylog is None
    assert "Cannot write TLS session keys" in caplog.text
    monkeypatch.delenv("SSLKEYLOGFILE")
    assert options().tls.keylog is None


def router(bind=None, **targets):
    return Router(bind, Config(targets=targets).target_of)


def route(url="https://Shop.test/a", *, bind=None, **meta):
    headers = {"Proxy-Authorization": meta.pop("login")} if "login" in meta else {}
    return router(bind).route(Request(url, headers=headers, meta={"proxy": "http://Proxy.test:8080", **meta}))


def test_a_route_is_read_off_the_request():
    found = route(login="Basic x", _resiproxy={"session": "abc"}, resiproxy_session="login")
    assert (found.proxy_host, found.proxy_port, found.host, found.port) == ("proxy.test", 8080, "shop.test", 443)
    assert (found.key.proxy, found.key.session, found.key.origin) == ("proxy.test:8080", "abc", "shop.test:443")
    assert (found.authorization, found.keep_exit, found.bind) == (b"Basic x", True, None)


def test_a_route_says_whose_requests_it_carries():
    assert (route().target, route().slot) == ("shop.test", "")
    assert route(resiproxy_target="basket", download_slot="basket").target == "basket"
    assert route(download_slot="own").slot == "own"
    grouped = router(**{"shop.test": TargetSettings(group="shops")})
    asked = Request("https://shop.test", meta={"proxy": "http://p.test", "download_slot": "shop.test"})
    assert (grouped.route(asked).target, grouped.route(asked).slot) == ("shops", "shop.test")


def test_default_ports_and_addresses():
    assert route(proxy="http://[::1]").key.proxy == "[::1]:80"
    assert route("https://[::1]:8443/").key.origin == "[::1]:8443"
    assert route("https://[::1]:8443/").host == "::1"


def test_without_an_alias_the_login_is_the_session_and_neither_can_be_read_off_it():
    one = router()
    a, again, b = (
        one.route(Request("https://x.test", headers={"Proxy-Authorization": p}, meta={"proxy": "http://p.test"}))
        for p in ("Basic a", "Basic a", "Basic b")
    )
    assert a.key == again.key != b.key
    assert a.key.session == a.key.login
    assert router().route(Request("https://x.test", meta={"proxy": "http://p.test"})).key.login != (
        router().route(Request("https://x.test", meta={"proxy": "http://p.test"})).key.login
    )


def test_a_state_of_another_kind_is_no_alias():
    found = route(_resiproxy="foreign")
    assert found.key.session == found.key.login


@pytest.mark.parametrize(
    ("setting", "meta", "bind"),
    [
        (None, {}, None),
        ("127.0.0.2", {}, ("127.0.0.2", 0)),
        ("127.0.0.2", {"bindaddress": ("127.0.0.3", 99)}, ("127.0.0.3", 99)),
    ],
)
def test_bind_addresses(setting, meta, bind):
    found = route(bind=setting, **meta)
    assert found.bind == bind
    assert bool(found.key.bind) == bool(bind)


@pytest.mark.parametrize(
    ("host", "kind"),
    [("192.0.2.1", TCP4ClientEndpoint), ("2001:db8::1", TCP6ClientEndpoint), ("proxy.test", HostnameEndpoint)],
)
def test_addresses_are_dialled_without_asking_a_resolver(host, kind):
    endpoint = proxy_endpoint(MemoryReactorClock(), route(proxy=f"http://{host_port(host, 8080)}"), 5.0)
    assert type(endpoint) is kind


def test_what_is_sent_leaves_the_proxys_login_out():
    request = Request(
        "https://x.test/a", method="post", body=b"b", headers={"Proxy-Authorization": "s", "A": ["1", "2"]}
    )
    call = call_of(request, request.url)
    assert (call.method, call.url, call.body, call.resend) == (b"POST", b"https://x.test/a", b"b", None)
    assert dict(call.headers.getAllRawHeaders()) == {b"A": [b"1", b"2"]}
