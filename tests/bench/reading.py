"""Frames, start-up, memory: what reading costs, and what a program pays for having pfs in it.

    python tests/bench/reading.py              the limits; exit code 1 if one is missed
    python tests/bench/reading.py --tables     every table as well, with 10, 1,000 and 100,000 objects and events
    python tests/bench/reading.py --json       the same for programs

A figure is the fastest reading of many in one process; beside it is the median.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from tests.bench import instructions  # noqa: E402

ROWS = 10_000

_FRAMES = """
import json, time
import pfs

lock = pfs.Lock("bench/LOCK_rows")
for _ in range(13_000):
    with lock:
        pass
figures = {}
for table in pfs.tables():
    times = []
    for _ in range(20):
        start = time.perf_counter()
        rows = len(pfs.table(table))
        times.append((time.perf_counter() - start) * 1000)
    figures[table] = [rows, min(times), sorted(times)[10]]
print(json.dumps(figures))
"""


def _environment(folder: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    return {**env, "PFS_DIR": folder}


def frames() -> dict[str, tuple[int, float, float]]:
    """Table -> rows, milliseconds to a DataFrame: fastest and median of 20. events_waits_history_long has ROWS rows."""
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(folder) | {"PFS_OPTIONS": f"performance_schema_events_waits_history_long_size={ROWS}"}
        done = subprocess.run([sys.executable, "-c", _FRAMES], env=env, cwd=folder, capture_output=True, text=True, check=True)
    return {table: (int(rows), best, median) for table, (rows, best, median) in json.loads(done.stdout).items()}


def start_up(pairs: int = 25) -> dict[str, float]:
    """Milliseconds of a Python that does nothing, one that imports pfs, and one that has started it: alternating, the fastest of each.

    With byte code, as pip installs it: the first of each writes it, whether or not this installation has any."""
    programs = {
        "python": "pass",
        "import pfs": "import pfs",
        "import pfs, first lock": "import pfs; pfs.Lock('bench/LOCK_first').acquire()",
    }
    best = dict.fromkeys(programs, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(folder) | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(pairs):
            for name, program in programs.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", program], env=env, cwd=folder, check=True)
                best[name] = min(best[name], (time.perf_counter() - start) * 1000)
    return best


def resident(program: Path, events: int, options: str = "") -> int:
    """Bytes of the segment that are resident when a small program with one mutex has made this many events."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [program, "memory", str(events)],
            env=_environment(folder) | {"PFS_OPTIONS": options},
            capture_output=True,
            text=True,
            check=True,
        )
    return int(done.stdout)


def driver(folder: Path) -> Path:
    return instructions.build(folder)


# What crowd.c makes, and how tables are read: the rest of a program that ends with print(json.dumps(...)).
_CROWD = """
import ctypes, json, os, statistics, sys, time
import pfs

crowd = ctypes.CDLL(sys.argv[1])
folder = sys.argv[2].encode()

def make(objects, events):
    assert crowd.crowd_mutexes(ctypes.c_long(objects)) == 0
    assert crowd.crowd_files(folder, ctypes.c_long(objects)) == 0
    assert crowd.crowd_events(folder, ctypes.c_long(8), ctypes.c_long(events)) == 0

def read(table, times):
    taken = []
    for _ in range(times):
        frame = None  # one at a time
        start = time.perf_counter()
        frame = pfs.table(table)
        taken.append((time.perf_counter() - start) * 1000)
    return frame, min(taken), statistics.median(taken)

def resident(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

def memory(table):
    # The most that one reading takes, and what the frame then has; texts that many rows share are there once.
    pfs.table(table)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM begins anew
    before = resident("VmRSS")
    frame = pfs.table(table)
    most = resident("VmHWM") - before
    return int(frame.memory_usage(index=False, deep=False).sum()), most
"""
_LIMITS = (
    _CROWD
    + """
make(100_000, 1_500_000)
found = {}
for table in sys.argv[3:]:
    frame, best, median = read(table, 15)
    rows = len(frame)
    frame = None
    found[table] = [rows, best, median, *memory(table)]
print(json.dumps(found), flush=True)
os._exit(0)
"""
)
_TABLES = (
    _CROWD
    + """
n = int(sys.argv[3])
make(n, 2 * n)
found = {}
for table in pfs.tables():
    frame, best, median = read(table, 7 if n > 10_000 else 20)
    found[table] = [len(frame), best, median]
print(json.dumps(found), flush=True)
os._exit(0)
"""
)
SIZES = (10, 1_000, 100_000)
LONG = "events_waits_history_long"
# Table -> rows, milliseconds. The summaries have a row for each of 100,000 objects; that by instance has mutexes and files.
LIMITS = {
    LONG: (1_000_000, 300.0),
    "events_waits_summary_by_instance": (200_000, 60.0),
    "file_summary_by_instance": (100_000, 30.0),
    "mutex_instances": (100_000, 30.0),
}
_ROOM = (
    "performance_schema_max_mutex_instances=1048576,performance_schema_max_file_instances=1048576,"
    "performance_schema_max_object_cells=4194304"
)


