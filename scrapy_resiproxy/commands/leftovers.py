"""What a replay leaves, in the lines that it ends with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_resiproxy.deadletter.replay import WHY_LEFT
from scrapy_resiproxy.deadletter.times import iso
from scrapy_resiproxy.report import replay_lines
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_resiproxy.deadletter.progress import Summary
    from scrapy_resiproxy.deadletter.replay import Selection


def left_lines(after: Selection, *, again: int = 0, ran: bool = True) -> list[str]:
    """What is left *after* a replay. *again* letters failed again and are in another feed; *ran*: there was something
    to run.
    """
    parts = [f"{len(after.entries)} open"] if after.entries else []
    parts += [f"{again} failed again"] if again else []
    parts += _left_alone(after)
    if parts:
        return [f"left: {', '.join(parts)}", *_unasked(after)]
    return ["nothing is left" if ran else "no open letter to run"]


def dry_lines(selection: Selection) -> list[str]:
    """What a replay of *selection* would leave alone."""
    parts = _left_alone(selection)
    if parts:
        return [f"would be left: {', '.join(parts)}", *_unasked(selection)]
    return ["nothing would be left" if selection.entries else "no open letter to run"]


@dataclass
class NewLetters:
    """What replays wrote into one feed."""

    letters: int = 0
    again: int = 0
    """Those of them that stand for letters that were replayed."""
    stored: int = 0
    """Those of them that hold their page."""
    final: Counter[str] = field(default_factory=Counter)
    """Those of them that run only when asked for, by reason."""

    def add(self, summary: Summary) -> None:
        """Add what one run wrote."""
        self.letters += summary.new_letters
        self.again += summary.again
        self.stored += summary.new_stored
        self.final += summary.new_final


def new_lines(new: Mapping[str, NewLetters]) -> list[str]:
    """How to run the new letters, by their feed."""
    return [
        line
        for feed, found in new.items()
        for line in replay_lines(feed, found.letters, stored=found.stored, final=found.final)
    ]


def _left_alone(selection: Selection) -> list[str]:
    parts = [f"{count} {WHY_LEFT[why]}" for why, count in sorted(selection.left.items())]
    if selection.waits_until is not None:
        parts.append(f"the first is due at {iso(selection.waits_until)}")
    return parts


def _unasked(selection: Selection) -> list[str]:
    if not selection.unasked:
        return []
    asking = " ".join(f"--class {each}" for each in sorted(selection.unasked))
    letters = counted(selection.left["unasked"], "letter")
    them = "it" if selection.left["unasked"] == 1 else "them"
    return [f"NOT RUN: {letters} whose answer was final. To run {them}, give the same command with {asking}"]
