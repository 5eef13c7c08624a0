"""What the last run of a job has left of its queue: whether it can be gone on with."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def state_in(jobdir: str) -> Any:
    """What the scheduler of the job's last run has written down of its queue; None where it has not, or not in JSON."""
    try:
        return json.loads(Path(jobdir, "requests.queue", "active.json").read_bytes())
    except (OSError, ValueError):
        return None


def is_state(value: Any) -> bool:
    """Whether *value* is such as our queue and Scrapy's ``DownloaderAwarePriorityQueue`` write down: the priorities of
    every slot. Nothing is, too.
    """
    if not value:
        return True
    return isinstance(value, dict) and all(
        isinstance(priorities, list) and all(type(each) is int for each in priorities) for priorities in value.values()
    )


def after_kill(directory: Path, queue_cls: type) -> dict[str, list[int]] | None:
    """What a killed run has left in *directory*, in queues of *queue_cls*, that can be gone on with.

    SQLite queues (Scrapy 2.19) survive a kill by themselves; the files of others are put aside.
    """
    if any("sqlite" in cls.__name__.lower() for cls in queue_cls.__mro__):
        return _slots_in(directory)
    _put_aside(directory)
    return None


def _slots_in(directory: Path) -> dict[str, list[int]]:
    """The slots and priorities of the queue files in *directory*: a killed run has not written them down.

    A slot's folder is its name, with other characters in the place of those that a path cannot have, and the name's
    MD5. One whose name cannot be read off is found when the next request comes into it.
    """
    found = {}
    for folder in directory.iterdir() if directory.is_dir() else ():
        slot, _, digest = folder.name.rpartition("-")
        if hashlib.md5(slot.encode(), usedforsecurity=False).hexdigest() == digest and folder.is_dir():
            files = [re.fullmatch(r"(-?\d+)s?", file.name) for file in folder.iterdir()]
            found[slot] = sorted({int(file[1]) for file in files if file})
    return found


def foreign_line(jobdir: str, state: Any) -> str:
    """Why a job with *state* is refused."""
    return (
        f"JOBDIR is {jobdir!r}; its queue was written by another SCHEDULER_PRIORITY_QUEUE (as {state!r:.60}). It must "
        "be a job of scrapy_resiproxy.GuardedPriorityQueue or of scrapy.pqueues.DownloaderAwarePriorityQueue: run this "
        "one to its end with the queue that it was begun with, or name a new JOBDIR."
    )


def _put_aside(directory: Path) -> None:
    """Move what a killed run left in *directory* out of the way, and say so.

    Scrapy's pickled disk queues write their counters only when they are closed: opened again after a kill they hand out
    old requests in place of new ones, or raise. What was on its way is in our store.
    """
    left = [path for path in directory.iterdir() if path.is_dir()] if directory.is_dir() else []
    if not left:
        return
    number = 1
    while (aside := directory.with_name(f"{directory.name}.killed-{number}")).exists():
        number += 1
    aside.mkdir()
    for path in left:
        path.rename(aside / path.name)
    logger.warning(
        "The last run of this job was killed: what its queue files still held cannot be read and was put aside in %s. "
        "With Scrapy 2.19 or newer, SQLite queues (SCHEDULER_DISK_QUEUE) survive a kill.",
        aside,
    )
