"""What was refused on one session goes on another that nobody has worn."""

from __future__ import annotations

import random

from scrapy_resiproxy.sessions.pool import Lease, SessionPool
from scrapy_resiproxy.settings import SessionSettings


def pool(places: int) -> SessionPool:
    settings = SessionSettings(proxy="http://u-{session}:pw@gw.example:1", sessions_per_target=places)
    return SessionPool(settings, random.Random(1), salt="salt")


def leased(sessions: SessionPool, **more: object) -> Lease:
    lease = sessions.lease("shop.example", 0.0, **more)  # type: ignore[arg-type]
    assert isinstance(lease, Lease)
    return lease


def test_a_fresh_lease_opens_a_new_session_although_an_idle_one_is_open() -> None:
    sessions = pool(2)
    worn = leased(sessions).session
    sessions.good(worn, 0.0)
    sessions.release(worn, 0.0)
    assert leased(sessions).session is worn
    fresh = leased(sessions, fresh=True)
    assert fresh.fresh
    assert fresh.session is not worn


def test_without_a_place_a_session_without_answers_goes_before_a_worn_one() -> None:
    sessions = pool(2)
    worn = leased(sessions).session
    sessions.good(worn, 0.0)
    unworn = leased(sessions, fresh=True).session
    assert leased(sessions, fresh=True).session is unworn


def test_without_a_place_and_with_worn_sessions_only_one_of_them_must_do() -> None:
    sessions = pool(1)
    worn = leased(sessions).session
    sessions.good(worn, 0.0)
    assert leased(sessions, fresh=True, avoid=frozenset({worn.alias})).session is worn
