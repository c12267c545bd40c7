"""Runs programs with a fault again and again beside busy processes. Prints how often each has its usual first finding.

python lab/steady_findings.py [--runs 10] [--busy 4] [NAME ...]    # of tests/programs/faults; else all of them
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.python.run.test_findings import FAULTS, built, found_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("names", nargs="*", default=sorted(FAULTS))
    options = parser.parse_args()
    same = 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="pfs-steady-") as folder:
            for name in options.names:
                command = built(FAULTS[name], Path(folder))
                runs = [found_in(command, Path(folder) / f"run-{name}") for _ in range(options.runs)]
                firsts = Counter(found[0]["name"] if found else "nothing" for found in runs)
                same += firsts.most_common(1)[0][1]
                print(name, dict(firsts), flush=True)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    print(f"the usual first finding in {same} of {options.runs * len(options.names)} runs")


if __name__ == "__main__":
    main()
