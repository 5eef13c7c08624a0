"""What all tests share."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# With --import-mode=importlib nothing else makes tests/crawl_kit.py importable.
sys.path.insert(0, str(Path(__file__).parent))

# How long an example takes is the machine's affair.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
