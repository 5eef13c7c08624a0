"""Any text, without what must not be seen."""

from __future__ import annotations

from scrapy_resiproxy.redact.secrets import SECRETS
from scrapy_resiproxy.redact.shapes import mask_shapes


def redact_text(text: str) -> str:
    """*text* without the userinfo of any URL, any ``Authorization`` value and any registered secret."""
    return SECRETS.scrub(mask_shapes(text))
