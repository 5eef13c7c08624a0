"""What the commands on dead-letter feeds have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_resiproxy.deadletter.index import expand
from scrapy_resiproxy.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROBLEMS_SHOWN = 20


def feed_files(args: Sequence[str]) -> list[str]:
    """The feeds that the command line names. Raises ``UsageError``, one line."""
    for arg in args:
        if arg.startswith("-"):
            raise UsageError(f"{arg} is no option of this command", print_help=False)
    if not args:
        raise UsageError("name at least one dead-letter feed, such as deadletter/shop/*.jsonl", print_help=False)
    try:
        return expand(args)
    except ValueError as error:
        raise UsageError(str(error), print_help=False) from None


def unreadable(error: OSError) -> UsageError:
    """*error* as one line for the user."""
    where = f"{error.filename}: " if error.filename else ""
    return UsageError(f"{where}{error.strerror}", print_help=False)


def show_problems(problems: Sequence[str], say: Callable[[str], None]) -> None:
    """The lines that were skipped, the first ones each on its own."""
    for problem in problems[:PROBLEMS_SHOWN]:
        say(f"skipped: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        say(f"skipped: {counted(len(problems) - PROBLEMS_SHOWN, 'more line')}")


def not_a_feed(problems: Sequence[str]) -> UsageError:
    """One line where no line of the given files is a dead letter."""
    return UsageError(f"no dead letter in it; {problems[0]}", print_help=False)
