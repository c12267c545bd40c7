"""Compares samples with exact sums on 20 workloads, and prints what a sample costs.

    python lab/samples.py [--seconds 10] [--hz 20]        # as root: without SCHED_FIFO the sampler is late

A share is of the time of all threads. A wait is "out" if its exact share is not in the 95 % interval of its samples: one of
twenty is, by chance.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pfs import _core
from tests.python.facts.test_samples_exact import LEAST, measured
from tests.python.run.test_run import PFS
from tests.python.run.test_run_calls import compiled

# Modes of tests/programs/unchanged/sampled.c, and threads.
WORKLOADS = [
    *[("lock", 4), ("lock", 16), ("two_locks", 4), ("two_locks", 12), ("short", 2), ("short", 8), ("timer", 2), ("timer", 4)],
    *[("rwlock", 4), ("rwlock", 12), ("queue", 4), ("queue", 10), ("sem", 3), ("sem", 8), ("sync", 1), ("sync", 4)],
    *[("poll", 6), ("busy", 50), ("pipe", 2), ("mixed", 6)],
]
PRICES = [("busy", 100), ("wait", 100), ("busy", 500), ("wait", 500), ("busy", 2000), ("wait", 2000)]


def price(program: Path, mode: str, folder: Path, threads: int) -> tuple[float, int]:
    """Returns milliseconds of processor time a sample, and samples."""
    folder.mkdir(mode=0o700)
    command: list[str | Path] = [*PFS, "run", "--no-report", "--", program, mode, "60", str(threads)]
    with subprocess.Popen(command, env=os.environ | {"PFS_DIR": str(folder)}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        time.sleep(2)  # until all threads are there
        [segment] = folder.glob(f"**/{pid}.pfs")
        sampling = _core.Sampling(_core.Segment(str(segment)), 20)
        sampling.run(1)  # opens files of /proc
        samples, spent = sampling.samples, sampling.processor_time
        for _ in range(3):
            sampling.run(1)
        os.kill(pid, 9)
    return (sampling.processor_time - spent) / 1e6 / (sampling.samples - samples), sampling.samples - samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--hz", type=float, default=20)
    options = parser.parse_args()
    waits = out = 0
    with tempfile.TemporaryDirectory(prefix="pfs-samples-") as name:
        folder = Path(name)
        program = compiled(folder, "sampled")
        print("| workload | wait | exact | sampled | 95 % interval | |\n| --- | --- | --: | --: | --- | --- |")
        for mode, threads in WORKLOADS:
            found = measured(program, mode, folder / f"{mode}-{threads}", seconds=options.seconds, hz=options.hz, threads=threads)
            covered = found.samples["WEIGHT"].sum() / found.sampled_time  # a late sampler has no samples for some of the time
            seen = found.samples.groupby("EVENT_NAME")["WEIGHT"].sum() / found.sampled_time / covered
            for event, share in found.shares[found.shares > LEAST].sort_values(ascending=False).items():
                low, high = (bound / covered for bound in found.interval(str(event), 95))
                is_in = low <= share <= high
                waits, out = waits + 1, out + (not is_in)
                print(
                    f"| {mode}, {threads} threads | {event} | {share:.2%} | {seen.get(str(event), 0):.2%} "
                    f"| {max(low, 0):.2%} to {high:.2%} | {'' if is_in else 'out'} |",
                    flush=True,
                )
        print(f"\n{waits} waits, {out} out; the sampler ran as {found.scheduling}")
        print("\n| threads | ms a sample | samples |\n| --- | --: | --: |")
        for mode, threads in PRICES:
            spent, samples = price(program, mode, folder / f"price-{mode}-{threads}", threads)
            print(f"| {threads} {mode} | {spent:.3f} | {samples} |", flush=True)


if __name__ == "__main__":
    main()
