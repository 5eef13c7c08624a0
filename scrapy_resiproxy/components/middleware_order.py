"""Where our downloader middleware stands among Scrapy's. Elsewhere it would judge other bytes than the spider gets, or
hand credentials to a handler that cannot read them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_resiproxy.settings import SettingError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

SETTING: Final = "DOWNLOADER_MIDDLEWARES"
OURS: Final = "ResiproxyMiddleware"


@dataclass(frozen=True, slots=True)
class Placed:
    """A downloader middleware of a crawl, its number, and its place in the order that comes of all numbers."""

    cls: type
    number: float
    place: int

    def __str__(self) -> str:
        return f"{global_object_name(self.cls)} at {self.number:g}"

    @property
    def is_ours(self) -> bool:
        return any(base.__name__ == OURS for base in self.cls.__mro__)


@dataclass(frozen=True, slots=True)
class Side:
    """On which side of ours one of Scrapy's middlewares belongs."""

    kind: type
    switch: str
    """The setting with which Scrapy switches it off."""
    nearer_to_wire: bool
    otherwise: str
    """What becomes of a crawl in which it is on the other side."""

    def holds(self, ours: Placed, other: Placed) -> bool:
        return (other.place > ours.place) is self.nearer_to_wire

    def allowed(self, other: Placed) -> str:
        return f"{'below' if self.nearer_to_wire else 'above'} {other.cls.__name__} ({other.number:g})"


SIDES: Final = (
    Side(
        MetaRefreshMiddleware,
        "METAREFRESH_ENABLED",
        nearer_to_wire=False,
        otherwise="a wall's interstitial would be followed before it is judged",
    ),
    Side(
        HttpCompressionMiddleware,
        "COMPRESSION_ENABLED",
        nearer_to_wire=True,
        otherwise="pages would be judged while they are compressed",
    ),
)
PROXY_SIDE: Final = Side(
    HttpProxyMiddleware,
    "HTTPPROXY_ENABLED",
    nearer_to_wire=True,
    otherwise="nobody would take the credentials out of the proxy's URL",
)


def placed_middlewares(settings: BaseSettings) -> list[Placed]:
    """The downloader middlewares of a crawl, the engine's side first."""
    numbers = settings.get_component_priority_dict_with_base(SETTING)
    # Stable, as Scrapy's own sort: of equal numbers the one that was named first comes first.
    order = sorted(((path, number) for path, number in numbers.items() if number is not None), key=lambda pair: pair[1])
    classes = [(loaded(path), number) for path, number in order]
    return [Placed(cls, number, place) for place, (cls, number) in enumerate(classes) if isinstance(cls, type)]


def check_order(settings: BaseSettings, placed: list[Placed], *, proxied: bool) -> None:
    """Raise :class:`SettingError` where ours is on the wrong side of another; *proxied* says that we set proxies."""
    ours = next((entry for entry in placed if entry.is_ours), None)
    if ours is None:
        return
    sides = (*SIDES, PROXY_SIDE) if proxied else SIDES
    pairs = [(side, other) for side in sides for other in switched_on(settings, placed, side)]
    for side, other in pairs:
        if not side.holds(ours, other):
            raise SettingError(
                f"{SETTING} has {ours} and {other}: {side.otherwise}. {ours.cls.__name__} must be {_allowed(pairs)}."
            )


def _allowed(pairs: list[tuple[Side, Placed]]) -> str:
    """Where ours may stand, given Scrapy's."""
    words = ", ".join(side.allowed(other) for side, other in pairs)
    lowest = max((other.number for side, other in pairs if not side.nearer_to_wire), default=-math.inf)
    highest = min((other.number for side, other in pairs if side.nearer_to_wire), default=math.inf)
    return words if lowest < highest else f"{words}; no number is all of that, so move the others"


def switched_on(settings: BaseSettings, placed: list[Placed], side: Side) -> list[Placed]:
    """Those of *placed* that are of the kind of *side*, unless Scrapy's own setting switches them off."""
    if not settings.getbool(side.switch):
        return []
    return [entry for entry in placed if issubclass(entry.cls, side.kind)]


def loaded(path: Any) -> Any:
    """What *path* names, None where it cannot be loaded: Scrapy says so itself when it builds it."""
    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError):
        return None
