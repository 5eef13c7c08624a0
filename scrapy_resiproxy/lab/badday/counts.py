"""What came of a crawl: the lab's ledger tells what was sent, the items what arrived, the letters what is kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Counts:
    """One column of the table. Each wanted URL is in exactly one of delivered, fake, kept and lost."""

    wanted: int
    requests: int
    """That reached a site, or found it shut."""
    bytes: int
    """Through the proxy, to the client."""
    delivered: int
    fake: int
    """A block page came out of the spider as an item."""
    kept: int
    """In the dead letters, to be run again."""
    lost: int
    """Neither an item nor a letter."""
    blocks: int
    """Times that a site shut the whole crawl out."""
    sessions: int
    """Sessions that a site would give no more pages."""


def count(directory: Path, wanted: Iterable[str], ledger: Mapping[str, Any], limited: str) -> Counts:
    """Return the counts of the crawl that ran in `directory`; `limited` is the host that blocks a whole crawl."""
    wanted = set(wanted)
    items = list(read_items(directory))
    delivered = {item["asked"] for item in items if item["kind"] == "good"}
    fake = {item["asked"] for item in items} - delivered
    kept = set(_open_letters(directory)) - delivered - fake
    blocks = ledger["hosts"][limited]["blocks"] if limited in ledger["hosts"] else 0
    return Counts(
        wanted=len(wanted),
        requests=ledger["requests"],
        bytes=ledger["gateway"]["bytes_down"],
        delivered=len(delivered),
        fake=len(fake),
        kept=len(kept),
        lost=len(wanted - delivered - fake - kept),
        blocks=blocks,
        sessions=ledger["blocks"] - blocks,
    )


def read_items(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the items that came out of the spider."""
    yield from _lines(directory / "items.jsonl")


def letter_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("deadletter/**/*.jsonl"))


def _open_letters(directory: Path) -> Iterator[str]:
    """Yield the URL of each letter that no mark closes."""
    lines = [line for path in letter_files(directory) for line in _lines(path)]
    closed = {line["mark"] for line in lines if "mark" in line}
    for line in lines:
        if "request" in line and line["id"] not in closed:
            yield line["request"]["url"]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)
