"""A C program under load, read from outside: what it has counted at the end is what it has done.

Figures are printed (-s), not judged.
"""

from __future__ import annotations

import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests import budgets
from tests.conftest import Build
from tests.python.programs.test_programs import environment, rows, status_of, talking

TABLES = (
    "events_waits_summary_global_by_event_name",
    "events_waits_current",
    "events_statements_history_long",
    "events_statements_summary_by_digest",
    "file_summary_by_instance",
    "mutex_instances",
    "memory_summary_global_by_event_name",
    "threads",
)


def one(segment: str, table: str, name: str) -> dict[str, object]:
    (row,) = [row for row in rows(segment, table) if row["EVENT_NAME"] == name]
    return row


def test_totals_are_the_same_with_and_without_readers(build: Build, tmp_path: Path) -> None:
    """Attached again and again by two readers, one of which is stopped and killed in the middle: the program does not notice."""
    counter = tmp_path / "counter"
    counter.write_bytes(bytes(8))
    with talking(build("loaded"), str(counter), folder=tmp_path) as program, open(counter, "rb") as file:
        program.until("working")
        segment = program.said["segment"]
        count = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

        def rate(seconds: float, work: object = None) -> tuple[float, int]:
            """Rounds a second, and how often `work` was done meanwhile."""
            begin, start, times = struct.unpack("<Q", count)[0], time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                if callable(work):
                    work()
                    times += 1
                else:
                    time.sleep(0.01)
            return (struct.unpack("<Q", count)[0] - begin) / (time.perf_counter() - start), times

        other = subprocess.Popen(
            [sys.executable, "-c", READER, segment], env=environment(tmp_path / "none"), stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "reading\n"
        time.sleep(0.1)
        other.send_signal(signal.SIGSTOP)

        # The program on the first processor, readers on the others: what is measured is what reading does to it, not who has the
        # processor.
        before = os.sched_getaffinity(0)
        if len(before) > 1:
            for thread in os.listdir(f"/proc/{program.process.pid}/task"):
                os.sched_setaffinity(int(thread), sorted(before)[:1])
            os.sched_setaffinity(0, sorted(before)[1:])
        try:
            turn = 0

            def read() -> None:
                nonlocal turn
                turn += 1
                opened = _core.Segment(segment)
                for table in TABLES[turn % 2 :: 2]:
                    _core.read(table, None, opened)

            def spin() -> None:
                """Work beside the program that reads nothing of it: processors share more than memory."""
                end = time.perf_counter() + 0.01
                while time.perf_counter() < end:
                    sum(range(1000))

            ratios, beside, reads = [], [], 0
            while reads < budgets.READS_OF_A_PROGRAM:
                quiet, _ = rate(0.1)
                loud, times = rate(0.1, read)
                again, _ = rate(0.1)
                busy, _ = rate(0.1, spin)
                reads += times
                ratios.append(loud / ((quiet + again) / 2))
                beside.append(busy / ((quiet + again) / 2))
        finally:
            os.sched_setaffinity(0, before)
        other.kill()
        other.wait()
        other.stdout.close()
        program.go()
        program.until("done")
        did = {name: int(value) for name, value in program.said.items() if value.isdigit()}
        waits = "events_waits_summary_global_by_event_name"
        assert one(segment, waits, "wait/synch/mutex/loaded/lock")["COUNT_STAR"] == did["rounds"]
        assert one(segment, waits, "wait/synch/mutex/loaded/mixed")["COUNT_STAR"] == did["mixed"]
        assert one(segment, waits, "wait/io/file/loaded/null")["COUNT_STAR"] == did["mixed"] + 2
        data = one(segment, "file_summary_by_event_name", "wait/io/file/loaded/null")
        assert (data["COUNT_WRITE"], data["SUM_NUMBER_OF_BYTES_WRITE"]) == (did["mixed"], did["bytes"])
        statements = one(segment, "events_statements_summary_global_by_event_name", "statement/loaded/do")
        assert statements["COUNT_STAR"] == did["mixed"]
        (digest,) = [row for row in rows(segment, "events_statements_summary_by_digest") if row["DIGEST_TEXT"] == "DO ?"]
        assert digest["COUNT_STAR"] == did["mixed"]
        assert one(segment, "events_stages_summary_global_by_event_name", "stage/loaded/working")["COUNT_STAR"] == did["mixed"]
        blocks = one(segment, "memory_summary_global_by_event_name", "memory/loaded/block")
        assert blocks["COUNT_ALLOC"] == blocks["COUNT_FREE"] == did["mixed"]
        assert blocks["SUM_NUMBER_OF_BYTES_ALLOC"] == 100 * did["mixed"]
        lost = {name: value for name, value in status_of(segment).items() if name.endswith("_lost") and value != "0"}
        assert lost == {}
    print(
        f"\n{reads} readings of {len(TABLES) // 2} tables: the program's rate while it is read is"
        f" {statistics.median(ratios):.3f} of its own (median of {len(ratios)}; {min(ratios):.3f} to {max(ratios):.3f});"
        f" beside a program that reads nothing {statistics.median(beside):.3f}"
    )


READER = textwrap.dedent("""
    import sys
    from pfs import _core
    print("reading", flush=True)
    while True:
        segment = _core.Segment(sys.argv[1])
        for table in _core.tables():
            _core.read(table, None, segment)
""")

CROWD = """
    import sys, threading
    import pfs

    count = int(sys.argv[1])
    locks = [pfs.Lock(f"crowd/lock_{i}") for i in range(count)]
    there, go = threading.Barrier(count + 1), threading.Event()

    def work(i):
        for n in range(5):
            with locks[(i + n) % count]:
                pass
        there.wait()
        go.wait()

    threading.stack_size(128 * 1024)
    threads = [pfs.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    there.wait()
    from pfs import _core
    print(_core.segment_path(), flush=True)
    sys.stdin.readline()
    go.set()
"""


@pytest.mark.skipif(not hasattr(pfs, "Thread"), reason="threads of Python")
@pytest.mark.alone
def test_a_crowd_is_read_in_time_and_memory_of_what_is_used(tmp_path: Path) -> None:
    """Every table of a process with many threads and instruments."""
    count = budgets.CROWD
    options = f"performance_schema_max_mutex_classes={min(1024, count + 350)}"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(CROWD), str(count)],
        env=environment(tmp_path, PFS_OPTIONS=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        path = process.stdout.readline().strip()
        blocks = os.stat(path).st_blocks
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(MEASURE), path],
            env=environment(tmp_path / "none"), capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert os.stat(path).st_blocks == blocks
        process.communicate("\n", timeout=60)
    print(f"\n{count} threads, {count} instruments, {blocks // 2} KiB of segment\n{done.stdout}")
    assert f"threads {count + 1}" in done.stdout


MEASURE = """
    import resource, sys, time
    from pfs import _core

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def one(segment, table):
        start = time.perf_counter()
        count, skipped, _ = _core.read(table, None, segment)
        return time.perf_counter() - start, count, skipped

    segment = _core.Segment(sys.argv[1])
    before, results, start = peak(), [], time.perf_counter()
    for table in _core.tables():
        results.append((*one(segment, table), table))
        if table == "threads":
            print("threads", results[-1][1])
    assert not any(skipped for _, _, skipped, _ in results), results
    print(f"all {len(results)} tables: {sum(r[0] for r in results):.3f} s, {sum(r[1] for r in results)} rows,"
          f" {peak() - before} MiB more than before")
    for seconds, count, _, table in sorted(results, reverse=True)[:10]:
        print(f"  {seconds * 1e3:8.1f} ms {count:9d} rows  {table}")
"""
