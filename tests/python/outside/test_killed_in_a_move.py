"""The numbers of an object that ends are counted once at each instruction of their way to its instrument: a kill loses none.

A tracer takes one step of the program after the other. After each that changes the segment it takes a copy, as of a dead process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.conftest import Build
from tests.python._programs.segment_file import HEADER
from tests.python._programs.subject import START_TICKS, forge
from tests.python.programs.test_programs import Talker, environment

_CONTINUE, _SINGLE_STEP = 7, 9
_OPTIONS = ",".join(
    [
        "performance_schema_instrument='%=ON'",
        "performance_schema_max_object_cells=500",
        "performance_schema_events_waits_history_long_size=100",
        "performance_schema_max_thread_instances=8",
    ]
)
# Sums of an instrument, in the tables that show them.
_SUMS = {
    "events_waits_summary_global_by_event_name": (
        "EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "MAX_TIMER_WAIT",
    ),
    "file_summary_by_event_name": ("EVENT_NAME", "COUNT_READ", "COUNT_WRITE", "COUNT_MISC", "SUM_NUMBER_OF_BYTES_READ"),
    "socket_summary_by_event_name": ("EVENT_NAME", "COUNT_READ", "COUNT_WRITE", "COUNT_MISC", "SUM_NUMBER_OF_BYTES_WRITE"),
}  # fmt: skip
# Events between the two stops.
_OWN_EVENTS = {"file": 2, "socket": 2, "retired": 1}
_TRUNCATED = (
    "events_waits_summary_by_instance", "file_summary_by_instance", "socket_summary_by_instance",
    "table_io_waits_summary_by_table", "table_lock_waits_summary_by_table",
)  # fmt: skip
_NAMES = ("wait/io/file/moved/file", "wait/io/socket/moved/socket", "wait/io/table/sql/handler", "wait/lock/table/sql/handler",
          "wait/synch/mutex/moved/mutex", "wait/synch/rwlock/moved/rwlock")  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)


def ptrace(request: int, pid: int) -> None:
    assert _libc.ptrace(request, pid, None, None) == 0, os.strerror(ctypes.get_errno())


def sums_of(image: Path, may_be_half: bool) -> dict[tuple[str, str], tuple[Any, ...]]:
    """`may_be_half`: without minimum and maximum, which an event changes in several steps."""
    segment = _core.Segment(str(image))
    sums = {
        (table, row[0]): tuple(row[1:])
        for table, columns in _SUMS.items()
        for row in _core.rows(
            table, [column for column in columns if not may_be_half or column[:4] not in ("MIN_", "MAX_")], segment
        )
        if row[0] in _NAMES
    }
    status = dict(_core.rows("global_status", None, segment))
    assert int(status["Performance_schema_rows_skipped"]) == 0
    return sums


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(f"/dev/shm/pfs-test-move-{os.getpid()}")  # where holes are told from pages
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


def steps(path: Path, pid: int, image: Path) -> Iterator[int]:
    """Yields after each instruction that has changed the segment, until the next SIGSTOP. `image` is the copy."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as segment:
        (used,) = struct.unpack_from("<Q", segment, HEADER["file_bytes"])  # without the pool behind it
        now = (ctypes.c_char * used).from_buffer(segment)
        before, count = b"", 0
        while True:
            if not before or _libc.memcmp(now, before, used) != 0:
                before = now.raw
                image.write_bytes(before)
                forge(image, START_TICKS, 1)
                yield count
            ptrace(_SINGLE_STEP, pid)
            _, status = os.waitpid(pid, 0)
            assert os.WIFSTOPPED(status), status
            if os.WSTOPSIG(status) == signal.SIGSTOP:
                break
            assert os.WSTOPSIG(status) == signal.SIGTRAP, status
            count += 1
        del now  # or the mapping stays


@pytest.fixture
def stopped(build: Build, place: Path, tmp_path: Path) -> Iterator[Callable[[str], tuple[Path, int]]]:
    """Starts the program, and returns its segment and its pid when it stands at its first stop."""
    programs: list[subprocess.Popen[str]] = []

    def start(what: str) -> tuple[Path, int]:
        command: list[str | Path] = [build("moved"), tmp_path, what]
        programs.append(
            subprocess.Popen(command, env=environment(place, PFS_OPTIONS=_OPTIONS), stdout=subprocess.PIPE, text=True)
        )
        path = Path(Talker(programs[0]).until("segment"))
        _, status = os.waitpid(programs[0].pid, 0)
        assert os.WIFSTOPPED(status), status
        return path, programs[0].pid

    yield start
    for program in programs:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


@pytest.mark.parametrize("what", ["file", "socket", "mutex", "rwlock", "retired", "table"])
def test_no_step_loses_or_doubles_a_number(what: str, stopped: Callable[[str], tuple[Path, int]], place: Path) -> None:
    path, pid = stopped(what)
    image = place / "image.pfs"
    seen: list[dict[tuple[str, str], tuple[Any, ...]]] = []
    for step in steps(path, pid, image):
        sums = sums_of(image, what in _OWN_EVENTS)
        if not seen or sums != seen[-1]:
            seen.append(sums)
            print(step, sums if len(seen) == 1 else {key: now for key, now in sums.items() if now != seen[-2][key]})
    assert seen[0]["events_waits_summary_global_by_event_name", "wait/synch/mutex/moved/mutex"][0] == 9
    assert len(seen) <= 1 + _OWN_EVENTS.get(what, 0)


def counts_of(image: Path) -> dict[str, int]:
    """The events in each table that was truncated, and those of the instruments of tables, which keep theirs."""
    segment = _core.Segment(str(image))
    counts = {table: sum(row[0] for row in _core.rows(table, ["COUNT_STAR"], segment)) for table in _TRUNCATED}
    for name, count in _core.rows("events_waits_summary_global_by_event_name", ["EVENT_NAME", "COUNT_STAR"], segment):
        if name in ("wait/io/table/sql/handler", "wait/lock/table/sql/handler"):
            counts[name] = count
    return counts


def test_no_step_shows_numbers_of_before_a_truncate(stopped: Callable[[str], tuple[Path, int]], place: Path) -> None:
    path, pid = stopped("truncated")
    before = pfs.attach(path)
    assert all(before.table(table)["COUNT_STAR"].sum() > 2 for table in _TRUNCATED)
    with pfs.attach(path, write=True) as schema:
        for table in _TRUNCATED:
            schema.truncate(table)
    ptrace(_CONTINUE, pid)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSTOPPED(status), status
    image = place / "image.pfs"
    seen: list[dict[str, int]] = []
    for step in steps(path, pid, image):
        counts = counts_of(image)
        if not seen or counts != seen[-1]:
            seen.append(counts)
            print(step, counts if len(seen) == 1 else {key: now for key, now in counts.items() if now != seen[-2][key]})
    assert seen[0]["events_waits_summary_by_instance"] == 1  # of the lock that the program used before its second stop
    assert all(seen[0][table] == 0 for table in _TRUNCATED[1:])
    for key in seen[0]:
        there = [counts[key] for counts in seen]
        assert there == sorted(there), f"{key}: {there}"
        assert there[-1] > there[0], key
