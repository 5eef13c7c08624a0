"""Has the page changed, or is it a wall? A check that refuses every page of every session is the page's fault."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

_KEPT: Final = 1_000


@dataclass(slots=True)
class _Spell:
    """Refusals of one check since the last page that it let pass."""

    refusals: int = 0
    sessions: set[str] = field(default_factory=set)
    fresh: bool = False
    changed: bool = False


class LayoutWatch:
    """Finds the checks of a target that its pages no longer pass.

    That is so once *refusals* judgements in a row were all refusals, seen over at least *sessions* sessions, a fresh
    one among them, and none of the pages bore a wall's mark. One page that passes starts it anew. The *kept* checks
    that were judged last are remembered.
    """

    def __init__(self, *, refusals: int = 20, sessions: int = 3, kept: int = _KEPT) -> None:
        self._refusals = refusals
        self._sessions = sessions
        self._kept = kept
        self._spells: OrderedDict[tuple[str, str], _Spell] = OrderedDict()

    def note(self, target: str, check: str, passed: bool, session: str, fresh: bool, walled: bool) -> bool:
        """Take down one judgement of *check*; True once, when it shows that the page has changed.

        *session* is whatever names the session, *fresh* whether this was its first page, *walled* whether a
        wall's mark was seen.
        """
        key = target, check
        if passed or walled:
            self._spells.pop(key, None)
            return False
        spell = self._spells.setdefault(key, _Spell())
        self._spells.move_to_end(key)
        if len(self._spells) > self._kept:
            self._spells.popitem(last=False)
        if spell.changed:
            return False
        spell.refusals += 1
        spell.fresh = spell.fresh or fresh
        if len(spell.sessions) < self._sessions:
            spell.sessions.add(session)
        seen_enough = spell.refusals >= self._refusals and len(spell.sessions) >= self._sessions
        spell.changed = seen_enough and spell.fresh
        return spell.changed

    def changed(self, target: str, check: str) -> bool:
        """Whether *check* was found to fail because *target* has changed, and has not passed since."""
        spell = self._spells.get((target, check))
        return spell is not None and spell.changed
