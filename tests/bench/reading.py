"""Frames, start-up, memory: what reading costs, and what a program pays for having pfs in it."""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import instructions

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
        done = subprocess.run(
            [sys.executable, "-c", _FRAMES], env=_environment(folder), cwd=folder, capture_output=True, text=True, check=True
        )
    return {table: (int(rows), best, median) for table, (rows, best, median) in json.loads(done.stdout).items()}


def start_up(pairs: int = 25) -> dict[str, float]:
    """Milliseconds of a Python that does nothing, one that imports pfs, and one that has started it: alternating, the fastest of each."""
    programs = {
        "python": "pass",
        "import pfs": "import pfs",
        "import pfs, first lock": "import pfs; pfs.Lock('bench/LOCK_first').acquire()",
    }
    best = dict.fromkeys(programs, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(folder)
        for _ in range(pairs):
            for name, program in programs.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", program], env=env, cwd=folder, check=True)
                best[name] = min(best[name], (time.perf_counter() - start) * 1000)
    return best


def resident(program: Path, events: int) -> int:
    """Bytes of the segment that are resident when a small program with one mutex has made this many events."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [program, "memory", str(events)], env=_environment(folder), capture_output=True, text=True, check=True
        )
    return int(done.stdout)


def driver(folder: Path) -> Path:
    return instructions.build(folder)
