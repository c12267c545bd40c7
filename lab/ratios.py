"""What a probe costs, as ratios within one run: runs lab/cpp's probe_bench and holds its figures against the limits.

    python lab/ratios.py BUILD_FOLDER [--rounds 6] [--json FILE]

A round is one process. It runs every block (about a millisecond each) many times in random order, so that what is compared was measured in the
same seconds; the figure of a case is its fastest block, the one that nobody disturbed. Threads pin themselves: one alone to cpu 1, two to
cpu 0 and 1. A round is disturbed, and is repeated, if its floor (two timer reads around a bare lock) is more than 3 % off the best floor seen,
or one of the other WITNESSES more than 5 % off its best: what touches more memory suffers first. A second process of the round, which never
has a second thread, runs the cases `single`. The interval is a bootstrap over blocks: how much the ratio of two fastest blocks depends on
which blocks were drawn.

The limits are goals: a line that is missed stays, and is shown as missed. Exit code 1 if one is. Where they depend on the processor, OF_PROCESSOR
has those of each family; the others are those of AMD's family 25, where they were set.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # run as a script

from lab import processors

FLOOR = "lock/floor"
WITNESSES = {
    FLOOR: 1.03,
    "lock/timed": 1.05,
    "lock/all": 1.05,
    "fetch/all": 1.05,
    "scattered/bare": 1.05,
}  # how far off their best

# What stands between two events (lab/cpp/work_bench.cpp), and the events.
BETWEEN = {
    "lock": "in a loop of locks",
    "depend_100": "between 100 dependent multiplications",
    "depend_1500": "between 1,500 dependent multiplications",
    "among_16": "between reads of 16 KiB and 9 KiB of code",
    "among_64": "between reads of 64 KiB and 35 KiB of code",
}
EVENTS = {"counted": "counted", "contended": "CONTENDED", "timed": "timed", "all": "everything on"}

# (vendor, family) -> limit of a line of limits(); None: the line means nothing there.
OF_PROCESSOR: dict[tuple[str, int], dict[str, float | None]] = {
    # Nothing younger than a reading begins before it has retired: what follows it costs its full length, and the floor
    # alone is 68 cycles over a bare lock.
    ("Intel", 6): {
        "timed, by_instance, by_thread, current, both histories": 1.11,
        "everything on, in cycles": None,
        "copy of a row of 256 bytes, timed": 1.8,
        "spin lock as a lock on a table, timed": 1.45,
        "spin lock as a metadata lock, timed": 1.45,
        "pread of 120 bytes, all on, one thread": 55,
        "pread of 120 bytes, all on, two threads, each its file": 55,
        "statement with a text of 200 bytes that was seen before": 250,
    }
}

Blocks = dict[str, list[float]]  # case -> ns per operation of each block


@dataclass(frozen=True)
class Round:
    """One process: all its blocks were measured side by side."""

    blocks: Blocks
    context: dict[str, object]

    def best(self, case: str) -> float:
        return min(self.blocks[case])

    @property
    def unrest(self) -> float:
        """The median block of the floor over its fastest one. The ratios are of one process: between rounds the clock may change."""
        return self.median(FLOOR) / self.best(FLOOR)

    def median(self, case: str) -> float:
        return statistics.median(self.blocks[case])

    def ratio(self, case: str, base: str) -> float:
        return self.best(case) / self.best(base)

    def interval(self, statistic: Callable[[Blocks], float], *cases: str, draws: int = 400) -> tuple[float, float]:
        """95 % of a bootstrap over blocks."""
        source = random.Random(1)
        drawn = sorted(
            statistic({case: source.choices(self.blocks[case], k=len(self.blocks[case])) for case in cases}) for _ in range(draws)
        )
        return drawn[int(0.025 * draws)], drawn[int(0.975 * draws) - 1]


@dataclass(frozen=True)
class Result:
    chosen: Round  # of the good ones
    good: list[Round]
    attempts: int
    is_quiet: bool = True  # else no round was good: `chosen` is the least disturbed of all

    @property
    def repeated(self) -> int:
        return self.attempts - len(self.good)


@dataclass(frozen=True)
class Limit:
    """One goal."""

    text: str
    value: float
    interval: tuple[float, float]
    limit: float
    unit: str
    rounds: tuple[float, float]  # lowest and highest of all good rounds
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        low, high = self.interval
        verdict = "met" if self.met else "MISSED"
        return f"{verdict:7}{self.text:62}{self.value:7.3f} [{low:.3f}, {high:.3f}]  {sign} {self.limit:g} {self.unit}; rounds {self.rounds[0]:.3f} to {self.rounds[1]:.3f}"


def quotient(case: str, base: str) -> Callable[[Blocks], float]:
    return lambda blocks: min(blocks[case]) / min(blocks[base])


def difference(case: str, base: str, factor: float = 1.0) -> Callable[[Blocks], float]:
    return lambda blocks: factor * (min(blocks[case]) - min(blocks[base]))


def scaling(family: str) -> Callable[[Blocks], float]:
    """How much more two threads do than one: of the recording program, as a part of the bare one's."""

    def statistic(blocks: Blocks) -> float:
        best = {
            f"{variant}/{threads}": min(blocks[f"{family}/{variant}/{threads}"])
            for variant in ("all", "bare")
            for threads in ("1T", "2T")
        }
        return (best["all/1T"] / best["all/2T"]) / (best["bare/1T"] / best["bare/2T"])

    return statistic


