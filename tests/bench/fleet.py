"""Simulates a fleet, and measures the cuts of `pfs collect` and their reader: python tests/bench/fleet.py [--hosts 500].

A real program runs and is read. Each simulated process is its snapshot with all sums times a factor that is known. So each answer
over the fleet is known, too, and is compared. The files are written by the collector itself.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import pfs
import pfs.fleet
from pfs._fleet.collector import Collector, _Reading
from pfs._fleet.cut import Identity, Member
from pfs._snapshots.held import Columns, Held, declared
from pfs._snapshots.snapshot import Process, Snapshot, columns_of, take

PROCESSES = 100  # of a host
FACTORS = 101  # each process of a host has its own
TABLE = "events_waits_summary_global_by_event_name"
TOP = f"""
    select NODE, EVENT_NAME, sum(SUM_TIMER_WAIT) as time from {{schema}}{TABLE} where SUM_TIMER_WAIT > 0 group by NODE, EVENT_NAME
    qualify row_number() over (partition by NODE order by time desc, EVENT_NAME) <= 10 order by NODE, time desc, EVENT_NAME
"""
PEAK = "peak = int(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]) // 1024\n"
LARGEST = "events_statements_histogram_by_digest"
MOST_MEGABYTES = 1500  # with the largest table; twice as many hosts need twice as much
PROGRAM = """
import pathlib, sqlite3, sys, tempfile, threading, time
import pfs
locks = [pfs.Lock(f"app/LOCK_{name}") for name in range(40)]
queries = ["select %d" % n + ", a" * (n % 7) + " from t where a = 1" + " or a = 2" * n for n in range(12)]
folder = pathlib.Path(tempfile.mkdtemp())
def work():
    db = pfs.dbapi(sqlite3).connect(":memory:")
    db.execute("create table t (a)")
    for turn in range(200):
        for lock in locks:
            with lock: pass
        with pfs.stage(f"app/stage{turn % 5}"), pfs.open(folder / f"data{turn % 10}", "w", name=f"app/data{turn % 10}") as file:
            file.write("x" * 1000)
        db.execute(queries[turn % len(queries)]).fetchall()
