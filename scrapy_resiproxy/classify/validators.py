"""The user's own judgement of an answer: finding it, asking it, and reading what it says."""

from __future__ import annotations

import pickle
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from scrapy.utils.misc import load_object

from scrapy_resiproxy.classify.check import check_name
from scrapy_resiproxy.classify.checks import (
    content_type_is,
    expect_count,
    has_css,
    has_text,
    has_xpath,
    json_has,
    lacks_text,
    min_items,
    min_length,
    not_stub,
    url_lacks,
)
from scrapy_resiproxy.classify.combined import all_of, any_of, awaitable
from scrapy_resiproxy.classify.reasons import one_line, terminal
from scrapy_resiproxy.classify.verdict import Verdict
from scrapy_resiproxy.outcome import OK, Blame, Outcome, OutcomeClass

if TYPE_CHECKING:
    from scrapy.http import Response

__all__ = [
    "Judgement",
    "Validator",
    "Verdict",
    "all_of",
    "any_of",
    "check_name",
    "content_type_is",
    "expect_count",
    "has_css",
    "has_text",
    "has_xpath",
    "interpret",
    "json_has",
    "lacks_text",
    "min_items",
    "min_length",
    "not_stub",
    "resolve",
    "url_lacks",
    "validate",
    "validate_now",
    "validated_by",
    "validators_of",
]

Validator: TypeAlias = Callable[..., Any]
"""``f(response)``, or on a spider ``method(response)``; asynchronous or not."""

Judgement: TypeAlias = tuple[Outcome, BaseException | None]
"""What a validator says, and what it raised instead of saying it."""

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK: Final = "_resiproxy_validators"
_EVIDENCE: Final = 160
_RAISED: Final = (Exception, CancelledError, GeneratorExit)
"""What a validator may raise without meaning to end the process. The last two are no Exception."""
_REASONS: Final = {
    OutcomeClass.TRANSIENT: ("validator_transient", Blame.TARGET),
    OutcomeClass.RATE: ("validator_rate", Blame.TARGET),
    OutcomeClass.IDENTITY: ("soft_block", Blame.SESSION),
    OutcomeClass.TERMINAL: ("validator_terminal", Blame.TARGET),
}


def validated_by(*validators: Validator | str) -> Callable[[_F], _F]:
    """Mark a callback: the answers it gets must pass *validators*, callables or dotted paths, one after the other.

    Returns the callback itself, so that methods, generators and coroutines stay what they are. Raises ValueError
    where one of *validators* is neither.
    """
    if not validators:
        raise ValueError("validated_by() needs validators: callables or dotted paths.")
    resolved = tuple(_accepted(validator) for validator in validators)

    def mark(callback: _F) -> _F:
        setattr(callback, _MARK, resolved + validators_of(callback))
        return callback

    return mark


def validators_of(callback: Any) -> tuple[Validator, ...]:
    """The validators that *callback* (or the function of a bound method) was marked with; empty without any."""
    found = getattr(callback, _MARK, ())
    return found if isinstance(found, tuple) else ()


def resolve(value: Validator | str | None) -> Validator | None:
    """The validator that *value*, a dotted path or a callable that can be pickled, stands for; ``None`` for None.

    Raises ValueError, one line, when it stands for none. What was found is remembered.
    """
    if value is None:
        return None
    validator = _accepted(value)
    if not isinstance(value, str):
        try:
            _check_once(validator)
        except TypeError:
            # It cannot be hashed, and so not be remembered.
            _check_pickles(validator)
    return validator


def _accepted(value: Any) -> Validator:
    if isinstance(value, str):
        return _loaded(value)
    if not callable(value):
        raise ValueError(f"A validator must be a callable or a dotted path, not {value!r}.")  # noqa: TRY004
    return cast("Validator", value)


@lru_cache(maxsize=256)
def _loaded(path: str) -> Validator:
    try:
        found = load_object(path)
    except (ImportError, NameError, ValueError) as error:
        raise ValueError(f"Validator {path!r} cannot be loaded: {one_line(str(error), _EVIDENCE)}") from None
    if not callable(found):
        raise ValueError(f"Validator {path!r} must be a callable, not {type(found).__name__}.")  # noqa: TRY004
    return cast("Validator", found)


def _check_pickles(validator: Validator) -> None:
    try:
        pickle.dumps(validator)
    except Exception as error:  # noqa: BLE001 - whatever a class's own pickling raises
        reason = one_line(str(error), _EVIDENCE)
        raise ValueError(
            f"Validator {check_name(validator)} cannot be pickled, so no queue on disk can keep it: {reason}"
        ) from None


_check_once = lru_cache(maxsize=256)(_check_pickles)


def interpret(result: Any, *, check: str) -> Outcome:
    """The outcome of what a validator of the name *check* returned.

    True and None are good, False and a text a soft block, a :class:`Verdict` what it says. Raises ValueError for
    everything else.
    """
    if result is True or result is None:
        return OK
    if result is False or isinstance(result, str):
        result = Verdict.identity(result or "")
    if not isinstance(result, Verdict):
        raise ValueError(  # noqa: TRY004 - it is the value that is wrong, not a call
            f"Validator {check} returned {type(result).__name__}; it may return True, None, False, a text or a Verdict."
        )
    if result.class_ is OutcomeClass.OK:
        return OK
    reason, blame = _REASONS[result.class_]
    evidence = one_line(f"{check}: {result.reason}" if result.reason else check, _EVIDENCE)
    return Outcome(result.class_, reason, blame, evidence, result.wait)


async def validate(validator: Validator, response: Response) -> Judgement:
    """Ask *validator* about *response*, whether it is asynchronous or not.

    An exception of the validator is a bug of the user's: the outcome is then terminal, ``validator_error``, and the
    exception comes beside it, for its traceback to be logged.
    """
    judgement = validate_now(validator, response)
    return judgement if isinstance(judgement, tuple) else await judgement


def validate_now(validator: Validator, response: Response) -> Judgement | Coroutine[Any, Any, Judgement]:
    """As :func:`validate`, but the judgement itself where *validator* does not make us wait."""
    check = check_name(validator)
    try:
        result = validator(response)
        waiting = awaitable(result)
        if waiting is None:
            return interpret(result, check=check), None
    except _RAISED as error:
        return _broken(check, error)
    return _validate_later(waiting, check)


async def _validate_later(waiting: Awaitable[Any], check: str) -> Judgement:
    try:
        return interpret(await waiting, check=check), None
    except _RAISED as error:
        return _broken(check, error)


def _broken(check: str, error: BaseException) -> Judgement:
    evidence = one_line(f"{check}: {type(error).__name__}", _EVIDENCE)
    return terminal("validator_error", Blame.LOCAL, evidence), error
