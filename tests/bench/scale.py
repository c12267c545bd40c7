"""Memory and reading time when a program has many objects and threads: what is used costs, what is only configured does not.

    python tests/bench/scale.py            --json: for programs; --parts: only which arrays of the segment the memory is in

Each case is a fresh process: a C library (crowd.c) makes mutexes, each locked once, and threads of ten events each; then every table is read.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from tests.bench import instructions, reading  # noqa: E402
from tests.python._programs.segment_file import ARRAYS, SegmentFile  # noqa: E402

_CASE = """
import ctypes, json, os, sys, time
import pfs
from pfs import _core

mutexes, threads = int(sys.argv[2]), int(sys.argv[3])
crowd = ctypes.CDLL(sys.argv[1])
assert crowd.crowd_mutexes(ctypes.c_long(mutexes)) == 0
assert crowd.crowd_threads(ctypes.c_long(threads), ctypes.c_long(10)) == 0
memory = os.stat(_core.segment_path()).st_blocks * 512
tables = {}
for table in pfs.tables():
    columns = [column["name"] for column in _core.table_info(table)["columns"]]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        rows = len(pfs.table(table))
        times.append((time.perf_counter() - start) * 1000)
    tables[table] = [rows, min(times)]
after = os.stat(_core.segment_path()).st_blocks * 512
print(json.dumps({"memory": memory, "after": after, "tables": tables, "lost": {name: n for name, n in pfs.status.items() if n and "reason" not in name}}), flush=True)
os._exit(0)
"""
LARGE = "performance_schema_max_mutex_instances=1048576,performance_schema_max_thread_instances=65536,performance_schema_max_object_cells=4194304"
# Mutexes, threads, options.
CASES = [(1, 1, ""), (1_000, 100, ""), (10_000, 1_000, ""), (10_000, 1_000, LARGE), (10_000, 10_000, LARGE)]


@dataclass(frozen=True)
class Case:
    mutexes: int
    threads: int
    options: str
    memory: int  # bytes of the segment that have memory, before anything was read
    after: int  # and after every table was read
    tables: dict[str, tuple[int, float]]  # rows, milliseconds to a DataFrame (fastest of 5)
    lost: dict[str, int]
    parts: dict[str, int]  # of `after`, by array of the segment


def measure(mutexes: int, threads: int, options: str) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        library = instructions.compile_c("crowd.c", Path(folder) / "libcrowd.so", "-shared", "-fPIC")
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env |= {"PFS_DIR": "/dev/shm/pfs-bench-" + str(os.getpid()), "PFS_OPTIONS": options}
        try:
            done = subprocess.run(
                [sys.executable, "-c", _CASE, str(library), str(mutexes), str(threads)],
                env=env, cwd=folder, capture_output=True, text=True, check=True,
            )  # fmt: skip
            (path,) = Path(env["PFS_DIR"]).rglob("*.pfs")
            with SegmentFile(path) as segment:
                parts = {name: segment.bytes_with_memory(segment.array(name)) for name in ARRAYS}
        finally:
            for path in Path(env["PFS_DIR"]).glob("*"):
                path.unlink()
            if Path(env["PFS_DIR"]).exists():
                Path(env["PFS_DIR"]).rmdir()
    found = json.loads(done.stdout)
    tables = {name: (int(rows), float(best)) for name, (rows, best) in found["tables"].items()}
    return Case(mutexes, threads, options, found["memory"], found["after"], tables, found["lost"], parts)


def parts_of_a_thread() -> list[str]:
    """A table of the bytes of each array that a thread has taken, with its share of the mutexes."""
    base, *cases = (measure(*case) for case in (CASES[0], *CASES[-2:]))
    lines = [
        "| array | " + " | ".join(f"{case.threads:,} threads, {case.mutexes:,} mutexes" for case in cases) + " |",
        "| --- | --: | --: |",
    ]
    rows = {name: [(case.parts[name] - base.parts[name]) / case.threads for case in cases] for name in ARRAYS}
    rows["all"] = [(case.after - base.after) / case.threads for case in cases]
    return [
        *lines,
        *(f"| {name} | " + " | ".join(f"{n:,.0f}" for n in each) + " |" for name, each in rows.items() if max(each) >= 1),
    ]


def main() -> None:
    if "--parts" in sys.argv[1:]:
        print("\n".join(parts_of_a_thread()))
        return
    cases = [measure(*case) for case in CASES]
    print(json.dumps([asdict(case) for case in cases], indent=1) if "--json" in sys.argv[1:] else "\n".join(page(cases)))


def page(cases: list[Case]) -> list[str]:
    """The section of lab/pages/performance.md."""
    names = [f"{case.mutexes:,} mutexes, {case.threads:,} threads" + (", large limits" if case.options else "") for case in cases]
    lines = ["| | " + " | ".join(names) + " |", "| --- |" + " --: |" * len(cases)]
    lines.append("| memory of the segment, KiB | " + " | ".join(f"{case.memory / 1024:,.0f}" for case in cases) + " |")
    lines.append("| memory after reading every table, KiB | " + " | ".join(f"{case.after / 1024:,.0f}" for case in cases) + " |")
    each = [f"{(case.memory - cases[0].memory) / case.threads / 1024:.1f}" if case.threads > 1 else "" for case in cases]
    lines.append("| more than the first column, for each thread with its share of mutexes, KiB | " + " | ".join(each) + " |")
    large, rest = reading.split_by_rows({table: [case.tables[table] for case in cases] for table in cases[0].tables})
    for table, found in large.items():
        lines.append(f"| {table}, rows | " + " | ".join(f"{rows:,} in {best:.1f} ms" for rows, best in found) + " |")
    return [*lines, *rest]


if __name__ == "__main__":
    main()