threads = [pfs.Thread(target=work, name="app/worker") for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def program() -> Iterator[int]:
    """Runs the real program, and yields its process id when it has done its work."""
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate()


def multiplied(snapshot: Snapshot, factor: int) -> Snapshot:
    """Returns a snapshot with all sums times a factor."""
    tables = {}
    for name in snapshot:
        columns = columns_of(snapshot, name)
        assert columns is not None
        sums = {column["name"] for column in declared(name)["columns"] if column["combine"] == "sum"}
        parts = [(*part[:3], part[3] * factor, *part[4:]) if part[0] in sums else part for part in columns.parts]
        tables[name] = Columns(columns.rows, parts)
    return Snapshot(Held(tables), snapshot.process, snapshot.time, snapshot.duration)


def factor_of(host: int, process: int, cut: int) -> int:
    return 1 + (host * 7 + process * 31) % FACTORS + cut


class Simulated(Collector):
    """Writes the cuts of a host whose processes are multiples of a snapshot."""

    def __init__(self, folder: str, host: int, multiples: Sequence[Snapshot]) -> None:
        super().__init__(folder, f"host{host:03}", list)
        self._host, self._multiples, self._turn = host, multiples, 0

    def _read(self, found: Any, over: Any, problems: list[str]) -> tuple[list[_Reading], list[Identity]]:
        readings = []
        for number in range(PROCESSES):
            source = self._multiples[factor_of(self._host, number, self._turn) - 1]
            old = source.process
            identity = Identity(old.boot_id, old.pid_namespace, 1000 + number, old.process_start_ticks + number, old.started)
            process = Process(identity.pid, old.pid_namespace, identity.process_start_ticks, old.boot_id, old.started, "app")
            held = Snapshot(source._held, process, source.time, source.duration)
            readings.append(_Reading(Member(identity, "python app.py", "alive"), held))
        self._turn += 1
        return readings, []


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(folder: str, hosts: int, expected: dict[str, int]) -> list[Any]:
    """Measures the reader in a process of its own, and returns a row of the table."""
    code = (
        "import sys, time, pfs.fleet\n"
        "pfs.sql('select 1')\n"  # imports
        "def timed(statement):\n"
        "    begin = time.perf_counter(); rows = fleet.sql(statement).rows(); return time.perf_counter() - begin, rows\n"
        "begin = time.perf_counter(); fleet = pfs.fleet.read(sys.argv[1]); opened = time.perf_counter() - begin\n"
        f"by_node, top = timed('''{TOP.format(schema='')}''')\n"
        f"view, _ = timed('select * from sys.statement_analysis')\n"
        f"by_process, same = timed('''{TOP.format(schema='process.')}''')\n"
        f"rates, rows = timed('select NODE, sum(COUNT_STAR * SECONDS) from rates.{TABLE} join fleet.nodes using (NODE)"
        " group by 1')\n"
        f"total = fleet.sql('select sum(COUNT_STAR), sum(SUM_TIMER_WAIT) from process.{TABLE}').rows()[0]\n"
        f"again = fleet.sql('select sum(COUNT_STAR), sum(SUM_TIMER_WAIT) from {TABLE}').rows()[0]\n"
        "assert top == same and total == again\n"
        f"{PEAK}"
        "print(opened, by_node, by_process, view, rates, peak, *total, round(sum(row[1] for row in rows)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], check=True, stdout=subprocess.PIPE, text=True)
    *times, peak, count, wait, between = done.stdout.split()
    assert (int(count), int(wait)) == (expected["COUNT_STAR"], expected["SUM_TIMER_WAIT"]), (count, wait, expected)
    assert int(between) == expected["between"], (between, expected)
    return [*map(float, times), int(peak)]


def measure_largest(folder: str) -> list[Any]:
    """Measures a question about the largest table, in a process of its own: rows, seconds, megabytes."""
    code = (
        "import sys, time, pfs.fleet\n"
        "begin = time.perf_counter()\n"
        f"rows = pfs.fleet.read(sys.argv[1]).sql('select count(*), sum(COUNT_BUCKET) from process.{LARGEST}').rows()[0][0]\n"
        f"{PEAK}print(rows, time.perf_counter() - begin, peak)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], check=True, stdout=subprocess.PIPE, text=True)
    rows, elapsed, peak = done.stdout.split()
    return [f"{int(rows):,}", f"{float(elapsed):.2f} s", peak]


def expected_of(base: Snapshot, hosts: int) -> dict[str, int]:
    """Returns the sums over the last cut, and the count between the two cuts, as Python integers."""
    columns = columns_of(base, TABLE)
    assert columns is not None
    own = {
        part[0]: int(np.asarray(part[3], dtype=object).sum())
        for part in columns.parts
        if part[0] in ("COUNT_STAR", "SUM_TIMER_WAIT")
    }
    factors = sum(factor_of(host, number, 1) for host in range(hosts) for number in range(PROCESSES))
    return {name: value * factors for name, value in own.items()} | {"between": own["COUNT_STAR"] * hosts * PROCESSES}


def main(options: Sequence[str] | None = None) -> list[list[float]]:
    """Prints the measurements. Returns the seconds and megabytes for each number of hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--folder", help="a new folder for the files, which stay there")
    arguments = parser.parse_args(options)
    folder = arguments.folder or tempfile.mkdtemp(prefix="pfs-fleet-")
    sizes = sorted({size for size in (1, 10, 50, 100, 250, 500) if size < arguments.hosts} | {arguments.hosts})
    with program() as pid, pfs.attach(pid) as schema:
        names = Collector(folder, "names", list)._tables
        source = schema._source
        base = take(source, source.identity, None, names)
        read = seconds(lambda: [take(source, source.identity, None, names) for _ in range(PROCESSES)])
    rows = {name: base._held.count(name) for name in base}
    print(f"a process: {sum(rows.values())} rows in {sum(1 for count in rows.values() if count)} tables that have rows")
    print(f"reading {PROCESSES} processes: {read:.2f} s")
    multiples = [multiplied(base, factor) for factor in range(1, FACTORS + 2)]
    writes, bytes_ = [], []
    for host in range(arguments.hosts):
        collector = Simulated(folder, host, multiples)
        for _ in range(2):
            begin = time.perf_counter()
            bytes_.append(os.path.getsize(collector.cut().path))
            writes.append(time.perf_counter() - begin)
        collector.close()
    print(
        f"merging and writing a cut of {PROCESSES} processes: {np.median(writes):.2f} s (max {max(writes):.2f}); "
        f"{np.median(bytes_) / 1e6:.2f} MB; collector's peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
    )
    print(
        "\n| hosts | processes | MB | open | top 10 by node | the same from processes | sys view | rates | MB of memory |"
        " rows of the largest table | its sum | MB of memory |\n|" + " --: |" * 12
    )
    largest: list[Any] = ["", "", 1]
    measured = []
    for size in sizes:
        part = tempfile.mkdtemp(prefix="pfs-fleet-part-")
        for host in range(size):
            os.symlink(os.path.join(folder, f"host{host:03}"), os.path.join(part, f"host{host:03}"))
        row = measure(part, size, expected_of(base, size))
        largest = measure_largest(part) if int(largest[2] or MOST_MEGABYTES) < MOST_MEGABYTES else ["-", "", ""]
        shutil.rmtree(part)
        measured.append(row)
        *times, peak = row
        texts = [
            str(size),
            f"{size * PROCESSES:,}",
            f"{sum(bytes_[1::2][:size]) / 1e6:.0f}",
            *(f"{each:.2f} s" for each in times),
            str(peak),
            *largest,
        ]
        print(f"| {' | '.join(texts)} |", flush=True)
    if arguments.folder is None:
        shutil.rmtree(folder)
    return measured


if __name__ == "__main__":
    main()
