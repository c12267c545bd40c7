"""What pfs costs leveldb: its db_bench with pfs below it, recorded and not (PFS_DISABLE), in pairs.

    python -m lab.real.leveldb [--pairs 15] [--num 200000] [--stock] [--events] [--json FILE]

The sources come from Debian (apt-get source leveldb), or from --source; nothing of them is changed or kept. lab/pages/real_programs.md
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from lab import debian
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

SHIM = Path(__file__).resolve().parent / "leveldb_shim"
COMPONENT = "leveldb"
# workload -> does it start from a filled database
WORKLOADS = {
    "fillseq": False,
    "fillrandom": False,
    "fillsync": False,
    "overwrite": True,
    "readrandom": True,
    "readhot": True,
    "readseq": True,
    "readwhilewriting": True,
}
_REPORT = re.compile(r"^(\w+)\s*:\s+([\d.]+) micros/op", re.MULTILINE)
_SHIM = re.compile(r"^shim: wall (\d+) cpu (\d+)$", re.MULTILINE)


# ---- Sources -------------------------------------------------------------------------------------------------------------------


def fetch(work: Path) -> Path:
    """Sources of leveldb in a folder below `work`, from Debian's archive; those that are there already are taken.

    Raises Unavailable if they cannot be had.
    """
    try:
        return debian.source("leveldb", work)
    except debian.NoSourceError as why:
        raise Unavailable(f"no sources; give --source FOLDER with those of leveldb: {why}") from why


def build_all(work: Path, sources: Path, prefix: Path | None, *variants: str) -> Path:
    """Builds db_bench_VARIANT and db_scan; gives their folder."""
    return build(
        SHIM, work / "leveldb-build", prefix, [*(f"db_bench_{variant}" for variant in variants), "db_scan"], LEVELDB=sources
    )


# ---- Runs ----------------------------------------------------------------------------------------------------------------------


class Bench:
    """Runs db_bench on databases in `data`."""

    def __init__(self, programs: Path, data: Path, num: int, options: str, mapped: bool = False) -> None:
        self.programs, self.data, self.num, self.options, self.mapped = programs, data, num, options, mapped
        self._filled: Path | None = None

    def start(self, variant: str, workload: str, database: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> Finished:
        command = [
            *prefix,
            str(self.programs / f"db_bench_{program_of(variant)}"),
            f"--db={database}",
            f"--benchmarks={workload}",
        ]
        environment = {"SHIM_MMAP": "1"} if self.mapped else {}
        return execute(
            [*command, f"--num={self.num}", *arguments],
            self.data,
            COMPONENT,
            is_recorded(variant),
            options_of(variant, self.options),
            **environment,
        )

    def filled(self) -> Path:
        """A database to start from: filled in random order by the program that is not recorded, and compacted."""
        if self._filled is None:
            self._filled = self.data / "filled"
            self.start("out", "fillrandom,compact", self._filled)
        return self._filled

    def run(self, variant: str, workload: str, keep: bool = False, prefix: tuple[str, ...] = ()) -> Sample:
        """One process that does one workload, on a database of its own, which is removed unless it is to be kept."""
        database = self.data / f"db-{program_of(variant)}"
        shutil.rmtree(database, ignore_errors=True)
        arguments, operations = [], self.num
        if workload == "fillsync":  # does a thousandth of what it is told
            operations = max(1, self.num // 3)
            arguments = [f"--num={1000 * operations}"]
        if WORKLOADS[workload]:
            shutil.copytree(self.filled(), database)
            arguments = ["--use_existing_db=1"]
        done = self.start(variant, workload, database, *arguments, prefix=prefix)
        if not keep:
            shutil.rmtree(database)
        told = _REPORT.search(done.stdout)
        if told is None:
            raise RuntimeError(f"db_bench reports no {workload}:\n{done.stdout}\n{done.stderr}")
        shim = _SHIM.search(done.stderr)
        # How much is written while others read is up to the scheduler: its processor time says nothing.
        cpu = int(shim[2]) * 1e-9 if shim and workload != "readwhilewriting" else 0.0
        return Sample(
            operations, float(told[2]) * 1e-6 * operations, cpu, done.process_cpu, done.stdout + done.stderr, done.events
        )

    def scan(self, database: Path) -> str:
        """ "keys N hash H" of all that it holds."""
        return execute([str(self.programs / "db_scan"), str(database)], self.data, COMPONENT, False, "").stdout.strip()


def main() -> int:
    options = parser(__doc__, WORKLOADS)
    options.add_argument("--source", type=Path, help="sources of leveldb; default: apt-get source leveldb")
    options.add_argument("--num", type=int, default=300_000, help="keys, and operations of a run")
    options.add_argument("--mmap", action="store_true", help="map tables, as leveldb's own Env does, instead of reading them")
    given = options.parse_args()
    names = given.workloads.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        options.error(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with folders(given) as (work, data):
        try:
            sources = given.source.resolve() if given.source else fetch(work)
            programs = build_all(work, sources, given.prefix, *programs_of(given))
        except Unavailable as why:
            say(f"leveldb: {why}")
            return 2
        say(f"{sources.name}; data in {data.parent}")
        if given.stock and not given.mmap:
            say("leveldb's own Env maps tables: --stock compares like with like only with --mmap")
        bench = Bench(programs, data, given.num, given.options, given.mmap)
        workloads = compare(names, bench.run, given, say)
        report(f"{sources.name} db_bench", workloads, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
