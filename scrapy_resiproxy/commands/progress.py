"""How far a measurement is: a bar where tqdm is installed anyway, else a counter; a plain line off a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Show = Callable[[float], None]
    """Called with the seconds that are left at most."""

_WIDTH: Final = 60


@contextmanager
def progress(what: str) -> Iterator[Show]:
    """Gives what shows the seconds that are left of *what*, and takes it off the screen at the end."""
    if not sys.stderr.isatty():
        print(f"Measuring {what} ...", flush=True)
        yield lambda left: None  # noqa: ARG005
        return
    tqdm = _tqdm()
    shown = _Counter(what) if tqdm is None else _Bar(what, tqdm)
    try:
        yield shown.show
    finally:
        shown.close()


def _tqdm() -> Any:
    """The class of tqdm's bar; None where it is not installed, for nothing here needs it."""
    try:
        return import_module("tqdm").tqdm
    except ImportError:
        return None


class _Counter:
    def __init__(self, what: str) -> None:
        self._what = what

    def show(self, left: float) -> None:
        print(f"\r{self._what}: {left:4.0f} s left at most ".ljust(_WIDTH), end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print("\r" + " " * _WIDTH, end="\r", file=sys.stderr, flush=True)


class _Bar:
    """Its length is what is left the first time that it is shown."""

    def __init__(self, what: str, tqdm: Any) -> None:
        self._what = what
        self._tqdm = tqdm
        self._bar: Any = None

    def show(self, left: float) -> None:
        if self._bar is None:
            layout = "{desc}: {percentage:3.0f}% |{bar}| {n:.0f} of at most {total:.0f} s"
            self._bar = self._tqdm(
                total=left, desc=self._what, leave=False, file=sys.stderr, bar_format=layout, dynamic_ncols=True
            )
        self._bar.n = max(0.0, self._bar.total - left)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
