"""Every family of probes in every mode: runs `probe_bench --matrix` and makes its tables.

    python lab/matrix.py BUILD_FOLDER [--rounds 3] [--repetitions 40] [--only REGEX] [--json FILE]

Modes: compiled out (PFS_DISABLE), disabled, counted, timed, then one consumer after the other (current, history, history_long), then traced; statements also
with their digest and with the clock of the CPU. Threads: one, two with an object each, two with the same. As in ratios.py a round is a process that runs all
blocks in random order, a figure is the fastest block, the interval is a bootstrap over blocks. Of two threads it is the median block: how they take turns decides,
and now and then a block in which they do not meet looks as if they shared nothing. Each block checks that it made exactly as many events as operations. About four minutes.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from lab import ratios  # noqa: E402

# In the order of the page.
FAMILIES = {
    "lock": "mutex: lock, unlock",
    "trylock": "mutex: try to lock",
    "rdlock": "rwlock: read lock",
    "wrlock": "rwlock: write lock",
    "cond": "condition: a deadline that has passed",
    "pread": "file: pread of 120 bytes",
    "pwrite": "file: pwrite of 120 bytes",
    "send": "socket: send of 64 bytes (and a plain recv)",
    "table_io": "table: a row of 256 bytes is copied",
    "table_lock": "table: a free spin lock",
    "metadata": "metadata: a free spin lock",
    "idle": "idle: poll of nothing",
    "stage": "stage: from one to the next",
    "statement": "statement: begin, text of 200 bytes, end",
    "transaction": "transaction: begin, end",
    "memory": "memory: malloc and free of 64 bytes",
}
MODES = {
    "out": "compiled out",
    "disabled": "disabled",
    "counted": "counted",
    "timed": "+ timed",
    "current": "+ current",
    "history": "+ history",
    "all": "+ history_long",
    "digest": "+ digest",
    "cpu": "+ CPU clock",
    "traced": "traced",
}
THREADS = {"1T": "One thread", "own": "Two threads, an object each", "same": "Two threads, the same object"}
DRAWS = 300


@dataclass(frozen=True)
class Value:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    nanoseconds: float  # per operation; of two threads: of both together
    median: float
    over_bare: Value
    x_floor: Value | None  # None: no timer is involved


Matrix = dict[tuple[str, str, str], Cell]  # family, mode, threads


def _figure(threads: str) -> Callable[[list[float]], float]:
    return min if threads == "1T" else statistics.median


def cells(run: ratios.Round) -> Matrix:
    """Bare and floor of a family and its threads are cells as well."""
    found: Matrix = {}
    for case in run.blocks:
        family, mode, threads = case.split("/")
        figure, bare, floor = _figure(threads), f"{family}/bare/{threads}", f"{family}/floor/{threads}"
        source = random.Random(1)

        def drawn(case: str, source: random.Random = source, figure: Callable[[list[float]], float] = figure) -> list[float]:
            blocks = run.blocks[case]
            return [figure(source.choices(blocks, k=len(blocks))) for _ in range(DRAWS)]

        here, beside = drawn(case), drawn(bare)
        over = _value(figure(run.blocks[case]) - figure(run.blocks[bare]), [a - b for a, b in zip(here, beside, strict=True)])
        times = None
        if floor in run.blocks:
            times = _value(
                figure(run.blocks[case]) / figure(run.blocks[floor]), [a / b for a, b in zip(here, drawn(floor), strict=True)]
            )
        found[family, mode, threads] = Cell(figure(run.blocks[case]), run.median(case), over, times)
    return found


def _value(value: float, drawn: list[float]) -> Value:
    drawn.sort()
    return Value(value, drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1])


def measure(
    program: Path, rounds: int = 3, repetitions: int = 40, only: str = ".", say: Callable[[str], None] = print
) -> ratios.Round:
    """The least disturbed of so many processes: the one whose cases are nearest to the best of all, on average."""
    done = []
    for number in range(rounds):
        done.append(ratios.run_once(program, repetitions, only, "--matrix"))
        say(f"matrix, round {number + 1} of {rounds}: {len(done[-1].blocks)} cases")
    steady = [case for case in done[0].blocks if case.endswith("/1T")] or list(done[0].blocks)
    best = {case: min(one.best(case) for one in done) for case in steady}
    return min(done, key=lambda one: sum(one.best(case) / best[case] for case in steady))


def _table(
    found: Matrix, threads: str, title: str, cell: Callable[[Cell], str], modes: list[str], bases: dict[str, str]
) -> list[str]:
    """A row for each family: the nanoseconds of its `bases`, then the modes."""
    families = [family for family in FAMILIES if any((family, mode, threads) in found for mode in MODES)]
    lines = ["", title, "", "| | " + " | ".join([*bases.values(), *(MODES[mode] for mode in modes)]) + " |"]
    lines.append("| --- |" + " --: |" * (len(bases) + len(modes)))
    for family in families:
        row = [f"{found[key].nanoseconds:,.1f}" if (key := (family, base, threads)) in found else "" for base in bases]
        row += [cell(found[key]) if (key := (family, mode, threads)) in found else "" for mode in modes]
        lines.append(f"| {FAMILIES[family]} | {' | '.join(row)} |")
    return lines


def _over_bare(cell: Cell) -> str:
    """The nanoseconds over the plain call, with the larger half of the 95 % interval."""
    over = cell.over_bare
    half = max(over.value - over.low, over.high - over.value)
    return f"{over.value:.1f} ±{half:.1f}" if half >= 0.05 else f"{over.value:.1f}"


def page(found: Matrix) -> list[str]:
    """For lab/pages/performance.md: nanoseconds over the plain call with their intervals; of one thread also in floors."""
    lines: list[str] = []
    for threads, name in THREADS.items():
        if not any(key[2] == threads for key in found):
            continue
        lines += ["", f"### {name}"]
        bases = {"bare": "bare, ns", "floor": "floor, ns"}
        lines += _table(
            found, threads, "Nanoseconds over the plain call, with the 95 % interval:", _over_bare, list(MODES), bases
        )
        if threads == "1T":
            timed = [mode for mode in MODES if mode not in ("out", "disabled")]
            lines += _table(
                found, threads, "Times the floor:", lambda cell: f"{cell.x_floor.value:.2f}" if cell.x_floor else "", timed, {}
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("build", type=Path, help="folder of a Release build with PFS_LAB=ON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=40, help="blocks per case and round")
    parser.add_argument(
        "--only", default=".", help="regular expression on family/mode/threads; bare and floor of a family are needed with it"
    )
    parser.add_argument("--json", type=Path, help="where to keep the blocks")
    given = parser.parse_args()
    run = measure(given.build / "lab" / "cpp" / "probe_bench", given.rounds, given.repetitions, given.only)
    if given.json:
        given.json.write_text(json.dumps({"blocks": run.blocks, "context": run.context}))
    print("\n".join(page(cells(run))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
