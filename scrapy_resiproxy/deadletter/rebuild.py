"""From a letter back to a request and a response. Only classes of Scrapy's own Request family are used for it."""

from __future__ import annotations

import base64
import inspect
import logging
import zlib
from typing import TYPE_CHECKING, Any, Final

from scrapy import FormRequest, Request, Spider
from scrapy.http import Headers, JsonRequest, XmlRpcRequest
from scrapy.responsetypes import responsetypes

from scrapy_resiproxy.deadletter.describe import OWN_PREFIX
from scrapy_resiproxy.deadletter.permitted import PermittedValidators
from scrapy_resiproxy.deadletter.reading import LetterError
from scrapy_resiproxy.names import META_VALIDATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.http import Response

logger = logging.getLogger(__name__)

PAGE_MAX: Final = 256 * 1024 * 1024
"""Bytes that a stored page may have: a small letter from elsewhere could be made to unpack to anything."""

STORED_FLAG: Final = "resiproxy_stored"
"""In the flags of a response that was made from a letter."""

REQUEST_CLASSES: Final[dict[str, type[Request]]] = {
    name: cls
    for cls in (Request, FormRequest, JsonRequest, XmlRpcRequest)
    for name in (f"{cls.__module__}.{cls.__name__}", f"scrapy.http.{cls.__name__}", f"scrapy.{cls.__name__}")
}


def to_request(letter: Mapping[str, Any], spider: Spider, permitted: PermittedValidators | None = None) -> Request:
    """The request that *letter* was written for, as far as the letter holds it, with *spider*'s methods.

    Raises :class:`LetterError`, one line, when a callback is no method of *spider*, its validator neither that nor
    *permitted* (None: what *spider*'s own package opens), or Scrapy refuses a field.
    """
    data = letter["request"]
    cls = REQUEST_CLASSES.get(data["_class"])
    if cls is None:
        cls = Request
        logger.warning(
            "Letter %s is for a %.100r; it goes as a plain Request: only Scrapy's own classes are built from a feed.",
            letter["id"],
            data["_class"],
        )
    try:
        return cls(
            data["url"],
            method=data["method"],
            headers={name.encode("latin-1"): _encoded(values) for name, values in data["headers"].items()},
            body=base64.b64decode(data["body"] or ""),
            encoding=data.get("encoding") or "utf-8",
            callback=_method(spider, data["callback"], "callback"),
            errback=_method(spider, data["errback"], "errback"),
            cb_kwargs=data["cb_kwargs"],
            meta=_meta(data["meta"], spider, permitted),
            priority=data["priority"],
            flags=data["flags"],
        )
    except (ValueError, TypeError, LookupError) as error:
        if isinstance(error, LetterError):
            raise
        raise LetterError(f"request: {type(error).__name__}") from None


def _encoded(values: list[str]) -> list[bytes]:
    return [value.encode("latin-1") for value in values]


def _method(spider: Spider, name: str | None, field: str) -> Any:
    """The method of *spider* called *name*, by plain name alone: one that its own class or a mixin brings."""
    if name is None:
        return None
    method = _found(spider, name)
    if method is None:
        raise LetterError(f"request.{field} is {name[:80]!a}; it must be the name of a method of {spider.name!r}")
    return method


def _found(spider: Spider, name: str) -> Any:
    """The method of *spider* called *name*; None when it has none that a letter may name."""
    if name.isidentifier() and not name.startswith("__") and _is_free(type(spider), name):
        method = getattr(spider, name, None)
        if inspect.ismethod(method) and method.__self__ is spider:
            return method
    return None


def _meta(data: Mapping[str, Any], spider: Spider, permitted: PermittedValidators | None) -> dict[str, Any]:
    meta = {key: value for key, value in data.items() if not key.startswith(OWN_PREFIX)}
    if meta.get(META_VALIDATOR) is not None:
        meta[META_VALIDATOR] = _validator(meta[META_VALIDATOR], spider, permitted or PermittedValidators.of(spider))
    return meta


def _validator(value: Any, spider: Spider, permitted: PermittedValidators) -> Any:
    """The method of *spider* that *value* names, or *value* itself where it is a dotted name that is *permitted*.

    A dotted name from a letter would otherwise be imported and called with the next page.
    """
    if isinstance(value, str):
        method = _found(spider, value)
        if method is not None:
            return method
        if permitted.allows(value):
            return value
    raise LetterError(
        f"request.meta.{META_VALIDATOR} is {value!a:.80}; it must be the name of a method of {spider.name!r}, "
        f"or {permitted}"
    )


def _is_free(cls: type[Spider], name: str) -> bool:
    """Whether *name* is no part of the machinery that every spider inherits."""
    if name in {"parse", "_parse"}:
        return True
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    return owner is not None and owner.__module__ != Spider.__module__ and owner is not object


def to_response(letter: Mapping[str, Any], request: Request) -> Response | None:
    """The page that *letter* holds, as the response to *request*; None when it holds none.

    Raises :class:`LetterError` when it cannot be unpacked.
    """
    stored = letter["response"] or {}
    page = stored.get("page")
    if page is None:
        return None
    body = _unpacked(page["body"])
    headers = Headers({name.encode("latin-1"): _encoded(values) for name, values in page["headers"].items()})
    cls = responsetypes.from_args(headers=headers, url=stored["url"], body=body)
    return cls(
        stored["url"],
        status=stored["status"],
        headers=headers,
        body=body,
        flags=[STORED_FLAG],
        request=request,
    )


def _unpacked(body: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(body), PAGE_MAX)
    except zlib.error:
        raise LetterError("response.page.body cannot be unpacked; it must be base64 of zlib") from None
    if not unpacker.eof:
        raise LetterError(f"response.page.body is torn or unpacks to more than {PAGE_MAX} bytes")
    return data
