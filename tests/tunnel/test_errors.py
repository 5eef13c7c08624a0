from __future__ import annotations

import ast
import importlib
import pickle
from pathlib import Path

import pytest
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

import scrapy_resiproxy
from scrapy_resiproxy.components.tunnel_errors import as_scrapys
from scrapy_resiproxy.tunnel.errors import TunnelFailed

CASES = [
    ("connect", "timeout", None, DownloadTimeoutError),
    ("connect", "refused", None, DownloadConnectionRefusedError),
    ("connect", "dns", None, CannotResolveHostError),
    ("connect", "unreachable", None, DownloadFailedError),
    ("answer", "timeout", None, DownloadTimeoutError),
    ("answer", "closed", None, DownloadFailedError),
    ("answer", "garbage", None, TunnelError),
    ("answer", "head_too_long", None, TunnelError),
    ("answer", "Proxy Authentication Required", 407, TunnelError),
    ("answer", "timeout", 504, TunnelError),
    ("tls", "timeout", None, DownloadTimeoutError),
    ("tls", "certificate", None, DownloadFailedError),
]


@pytest.mark.parametrize(("phase", "reason", "status", "kind"), CASES)
def test_a_failure_is_also_what_scrapy_would_have_raised(phase, reason, status, kind):
    cause = OSError("below")
    plain = TunnelFailed("no", phase=phase, reason=reason, status=status, headers=[(b"A", b"b")], body=b"c")
    plain.__cause__ = cause
    twin = as_scrapys(plain)
    assert isinstance(twin, kind)
    assert isinstance(twin, TunnelFailed)
    assert twin.__cause__ is cause
    copy = pickle.loads(pickle.dumps(twin))
    assert type(copy) is type(twin)
    for name in ("phase", "reason", "status", "headers", "body", "args"):
        assert getattr(copy, name) == getattr(twin, name) == getattr(plain, name)


def test_scrapys_retry_middleware_retries_it_by_default():
    retried = tuple(load_object(e) for e in Settings().getlist("RETRY_EXCEPTIONS"))
    assert issubclass(TunnelFailed, retried)


ROOT = Path(scrapy_resiproxy.__file__).parent
FILES = [*ROOT.glob("tunnel/*.py"), *ROOT.glob("components/tunnel_*.py"), ROOT / "commands" / "tunnel.py"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_only_public_names_of_others_are_used(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] in {"scrapy", "twisted", "OpenSSL"}
        ):
            assert not any(part.startswith("_") for part in node.module.split(".")), node.module
            assert not any(alias.name.startswith("_") for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize(
    "file",
    [*ROOT.glob("tunnel/*.py"), *ROOT.glob("redact/*.py"), ROOT / "wording.py"],
    ids=lambda f: "/".join(f.parts[-2:]),
)
def test_the_tunnel_part_knows_nothing_of_scrapy(file):
    tree = ast.parse(file.read_text())
    imported = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert not any(name.split(".")[0] == "scrapy" for name in imported)
    ours = {name for name in imported if name.startswith("scrapy_resiproxy")}
    may = tuple(f"scrapy_resiproxy.{part}" for part in ("names", "redact", "tunnel", "wording"))
    assert all(name.startswith(may) for name in ours)
    module = ".".join(["scrapy_resiproxy", *file.relative_to(ROOT).with_suffix("").parts])
    assert importlib.import_module(module.removesuffix(".__init__"))