def limits(result: Result, processor: processors.Processor | None = None) -> list[Limit]:
    """Returns the goals of this processor, or of the one given: of waits, then of each family of events, then of statements and memory."""
    processor = processor or processors.this()
    own = OF_PROCESSOR.get((processor.vendor, processor.family), {})
    found = [(one, own.get(one.text, one.limit)) for one in _limits(result)]
    return [replace(one, limit=limit) for one, limit in found if limit is not None]


def _limits(result: Result) -> list[Limit]:
    run = result.chosen
    per_ns = float(str(run.context["cycles_per_ns"]))
    same_file = tuple(f"pread_same/{variant}/{threads}" for variant in ("all", "bare") for threads in ("1T", "2T"))

    def check(
        text: str, statistic: Callable[[Blocks], float], cases: tuple[str, ...], limit: float, unit: str, at_least: bool = False
    ) -> Limit:
        values = [statistic(one.blocks) for one in result.good]
        interval = run.interval(statistic, *cases)
        return Limit(text, statistic(run.blocks), interval, limit, unit, (min(values), max(values)), at_least)

    def times(text: str, case: str, base: str, limit: float, unit: str, at_least: bool = False) -> Limit:
        return check(text, quotient(case, base), (case, base), limit, unit, at_least)

    def more(text: str, case: str, base: str, limit: float, factor: float = 1.0) -> Limit:
        return check(text, difference(case, base, factor), (case, base), limit, "ns over bare")

    return [
        times("disabled", "lock/disabled", "lock/bare", 1.05, "x bare"),
        times("timed, by_instance, by_thread, current, both histories", "lock/all", FLOOR, 1.08, "x floor"),
        times("the same, and traced", "lock/traced", FLOOR, 1.15, "x floor"),
        check(
            "everything on, in cycles",
            difference("lock/all", "lock/bare", per_ns),
            ("lock/all", "lock/bare"),
            60,
            "TSC cycles over bare",
        ),
        more("counted, not timed, aggregates only", "lock/counted", "lock/bare", 3),
        more("TIMED = CONTENDED, a lock that is free", "lock/contended", "lock/bare", 4),
        # Nanoseconds per operation of all threads together: one thread's over two threads' is how much more two do.
        times("two threads, own mutexes, all on: throughput", "own/all/1T", "own/all/2T", 1.95, "x one thread", at_least=True),
        times("16,384 scattered mutexes, all on", "scattered/all", FLOOR, 1.4, "x floor (one mutex)"),
        times("a process of one thread, everything on", "single/all", "single/floor", 1.3, "x floor"),
        check(
            "two threads, the same file, all on: what two do more than one",
            scaling("pread_same"),
            same_file,
            0.9,
            "x the bare program's",
            at_least=True,
        ),
        more("pread of 120 bytes, all on, one thread", "pread/all/1T", "pread/bare/1T", 30),
        # Twice: what one of the two threads waits longer for its call.
        more("pread of 120 bytes, all on, two threads, each its file", "pread/all/2T", "pread/bare/2T", 30, factor=2),
        # One line a family.
        times("read lock, timed", "rdlock/timed", "rdlock/floor", 1.25, "x floor"),
        times("write lock, timed", "wrlock/timed", "wrlock/floor", 1.25, "x floor"),
        times("wait for a condition, everything on", "cond/all", "cond/floor", 1.25, "x floor"),
        times("copy of a row of 256 bytes, timed", "fetch/timed", "fetch/floor", 1.25, "x floor"),
        times("spin lock as a lock on a table, timed", "table_lock/timed", "table_lock/floor", 1.25, "x floor"),
        times("spin lock as a metadata lock, timed", "metadata/timed", "metadata/floor", 1.25, "x floor"),
        times("poll of nothing as idle time, everything on", "idle/all", "idle/floor", 1.25, "x floor"),
        times("send and recv of 64 bytes on a socketpair, all on", "socket/all", "socket/floor", 1.25, "x floor"),
        # Statements, stages, transactions, memory.
        times("change of stage, everything on", "stage/all", "nested/floor", 1.3, "x floor"),
        more("statement with a text of 200 bytes that was seen before", "statement/all", "nested/floor", 200),
        more("pfs_malloc and pfs_free of 64 bytes, controlled", "memory_64/counted", "memory_64/bare", 10),
    ]


def in_a_program(result: Result) -> dict[str, tuple[float, tuple[float, float]]]:
    """What an event costs between other work, in nanoseconds over the bare lock, with its interval."""
    run = result.chosen
    found = {}
    for family, work in BETWEEN.items():
        for variant, event in EVENTS.items():
            case, bare = f"{family}/{variant}", f"{family}/bare"
            found[f"{event} {work}"] = (run.best(case) - run.best(bare), run.interval(difference(case, bare), case, bare))
    return found


