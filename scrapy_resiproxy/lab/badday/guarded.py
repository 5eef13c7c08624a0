"""The same project with scrapy_resiproxy. One line switches it on; the rest makes minutes seconds.

What is a bad hour outside is a quarter of a minute here, and so the guards' times are scaled. A real project needs none
of the lines below ``ADDONS``: it sets ``RESIPROXY_PROXY``, here in the environment, and keeps the defaults.
"""

from __future__ import annotations

import os
from typing import Final

from scrapy_resiproxy.lab.badday.base import *  # noqa: F403 - a settings module is a list of names

ADDONS: Final = {"scrapy_resiproxy.Addon": 500}
# For a checkout that was put on the path without being installed: `scrapy replay` is found all the same.
COMMANDS_MODULE: Final = "scrapy_resiproxy.commands"

# The first retry waits up to this long, the next up to twice as long (default 1) ...
RESIPROXY_BACKOFF_BASE: Final = 0.3
# ... and none longer than this (default 60).
RESIPROXY_BACKOFF_CAP: Final = 3.0
# A site that is down is left alone for so long before one request looks whether it is back (default 30) ...
RESIPROXY_CIRCUIT_COOLDOWN: Final = 1.0
# ... and at most for so long when it goes on being down (default 600).
RESIPROXY_CIRCUIT_COOLDOWN_MAX: Final = 2.0
# Once it is back, its load grows for so long before all may go again (default 60).
RESIPROXY_CIRCUIT_RECOVERY: Final = 3.0
# A site that was gone for so long is given up for this run; its requests become dead letters (default 900).
RESIPROXY_TARGET_GIVE_UP: Final = float(os.environ.get("BADDAY_GIVE_UP", "14"))
# How long the budget of retries looks back (default 60).
RESIPROXY_BUDGET_WINDOW: Final = 10.0
