"""How steady is ``pfs_overhead(count="instructions")`` on a machine that others load?

    python lab/counted_overhead.py --runs 100 --jobs 2

A first session of pytest counts the instructions of a function, and its limit becomes 0.5 % more. Then each of many sessions
checks the same function, which must pass, and each tenth one also a function with one instruction in fifty more, which must
fail. Prints the load, how many passed, and the least and the greatest count.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TEST = """
import pytest
import pfs

LOCK = pfs.Lock("app/LOCK")

def work():
    with LOCK:
        for _ in range({rounds}):
            pass

@pytest.mark.pfs_budget(max_instructions={limit})
def test_price(pfs_overhead):
    result = pfs_overhead(work, count="instructions")
    print("COUNTED", result.on, result.counted_by)
"""
ROUNDS, MORE, SLACK = 200, 204, 1.005


def session(rounds: int, limit: float) -> tuple[int, float, str]:
    """Returns the exit code of a session, the instructions of a call, and who counted them."""
    with tempfile.TemporaryDirectory(prefix="pfs-counted-") as folder:
        Path(folder, "test_price.py").write_text(TEST.format(rounds=rounds, limit=limit))
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rP", "test_price.py"]
        done = subprocess.run(
            words, cwd=folder, env=os.environ | {"PFS_DIR": folder}, capture_output=True, text=True, check=False
        )
    found = re.search(r"COUNTED (\S+) (\S+)", done.stdout)
    if found is None:
        sys.exit(f"nothing was counted:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return done.returncode, float(found[1]), found[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    _, first, counted_by = session(ROUNDS, 1e9)
    limit = first * SLACK
    print(f"{first:,.1f} instructions, counted by {counted_by}; the limit is {limit:,.1f}", flush=True)
    rounds = [ROUNDS] * given.runs + [MORE] * (given.runs // 10)
    random.Random(1).shuffle(rounds)
    loads: list[float] = []
    counts: dict[int, list[float]] = {ROUNDS: [], MORE: []}
    codes: dict[int, list[int]] = {ROUNDS: [], MORE: []}
    with ThreadPoolExecutor(given.jobs) as pool:
        for number, (asked, (code, count, _)) in enumerate(
            zip(rounds, pool.map(lambda n: session(n, limit), rounds), strict=True), 1
        ):
            loads.append(os.getloadavg()[0])
            counts[asked].append(count)
            codes[asked].append(code)
            print(f"{number}: {asked} rounds, {count:,.1f}, exit code {code}, load {loads[-1]:.1f}", flush=True)
    for asked, what in ((ROUNDS, "the same"), (MORE, "1 in 50 more")):
        if counts[asked]:
            least, most = min(counts[asked]), max(counts[asked])
            passed = codes[asked].count(0)
            print(f"{what}: {passed} of {len(codes[asked])} passed, {least:,.1f} to {most:,.1f} ({most / least - 1:.4%} apart)")
    print(f"load: {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