@dataclass(frozen=True)
class Reading:
    table: str
    rows: int
    best: float  # milliseconds to a DataFrame
    median: float
    limit: float
    frame_bytes: int  # of its arrays
    peak_bytes: int  # what the process had more of at the worst moment of the reading

    @property
    def met(self) -> bool:
        return self.best <= self.limit


def _crowd(program: str, options: str, *arguments: str) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as segments, tempfile.TemporaryDirectory() as folder:
        library = instructions.compile_c("crowd.c", Path(folder) / "libcrowd.so", "-shared", "-fPIC")
        env = {**_environment(segments), "PFS_OPTIONS": options}
        command = [sys.executable, "-c", program, str(library), folder, *arguments]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def limits() -> list[Reading]:
    """The readings that have a limit."""
    found = _crowd(_LIMITS, f"{_ROOM},performance_schema_events_waits_history_long_size=1000000", *LIMITS)
    readings = []
    for table, (rows, limit) in LIMITS.items():
        have, best, median, frame, peak = found[table]
        assert rows <= have <= rows + 12, f"{table} has {have} rows, not {rows}"
        readings.append(Reading(table, int(have), best, median, limit, int(frame), int(peak)))
    return readings


def tables(size: int) -> dict[str, tuple[int, float, float]]:
    """Table -> rows, fastest and median milliseconds, where there are so many mutexes, files and events."""
    options = f"{_ROOM},performance_schema_events_waits_history_long_size={size}"
    return {name: (int(rows), best, median) for name, (rows, best, median) in _crowd(_TABLES, options, str(size)).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    checked = limits()
    every = {size: tables(size) for size in SIZES} if given.tables else {}
    if given.json:
        print(json.dumps({"limits": [{**asdict(one), "met": one.met} for one in checked], "tables": every}, indent=1))
    else:
        print("\n".join([*limits_page(checked), "", *tables_page(every)]))
    return 0 if all(one.met for one in checked) else 1


def limits_page(readings: list[Reading]) -> list[str]:
    """For lab/pages/performance.md."""
    lines = [
        "| table | rows | fastest, ms | median, ms | limit | | frame, MiB | most while it is made, MiB |",
        "| --- | --: | --: | --: | --: | --- | --: | --: |",
    ]
    for one in readings:
        mebi = (one.frame_bytes / (1 << 20), one.peak_bytes / (1 << 20))
        lines.append(
            f"| {one.table} | {one.rows:,} | {one.best:.1f} | {one.median:.1f} | {one.limit:g} | {'met' if one.met else '**missed**'} | "
            f"{mebi[0]:.0f} | {mebi[1]:.0f} |"
        )
    return lines


def tables_page(every: dict[int, dict[str, tuple[int, float, float]]]) -> list[str]:
    """For lab/pages/performance.md: rows and the fastest reading of each table at each size."""
    if not every:
        return []
    lines = ["| table | " + " | ".join(f"{size:,}" for size in every) + " |", "| --- |" + " --: |" * len(every)]
    large, rest = split_by_rows({table: [found[table][:2] for found in every.values()] for table in next(iter(every.values()))})
    for table, cases in large.items():
        lines.append(f"| {table} | " + " | ".join(f"{rows:,} in {best:.2f} ms" for rows, best in cases) + " |")
    return [*lines, *rest]


def split_by_rows(tables: dict[str, list[tuple[int, float]]]) -> tuple[dict[str, list[tuple[int, float]]], list[str]]:
    """The tables that have 1,000 rows in any case, and a sentence about all others. A case is rows and milliseconds."""
    large = {table: cases for table, cases in tables.items() if max(rows for rows, _ in cases) >= 1000}
    others = [case for table, cases in tables.items() if table not in large for case in cases]
    if not others:
        return large, []
    rows, slowest = max(rows for rows, _ in others), max(best for _, best in others)
    text = f"The other {len(tables) - len(large)} tables had at most {rows} rows and took at most {slowest:.1f} ms."
    return large, ["", text]


if __name__ == "__main__":
    sys.exit(main())
