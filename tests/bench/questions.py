"""Questions in SQL, Arrow, merging and one-file snapshots: the processor's time of each, and of what it is compared with.

    python tests/bench/questions.py

A figure is the least of several in one process, and a ratio is the median of pairs that follow each other. On a virtual machine
fresh memory can take longer than the work, so that GROUP BY also shows the time that elapsed. test_questions_bench.py holds the
limits.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

EVENTS = 1_000_000
FEWER = 300_000
SNAPSHOTS = 1_000
FILES = 200  # that are written; as snapshots, each is read five times
LONG = "events_waits_history_long"
COLUMNS = ["EVENT_NAME", "TIMER_WAIT"]
SMALL = "select NAME, THREAD_ID from threads"
QUESTION = f"select EVENT_NAME, count(*), sum(TIMER_WAIT) from {LONG} group by 1"
OPTIONS = f"performance_schema_{LONG}_size={EVENTS},performance_schema_consumer_{LONG}=ON"


@dataclass(frozen=True)
class Figure:
    """A time, or a size, beside the one that it is compared with."""

    name: str
    value: float
    unit: str = "ms"
    beside: str = ""
    other: float = 0.0

    def __str__(self) -> str:
        compared = f"{self.value / self.other:6.2f} x {self.beside} ({self.other:.1f} {self.unit})" if self.other else ""
        return f"{self.name:66} {self.value:9.1f} {self.unit}   {compared}"


def milliseconds(what: Callable[[], object], times: int = 7, clock: Callable[[], float] = time.process_time) -> float:
    best = float("inf")
    for _ in range(times):
        begin = clock()
        what()
        best = min(best, clock() - begin)
    return best * 1000


def _in_turn(one: Callable[[], object], two: Callable[[], object], times: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Returns the times of each in the pair of median ratio: the least of each could be of two phases of the machine."""
    pairs = [(milliseconds(one, 1, clock), milliseconds(two, 1, clock)) for _ in range(times)]
    return sorted(pairs, key=lambda pair: pair[0] / pair[1])[times // 2]


def figures() -> dict[str, Figure]:
    """Measures everything in this process, and prints each figure. It needs OPTIONS and a folder of its own."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    import pfs
    from pfs import _core
    from pfs._read.source import OWN
    from pfs._save.frames import is_summary

    found: dict[str, Figure] = {}

    def note(key: str, *figure: Any) -> None:
        found[key] = Figure(*figure)
        print(found[key], flush=True)

    with pfs.Lock("bench/LOCK"):
        pass
    summaries = [name for name in _core.tables() if is_summary(_core.table_info(name))]
    reading, arrow = _in_turn(
        lambda: [OWN.read(name, None) for name in summaries],
        lambda: [pfs.arrow(name) for name in summaries],
        30,
        time.process_time,
    )
    note("small", f"Arrow of {len(summaries)} summary tables, small program", arrow, "ms", "reading them", reading)
    tables = milliseconds(lambda: [pyarrow.table(pfs.arrow(name)) for name in summaries], 30)
    note("small pyarrow", "   as tables of pyarrow", tables)
    note("statement", "a statement over a small table", milliseconds(lambda: pfs.sql(SMALL).rows(), 30))

    locks = [pfs.Lock(f"bench/LOCK_{number}") for number in range(400)]

    def wait(events: int) -> None:
        for _ in range(events // len(locks) + 1):
            for lock in locks:
                with lock:
                    pass

    for events in (FEWER, EVENTS):
        wait(events - len(_core.rows(LONG, ["EVENT_ID"], None, False, None)))
        for clock, kind in ((time.perf_counter, "elapsed"), (time.process_time, "processor")):
            asked, two = _in_turn(lambda: pfs.sql(QUESTION).rows(), lambda: OWN.read(LONG, COLUMNS), 15, clock)
            note(f"group {events} {kind}", f"GROUP BY, {events} rows, {kind}", asked, "ms", "reading two columns", two)
    whole, all_columns = _in_turn(lambda: OWN.read(LONG, None), lambda: pyarrow.table(pfs.arrow(LONG)), 5, time.process_time)
    note("arrow", f"Arrow of all columns, {EVENTS} rows", all_columns, "ms", "reading them", whole)
    pfs.truncate(LONG)
    _files(note, summaries)
    return found


def _files(note: Callable[..., None], summaries: list[str]) -> None:
    """Snapshots of a program with 25,000 rows in all: files and merging."""
    import numpy as np

    import pfs
    from pfs._save.held import Columns, Held
    from pfs._save.snapshot import Snapshot

    for number in range(45):  # each digest has a histogram of 450 rows
        with pfs.statement("bench/query", f"SELECT c{number} FROM t"):
            pass
    taken = pfs.snapshot()
    all_rows = sum(taken._held.count(name) for name in taken)
    held = {name: taken._held.columns(name) for name in summaries}
    rows = sum(columns.rows for columns in held.values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pfs.zip"
        one, whole = _in_turn(
            lambda: taken.to_file(path, summaries=True), lambda: taken.to_folder(Path(folder) / "x"), 5, time.process_time
        )
        size, of_folder = path.stat().st_size, sum(each.stat().st_size for each in (Path(folder) / "x").iterdir())
        note("file", f"one file, {rows} rows of summaries of {all_rows} rows", one, "ms", "the folder", whole)
        note("file size", "   its size", size / 1000, "kB", "the folder", of_folder / 1000)
        note("file read", "   reading it", milliseconds(lambda: pfs.read_snapshot(path)))

    # A program without statements of its own, as most are, and its copies: other arrays, and a tenth of the texts are other ones.
    pfs.truncate("events_statements_summary_by_digest")
    taken = pfs.snapshot()
    held = {name: taken._held.columns(name) for name in summaries}
    rows = sum(columns.rows for columns in held.values())

    def copied(columns: Columns, number: int) -> Columns:
        parts = []
        for name, kind, nullable, values, mask, texts in columns.parts:
            own = np.array([f"{text}/{number}" if place % 10 == 9 else str(text) for place, text in enumerate(texts)], object) \
                if kind == "text" else texts  # fmt: skip
            copies = [None if array is None else array.copy() for array in (values, mask)]
            parts.append((name, kind, nullable, copies[0], copies[1], own))
        return Columns(columns.rows, parts)

    def snapshot(number: int, tables: dict[str, Columns]) -> Snapshot:
        return Snapshot(Held(tables), replace(taken.process, pid=taken.process.pid + number), taken.time, taken.duration)

    same = [snapshot(number, held) for number in range(SNAPSHOTS)]
    note(
        "merge same",
        f"merge of {SNAPSHOTS} snapshots of {rows} rows, the same arrays",
        milliseconds(lambda: pfs.Snapshot.merge(same), 3),
    )
    same.clear()
    many = [snapshot(number, {name: copied(columns, number) for name, columns in held.items()}) for number in range(SNAPSHOTS)]
    gc.collect()
    tenth, whole = _in_turn(
        lambda: pfs.Snapshot.merge(many[: SNAPSHOTS // 10]), lambda: pfs.Snapshot.merge(many), 7, time.process_time
    )
    note("merge", "   other arrays, a tenth of the names of each its own", whole, "ms", "merging a tenth of them", tenth)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.pfs.zip" for number in range(FILES)]
        for each, path in zip(many[:FILES], paths, strict=True):
            each.to_file(path, summaries=True)
        many.clear()
        gc.collect()

        def read(number: int) -> Snapshot:
            """As another process's: merge() refuses one that comes twice."""
            found = pfs.read_snapshot(paths[number % FILES])
            return Snapshot(found._held, replace(found.process, pid=taken.process.pid + number), found.time, found.duration)

        from_files = milliseconds(lambda: pfs.Snapshot.merge([read(number) for number in range(SNAPSHOTS)]), 2)
        note("merge files", "   the same from files", from_files, "ms", "merging them", whole)


def write(path: str) -> None:
    Path(path).write_text(json.dumps({key: asdict(figure) for key, figure in figures().items()}))


def measured() -> dict[str, Figure]:
    """Measures in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        path = os.path.join(folder, "found.json")
        program = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from tests.bench import questions; questions.write({path!r})"
        subprocess.run([sys.executable, "-c", program], env={**env, "PFS_DIR": folder, "PFS_OPTIONS": OPTIONS}, check=True)
        return {key: Figure(**figure) for key, figure in json.loads(Path(path).read_text()).items()}


if __name__ == "__main__":
    measured()
