"""What the last run of a job has left of its queue: whether it can be gone on with."""

from __future__ import annotations

import json
import logging
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


def foreign_line(jobdir: str, state: Any) -> str:
    """Why a job with *state* is refused."""
    return (
        f"JOBDIR is {jobdir!r}; its queue was written by another SCHEDULER_PRIORITY_QUEUE (as {state!r:.60}). It must "
        "be a job of scrapy_resiproxy.GuardedPriorityQueue or of scrapy.pqueues.DownloaderAwarePriorityQueue: run this "
        "one to its end with the queue that it was begun with, or name a new JOBDIR."
    )


def put_aside(directory: Path) -> None:
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
