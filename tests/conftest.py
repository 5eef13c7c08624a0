"""What all tests share."""

from __future__ import annotations

import sys
from pathlib import Path

# With --import-mode=importlib nothing else makes tests/crawl_kit.py importable.
sys.path.insert(0, str(Path(__file__).parent))
