"""Nothing secret leaves: what is logged, counted or stored passes here.

Three nets, because none is enough alone: the shapes of credentials (``scheme://user:pass@``, ``Authorization``),
the secrets that were registered, and the names under which users keep secrets.
"""

from __future__ import annotations

from scrapy_resiproxy.redact.fields import DEFAULT_REDACT, redact_form, redact_mapping, redact_query
from scrapy_resiproxy.redact.records import RedactedError, install_log_redaction
from scrapy_resiproxy.redact.secrets import SECRETS, Secrets
from scrapy_resiproxy.redact.shapes import MASK, redact_url
from scrapy_resiproxy.redact.text import redact_text

__all__ = [
    "DEFAULT_REDACT",
    "MASK",
    "SECRETS",
    "RedactedError",
    "Secrets",
    "install_log_redaction",
    "redact_form",
    "redact_mapping",
    "redact_query",
    "redact_text",
    "redact_url",
]
