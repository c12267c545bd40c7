"""Instructions per operation, counted by callgrind: those between N and 2 N operations of a run. Exact enough for a gate on a noisy machine.

python tests/bench/instructions.py                  shows them beside the baseline
python tests/bench/instructions.py row/all          only this case
python tests/bench/instructions.py --write [CASE]   makes them the baseline (tests/bench/baseline.json), also in lab/pages/performance.md
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pfs._base import installed

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
PAGE = HERE.parents[1] / "lab/pages/performance.md"
# What a case may grow by: 5 %, and never as much as the 20 instructions that the negative control adds.
GATE, MOST = 1.05, 15.0
OPERATIONS = 4_000

_NO_RECORD = "performance_schema_consumer_events_waits_current=OFF"
_COUNTED = "performance_schema_instrument='wait/%=COUNTED'"  # with the rows that are there by default
_STATE = "performance_schema_preset=sampling"
_NO_HISTORY = "performance_schema_consumer_events_waits_history=OFF"
_NO_LONG = "performance_schema_consumer_events_waits_history_long=OFF"

# Reads the clock of driver.c, with which each statement takes the same time.
_STEADY = "performance_schema_cycle_timer=OFF"


@dataclass(frozen=True)
class Case:
    operation: str  # of driver.c
    options: str = ""
    runs: int = 1  # the least counts: what happens now and then, such as a slower sample, depends on the time


def _sampled(operation: str) -> Case:
    """With everything on. One event in 64 is timed, by chance."""
    return Case(operation, "performance_schema_instrument='wait/%=SAMPLED'", runs=4)


# The pool of records is small, so that both runs have filled it and differ by events alone.
_SMALL = "performance_schema_events_waits_history_long_size=500"
CASES = {
    "lock/bare": Case("bare"),
    "lock/disabled": Case("lock", "performance_schema_instrument='wait/%=OFF'"),
    "lock/counted": Case("lock", f"{_COUNTED},{_NO_RECORD}"),
    "lock/untimed": Case("lock", _COUNTED),
    "lock/sampled": _sampled("lock"),
    "lock/contended": Case("lock", "performance_schema_instrument='wait/%=CONTENDED'"),
    "lock/state": Case("lock", _STATE),
    "lock/timed": Case("lock", _NO_RECORD),
    "lock/current": Case("lock", f"{_NO_HISTORY},{_NO_LONG}"),
    "lock/all": Case("lock"),
    # With how long it is held.
    "lock/holds": Case("lock", "performance_schema_consumer_lock_holds=ON"),
    "trylock/untimed": Case("trylock", _COUNTED),
    "trylock/all": Case("trylock"),
    # A lock of the program's own: begin and end of the wait, and the release.
    "ownlock/counted": Case("ownlock", f"{_COUNTED},{_NO_RECORD}"),
    "ownlock/untimed": Case("ownlock", _COUNTED),
    "ownlock/sampled": _sampled("ownlock"),
    "ownlock/contended": Case("ownlock", "performance_schema_instrument='wait/%=CONTENDED'"),
    "ownlock/state": Case("ownlock", _STATE),
    "ownlock/timed": Case("ownlock", _NO_RECORD),
    "ownlock/all": Case("ownlock"),
    # A condition, and a mutex, that are made and destroyed without an event.
    "condlife/bare": Case("barelife"),
    "condlife/disabled": Case("condlife", "performance_schema_instrument='wait/%=OFF'"),
    "condlife/all": Case("condlife"),
    "mutexlife/all": Case("mutexlife"),
    "pread/disabled": Case("pread", "performance_schema_instrument='wait/%=OFF'"),
    "pread/counted": Case("pread", f"{_COUNTED},{_NO_RECORD}"),
    "pread/untimed": Case("pread", _COUNTED),
    "pread/sampled": _sampled("pread"),
    "pread/state": Case("pread", _STATE),
    "pread/timed": Case("pread", _NO_RECORD),
    "pread/all": Case("pread"),
    # Of a file whose name is known.
    "openclose/counted": Case("openclose", f"{_COUNTED},{_NO_RECORD}"),
    "openclose/untimed": Case("openclose", _COUNTED),
    "openclose/sampled": _sampled("openclose"),
    "openclose/timed": Case("openclose", _NO_RECORD),
    "openclose/all": Case("openclose"),
    "missing/counted": Case("missing", f"{_COUNTED},{_NO_RECORD}"),
    "missing/untimed": Case("missing", _COUNTED),
    "missing/timed": Case("missing", _NO_RECORD),
    "missing/all": Case("missing"),
    "fread/counted": Case("fread", f"{_COUNTED},{_NO_RECORD}"),
    "fread/untimed": Case("fread", _COUNTED),
    "fread/timed": Case("fread", _NO_RECORD),
    "fread/all": Case("fread"),
    # send and recv.
    "socket/disabled": Case("socket", "performance_schema_instrument='wait/%=OFF'"),
    "socket/counted": Case("socket", f"{_COUNTED},{_NO_RECORD}"),
    "socket/untimed": Case("socket", _COUNTED),
    "socket/sampled": _sampled("socket"),
    "socket/state": Case("socket", _STATE),
    "socket/timed": Case("socket", _NO_RECORD),
    "socket/all": Case("socket"),
    # The calls that files have, on sockets.
    "socketfile/counted": Case("socketfile", f"{_COUNTED},{_NO_RECORD}"),
    "socketfile/untimed": Case("socketfile", _COUNTED),
    "socketfile/sampled": _sampled("socketfile"),
    "socketfile/timed": Case("socketfile", _NO_RECORD),
    "socketfile/all": Case("socketfile"),
    "idle/timed": Case("idle", _NO_RECORD),
    "idle/untimed": Case("idle", _COUNTED),
    "idle/all": Case("idle"),
    # Begin and end of a wait, with nothing between them.
    "row/counted": Case("row", f"{_COUNTED},{_NO_RECORD}"),
    "row/untimed": Case("row", _COUNTED),
    "row/sampled": _sampled("row"),
    "row/timed": Case("row", _NO_RECORD),
    "row/all": Case("row"),
    "tablelock/counted": Case("tablelock", f"{_COUNTED},{_NO_RECORD}"),
    "tablelock/untimed": Case("tablelock", _COUNTED),
    "tablelock/sampled": _sampled("tablelock"),
    "tablelock/timed": Case("tablelock", _NO_RECORD),
    "tablelock/all": Case("tablelock"),
    "metadata/counted": Case("metadata", f"{_COUNTED},{_NO_RECORD}"),
    "metadata/untimed": Case("metadata", _COUNTED),
    "metadata/sampled": _sampled("metadata"),
    "metadata/timed": Case("metadata", _NO_RECORD),
    "metadata/all": Case("metadata"),
    # A statement of 107 bytes that has been seen before.
    "statement/all": Case("statement", _STEADY),
    # One of 113 bytes whose literals are new each time.
    "newtext/all": Case("newtext", _STEADY),
    # pfs_malloc and pfs_free of 64 bytes, controlled.
    "block/disabled": Case("block", "performance_schema_instrument='memory/%=OFF'"),
    "block/counted": Case("block"),
}


def compiler() -> str:
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.partition("\n")[0]


def other_compiler() -> str:
    """Returns why the baseline says nothing about programs of this machine's compiler: each makes other code, and so does the C
    library beside it. "" if it is that of the baseline."""
    if shutil.which("gcc") is None:
        return "needs gcc"
    made_with, this = json.loads(BASELINE.read_text())["compiler"], compiler()
    alike = made_with.rpartition(" ")[2].split(".")[0] == this.rpartition(" ")[2].split(".")[0]
    return "" if alike else f"the baseline was made with {made_with}, and this is {this}"


def build(folder: Path, padding: int = 0) -> Path:
    """driver.c as a user compiles it, against the installed package."""
    return compile_c("driver.c", folder / f"driver-{padding}", f"-DPFS_BENCH_PADDING={padding}")


def compile_c(source: str, target: Path, *more: str) -> Path:
    """A file of this folder, as a user compiles it. `more` may ask for a shared library."""
    library = installed.library_dir()
    link = [f"-L{library}", f"-Wl,-rpath,{library}", "-lperfschema", "-lpthread"]
    flags = ["-std=c11", "-O2", f"-I{installed.include_dir()}", *more]
    subprocess.run(["gcc", *flags, str(HERE / source), "-o", str(target), *link], check=True)
    return target


def count(program: Path, case: Case) -> float:
    """Returns the instructions of an operation in the second half of a run: the first half has paid for whatever happens once."""
    options = ",".join(filter(None, [_SMALL, case.options]))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    with tempfile.TemporaryDirectory() as folder:
        env.update(PFS_OPTIONS=options, PFS_DIR=folder)
        out = f"{folder}/callgrind"
        # Each call of pfs_bench_part() ends a part, and the parts have a file each.
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-before=pfs_bench_part"]
        command = [*tool, str(program), case.operation, str(OPERATIONS)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        second = Path(f"{out}.2")
        found = re.search(r"^totals: (\d+)$", second.read_text(), re.MULTILINE) if second.exists() else None
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return int(found[1]) / OPERATIONS


def measure(program: Path, names: list[str] | None = None) -> dict[str, float]:
    chosen = list(CASES) if names is None else names
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = pool.map(lambda name: min(count(program, CASES[name]) for _ in range(CASES[name].runs)), chosen)
        return {name: round(found, 2) for name, found in zip(chosen, counts, strict=True)}


def baseline() -> dict[str, float]:
    return dict(json.loads(BASELINE.read_text())["instructions_per_operation"])


def _ceiling(before: float) -> float:
    return min(GATE * before, before + MOST)


def regressions(measured: dict[str, float], known: dict[str, float] | None = None) -> list[str]:
    """Cases that are further above `known`, by default the baseline, than the gate allows: one line each."""
    known = baseline() if known is None else known
    return [
        f"{name}: {now:.1f} instructions per operation, baseline {known[name]:.1f} ({100 * (now / known[name] - 1):+.1f} %; it may be {_ceiling(known[name]):.1f})"
        for name, now in measured.items()
        if now > _ceiling(known[name])
    ]


def rows() -> list[str]:
    """The baseline as the table of the page."""
    known = baseline()
    return [
        "| | instructions | beyond the plain call |",
        "| --- | --: | --: |",
        *(
            f"| {name} | {value:.1f} | " + (f"{value - known['lock/bare']:.1f} |" if name.startswith("lock/") else "|")
            for name, value in known.items()
        ),
    ]


def with_rows(page: str) -> str:
    """The page with the table of the baseline in place of its own."""
    head = rows()[0]
    before, found, rest = page.partition(f"\n{head}\n")
    assert found, f"the page has no table {head}"
    _, end, after = rest.partition("\n\n")
    return before + "\n" + "\n".join(rows()) + end + after


def advice(missed: list[str]) -> str:
    made_with, this = json.loads(BASELINE.read_text())["compiler"], compiler()
    compilers = (
        "The compiler is the baseline's" if made_with == this else f"The baseline was made with {made_with}; this is {this}"
    )
    return (
        f"{compilers}. If the new figures are right (another compiler, a step that is worth "
        "its price), make them the baseline and say why in the commit:\n    python tests/bench/instructions.py --write "
        + " ".join(line.partition(":")[0] for line in missed)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"all if none is given; legal are {', '.join(CASES)}")
    parser.add_argument("--write", action="store_true", help="make this the baseline")
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}: legal are {', '.join(CASES)}")
    known = baseline()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(build(Path(folder)), given.cases or None)
    if given.write:
        both = {**known, **measured}
        found = {"compiler": compiler(), "instructions_per_operation": {name: both[name] for name in CASES if name in both}}
        BASELINE.write_text(json.dumps(found, indent=2) + "\n")
        PAGE.write_text(with_rows(PAGE.read_text()))
    for name, now in measured.items():
        before = known.get(name)
        print(f"{name:16}{now:9.2f}" + ("" if before is None else f"{before:9.2f}{100 * (now / before - 1):+8.1f} %"))
    missed = regressions({name: now for name, now in measured.items() if name in known})
    if missed:
        print(advice(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
