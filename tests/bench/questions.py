"""Questions in SQL, Arrow, merging and one-file snapshots: the processor's time of each, and of what it is compared with.

    python tests/bench/questions.py

The time is the processor's, the least of several in one process; GROUP BY also shows the time that elapsed. On a virtual machine
fresh memory can take longer than the work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

EVENTS = 1_000_000
SNAPSHOTS = 1_000
LONG = "events_waits_history_long"
COLUMNS = ["EVENT_NAME", "TIMER_WAIT"]
SMALL = "select NAME, THREAD_ID from threads"
QUESTION = f"select EVENT_NAME, count(*), sum(TIMER_WAIT) from {LONG} group by 1"
OPTIONS = f"performance_schema_{LONG}_size={EVENTS},performance_schema_consumer_{LONG}=ON"


def milliseconds(what: Callable[[], object], times: int = 7, clock: Callable[[], float] = time.process_time) -> float:
    best = float("inf")
    for _ in range(times):
        begin = clock()
        what()
        best = min(best, clock() - begin)
    return best * 1000


def figures() -> None:
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    import pfs
    from pfs import _core
    from pfs._snapshots.snapshot import Snapshot, is_summary
    from pfs._source import OWN

    def show(name: str, value: float, beside: str, limit: str) -> None:
        print(f"{name:62} {value:9.1f} ms   {beside:40} {limit}", flush=True)

    def compared(name: str, value: float, what: str, with_: float, limit: str) -> None:
        show(name, value, f"{value / with_:.2f} x {what} ({with_:.1f} ms)", limit)

    with pfs.Lock("bench/LOCK"):
        pass
    summaries = [name for name in _core.tables() if is_summary(_core.table_info(name))]
    small = f"Arrow of {len(summaries)} summary tables, small program"
    show(small, milliseconds(lambda: [pfs.arrow(name) for name in summaries], 30), "", "<= 3 ms for 40")
    show("   as tables of pyarrow", milliseconds(lambda: [pyarrow.table(pfs.arrow(name)) for name in summaries], 30), "", "")

    locks = [pfs.Lock(f"bench/LOCK_{number}") for number in range(400)]
    for _ in range(EVENTS // len(locks) + 1):
        for lock in locks:
            with lock:
                pass

    show("a statement over a small table", milliseconds(lambda: pfs.sql(SMALL).rows(), 30), "", "")
    for clock, kind in ((time.perf_counter, "elapsed"), (time.process_time, "processor")):
        two = milliseconds(lambda: OWN.read(LONG, COLUMNS), 15, clock)
        asked = milliseconds(lambda: pfs.sql(QUESTION).rows(), 15, clock)
        compared(f"GROUP BY, {EVENTS} rows, {kind}", asked, "reading two columns", two, "<= 1.15 x")
    # A reading without a gap: both read all columns of the same rows.
    whole = milliseconds(lambda: OWN.read(LONG, None), 5)
    compared("Arrow of all columns", milliseconds(lambda: pyarrow.table(pfs.arrow(LONG)), 5), "reading them", whole, "<= 1.1 x")

    taken = pfs.snapshot()
    held = {name: taken._held.columns(name) for name in summaries}
    rows = sum(columns.rows for columns in held.values())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pfs.zip"
        cost = milliseconds(lambda: taken.to_file(path, summaries=True))
        show(f"one file, summaries of {rows} rows", cost, f"{path.stat().st_size / 1e6:.3f} MB", "<= 60 ms, 0.2 MB")
        show("   reading it", milliseconds(lambda: pfs.read_snapshot(path)), "", "")
    from pfs._snapshots.held import Held

    begin = taken.process.pid
    many = [
        Snapshot(Held(held), replace(taken.process, pid=pid), taken.time, taken.duration)
        for pid in range(begin, begin + SNAPSHOTS)
    ]
    show(f"merge of {SNAPSHOTS} snapshots, {rows} rows each", milliseconds(lambda: pfs.merge(many), 3), "", "<= 1500 ms for 3000")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        program = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from tests.bench.questions import figures; figures()"
        return subprocess.run(
            [sys.executable, "-c", program], env={**env, "PFS_DIR": folder, "PFS_OPTIONS": OPTIONS}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
