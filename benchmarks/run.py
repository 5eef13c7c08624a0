"""All benchmarks, one table for each subject: ``make bench``, or ``python benchmarks/run.py [--quick]``.

Each script also runs alone. ``--only NAME`` runs one by its name; ``--quick`` takes less than a minute.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from kit import HERE, versions

SUBJECTS = ("cpu", "queues", "memory", "crawl", "per_url")
TUNNELS = "tunnels"
"""Knows no --quick: it is left out there."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and numbers that are good for a glance")
    parser.add_argument("--only", choices=(*SUBJECTS, TUNNELS), help="one subject")
    options = parser.parse_args()
    subjects = [options.only] if options.only else [*SUBJECTS, *([] if options.quick else [TUNNELS])]
    print(versions(), flush=True)
    failed = []
    for subject in subjects:
        began = time.monotonic()
        quick = ["--quick"] if options.quick and subject != TUNNELS else []
        if subprocess.run([sys.executable, str(HERE / f"{subject}.py"), *quick], check=False).returncode:
            failed.append(subject)
        print(f"({subject}: {time.monotonic() - began:.0f} s)", flush=True)
    if failed:
        print(f"Did not run to its end: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
