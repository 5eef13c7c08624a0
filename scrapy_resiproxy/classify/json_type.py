"""Whether an answer says that it is JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import JsonResponse

if TYPE_CHECKING:
    from scrapy.http import Response


def is_json(response: Response) -> bool:
    """Whether the content type is JSON's or that of a format made of it, like ``application/problem+json``.

    RFC 6839, 3.1; Scrapy knows none of the latter.
    """
    declared = (response.headers.get("Content-Type") or b"").partition(b";")[0].strip().lower()
    return isinstance(response, JsonResponse) or declared.endswith((b"/json", b"+json"))
