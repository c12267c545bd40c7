"""What pfs costs a program on sqlite3: files and mutexes recorded and not (PFS_DISABLE), in pairs.

    python -m lab.real.sqlite [--pairs 15] [--rows 50000] [--stock] [--events] [--json FILE]

The library is the system's (Debian: libsqlite3-dev); VFS, mutexes and program are those of sqlite_shim. lab/pages/real_programs.md
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from lab.real.common import (
    Finished,
    Sample,
    Unavailable,
    build,
    compare,
    execute,
    folders,
    is_recorded,
    options_of,
    parser,
    program_of,
    programs_of,
    report,
)

SHIM = Path(__file__).resolve().parent / "sqlite_shim"
COMPONENT = "sqlite"
# workload -> operations of a run, as a multiple of --rows
WORKLOADS = {"insert": 1.0, "select": 4.0, "range": 0.1, "update": 0.1, "threads": 0.2, "statements": 1.0}


def build_all(work: Path, prefix: Path | None, *variants: str) -> Path:
    """Builds sqlite_bench_VARIANT; gives their folder. Raises Unavailable without compiler or header."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable("a C compiler is needed: apt-get install gcc")
    asked = subprocess.run(
        [compiler, "-E", "-x", "c", "-"], input="#include <sqlite3.h>\n", capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        raise Unavailable("sqlite3.h not found: apt-get install libsqlite3-dev")
    return build(SHIM, work / "sqlite-build", prefix, [f"sqlite_bench_{variant}" for variant in variants])


class Bench:
    """Runs sqlite_bench on databases in `data`."""

    def __init__(self, programs: Path, data: Path, rows: int, options: str) -> None:
        self.programs, self.data, self.rows, self.options = programs, data, rows, options
        self._filled: Path | None = None

    def start(self, variant: str, workload: str, database: Path, operations: int, prefix: tuple[str, ...] = ()) -> Finished:
        program = str(self.programs / f"sqlite_bench_{program_of(variant)}")
        command = [*prefix, program, workload, str(database), str(operations)]
        return execute(command, self.data, COMPONENT, is_recorded(variant), options_of(variant, self.options))

    def filled(self) -> Path:
        """A database to start from, made by the program that is not recorded."""
        if self._filled is None:
            self._filled = self.data / "filled.db"
            self.start("out", "fill", self._filled, self.rows)
        return self._filled

    def run(self, variant: str, workload: str, keep: bool = False, prefix: tuple[str, ...] = ()) -> Sample:
        """One process that does one workload, on a copy of the filled database."""
        database = self.data / f"{program_of(variant)}.db"
        shutil.copyfile(self.filled(), database)
        done = self.start(variant, workload, database, max(10, int(self.rows * WORKLOADS[workload])), prefix)
        if not keep:
            database.unlink()
        told = json.loads(done.stdout)
        return Sample(
            told["operations"], told["wall"] * 1e-9, told["cpu"] * 1e-9, done.process_cpu, done.stdout + done.stderr, done.events
        )

    def scan(self, database: Path) -> int:
        """A checksum of all that it holds."""
        return int(json.loads(self.start("out", "scan", database, 0).stdout)["checksum"])


def main() -> int:
    options = parser(__doc__, WORKLOADS)
    options.add_argument(
        "--rows", type=int, default=50_000, help="rows of the database; operations of a run are a multiple of it"
    )
    given = options.parse_args()
    names = given.workloads.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        options.error(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with folders(given) as (work, data):
        try:
            programs = build_all(work, given.prefix, *programs_of(given))
        except Unavailable as why:
            say(f"sqlite: {why}")
            return 2
        say(f"data in {data.parent}")
        bench = Bench(programs, data, given.rows, given.options)
        workloads = compare(names, bench.run, given, say)
        report("sqlite3", workloads, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
