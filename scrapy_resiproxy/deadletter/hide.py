"""Takes the secrets out of what a letter holds, and notes where they were."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from scrapy_resiproxy.redact import redact_form, redact_mapping, redact_query, redact_text, redact_url

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_resiproxy.deadletter.describe import Notes

PART_NAME: Final = re.compile(rb'name="([^"]*)"')


def is_secret(name: str, notes: Notes) -> bool:
    """Whether a value called *name* must not be kept."""
    return bool(redact_mapping({name: "x"}, notes.names)[1])


def hide_text(text: str, path: str, notes: Notes) -> str:
    """*text* without the credentials in it."""
    hidden = redact_text(text)
    if hidden != text:
        notes.redacted.append(path)
    return hidden


def hide_url(url: str, path: str, notes: Notes) -> str:
    """*url* without userinfo and without the values of secret query arguments."""
    hidden, _ = redact_query(redact_url(url), notes.names)
    if hidden != url:
        notes.redacted.append(path)
    return hidden


def hide_values(data: dict[str, Any], path: str, notes: Notes) -> dict[str, Any]:
    """*data*, plain, without its secret values at any depth."""
    hidden, paths = redact_mapping(data, notes.names)
    notes.redacted.extend(f"{path}.{inner}" for inner in paths)
    return {key: _hide_strings(value, f"{path}.{key}", notes) for key, value in hidden.items()}


def _hide_strings(value: Any, path: str, notes: Notes) -> Any:
    if isinstance(value, str):
        return hide_text(value, path, notes)
    if isinstance(value, list):
        return [_hide_strings(entry, path, notes) for entry in value]
    if isinstance(value, dict):
        return {key: _hide_strings(entry, f"{path}.{key}", notes) for key, entry in value.items()}
    return value


def hide_body(request: Request, notes: Notes) -> bytes:
    """The body without the secret values of a form or of JSON; empty where a multipart form holds one."""
    kind = (request.headers.get(b"Content-Type") or b"").lower()
    body = request.body
    if b"json" in kind or body.lstrip()[:1] in {b"{", b"["}:
        return _hide_json(body, notes)
    if b"multipart" in kind:
        if any(is_secret(name.decode("latin-1"), notes) for name in PART_NAME.findall(body)):
            notes.redacted.append("request.body")
            return b""
        return body
    if b"form-urlencoded" in kind or not kind:
        return _hide_form(body, notes)
    return body


def _hide_json(body: bytes, notes: Notes) -> bytes:
    try:
        data = json.loads(body)
        hidden = hide_values({"body": data}, "request", notes)["body"]
    except (ValueError, RecursionError):
        return body
    return body if hidden == data else json.dumps(hidden).encode("ascii")


def _hide_form(body: bytes, notes: Notes) -> bytes:
    hidden, names = redact_form(body, notes.names)
    notes.redacted.extend(f"request.body.{name}" for name in names)
    return hidden
