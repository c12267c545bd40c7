"""Attacks pfs in more tries than the gate has time for: hostile bytes, kills, random programs, load.

    python lab/attack.py [--times 1] [--seed N] [--long 10] [--list] [NAME ...]

Each row below is a test, or several, whose chance has a seed. A round is one run of them with a seed of its own and `--long`
times the tries of the gate (tests/budgets.py). `--times 10`: rounds follow until a row has ten times the tries that it had when
pfs was first attacked. A test ends at its first failure, so failures are rounds that failed. What they said is printed, with the
seed that repeats it. A row ends at its third failure.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Done:
    tries: int
    fault: str = ""  # what was said, if the round has failed


@dataclass(frozen=True)
class Row:
    """`first`: tries when pfs was first attacked. `each`: of a round of the gate's length, if the tests do not say their number.
    `said`: how they say it; all numbers are added up."""

    first: int
    tests: tuple[str, ...]
    each: int = 0
    said: str = ""
    run: Callable[[Row, int, float], Done] | None = None


def tested(row: Row, seed: int, long: float) -> Done:
    """One round of pytest."""
    env = {**os.environ, "PFS_TEST_SEED": str(seed), "PFS_TEST_LONG": str(long)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *row.tests]
    done = subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if re.search(r"\b(no tests ran|[1-9]\d* skipped)", text) and not re.search(r"\b[1-9]\d* (passed|failed)", text):
        sys.exit(f"{' '.join(row.tests)}: nothing ran here\n{text[-2000:]}")
    tries = sum(map(int, re.findall(row.said, text))) if row.said else round(row.each * long)
    return Done(tries, text if done.returncode else "")


def churned(row: Row, seed: int, long: float) -> Done:
    """Files, connections, threads and locks that come and go: no memory may grow behind the first tenth."""
    with tempfile.TemporaryDirectory() as work:
        program, segments = Path(work, "churn"), Path(work, "segments")
        segments.mkdir(mode=0o700)
        subprocess.run(["cc", "-O1", "-o", program, TREE / "lab/churn.c", "-lpthread"], check=True)
        rounds = str(max(10, round(40 * long)))
        env = {**os.environ, "PFS_DIR": str(segments)}
        command = [sys.executable, "-m", "pfs", "run", "--no-report", "--", str(program), rounds]
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    sizes = [tuple(map(int, pair)) for pair in re.findall(r"resident (\d+) KiB, segment (\d+) KiB", done.stdout)]
    grows = len(sizes) != 10 or any(last > first * 1.05 for first, last in zip(sizes[1], sizes[-1], strict=True))
    return Done(1, done.stdout + done.stderr if done.returncode or grows else "")


_OUTSIDE, _FILES, _SERVE, _RUN = "tests/python/outside", "tests/python/files", "tests/python/serve", "tests/python/run"
# The cheapest first.
ROWS = {
    "programs that are made to cost their reader much": Row(3, (f"{_RUN}/test_hostile_elf.py",), each=60),
    "hostile bytes to libpq and libmysqlclient": Row(
        1749, (f"{_RUN}/test_run_clients_hostile.py::test_any_answer_of_a_server_has_the_same_effect",), each=30
    ),
    "kills at any moment": Row(180, (f"{_OUTSIDE}/test_post_mortem.py::test_killed_at_any_moment",), said=r"'kills': (\d+)"),
    "damaged zips and cuts": Row(406, (f"{_FILES}/test_hostile_archives.py::test_every_mutant_is_read_or_refused",), each=200),
    "damaged folders of a snapshot": Row(
        406, (f"{_FILES}/test_hostile_parquet.py::test_every_mutant_is_read_or_refused",), each=200
    ),
    "scrapes of metrics": Row(602, ("tests/python/exports/test_metrics_readings.py",), each=1000),
    "packets to `pfs serve`": Row(9890, (f"{_SERVE}/test_serve_hostile.py",), each=12_000),
    "random programs under pfs run": Row(96, (f"{_RUN}/test_run_matrix.py",), each=8),
    "load from outside": Row(1, (f"{_OUTSIDE}/test_outside_load.py", f"{_OUTSIDE}/test_load.py"), each=1),
    "outsiders on a damaged segment": Row(3120, (f"{_OUTSIDE}/test_remote_hostile.py",), said=r"seed \d+: (\d+) mutants, by"),
    "random programs, with pfs and without": Row(
        1550, ("tests/lifecycle/test_lifecycle.py::test_programs_do_not_notice",), said=r"(?m)^(\d+) programs$"
    ),
    "files, connections, threads and locks that come and go": Row(1, (), run=churned),
    "damaged segments in every reader": Row(
        3120, ("tests/python/commands/test_commands_hostile.py::test_no_damage_harms_a_reader",), said=r"seed \d+: (\d+) mutants"
    ),
}


def attack(name: str, row: Row, wanted: int, chance: random.Random, long: float) -> int:
    """Runs rounds until the row has its tries, prints what it has seen, and returns how many rounds have failed."""
    tries = rounds = failures = 0
    begin = time.monotonic()
    while tries < wanted:
        seed = chance.randrange(1 << 30)
        done = (row.run or tested)(row, seed, long)
        rounds += 1
        tries += done.tries
        if done.fault:
            failures += 1
            print(f"---- {name}: failed with PFS_TEST_SEED={seed} PFS_TEST_LONG={long:g}\n{done.fault[-6000:]}\n----", flush=True)
        if done.fault and failures >= 3:
            break
    took = time.monotonic() - begin
    print(f"| {name} | {tries:,} | {rounds} | {failures} | {took:.0f} s |", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose names contain one of these; all if none is given")
    parser.add_argument("--times", type=float, default=1, help="tries as a multiple of those of the first attack")
    parser.add_argument("--seed", type=int, help="of the seeds of all rounds; a new one if it is not given")
    parser.add_argument("--long", type=float, default=10, help="length of a round, as a multiple of the gate's")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    given = parser.parse_args()
    rows = {name: row for name, row in ROWS.items() if not given.names or any(word in name for word in given.names)}
    if not rows:
        parser.error(f"no row contains {' or '.join(given.names)}")
    seed = random.randrange(1 << 30) if given.seed is None else given.seed
    print(f"--seed {seed} --times {given.times:g} --long {given.long:g}\n")
    print("| row | tries | rounds | failures | time |\n| --- | --- | --- | --- | --- |")
    failures = 0
    for name, row in rows.items():
        wanted = round(row.first * given.times)
        if given.list:
            print(f"| {name} | {wanted:,} | | | |")
        else:
            failures += attack(name, row, wanted, random.Random(f"{seed} {name}"), given.long)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
