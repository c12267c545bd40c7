"""Samples four processes of 50 threads for an hour, and says whether the sampler grew and how often it came late.

    python lab/record_hour.py [--minutes 60] [--hz 20]        # as root: without SCHED_FIFO the sampler is late

A gap is a time without a sample of more than two periods; it must be said by LATENESS of the sample at its end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pfs
from tests.python.run.test_run import PFS
from tests.python.run.test_run_calls import compiled

MODES = ["mixed", "queue", "poll", "lock"]  # of tests/programs/unchanged/sampled.c
THREADS = 50


def memory(pid: int) -> float:
    """Returns MiB of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--hz", type=float, default=20)
    options = parser.parse_args()
    seconds, period = options.minutes * 60, 1e12 / options.hz
    with tempfile.TemporaryDirectory(prefix="pfs-hour-") as name:
        folder = Path(name)
        program, kept = compiled(folder, "sampled"), folder / "hour.ash"
        environment = os.environ | {"PFS_DIR": str(folder)}
        run = [*PFS, "run", "--no-report", "--", str(program)]
        targets = [
            subprocess.Popen(
                [*run, mode, str(round(seconds) + 120), str(THREADS)], env=environment, stdout=subprocess.PIPE, text=True
            )
            for mode in MODES
        ]
        pids = [target.stdout.readline().strip() for target in targets if target.stdout]
        time.sleep(2)  # until all threads are there
        record = [*PFS, "record", "--all", "--hz", str(options.hz), "--for", f"{round(seconds)}s", "-o", str(kept)]
        sampler = subprocess.Popen(record, env=environment, stdout=subprocess.DEVNULL)
        print("| minute | MiB |\n| --: | --: |", flush=True)
        for minute in itertools.count():
            try:
                sampler.wait(60)
                break
            except subprocess.TimeoutExpired:
                print(f"| {minute + 1} | {memory(sampler.pid):.0f} |", flush=True)
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        for target in targets:
            target.wait()
        samples = pfs.samples(str(kept), exact=False)
        size = sum(file.stat().st_size for file in kept.rglob("*") if file.is_file()) / 2**20
        print(f"\nThe sampler ended with {sampler.returncode}: {len(samples):,} rows, {size:.0f} MiB")
        print("\n| process | samples | median period, ms | gaps | longest, ms | said by LATENESS |\n|" + " --: |" * 6)
        for pid, rows in samples.groupby("PID"):
            each = rows.groupby("SAMPLE_TIME")["LATENESS"].max()
            apart = np.diff(each.index.to_numpy(dtype="datetime64[ns]").astype("int64")) * 1000
            gaps = apart > 2 * period
            said = int((each.to_numpy()[1:][gaps] > period / 2).sum())
            print(f"| {pid} | {len(each):,} | {np.median(apart) / 1e9:.1f} | {gaps.sum()} | {apart.max() / 1e9:.0f} | {said} |")


if __name__ == "__main__":
    main()
