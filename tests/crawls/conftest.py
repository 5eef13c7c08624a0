from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from days import HOST, Day

from scrapy_resiproxy.lab.running import running_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def day(tmp_path: Path) -> Callable[..., Any]:
    """A context manager: ``with day({"shop.example": "flaky"}) as today``."""

    @contextmanager
    def running(behaviours: dict[str, Any] | str, **gateway: object) -> Iterator[Day]:
        if isinstance(behaviours, str):
            behaviours = {HOST: behaviours}
        with running_lab(behaviours, **gateway) as lab:
            yield Day(lab, tmp_path / "crawl")

    return running
