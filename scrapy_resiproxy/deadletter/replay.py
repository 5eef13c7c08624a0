"""Which letters are run again: a pure choice from what the feeds hold."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.deadletter.index import Entry, canonical, expand, index
from scrapy_resiproxy.deadletter.times import parse_time
from scrapy_resiproxy.names import DEAD_LETTER_REASONS
from scrapy_resiproxy.outcome import OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

POISON: Final = 3
"""A letter whose page or code has failed this often in replays is left alone."""

CLASSES: Final = tuple(str(each) for each in OutcomeClass if each is not OutcomeClass.OK)
"""The classes that a letter can have."""

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Filter:
    """What to run. An empty set takes everything."""

    classes: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    """Letters asked for by id, which are run whatever else speaks against it, but what cannot be rebuilt."""
    spiders: frozenset[str] = frozenset()
    spider_args: frozenset[str] = frozenset()
    """Sets of spider arguments, each as :func:`~.index.canonical` spells it."""
    since: float | None = None
    """Wall clock: letters written before are left."""
    limit: int | None = None
    now: bool = False
    """Run also what should wait until its ``not_before``."""
    offline: bool = False
    """Run callbacks on stored pages; take only letters that have one."""

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], *, now: float) -> Filter:
        """The filter that *given* spells, as in ``RESIPROXY_REPLAY_FILTER``; *now* is wall-clock seconds.

        Raises ``ValueError``, one line that names the key, the value and what is allowed.
        """
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key not in _KEYS:
                allowed = ", ".join(sorted(_KEYS))
                raise ValueError(f"{key!r} is no key of a replay filter; allowed are {allowed}")
            if value is None:
                continue
            name, read, allowed = _KEYS[key]
            try:
                values[name] = read(value, now)
            except (ValueError, TypeError, OverflowError, LookupError):
                raise ValueError(f"{key} is {value!r:.80}; it must be {allowed}") from None
        return cls(**values)

    def matches(self, entry: Entry) -> bool:
        """Whether the user asked for letters like *entry*."""
        return (
            (not self.classes or entry.class_ in self.classes)
            and (not self.reasons or entry.reason in self.reasons)
            and (not self.targets or entry.target in self.targets)
            and (not self.ids or entry.id in self.ids)
            and (not self.spiders or entry.spider in self.spiders)
            and (not self.spider_args or entry.spider_args in self.spider_args)
            and (self.since is None or entry.time >= self.since)
        )


def _words(value: Any, now: float) -> frozenset[str]:  # noqa: ARG001 - one signature for all readers
    words = [value] if isinstance(value, str) else list(value)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError
    return frozenset(words)


def _one_of(allowed: Collection[str]) -> Callable[[Any, float], frozenset[str]]:
    def read(value: Any, now: float) -> frozenset[str]:
        words = _words(value, now)
        if not words.issubset(allowed):
            raise ValueError
        return words

    return read


def _since(value: Any, now: float) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", value)
    return now - float(match[1]) * SECONDS[match[2]] if match else parse_time(value)


def _count(value: Any, now: float) -> int:  # noqa: ARG001
    if isinstance(value, (bool, float)) or int(value) < 1:
        raise ValueError
    return int(value)


def _flag(value: Any, now: float) -> bool:  # noqa: ARG001
    return {True: True, False: False, "true": True, "false": False}[value.lower() if isinstance(value, str) else value]


def _arguments(value: Any, now: float) -> frozenset[str]:  # noqa: ARG001
    sets = [value] if isinstance(value, dict) else list(value)
    if not sets or not all(isinstance(entry, dict) for entry in sets):
        raise ValueError
    return frozenset(canonical(entry) for entry in sets)


_TEXTS: Final = "a string or a list of strings"
_KEYS: Final[dict[str, Any]] = {
    "class": ("classes", _one_of(CLASSES), f"one or a list of {', '.join(CLASSES)}"),
    "reason": ("reasons", _one_of(DEAD_LETTER_REASONS), f"one or a list of {', '.join(DEAD_LETTER_REASONS)}"),
    "target": ("targets", _words, _TEXTS),
    "id": ("ids", _words, _TEXTS),
    "spider": ("spiders", _words, _TEXTS),
    "spider_args": ("spider_args", _arguments, "an object of spider arguments or a list of them"),
    "since": ("since", _since, "an ISO 8601 time (UTC unless it says otherwise) or an age like 90m, 6h, 2d"),
    "limit": ("limit", _count, "a whole number of 1 or more"),
    "now": ("now", _flag, "true or false"),
    "offline": ("offline", _flag, "true or false"),
}


@dataclass(slots=True)
class Selection:
    """What a replay takes, oldest first, and what it leaves and why."""

    entries: list[Entry] = field(default_factory=list)
    older: dict[str, list[Entry]] = field(default_factory=dict)
    """Id of a taken letter -> older open letters about the same work, which are settled with it."""
    left: Counter[str] = field(default_factory=Counter)
    """Why letters that match are left -> how many; see ``WHY_LEFT``."""
    unasked: set[str] = field(default_factory=set)
    """The classes of those that are left because nobody asked for them."""
    waits_until: float | None = None
    """When the first of those that wait may go, wall clock."""
    problems: list[str] = field(default_factory=list)
    """``FILE:LINE: what is wrong``, a line each."""
    lines: int = 0
    """How many lines of the feeds are letters or marks, whether asked for or not."""

    def groups(self) -> dict[tuple[str, str], list[Entry]]:
        """The letters by spider and its arguments: a crawl each."""
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault((entry.spider, entry.spider_args), []).append(entry)
        return groups

    @property
    def remaining(self) -> int:
        """How many that match are not done, whether they can be run now or not."""
        return len(self.entries) + sum(self.left.values()) - self.left["unasked"]


WHY_LEFT: Final = {
    "unasked": "final and not asked for (add --class or --reason)",
    "poison": f"poison: failed in {POISON} replays (add --id)",
    "waiting": "not due before their not_before (add --now)",
    "unreplayable": "not replayable (scrapy deadletter --list says why)",
    "no_page": "without a stored page to run offline",
    "limit": "over the limit",
    "arguments": "of other spider arguments",
}


def select(
    paths: Iterable[str],
    wanted: Filter,
    *,
    now: float,
    rebuilders: Collection[str] = (),
    fits: Callable[[Entry], bool] = lambda entry: True,  # noqa: ARG005
) -> Selection:
    """Choose from the feeds at *paths*, patterns included, read to the size that each has now.

    *now* is wall-clock seconds; *rebuilders* names spiders that define ``replay_request``, for which letters are
    taken that hold too little; *fits* says whether an entry's spider arguments are those of the crawl. Raises
    ``ValueError`` for a path that names no file, and ``OSError``.
    """
    found = index(expand(paths))
    selection = Selection(problems=found.problems, lines=len(found.entries) + len(found.marks))
    for chain in found.open():
        entry = chain[-1]
        if not wanted.matches(entry):
            continue
        why = _why_left(entry, wanted, now, rebuilders) if fits(entry) else "arguments"
        if why is None and wanted.limit is not None and len(selection.entries) >= wanted.limit:
            why = "limit"
        if why is None:
            selection.entries.append(entry)
            if older := [other for other in chain[:-1] if other.id not in found.marks]:
                selection.older[entry.id] = older
        else:
            selection.left[why] += 1
            if why == "unasked":
                selection.unasked.add(entry.class_)
            if why == "waiting":
                selection.waits_until = min(entry.not_before or now, selection.waits_until or float("inf"))
    return selection


def _why_left(entry: Entry, wanted: Filter, now: float, rebuilders: Collection[str]) -> str | None:
    if is_final(entry.class_, entry.reason) and not (wanted.classes or wanted.reasons or wanted.ids):
        return "unasked"
    if entry.replay_count >= POISON and not wanted.ids:
        return "poison"
    if wanted.offline:
        return None if entry.offline else "no_page"
    if not entry.replayable and entry.spider not in rebuilders:
        return "unreplayable"
    if entry.not_before is not None and entry.not_before > now and not wanted.now:
        return "waiting"
    return None


def is_final(class_: str, reason: str) -> bool:
    """Whether the target's own answer was final. Broken code and refused proxies are mended, a 400 is not."""
    return reason in {"terminal", "forbidden"} or (reason == "dont_retry" and class_ == "terminal")
