"""Runs programs with a fault again and again beside busy processes. Counts the runs whose first finding is the right one.

python lab/steady_findings.py [--runs 10] [--busy 4] [NAME ...]    # of tests/programs/faults; else all of them

Right is the rule that declares the program, at the line of its comment FAULT. The exit code is 1 if fewer than 95 of 100 runs
are right.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pfs._process.findings.rules import RULES
from tests.python.run.test_findings import FAULTS, built, found_in, place_of

OF_PROGRAM = {name: rule.name for rule in RULES for name in rule.programs}
LEAST = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("names", nargs="*", default=sorted(FAULTS))
    options = parser.parse_args()
    right = 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="pfs-steady-") as folder:
            for name in options.names:
                command = built(FAULTS[name], Path(folder))
                expected = f"{OF_PROGRAM[name]} at {place_of(FAULTS[name])}"
                runs = [found_in(command, Path(folder) / f"run-{name}") for _ in range(options.runs)]
                firsts = Counter(f"{found[0]['name']} at {found[0]['place']}" if found else "nothing" for found in runs)
                right += firsts[expected]
                wrong = {first: count for first, count in firsts.items() if first != expected}
                print(f"{name}: {firsts[expected]} of {options.runs} are {expected}", wrong or "", flush=True)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    count = options.runs * len(options.names)
    print(f"right in {right} of {count} runs")
    sys.exit(right < LEAST * count)


if __name__ == "__main__":
    main()
