"""Log records, made without secrets, whoever logs them and however they are formatted."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy_resiproxy.redact.secrets import SECRETS
from scrapy_resiproxy.redact.text import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable


def install_log_redaction() -> None:
    """Scrub every log record of this process made after the first secret was registered.

    The record factory that is there goes on making them. To call it again does nothing.
    """
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _Redacting):
        logging.setLogRecordFactory(_Redacting(factory))


class RedactedError(Exception):
    """Stands in a log record for an exception whose text held a secret."""


class _Redacting:
    def __init__(self, factory: Callable[..., logging.LogRecord]) -> None:
        self._factory = factory

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._factory(*args, **kwargs)
        if SECRETS:
            _clean_message(record)
            _clean_traceback(record)
        return record


def _clean_message(record: logging.LogRecord) -> None:
    before = _said(record)
    if before is not None and redact_text(before) == before and not _hidden_in(record.args, before):
        return
    record.msg = _cleaned(record.msg)
    if isinstance(record.args, Mapping):
        record.args = {name: _cleaned(value) for name, value in record.args.items()}
    elif record.args:
        record.args = tuple(_cleaned(value) for value in record.args)
    after = _said(record)
    if before is not None and (after is None or redact_text(after) != after):
        record.msg, record.args = redact_text(before), ()


def _hidden_in(args: Any, message: str) -> bool:
    """Whether a dict of arguments holds a secret that *message* does not show."""
    values = args.values() if isinstance(args, Mapping) else ()
    texts = (value for value in values if isinstance(value, str) and value not in message)
    return any(redact_text(text) != text for text in texts)


def _said(record: logging.LogRecord) -> str | None:
    """The record's message; None when its arguments do not fit, of which logging will tell."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments are anybody's
        return None


def _cleaned(value: Any) -> Any:
    """*value*, or its text without secrets when it would show one."""
    if isinstance(value, (int, float)):
        return value
    try:
        text, shown = str(value), repr(value)
    except Exception:  # noqa: BLE001 - the arguments are anybody's
        return value
    return value if redact_text(text) == text and redact_text(shown) == shown else redact_text(text)


def _clean_traceback(record: logging.LogRecord) -> None:
    if record.stack_info:
        record.stack_info = redact_text(record.stack_info)
    if not record.exc_info or record.exc_info[0] is None:
        return
    try:
        text = "".join(traceback.format_exception(*record.exc_info))
    except Exception:  # noqa: BLE001 - the exception is anybody's
        return
    clean = redact_text(text)
    if clean != text:
        record.exc_text = clean.rstrip("\n")
        error = RedactedError(record.exc_text.rpartition("\n")[2])
        record.exc_info = (RedactedError, error, None)
