"""The segment of a program that died opens, every row of it is right, and it says what every thread was doing.

tests/programs/checked.c makes rows that prove themselves, and _programs/checked_program.py does in Python. Their counts are
compared with what they say themselves.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import budgets
from tests.conftest import Build
from tests.python._programs import checked
from tests.python._programs.checked import WORKERS, Tables, check, check_counts, check_doing, log_in, text_of
from tests.python.programs.test_programs import Row, Talker, environment, segments_in
from tests.python.programs.test_programs import rows as rows_of


def start(build: Build, place: Path, work: Path, how: str, *log: Path, **more: str) -> subprocess.Popen[str]:
    work.mkdir(exist_ok=True)
    env = environment(place, PFS_OPTIONS=checked.OPTIONS, **more)
    return subprocess.Popen([build("checked"), work, how, *log], env=env, stdout=subprocess.PIPE, text=True)


def start_python(place: Path, work: Path, log: Path) -> subprocess.Popen[str]:
    work.mkdir(exist_ok=True)
    program = Path(checked.__file__).with_name("checked_program.py")
    env = environment(place, PFS_OPTIONS=checked.OPTIONS)
    return subprocess.Popen([sys.executable, program, work, log], env=env, stdout=subprocess.PIPE, text=True)


def waits_for_the_gate(path: str) -> bool:
    return any(
        row["EVENT_NAME"] == "wait/synch/mutex/checked/gate" and row["END_EVENT_ID"] is None
        for row in rows_of(path, "events_waits_current", "EVENT_NAME", "END_EVENT_ID")
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "segments"
    path.mkdir(mode=0o700)
    return path


@pytest.mark.parametrize("language", ["C", "Python"])
def test_killed_at_any_moment(language: str, build: Build, place: Path, tmp_path: Path) -> None:
    """Kill -9; each segment opens, every row is right, no row is left out, and counts are those of the program's log."""
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    found: Counter[str] = Counter()
    for kill in range(budgets.KILLS if language == "C" else max(1, budgets.KILLS // 2)):
        log, delay = tmp_path / "log", dice.random() ** 3 * 0.4
        program = (
            start(build, place, tmp_path / "work", "0", log) if language == "C" else start_python(place, tmp_path / "work", log)
        )
        with program as process:
            talker = Talker(process)
            path = talker.until("segment")
            talker.until("working")
            time.sleep(delay)
            late, deadline = delay > 0.2, time.monotonic() + 60
            while late and not waits_for_the_gate(path) and time.monotonic() < deadline:  # on a busy machine it comes later
                time.sleep(0.01)
            process.kill()
        try:
            tables = Tables(path)
            rows = tables.all()
            check(rows)
            check_doing(rows, gate_is_waited_for=late)
            with log_in(log) as said:
                last = said.read()
            found["counts"] += check_counts(rows, last, last, checked.FILE_EVENTS[language])
            assert not +tables.skipped, tables.skipped
        except BaseException:
            print(f"seed {seed}, kill {kill} after {delay:.6f} s")
            raise
        found["rows"] += sum(map(len, rows.values()))
        found["events"] += sum(worker.ended for worker in last)
        found["repaired"] += int(tables.segment_status("Performance_schema_rows_repaired"))
        found["kills"] += 1
        os.unlink(path)
    print(f"\n{language}: {dict(found)}")


@pytest.mark.parametrize(("how", "death"), [("abort", signal.SIGABRT), ("segv", signal.SIGSEGV)])
def test_a_crash_in_the_middle_of_an_event(build: Build, place: Path, tmp_path: Path, how: str, death: int) -> None:
    """The thread that crashed is in its statement, and holds its lock."""
    with start(build, place, tmp_path / "work", how) as process:
        path = Talker(process).until("segment")
    assert process.returncode == -death
    found = Tables(path).all()
    check(found)
    check_doing(found, gate_is_waited_for=False)
    (guilty,) = [row["THREAD_ID"] for row in found["threads"] if row["PROCESSLIST_USER"] == "user_1"]
    (statement,) = [row for row in found["events_statements_current"] if row["THREAD_ID"] == guilty]
    assert statement["END_EVENT_ID"] is None
    assert statement["SQL_TEXT"] == text_of(100101)
    assert guilty in [row["LOCKED_BY_THREAD_ID"] for row in found["mutex_instances"]]
    history: list[Any] = [row["SQL_TEXT"] for row in found["events_statements_history"] if row["THREAD_ID"] == guilty]
    assert history == [text_of(n) for n in range(100091, 100101)]  # its last ten


def test_a_segment_that_is_kept_after_a_clean_end(build: Build, place: Path, tmp_path: Path) -> None:
    """PFS_KEEP=1: the totals of the whole run, and no thread but the first."""
    with start(build, place, tmp_path / "work", "clean", PFS_KEEP="1") as process:
        path = Talker(process).until("segment")
    assert process.returncode == 0
    assert segments_in(place) == [Path(path).name]
    found = Tables(path).all()
    check(found)
    per_worker = 199

    def row_of(table: str, name: str) -> Row:
        (row,) = [row for row in found[table] if row["EVENT_NAME"] == name]
        return row

    statements = row_of("events_statements_summary_global_by_event_name", "statement/checked/select")
    assert statements["COUNT_STAR"] == WORKERS * per_worker
    assert statements["SUM_ROWS_SENT"] == 3 * statements["SUM_ROWS_EXAMINED"]
    files = row_of("file_summary_by_event_name", "wait/io/file/checked/data")
    assert files["COUNT_READ"] == files["COUNT_WRITE"] == WORKERS * (per_worker // 4)
    assert files["SUM_NUMBER_OF_BYTES_READ"] == files["SUM_NUMBER_OF_BYTES_WRITE"]
    blocks = row_of("memory_summary_global_by_event_name", "memory/checked/block")
    assert (blocks["COUNT_ALLOC"], blocks["CURRENT_COUNT_USED"]) == (WORKERS * per_worker, 0)
    waits = row_of("events_waits_summary_global_by_event_name", "wait/synch/mutex/checked/lock")
    assert waits["COUNT_STAR"] == WORKERS * per_worker
    assert not any(row["LOCKED_BY_THREAD_ID"] for row in found["mutex_instances"])
    assert not [row for row in found["threads"] if row["PROCESSLIST_USER"]]


def test_without_keep_a_clean_end_leaves_nothing(build: Build, place: Path, tmp_path: Path) -> None:
    with start(build, place, tmp_path / "work", "clean") as process:
        Talker(process).until("segment")
    assert process.returncode == 0
    assert segments_in(place) == []


def test_a_row_that_is_made_of_two_is_found(build: Build, place: Path, tmp_path: Path) -> None:
    """Negative control: one statement's text with another's number."""
    with start(build, place, tmp_path / "work", "clean", PFS_KEEP="1") as process:
        path = Talker(process).until("segment")
    found = Tables(path).all()
    one, two = found["events_statements_history_long"][:2]
    one["SQL_TEXT"] = two["SQL_TEXT"]
    with pytest.raises(AssertionError):
        check(found)


# ---- Core dumps --------------------------------------------------------------------------------------------------------------


def core_of(build: Build, place: Path, work: Path, dump_filter: int, **more: str) -> Path:
    """Aborts a program that has worked, and returns its core."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        Path("/proc/self/coredump_filter").write_text(hex(dump_filter))

    work.mkdir()
    env = environment(place, **{"PFS_OPTIONS": checked.OPTIONS, **more})
    subprocess.run(
        [build("checked"), work, "abort"], env=env, cwd=work, stdout=subprocess.DEVNULL, preexec_fn=prepare, check=False
    )
    cores = list(work.glob("core*"))
    if not cores:
        pytest.skip("this system writes no cores beside the program")
    return cores[0]


@pytest.mark.skipif(
    not re.fullmatch(r"core\S*", Path("/proc/sys/kernel/core_pattern").read_text().strip()),
    reason="cores go elsewhere on this system",
)
def test_a_core_has_what_the_manual_says(build: Build, place: Path, tmp_path: Path) -> None:
    """docs/howto/after_a_crash.md: by default no segment, but with shared file mappings dumped, or a private one."""
    by_default, shared_files = 0x33, 0x3B
    bare = core_of(build, place, tmp_path / "off", by_default, PFS_OPTIONS="performance_schema=OFF").stat()
    assert segments_in(place) == []
    core = core_of(build, place, tmp_path / "default", by_default)
    (name,) = segments_in(place)
    head = (place / name).read_bytes()[:64]  # its magic, layout, addresses and pid
    assert head not in core.read_bytes()
    more = (core.stat().st_blocks - bare.st_blocks) * 512  # pages that were never used are holes
    print(f"a core of {bare.st_blocks // 2} KiB without pfs has {more >> 10} KiB more")
    assert more < 4 << 20
    assert Tables(str(place / name))["threads"]  # the file is there beside it
    (place / name).unlink()

    core = core_of(build, place, tmp_path / "shared", shared_files)
    (name,) = segments_in(place)
    assert (place / name).read_bytes()[:64] in core.read_bytes()
    (place / name).unlink()

    core = core_of(build, place, tmp_path / "private", by_default, PFS_SEGMENT="private")
    assert segments_in(place) == []
    assert head[:24] in core.read_bytes()
