"""Every benchmark, one after the other: ``make bench``, or ``python benchmarks/run.py [--quick]``."""

from __future__ import annotations

import subprocess
import sys

from kit import HERE, arguments

SCRIPTS = ("cpu.py", "crawl.py", "memory.py", "queues.py", "bad_days.py", "tunnels.py")


def main() -> int:
    options = ["--quick"] if arguments(__doc__).quick else []
    failed = [
        script
        for script in SCRIPTS
        if subprocess.run([sys.executable, str(HERE / script), *options], check=False).returncode
    ]
    if failed:
        print(f"\nDid not run to their end: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
