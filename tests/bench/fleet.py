"""Simulates a fleet, and measures the cuts of `pfs collect` and their reader: python tests/bench/fleet.py [--hosts 500].

Seconds are processor time of all threads, which other programs hardly change.

Three real programs run and are read: a service, a batch job, an agent. Each simulated process is one of their snapshots with all
sums times a factor that is known. So each answer over the fleet is known, too, and is compared. The files are written by the
collector itself.
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
from pfs._many.fleet.collector import Collector, _Reading
from pfs._many.fleet.cut import Identity, Member
from pfs._save.frames import columns_of
from pfs._save.held import Columns, Held, declared
from pfs._save.snapshot import Snapshot, take

PROCESSES = 100  # of a host
FACTORS = 37  # three processes of a host have the same, and each is of another program
TABLE = "events_waits_summary_global_by_event_name"
TOP = f"""
    select NODE, EVENT_NAME, sum(SUM_TIMER_WAIT) as time from {{schema}}{TABLE} where SUM_TIMER_WAIT > 0 group by NODE, EVENT_NAME
    qualify row_number() over (partition by NODE order by time desc, EVENT_NAME) <= 10 order by NODE, time desc, EVENT_NAME
"""
PEAK = "peak = int(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]) // 1024\n"
LARGEST = "events_statements_histogram_by_digest"
MOST_MEGABYTES = 1500  # with the largest table; twice as many hosts need twice as much
SERVICE = """
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
"""
JOB = """
import pathlib, tempfile
import pfs
folder, done = pathlib.Path(tempfile.mkdtemp()), [pfs.Condition(name=f"job/done{number}") for number in range(30)]
for turn in range(300):
    with pfs.stage(f"job/step{turn % 40}"), pfs.open(folder / f"part{turn % 60}", "w", name=f"job/part{turn % 60}") as file:
        file.write("y" * 5000)
    with done[turn % 30]: done[turn % 30].notify()
"""
AGENT = """
import pfs
left, right = pfs.socketpair(name="agent/link")
state = pfs.Lock("agent/LOCK_state")
for turn in range(100):
    with state, pfs.statement(f"agent/command{turn % 30}", f"push to target_{turn % 10} set n = {turn}"):
        left.sendall(b"z" * 100)
        right.recv(1000)
