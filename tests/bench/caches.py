"""Misses of simulated caches by events of a program that has data of its own: sqlite3 that reads 100 rows in order.

An operation in a loop finds its record in the cache. In a program, a record lies where one was written a whole pool ago.
valgrind's cachegrind simulates caches of 32 KiB and a last one of 1 MiB; the same program without pfs is taken off.

python -m tests.bench.caches            shows them beside the baseline
python -m tests.bench.caches --write    makes them the baseline (tests/bench/baseline_caches.json)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pfs
from tests.bench import instructions

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline_caches.json"
SHIM = HERE.parents[1] / "lab/real/sqlite_shim"  # the sdist has none
SOURCES = [str(SHIM / name) for name in ("files.c", "mutexes.c", "shim.c")]
DATABASE_ROWS = 5_000
# The first operations fill the pool of records.
FIRST, SECOND = 300, 1_300
LINE_BYTES = 64
CACHES = [f"--{name}={kib << 10},{ways},{LINE_BYTES}" for name, kib, ways in (("I1", 32, 8), ("D1", 32, 8), ("LL", 1024, 16))]
WHAT = ("instructions", "misses of 32 KiB, code", "misses of 32 KiB, data", "misses of 1 MiB")
# What a figure may grow by: 5 %, and some: the places of functions and objects differ from build to build.
GATE, MORE = 1.05, (0.0, 0.15, 0.05, 0.03)
ROWS = "performance_schema_events_waits_history_long_size={}"
DEFAULT_ROWS = 1638  # of a machine whose second-level cache is this large

Misses = dict[str, float]


def build(folder: Path) -> Path:
    """The program without pfs and with it, and a database."""
    common = ["-std=gnu11", "-DNDEBUG", "-lsqlite3"]
    for name, flags in (("out", ["-DPFS_DISABLE"]), ("in", [])):
        instructions.compile_c(str(SHIM / "bench.c"), folder / name, *SOURCES, *flags, *common)
    subprocess.run([str(folder / "out"), "fill", "filled.db", str(DATABASE_ROWS)], cwd=folder, check=True, capture_output=True)
    return folder


def _run(folder: Path, name: str, operations: int, rows: int, tool: list[str]) -> Path:
    """Gives the folder of its segment, which is left there."""
    segments = Path(tempfile.mkdtemp(dir=folder))
    env = {key: value for key, value in os.environ.items() if not key.startswith("PFS_")}
    env.update(PFS_OPTIONS=ROWS.format(rows), PFS_DIR=str(segments), PFS_KEEP="1")
    command = [*tool, str(folder / name), "range", "filled.db", str(operations)]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return segments


def _events(folder: Path, operations: int) -> int:
    segment = next(path for path in _run(folder, "in", operations, DEFAULT_ROWS, []).iterdir() if path.is_file())
    with pfs.attach(segment) as schema:
        return int(schema.table("events_waits_summary_global_by_event_name")["COUNT_STAR"].sum())


def _simulate(folder: Path, name: str, operations: int, rows: int) -> list[int]:
    out = folder / f"cachegrind-{name}"
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES, f"--cachegrind-out-file={out}"]
    _run(folder, name, operations, rows, tool)
    text = out.read_text()
    names, values = (re.search(rf"^{line}: (.*)$", text, re.MULTILINE) for line in ("events", "summary"))
    assert names is not None
    assert values is not None
    found = dict(zip(names[1].split(), map(int, values[1].split()), strict=True))
    return [found["Ir"], found["I1mr"], found["D1mr"] + found["D1mw"], found["ILmr"] + found["DLmr"] + found["DLmw"]]


def measure(folder: Path, rows: int = DEFAULT_ROWS) -> Misses:
    """Of one event."""

    def second_half(name: str) -> list[int]:
        first, both = (_simulate(folder, name, operations, rows) for operations in (FIRST, SECOND))
        return [after - before for before, after in zip(first, both, strict=True)]

    events = _events(folder, SECOND) - _events(folder, FIRST)
    return {
        what: round((recorded - plain) / events, 3)
        for what, recorded, plain in zip(WHAT, second_half("in"), second_half("out"), strict=True)
    }


def baseline() -> Misses:
    return dict(json.loads(BASELINE.read_text())["of_an_event"])


def regressions(measured: Misses) -> list[str]:
    """Figures above the gate, one line each; empty if all hold."""
    known = baseline()
    most = {what: GATE * known[what] + more for what, more in zip(WHAT, MORE, strict=True)}
    return [
        f"{what} of an event: {now:.3f}, baseline {known[what]:.3f} (it may be {most[what]:.3f})"
        for what, now in measured.items()
        if now > most[what]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="make this the baseline")
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="of events_waits_history_long; default: %(default)s")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(build(Path(folder)), given.rows)
    if given.write:
        BASELINE.write_text(json.dumps({"compiler": instructions.compiler(), "of_an_event": measured}, indent=2) + "\n")
    known = baseline()
    for what, now in measured.items():
        print(f"{what:26}{now:9.3f}{known[what]:9.3f}")
    missed = regressions(measured)
    print("\n".join(missed), end="\n" if missed else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
