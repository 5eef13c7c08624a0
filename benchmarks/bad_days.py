"""Requests per URL on a bad day, stock Scrapy beside ours: ``python benchmarks/bad_days.py [--quick]``.

The day is the demo's: see :mod:`scrapy_resiproxy.lab.demo`. It is the same crawl twice, counted by the site.
"""

from __future__ import annotations

import sys

from kit import arguments

from scrapy_resiproxy.lab.demo import main as demo


def main() -> int:
    arguments(__doc__)
    print("\nThe demo's bad day\n==================")
    return demo([])


if __name__ == "__main__":
    sys.exit(main())
