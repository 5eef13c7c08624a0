"""Which validators a letter may name: nothing is imported, and nothing foreign called, on the word of a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider

OURS: Final = "scrapy_resiproxy"
NEVER_OPENED: Final = frozenset({"scrapy", OURS})
"""Packages that a spider's class or a validator may come from without all that is in them being a validator."""


@dataclass(frozen=True, slots=True)
class PermittedValidators:
    """The dotted names that a letter may give a validator by."""

    paths: frozenset[str]
    """Dotted names that the project itself gives."""
    packages: frozenset[str]
    """Top-level packages whose modules may be used where they are loaded already."""

    @classmethod
    def of(cls, spider: Spider, named: Iterable[Any] = ()) -> PermittedValidators:
        """What *spider*'s own package and *named*, the callables and dotted names of RESIPROXY_TARGETS, open."""
        named = list(named)
        paths = frozenset(validator for validator in named if isinstance(validator, str))
        homes = {_top(path) for path in paths} | {
            _top(str(getattr(validator, "__module__", ""))) for validator in named
        }
        # A validator may be len or a partial: that opens neither builtins nor functools.
        opened = (homes - sys.stdlib_module_names) | {_top(type(spider).__module__)}
        return cls(paths, frozenset(opened - NEVER_OPENED - {""}))

    def allows(self, path: str) -> bool:
        """Whether *path* is one of the project's dotted names, or names what a permitted, loaded module holds."""
        if path in self.paths:
            return True
        module, _, name = path.rpartition(".")
        if name.startswith("__") or not (module == OURS or _top(module) in self.packages):
            return False
        loaded = sys.modules.get(module)
        return loaded is not None and name in dir(loaded)

    def __str__(self) -> str:
        """What is allowed, in words."""
        own = "".join(f"in a module of {package} that is loaded already, " for package in sorted(self.packages))
        return f"the dotted name of a validator {own}of {OURS} or in RESIPROXY_TARGETS"


def _top(module: str) -> str:
    return module.partition(".")[0]
