"""Measures what `pfs run` costs a Python program: plain, without the Python layer, without its lines, and with it.

    python lab/python_program.py

Times of locks and calls are nanoseconds, the least of five. The start is milliseconds of processor time of `python3 -c pass`, the
least of 60.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
import timeit

from pfs._process.run.launch import PYTHON_PARTS

WITHOUT_LINES = ",".join(part for part in PYTHON_PARTS if part != "lines")
RUNS = {
    "plain": [],
    "pfs run --python none": [sys.executable, "-m", "pfs", "run", "--no-report", "--python", "none", "--"],
    "without lines": [sys.executable, "-m", "pfs", "run", "--no-report", "--python", WITHOUT_LINES, "--"],
    "pfs run": [sys.executable, "-m", "pfs", "run", "--no-report", "--"],
}
CASES = {
    "make a lock": "threading.Lock()",
    "make, take and release": "x = threading.Lock(); x.acquire(); x.release()",
    "take and release": "lock.acquire(); lock.release()",
    "a try that fails": "held.acquire(False)",
    "make a condition": "threading.Condition()",
    "os.stat(), whose line is that of some": "stat('/')",
    "a read of 8 bytes, likewise": "pread(file, 8, 0)",
    "time.sleep(0), whose line is always asked for": "sleep(0)",
    "a query of sqlite3, likewise": "database.execute('select 1').fetchall()",
}


def start() -> float:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], os.environ)
    usage = os.wait4(pid, 0)[2]
    return usage.ru_utime + usage.ru_stime


def measure() -> None:
    held = threading.Lock()
    held.acquire()
    scope = {"threading": threading, "lock": threading.Lock(), "held": held, "stat": os.stat, "pread": os.pread}
    scope |= {"file": os.open("/dev/zero", os.O_RDONLY), "sleep": time.sleep, "database": sqlite3.connect(":memory:")}
    number = 20_000
    values = [min(timeit.repeat(code, number=number, repeat=5, globals=scope)) / number * 1e9 for code in CASES.values()]
    print(*(f"{value:.0f}" for value in values), f"{min(start() for _ in range(60)) * 1e3:.1f}")


def main() -> None:
    names = [*CASES, "python3 -c pass"]
    results = {}
    for name, before in RUNS.items():
        done = subprocess.run([*before, sys.executable, __file__, "measure"], stdout=subprocess.PIPE, text=True, check=True)
        results[name] = done.stdout.split()
    print(f"| | {' | '.join(results)} |")
    for i, name in enumerate(names):
        unit = "ms" if i == len(names) - 1 else "ns"
        print(f"| {name} | {' | '.join(f'{values[i]} {unit}' for values in results.values())} |")


if __name__ == "__main__":
    measure() if "measure" in sys.argv else main()
