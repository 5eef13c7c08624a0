"""Names of Scrapy, Twisted and Python that are nobody's business: which of them the package uses, and where."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import scrapy_resiproxy

PACKAGE = Path(scrapy_resiproxy.__file__).parent
EXCEPTIONS = "names.py"
"""The one file that may hold a private name of others."""
ALLOWED = {(EXCEPTIONS, "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler")}
"""It has no other path, and Scrapy's documentation tells users to write this one."""
ASKED_FOR = {(EXCEPTIONS, "_slot")}
"""Asked for by name where it is there: before Scrapy 2.19 the engine's scheduler has no public one."""
PUBLIC = {"_replace", "_fields", "_asdict"}
"""What a named tuple calls its own, documented as public."""
FOREIGN_PATH = re.compile(r"\b(?:scrapy|twisted)(?:\.\w+)*\._[a-z]\w*[\w.]*")


def trees() -> list[tuple[str, ast.Module]]:
    files = sorted(path for path in PACKAGE.rglob("*.py") if "lab" not in path.parts)
    return [(path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """The private names that a module defines: functions, classes, variables, attributes, slots."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def test_no_private_attribute_of_others_is_used() -> None:
    found = trees()
    for name, tree in found:
        own = own_names(tree) | PUBLIC
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_private(node.attr)}
        assert not used - own, name


def test_no_private_attribute_of_others_is_asked_for_but_the_allowed_ones() -> None:
    asked = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"getattr", "hasattr"}
            ):
                words = [each.value for each in node.args[1:2] if isinstance(each, ast.Constant)]
                asked |= {(name, word) for word in words if is_private(word) and word not in own_names(tree)}
    assert asked == ASKED_FOR


def test_no_private_name_of_others_is_imported_or_spelt_but_the_allowed_ones() -> None:
    used = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("scrapy_resiproxy"):
                paths = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                paths = [alias.name for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                paths = FOREIGN_PATH.findall(node.value)
            else:
                continue
            used |= {(name, path) for path in paths if any(map(is_private, path.split(".")))}
    assert used == ALLOWED
