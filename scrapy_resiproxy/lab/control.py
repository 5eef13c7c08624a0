"""The lab's control, served by the site at its bare address below ``/__lab__/``.

``GET ledger.json`` (counts) · ``GET ledger.jsonl`` (rows) · ``POST reset`` (everything begins anew) ·
``POST behaviour`` with ``{"host": "shop.example", "behaviour": "ok"}`` · ``POST gateway`` with options by
name, such as ``{"connect_status": 0}``. What is wrong with a request is said in one line at 400.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from scrapy_resiproxy.lab.grammar import parse, spell

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_resiproxy.lab.gateway import Gateway
    from scrapy_resiproxy.lab.ledger import Ledger
    from scrapy_resiproxy.lab.targets import Targets

CONTROL_PREFIX: Final = "/__lab__/"


class Control:
    """Reads the ledger out and changes what the lab does, while it runs."""

    def __init__(self, targets: Targets, ledger: Ledger, gateway: Gateway) -> None:
        self._targets = targets
        self._ledger = ledger
        self._gateway = gateway
        self._actions: dict[str, Callable[[dict[str, object]], web.Response]] = {
            "GET ledger.json": self._summary,
            "GET ledger.jsonl": self._rows,
            "POST reset": self._reset,
            "POST behaviour": self._behaviour,
            "POST gateway": self._adjust,
        }

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one control request."""
        action = self._actions.get(f"{request.method} {request.raw_path.removeprefix(CONTROL_PREFIX)}")
        if action is None:
            return _error(HTTPStatus.NOT_FOUND, f"no such control: choose from {', '.join(self._actions)}")
        try:
            return action(_read(await request.read()))
        except KeyError as error:
            return _error(HTTPStatus.BAD_REQUEST, f"the body lacks {error}")
        except ValueError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))

    def _summary(self, _: dict[str, object]) -> web.Response:
        behaviours = {host: spell(behaviour) for host, behaviour in self._targets.behaviours().items()}
        return _json({**self._ledger.summary(), "behaviours": behaviours})

    def _rows(self, _: dict[str, object]) -> web.Response:
        return web.Response(body=self._ledger.path.read_bytes(), content_type="application/jsonl")

    def _reset(self, _: dict[str, object]) -> web.Response:
        self._targets.begin_again()
        self._gateway.begin_again()
        self._ledger.reset()
        return _json({})

    def _behaviour(self, asked: dict[str, object]) -> web.Response:
        self._targets.set(str(asked["host"]), parse(str(asked["behaviour"])))
        return _json({})

    def _adjust(self, asked: dict[str, object]) -> web.Response:
        self._gateway.adjust({name: str(value) for name, value in asked.items()})
        return _json({})


def _json(data: object) -> web.Response:
    """With a line's end, for who looks at it in a shell."""
    return web.Response(text=json.dumps(data) + "\n", content_type="application/json")


def _read(body: bytes) -> dict[str, object]:
    asked = json.loads(body) if body else {}
    if not isinstance(asked, dict):
        raise ValueError("the body must be a JSON object")  # noqa: TRY004
    return asked


def _error(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(text=text + "\n", status=status)
