"""Measures what `pfs run` costs: an uncontended lock, and the processor time of servers.

    python tests/bench/run_price.py locks [--rounds 5]
    python tests/bench/run_price.py servers [NAME ...] [--pairs 15]
    python tests/bench/run_price.py memory

`locks` runs tests/bench/run_locks.c plain and under libperfschema-run.so with several settings, in turn. It prints nanoseconds of a
lock and an unlock, the fastest of all rounds, and what is promised of them.

`servers` runs each server in pairs, plain and under `pfs run` with its defaults in turn, under the same load. It prints the processor
time of the server with pfs over that without: the median of the pairs, and a 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pfs._run.launch import environment

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ("plain", "inert", "off", "contended", "all on")


def run_environment(setting: str, folder: str) -> dict[str, str]:
    """Returns the environment of a program: plain, or recorded with a setting."""
    if setting == "plain":
        return dict(os.environ)
    only = ["files"] if setting == "off" else []
    more = environment(folder, only=only, all_on=setting == "all on")
    if setting == "inert":
        more["PFS_OPTIONS"] = "performance_schema=OFF"
    return os.environ | more | {"PFS_KEEP": "0"}


def measure_locks(rounds: int, milliseconds: float) -> dict[str, dict[str, float]]:
    """Returns nanoseconds by setting and by what is measured."""
    fastest: dict[str, dict[str, float]] = {setting: {} for setting in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/run_locks"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "tests/bench/run_locks.c", "-lpthread"], check=True)
        for _ in range(rounds):
            for setting in SETTINGS:
                done = subprocess.run([program, str(milliseconds)], env=run_environment(setting, folder), check=True, stdout=subprocess.PIPE)
                for name, nanos in json.loads(done.stdout).items():
                    fastest[setting][name] = min(nanos, fastest[setting].get(name, nanos))
    return fastest


def promises(nanos: dict[str, dict[str, float]]) -> list[tuple[str, float, float]]:
    """Returns what is promised: a text, the measured value, the limit."""
    bare, floor = nanos["plain"]["one"], nanos["plain"]["timed"]
    scattered = nanos["plain"]["scattered"]
    return [
        ("all on / floor", nanos["all on"]["one"] / floor, 1.3),
        ("contended - bare, ns", nanos["contended"]["one"] - bare, 8),
        ("off - bare, ns", nanos["off"]["one"] - bare, 4),
        ("16,384 mutexes, all on / floor", nanos["all on"]["scattered"] / floor, 2),
        ("16,384 mutexes, contended / floor", nanos["contended"]["scattered"] / floor, 2),
        ("16,384 mutexes, off - bare, ns", nanos["off"]["scattered"] - scattered, 4),
    ]


def show_locks(rounds: int, milliseconds: float) -> bool:
    nanos = measure_locks(rounds, milliseconds)
    columns = list(nanos["plain"])
    print("ns".ljust(12), *(column.rjust(10) for column in columns))
    for setting, row in nanos.items():
        print(setting.ljust(12), *(f"{row[column]:10.2f}" for column in columns))
    good = True
    for text, value, limit in promises(nanos):
        good &= value <= limit
        print(f"{text:40} {value:6.2f}  (limit {limit}){'' if value <= limit else '  MISSED'}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("locks",))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--milliseconds", type=float, default=20)
    options = parser.parse_args()
    return 0 if show_locks(options.rounds, options.milliseconds) else 1


if __name__ == "__main__":
    sys.exit(main())