"""
PROGRAMS = {"app": SERVICE, "job": JOB, "agent": AGENT}


@contextmanager
def program(code: str = SERVICE) -> Iterator[int]:
    """Runs a real program, and yields its process id when it has done its work."""
    command = [sys.executable, "-c", code + "\nimport sys\nprint('ready', flush=True)\nsys.stdin.read()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate()


def snapshots(names: Sequence[str]) -> list[Snapshot]:
    """Returns a snapshot of each of the programs."""
    taken = []
    for code in PROGRAMS.values():
        with program(code) as pid, pfs.attach(pid) as schema:
            one = take(schema._source, schema._source.identity, None, names)
            held = Held({name: Columns(*schema._source.used(name)) for name in names})  # as the collector reads them
            taken.append(Snapshot(held, one.process, one.time, one.duration))
    return taken


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


def program_of(process: int) -> int:
    """Returns the number of the program that a process runs."""
    return process % len(PROGRAMS)


class Simulated(Collector):
    """Writes the cuts of a host whose processes are multiples of a snapshot."""

    def __init__(self, folder: str, host: int, multiples: Sequence[Sequence[Snapshot]]) -> None:
        """``multiples``: of each program."""
        super().__init__(folder, f"host{host:03}", list)
        self._host, self._multiples, self._turn = host, multiples, 0

    def _read(self, found: Any, over: Any, problems: list[str], unreadable: Any) -> tuple[list[_Reading], list[Identity]]:
        readings = []
        for number in range(PROCESSES):
            which = program_of(number)
            source = self._multiples[which][factor_of(self._host, number, self._turn) - 1]
            name = list(PROGRAMS)[which]
            old = source.process
            identity = Identity(old.boot_id, old.pid_namespace, 1000 + number, old.process_start_ticks + number, old.started)
            readings.append(_Reading(Member(identity, f"python {name}.py", "alive"), source._held.columns))
        self._turn += 1
        return readings, []


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(folder: str, hosts: int, expected: dict[str, int]) -> list[Any]:
    """Measures the reader in a process of its own, and returns a row of the table."""
    code = (
        "import sys, time, pfs.fleet\n"
        "pfs.sql('select 1')\n"  # imports
        "def timed(statement):\n"
        "    begin = time.process_time(); rows = fleet.sql(statement).rows(); return time.process_time() - begin, rows\n"
        "begin = time.process_time(); fleet = pfs.fleet.read(sys.argv[1]); opened = time.process_time() - begin\n"
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
        "begin = time.process_time()\n"
        f"rows = pfs.fleet.read(sys.argv[1]).sql('select count(*), sum(COUNT_BUCKET) from process.{LARGEST}').rows()[0][0]\n"
        f"{PEAK}print(rows, time.process_time() - begin, peak)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], check=True, stdout=subprocess.PIPE, text=True)
    rows, elapsed, peak = done.stdout.split()
    return [f"{int(rows):,}", f"{float(elapsed):.2f} s", peak]


def expected_of(bases: Sequence[Snapshot], hosts: int, cut: int = 1) -> dict[str, int]:
    """Returns the sums over a cut, and the count since the cut before, as Python integers."""
    total = {"COUNT_STAR": 0, "SUM_TIMER_WAIT": 0, "between": 0}
    for which, base in enumerate(bases):
        columns = columns_of(base, TABLE)
        assert columns is not None
        own = {part[0]: int(np.asarray(part[3], dtype=object).sum()) for part in columns.parts if part[0] in total}
        mine = [number for number in range(PROCESSES) if program_of(number) == which]
        factors = sum(factor_of(host, number, cut) for host in range(hosts) for number in mine)
        for name, value in own.items():
            total[name] += value * factors
        total["between"] += own["COUNT_STAR"] * hosts * len(mine)
    return total


def made(folder: str, hosts: int, bases: Sequence[Snapshot], cuts: int = 2) -> tuple[list[float], list[int]]:
    """Writes so many cuts of each host. Returns the seconds and the bytes of each cut, host by host."""
    multiples = [[multiplied(base, factor) for factor in range(1, FACTORS + cuts)] for base in bases]
    writes, sizes = [], []
    for host in range(hosts):
        collector = Simulated(folder, host, multiples)
        for _ in range(cuts):
            begin = time.process_time()
            sizes.append(os.path.getsize(collector.cut().path))
            writes.append(time.process_time() - begin)
        collector.close()
    return writes, sizes


def main(options: Sequence[str] | None = None) -> list[list[float]]:
    """Prints the measurements. Returns the seconds and megabytes for each number of hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--folder", help="a new folder for the files, which stay there")
    arguments = parser.parse_args(options)
    folder = arguments.folder or tempfile.mkdtemp(prefix="pfs-fleet-")
    sizes = sorted({size for size in (1, 10, 50, 100, 250, 500) if size < arguments.hosts} | {arguments.hosts})
    names = Collector(folder, "names", list)._tables
    with program() as pid, pfs.attach(pid) as schema:
        source = schema._source
        read = seconds(lambda: [take(source, source.identity, None, names) for _ in range(PROCESSES)])
    bases = snapshots(names)
    for name, base in zip(PROGRAMS, bases, strict=True):
        rows = [count for table in base if (count := base._held.count(table))]
        print(f"{name}: {sum(rows)} rows in {len(rows)} tables that have rows")
    print(f"reading {PROCESSES} processes: {read:.2f} s")
    writes, bytes_ = made(folder, arguments.hosts, bases)
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
        row = measure(part, size, expected_of(bases, size))
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
