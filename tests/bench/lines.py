"""Lines of 64 bytes and pages that one operation touches: what it costs a program whose caches are full of other things.

An operation in a loop finds everything in the first cache, so neither its time nor its instructions show them. valgrind's
lackey tells each access of the last operations of a run.

python -m tests.bench.lines            shows them beside the baseline
python -m tests.bench.lines --write    makes them the baseline (tests/bench/baseline_lines.json)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import instructions

BASELINE = Path(__file__).resolve().parent / "baseline_lines.json"
# Operations before the one that is looked at: no new minimum, no first use, and not the last record of a chunk.
OPERATIONS = 300
LAST = (
    3  # one in some hundred has a new minimum or maximum all the same: of the last operations, the one that touches least counts
)
ABOVE_STACK = 16384  # bytes of the environment and the arguments
CASES = {
    name: instructions.CASES[name]
    for name in (
        *("lock/disabled", "lock/contended", "lock/all", "pread/all", "socket/all", "row/all", "tablelock/all", "metadata/all"),
        *("statement/all", "block/counted"),
    )
}
WHAT = ("code", "data", "pages")
# What a case may grow by, because the places of objects and functions differ from build to build: two, or 3 %.
MORE, GATE = 2, 1.03

Counts = dict[str, int]


def build(folder: Path, lines: int = 0) -> Path:
    flags = ["-DPFS_BENCH_MARK", f"-DPFS_BENCH_LINES={lines}", "-no-pie"]
    return instructions.compile_c("driver.c", folder / f"driver-lines-{lines}", *flags)


def _mark_of(program: Path) -> int:
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^([0-9a-f]+) T pfs_bench_mark$", symbols, re.MULTILINE)
    assert found is not None
    return int(found[1], 16)


def _touched(program: Path, case: instructions.Case) -> Counts:
    """Counts the lines and pages of an operation at the end of a run."""
    mark = _mark_of(program)
    with tempfile.TemporaryDirectory() as folder:
        options = ",".join(filter(None, [instructions._SMALL, case.options]))
        env = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
        env.update(PFS_OPTIONS=options, PFS_DIR=folder)
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=1", str(program), case.operation, str(OPERATIONS)]
        # The stack begins at the same place whatever the environment and the paths are: else an operation touches a line more.
        bytes_above = sum(len(name) + len(value) for name, value in env.items()) + sum(map(len, command[4:])) + len(command[4])
        env["PADDING"] = "x" * (ABOVE_STACK - bytes_above)
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            touched: list[tuple[set[int], set[int]]] = []  # code and data of the last operations
            marks = 0
            start = b"I  %08x," % mark
            for line in running.stdout:
                if line.startswith(start):
                    marks += 1
                    if marks == OPERATIONS:
                        break
                    if marks >= OPERATIONS - LAST:
                        touched.append((set(), set()))
                    continue
                is_code = line.startswith(b"I ")
                if not touched or not (is_code or re.match(rb" [LSM] ", line)):
                    continue
                address, _, size = line[3:].partition(b",")
                first = int(address, 16)
                touched[-1][not is_code].update(range(first >> 6, ((first + int(size) - 1) >> 6) + 1))
            for _ in running.stdout:
                pass
            said = running.stderr.read().decode() if running.stderr is not None else ""
    if running.returncode != 0 or marks != OPERATIONS:
        raise RuntimeError(f"{' '.join(command)} ended with {running.returncode} after {marks} operations:\n{said}")
    code, data = min(touched, key=lambda lines: len(lines[0]) + len(lines[1]))
    return {"code": len(code), "data": len(data), "pages": len({line >> 6 for line in code | data})}


def measure(program: Path, names: list[str] | None = None) -> dict[str, Counts]:
    chosen = list(CASES) if names is None else names
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(chosen, pool.map(lambda name: _touched(program, CASES[name]), chosen), strict=True))


def baseline() -> dict[str, Counts]:
    return dict(json.loads(BASELINE.read_text())["touched_by_an_operation"])


def _ceiling(before: int) -> int:
    return max(before + MORE, int(GATE * before))


def regressions(measured: dict[str, Counts]) -> list[str]:
    """Cases above the gate, one line each; empty if all hold."""
    known = baseline()
    return [
        f"{name}: {now[what]} of {what}, baseline {known[name][what]} (it may be {_ceiling(known[name][what])})"
        for name, now in measured.items()
        for what in WHAT
        if now[what] > _ceiling(known[name][what])
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="make this the baseline")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(build(Path(folder)))
    if given.write:
        found = {"compiler": instructions.compiler(), "touched_by_an_operation": measured}
        BASELINE.write_text(json.dumps(found, indent=2) + "\n")
    known = baseline()
    print(f"{'':16}" + "".join(f"{what:>8}{'before':>8}" for what in WHAT))
    for name, now in measured.items():
        print(f"{name:16}" + "".join(f"{now[what]:8}{known.get(name, now)[what]:8}" for what in WHAT))
    missed = regressions({name: now for name, now in measured.items() if name in known})
    print("\n".join(missed), end="\n" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