def run_once(program: Path, repetitions: int, only: str = ".", *arguments: str) -> Round:
    """One process; `arguments` come before those of the benchmark library. It asks for the processor before others (nice -20) where it may; it stops nobody."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env["PFS_DIR"] = os.environ.get("PFS_DIR", "/dev/shm")
        command = [
            *(["nice", "-n", "-20"] if os.geteuid() == 0 else []),
            str(program),
            *arguments,
            f"--benchmark_filter={only}",
            f"--benchmark_repetitions={repetitions}",
            "--benchmark_enable_random_interleaving=true",
            f"--benchmark_out={out}",
            "--benchmark_out_format=json",
        ]
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} failed ({done.returncode}):\n{done.stderr}")
        report = json.loads(out.read_text())
    blocks: Blocks = {}
    for block in report["benchmarks"]:
        if block["run_type"] != "iteration":
            continue
        if block.get("error_occurred"):
            raise SystemExit(f"{block['name']}: {block['error_message']}")
        blocks.setdefault(block["run_name"].split("/iterations:")[0], []).append(block["real_time"])
    return Round(blocks, report["context"])


def measure(program: Path, rounds: int = 6, repetitions: int = 40, say: Callable[[str], None] = print) -> Result:
    """As many good rounds as asked for, and the least disturbed of them. On a machine whose clock keeps changing none may be good."""
    good: list[Round] = []
    seen: list[Round] = []
    best_seen = dict.fromkeys(WITNESSES, float("inf"))

    def disturbed(one: Round) -> str:
        """The witness that is too far off, or nothing."""
        return next((case for case, most in WITNESSES.items() if one.best(case) > most * best_seen[case]), "")

    while len(seen) < 3 * rounds and len(good) < rounds:
        both = [run_once(program, repetitions), run_once(program, repetitions, ".", "--single-threaded")]
        run = Round(both[0].blocks | both[1].blocks, both[0].context)
        best_seen = {case: min(best, run.best(case)) for case, best in best_seen.items()}
        case = disturbed(run)
        seen.append(run)
        say(
            f"round {len(seen)}: floor {run.best(FLOOR):.2f} ns (median block {run.unrest:.3f} x), all on {run.best('lock/all'):.2f} ns"
            + (
                f": {case} is {100 * (run.best(case) / best_seen[case] - 1):.1f} % off its best, disturbed, repeated"
                if case
                else ""
            )
        )
        good = [one for one in [*good, run] if not disturbed(one)]
    is_quiet = bool(good)
    if not is_quiet:
        good = [min(seen, key=lambda one: one.unrest)]
    # A whole round, so that every ratio stays within one process: the one whose cases are nearest to the best of all rounds, on average.
    best = {
        case: min(one.best(case) for one in good)
        for case in good[0].blocks
        if not case.startswith(("same/", "rdlock_same/", "pread_same/"))
    }
    chosen = min(good, key=lambda one: sum(one.best(case) / best[case] for case in best))
    return Result(chosen, good, len(seen), is_quiet)


def references(run: Round, case: str) -> tuple[str, str]:
    """The cases that this one is a multiple of: bare and floor of its family and number of threads, else those of lock."""
    family, _, variant = case.partition("/")
    threads = variant[-3:] if variant[-3:] in ("/1T", "/2T") else ""
    base = f"{family}/bare{threads}"
    floor = f"{family}/floor{threads}"
    # Scattered mutexes are held against the floor over one mutex, as the research note does.
    return (base if base in run.blocks else "lock/bare"), (floor if floor in run.blocks and family != "scattered" else FLOOR)


def table(run: Round) -> str:
    lines = [f"{'case':18}{'ns':>8}{'median':>8}{'x bare':>8}{'x floor':>9}  95 % of x floor"]
    for case in run.blocks:
        base, floor = references(run, case)
        low, high = run.interval(quotient(case, floor), case, floor)
        lines.append(
            f"{case:18}{run.best(case):8.2f}{run.median(case):8.2f}{run.ratio(case, base):8.3f}{run.ratio(case, floor):9.3f}"
            f"  [{low:.3f}, {high:.3f}]"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("build", type=Path, help="folder of a Release build with PFS_LAB=ON")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repetitions", type=int, default=40, help="blocks per case and round")
    parser.add_argument("--json", type=Path, help="where to keep the blocks")
    given = parser.parse_args()
    result = measure(given.build / "lab" / "cpp" / "probe_bench", given.rounds, given.repetitions)
    run = result.chosen
    if given.json:
        given.json.write_text(json.dumps({"blocks": run.blocks, "context": run.context}))
    print(
        f"\nfastest and median of {len(run.blocks[FLOOR])} interleaved blocks; 2T: ns per operation of both threads together\n{table(run)}\n"
    )
    for text, (value, (low, high)) in in_a_program(result).items():
        print(f"{text:62}{value:9.2f} [{low:.2f}, {high:.2f}] ns over bare")
    checked = limits(result)
    print("\n".join(map(str, checked)))
    return 0 if all(one.met for one in checked) else 1


if __name__ == "__main__":
    sys.exit(main())
