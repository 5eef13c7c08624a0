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
    behaviour: Behaviour
    told: str
    """What it does, for the person who watches."""
    items: tuple[int, ...]

    def urls(self) -> Iterator[str]:
        for number in self.items:
            yield f"http://{self.host}/item/{number}"


@dataclass(frozen=True, slots=True)
class Day:
    """How long and how bad the day is. The defaults take about a minute."""

    pages: int = 120
    """Wanted of each site; a third more of those that wear sessions out."""
    outage: float = 8.0
    """Seconds."""
    rate: float = 10.0
    """Pages a second that the busy site allows."""
    patience: int = 20
    """Pages that the two walls give to one session; offences after which the busy site blocks."""
    latency: float = 0.05
    """Seconds that each site takes to answer."""

    def sites(self) -> list[Site]:
        """Return the sites, each with its wanted pages."""
        few, many = tuple(range(1, self.pages + 1)), tuple(range(1, self.pages * 4 // 3 + 1))
        limit = RateLimit(
            rate=self.rate, burst=self.rate, block_ignorers=self.patience, block_evaders=self.patience
        )
        worn = f"after {self.patience} pages a session"
        return [
            self._site(
                "shop.example", Ok(), f"is well; {len(CHEAP_ITEMS)} pages hit a bug in our parser", (*few, *CHEAP_ITEMS)
            ),
            self._site("flaky.example", Flaky(p=0.2), "fails once for one page in five", few),
            self._site(
                "outage.example", Outage(duration=self.outage), f"is down for the first {self.outage:g} seconds", few
            ),
            self._site(
                LIMITED_HOST,
                limit,
                f"allows {self.rate:g} pages a second, says so, and blocks who does not listen",
                few,
            ),
            self._site("fake.example", SoftBlock(pages=self.patience), f"{worn} gets fake pages, at status 200", many),
            self._site(
                "redirect.example", RedirectBlock(pages=self.patience), f"{worn} is redirected to a block page", many
            ),
            self._site(DOWN_HOST, Down(), "is down all day, and back before the replay", few),
        ]

    def _site(self, host: str, behaviour: Behaviour, told: str, items: tuple[int, ...]) -> Site:
        return Site(host, Ok(latency=self.latency) + behaviour, told, items)
