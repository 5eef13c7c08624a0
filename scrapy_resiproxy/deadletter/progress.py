"""How far a replayed page is: what its callback yielded and what became of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from scrapy_resiproxy.wording import counted


@dataclass(slots=True, eq=False)
class Delivery:
    """One response that was handed to the spider for a letter."""

    letter_id: str
    pending: int = 0
    """Items on their way through the pipelines."""
    exhausted: bool = False
    """The callback has yielded all that it yields."""
    failed: bool = False
    """The callback raised, an item did not pass, or the page never reached the callback."""
    follow_ups: int = 0
    """Requests that the callback yielded."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.exhausted and not self.pending

    @property
    def passed(self) -> bool:
        """Whether the page's work is done but for its follow-up requests."""
        return self.over and not self.failed


@dataclass(slots=True)
class Summary:
    """What a replaying crawl came to."""

    spider: str
    selected: int = 0
    sent: int = 0
    done: int = 0
    again: int = 0
    """Failed again; each has a new letter."""
    refused: int = 0
    """Left, for the spider's ``replay_request`` returned None."""
    unbuildable: int = 0
    """Left, for no request could be built."""
    unsent: int = 0
    """Requests that an offline replay did not send."""
    finish_reason: str = ""
    new_letters: int = 0
    """Letters that this crawl wrote: of what failed again, and of requests that followed."""
    new_feed: str = ""
    """Where they are."""
    new_stored: int = 0
    """How many of them hold their page."""
    new_final: Counter[str] = field(default_factory=Counter)
    """Those that run only when asked for, by reason."""

    @property
    def unreached(self) -> int:
        """Selected, but the crawl ended before their turn."""
        return self.selected - self.sent - self.refused - self.unbuildable

    @property
    def open(self) -> int:
        """Sent, and neither done nor failed with a new letter: the next replay runs them."""
        return self.sent - self.done - self.again

    def line(self, name: str = "") -> str:
        """One line for the user; *name* is the crawl's, its spider's by default."""
        parts = [
            f"{counted(self.sent, 'letter')} replayed",
            f"{self.done} done",
            f"{self.again} failed again",
            f"{self.open} still open",
        ]
        extra = {
            "refused by replay_request": self.refused,
            "could not be rebuilt": self.unbuildable,
            "not reached": self.unreached,
        }
        parts += [f"{count} {what}" for what, count in extra.items() if count]
        if self.unsent:
            parts.append(f"{counted(self.unsent, 'follow-up request')} not sent (offline)")
        ended = "" if self.finish_reason in {"", "finished"} else f"; the crawl ended with {self.finish_reason}"
        return f"{name or self.spider}: {', '.join(parts)}{ended}"


def named(spider: str, spider_args: str) -> str:
    """A crawl's name for the user; *spider_args* is JSON."""
    return spider if spider_args == "{}" else f"{spider} {spider_args}"
