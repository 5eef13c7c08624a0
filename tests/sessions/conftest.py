from __future__ import annotations

import math
import random
from typing import Any

import pytest

from scrapy_resiproxy.sessions.pool import Lease, SessionPool
from scrapy_resiproxy.settings import SessionSettings

TEMPLATE = "http://acme-session-{session}:secretpw@gw.example:7000"


class Crawl:
    """A pool with a clock of its own."""

    def __init__(
        self, proxy: Any = TEMPLATE, *, salt: str = "salt", give_up: float = math.inf, **settings: Any
    ) -> None:
        of = SessionSettings(proxy=proxy, **settings)
        self.pool = SessionPool(of, random.Random(1), salt=salt, give_up=give_up)
        self.now = 0.0

    def ask(self, target: str = "shop.example", **options: Any) -> Any:
        return self.pool.lease(target, self.now, **options)

    def lease(self, target: str = "shop.example", **options: Any) -> Lease:
        lease = self.ask(target, **options)
        assert isinstance(lease, Lease)
        return lease

    def use(self, target: str = "shop.example", **options: Any) -> Lease:
        """Lease and release at once."""
        lease = self.lease(target, **options)
        self.pool.release(lease.session, self.now)
        return lease

    def retire(self, lease: Lease, reason: str = "challenge", **options: Any) -> bool:
        return self.pool.retire(lease.session, reason, self.now, **options)


@pytest.fixture
def crawl() -> type[Crawl]:
    return Crawl
