"""What happens on the bad day: which sites there are, how each misbehaves and which of its pages are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scrapy_resiproxy.lab.faults import Down, Flaky, Ok, Outage
from scrapy_resiproxy.lab.walls import RateLimit, RedirectBlock, SoftBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_resiproxy.lab.behaviours import Behaviour

DOWN_HOST: Final = "down.example"
LIMITED_HOST: Final = "busy.example"
"""The site that shuts out a whole crawl and not only a session."""
CHEAP_ITEMS: Final = (1036, 1389, 1742)
"""Items of the lab's shop that cost less than ten: the spider's parser has a bug for them."""


@dataclass(frozen=True, slots=True)
class Site:
    """One site of the day."""

    host: str
    told: str
    """What it does, for the person who watches."""
    items: tuple[int, ...]
    behaviour: Behaviour

    def urls(self) -> Iterator[str]:
        for number in self.items:
            yield f"http://{self.host}/item/{number}"


@dataclass(frozen=True, slots=True)
class Day:
    """How long and how bad the day is. The defaults take less than a minute."""

    pages: int = 120
    """Wanted of each site; two thirds more of those that wear sessions out."""
    outage: float = 8.0
    """Seconds."""
    give_up: float = 14.0
    """Seconds after which scrapy_resiproxy gives up the site that is down all day; more than the outage."""
    rate: float = 5.0
    """Pages a second that the busy site allows."""
    patience: int = 20
    """Pages that the two walls give to one session."""
    latency: float = 0.05
    """Seconds that each site takes to answer."""

    def sites(self) -> list[Site]:
        """Return the sites, each with its wanted pages."""
        few, many = tuple(range(1, self.pages + 1)), tuple(range(1, self.pages * 5 // 3 + 1))
        bug = f"is well, but {len(CHEAP_ITEMS)} of its pages meet a bug in our parser"
        outage = f"is down for the first {self.outage:g} seconds"
        busy = f"allows {self.rate:g} pages a second, says so, and blocks who does not listen"
        worn = f"after {self.patience} pages a session is"
        plan: list[tuple[str, str, tuple[int, ...], Behaviour]] = [
            ("shop.example", bug, few + CHEAP_ITEMS, Ok()),
            ("flaky.example", "fails once for one page in five", few, Flaky(p=0.2)),
            ("outage.example", outage, few, Outage(duration=self.outage)),
            (LIMITED_HOST, busy, few, RateLimit(rate=self.rate)),
            ("fake.example", f"{worn} shown fake pages, at status 200", many, SoftBlock(pages=self.patience)),
            ("redirect.example", f"{worn} redirected to a block page", many, RedirectBlock(pages=self.patience)),
            (DOWN_HOST, "is down all day, and back before the replay", few, Down()),
        ]
        return [Site(host, told, items, Ok(latency=self.latency) + faults) for host, told, items, faults in plan]
