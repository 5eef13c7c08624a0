"""A host whose name does not resolve: asked twice, then final, and said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawl_kit import crawl
from days import SECONDS

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://no-such-host.invalid/a"


def test_a_name_that_does_not_resolve_is_final_after_one_retry_and_the_log_says_so(tmp_path: Path) -> None:
    crawled = crawl(tmp_path / "crawl", [URL], SECONDS)
    (letter,) = crawled.letters
    assert (letter["class"], letter["reason"]) == ("terminal", "terminal")
    told = [(attempt["class"], attempt["reason"]) for attempt in letter["attempts"]]
    assert told == [("transient", "dns_not_found"), ("terminal", "dns_not_found")]
    (line,) = [line for line in crawled.lines("ERROR") if "Gave up" in line]
    assert line.endswith(
        f"Gave up <GET {URL}> after 2 attempts (terminal): terminal/dns_not_found, the name of its host does not "
        "resolve"
    )
    assert len(crawled.errors) == 1
