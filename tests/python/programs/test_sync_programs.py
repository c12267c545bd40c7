"""C and C++ programs with read-write locks and conditions, built against the installed package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pfs._base import installed
from tests.conftest import ROOT, Build
from tests.python.programs.test_programs import WAYS, count, environment, every_way, rows, run, status_of, talking

RWLOCKS = "rwlock_instances"


def readers(segment: str, name: str = "a") -> int:
    """READ_LOCKED_BY_COUNT of one of the program's locks."""
    found = [row for row in rows(segment, RWLOCKS) if row["NAME"] == f"wait/synch/rwlock/life/{name}"]
    assert len(found) == 1
    assert found[0]["WRITE_LOCKED_BY_THREAD_ID"] is None
    return int(found[0]["READ_LOCKED_BY_COUNT"])


@every_way
def test_a_lock_released_after_its_thread_has_ended_is_counted_down(way: str, build: Build, tmp_path: Path) -> None:
    """H2: a destructor that runs when pfs has forgotten the thread; a lock that nobody releases stays held, and is not taken
    for another's."""
    with talking(build("sync_life"), "ends", folder=tmp_path, options=WAYS[way]) as program:
        program.until("released_late")
        segment = program.said["segment"]
        assert readers(segment) == readers(segment, "b") == 0
        program.go()
        program.until("kept")
        assert readers(segment) == 1
        assert count(segment, "wait/synch/rwlock/life/a") == 3 + 1 + 2


@every_way
def test_read_locks_of_signal_handlers_do_not_disturb_the_count(way: str, build: Build, tmp_path: Path) -> None:
    """H2: handlers come within rdlock and unlock, and lock the same lock; what they could not record is in locker_lost."""
    with talking(build("sync_life"), "signals", folder=tmp_path, options=WAYS[way]) as program:
        program.until("held")
        segment = program.said["segment"]
        assert readers(segment) == readers(segment, "b") == 1
        counted = count(segment, "wait/synch/rwlock/life/a") + count(segment, "wait/synch/rwlock/life/b")
        lost = int(status_of(segment)["Performance_schema_locker_lost"] or 0)
        assert counted + lost == int(program.said["events"])
        program.go()
        program.until("released")
        assert readers(segment) == readers(segment, "b") == 0


@every_way
def test_a_forked_child_holds_the_read_locks_of_its_thread(way: str, build: Build, tmp_path: Path) -> None:
    """H2: the child's copy of the lock is held by the forking thread, and so says its table; the parent's does not move."""
    with talking(build("sync_life"), "fork", folder=tmp_path, options=WAYS[way]) as program:
        for name, held, held_b in (("child", 2, 0), ("child_released", 1, 1), ("child_free", 0, 0)):
            program.until(name)
            child, parent = program.said["child_segment"], program.said["segment"]
            assert (readers(child), readers(child, "b"), readers(parent)) == (held, held_b, 2)
            if name == "child_free":
                assert count(child, "wait/synch/rwlock/life/a") == 0  # statistics start at zero
                assert count(child, "wait/synch/rwlock/life/b") == 1
            program.go()
        program.until("parent")
        assert readers(program.said["segment"]) == 2
        program.go()
        program.until("parent_free")
        assert readers(program.said["segment"]) == 0


@pytest.mark.parametrize("disabled", [False, True])
def test_cpp_classes_do_as_those_of_std(disabled: bool, build: Build, tmp_path: Path) -> None:
    program = build("raii_sync", disabled)
    done = subprocess.run(
        [program], input="\n", env=environment(tmp_path), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "result ok" in done.stdout


def test_cpp_source_is_the_callers_line(build: Build, tmp_path: Path) -> None:
    """A9: guards and conditions show the line of whoever wrote them, also where a condition takes its lock again."""
    with talking(build("raii_sync"), folder=tmp_path) as talker:
        segment = talker.until("segment")
        line = int(talker.said["line"])
        events = [row for row in rows(segment, "events_waits_history_long") if "/sync/source" in row["EVENT_NAME"]]
        seen = [
            (row["EVENT_NAME"].partition("/sync/source")[2], row["OPERATION"], int(row["SOURCE"].partition(":")[2]) - line)
            for row in sorted(events, key=lambda row: row["EVENT_ID"])
        ]
    assert all(row["SOURCE"].startswith("raii_sync.cpp:") for row in events)
    assert seen == [
        ("", "read_lock", 1),
        ("", "try_read_lock", 2),
        ("", "read_lock", 4),
        ("", "read_lock", 6),
        ("", "write_lock", 8),
        ("", "write_lock", 9),
        ("_mutex", "lock", 11),
        ("_cond", "timed_wait", 12),
        ("_cond", "timed_wait", 13),
        ("_any", "timed_wait", 14),
        ("_mutex", "lock", 14),
    ]


@pytest.mark.parametrize("disabled", [False, True])
def test_headers_compile_where_they_are_easily_misread(disabled: bool, tmp_path: Path) -> None:
    library = installed.library_dir()
    link = ["-DPFS_DISABLE"] if disabled else [f"-L{library}", f"-Wl,-rpath,{library}", "-lperfschema"]
    for source in sorted((ROOT / "tests/cpp/compile").iterdir()):
        compiler = (
            ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=c99" if "c99" in source.name else "-std=c11"]
        )
        flags = [
            f"-I{installed.include_dir()}",
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            str(source),
            "-o",
            str(tmp_path / source.stem),
            *link,
        ]
        done = subprocess.run([*compiler, *flags, "-lpthread"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        run(tmp_path / source.stem, cwd=tmp_path)


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu11"])
@pytest.mark.parametrize("disabled", [False, True])
def test_header_asks_for_nothing(standard: str, disabled: bool, tmp_path: Path) -> None:
    """Convention 10: strict C, without _GNU_SOURCE, where the C library declares no rwlocks."""
    (tmp_path / "empty.c").write_text("#include <perfschema/pfs.h>\nint main(void) { return sizeof(pfs_cond_t) == 0; }\n")
    flags = [f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", *(["-DPFS_DISABLE"] if disabled else [])]
    done = subprocess.run(
        ["gcc", *flags, f"-I{installed.include_dir()}", "-c", "empty.c", "-o", "empty.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
