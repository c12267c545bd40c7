"""Read locks that a thread takes again and again under ``pfs run``: each counts once, for the lock that it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.python.run.test_run import PFS, SOURCES, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

RWLOCKS = "wait/synch/rwlock/%"
BY_NAME = "events_waits_summary_global_by_event_name"
BY_INSTANCE = "events_waits_summary_by_instance"
BY_THREAD = "events_waits_summary_by_thread_by_event_name"
KINDS = [(), ("--all-on",)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "read_locks"
    subprocess.run(["cc", "-O1", "-g", "-o", path, SOURCES / "read_locks.c", "-lpthread"], check=True)
    return path


@contextmanager
def kept(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Yields the tables of a program that has ended, and what it printed."""
    done = run(*PFS, "run", "--keep", "--no-report", *options, "--", *command, check=True)
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(str(segment)) as schema:
        yield schema, done.stdout


def counts(schema: Any, table: str) -> list[int]:
    rows = schema.table(table)
    return sorted(rows[rows["EVENT_NAME"].str.startswith("wait/synch/rwlock/")]["COUNT_STAR"].tolist())


@pytest.mark.parametrize("options", KINDS)
def test_three_locks_at_one_address(program: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    report = report_of(tmp_path, program, "lives", "1000", options=options)
    assert sorted(row["count"] for row in report["locks"]) == [1000, 2000, 3000]


@pytest.mark.parametrize("options", KINDS)
def test_more_locks_than_a_thread_remembers(program: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    with kept(tmp_path, program, "many", "100", options=options) as (schema, _):
        assert counts(schema, BY_INSTANCE) == [100 + i for i in range(40)]
        assert sum(counts(schema, BY_NAME)) == sum(counts(schema, BY_THREAD)) == sum(100 + i for i in range(40))
        held = schema.table("rwlock_instances")["READ_LOCKED_BY_COUNT"].tolist()
    assert sorted(held) == sorted(i % 3 for i in range(40))


def test_locks_that_a_signal_handler_takes_in_between(program: Path, tmp_path: Path) -> None:
    with kept(tmp_path, program, "handled", "3000000") as (schema, output):
        pairs = [tuple(map(int, line.split())) for line in output.splitlines()]
        lost = int(
            schema.table("global_status").set_index("VARIABLE_NAME").at["Performance_schema_locker_lost", "VARIABLE_VALUE"]
        )
        assert sum(counts(schema, BY_INSTANCE)) + lost == sum(map(sum, pairs))
        assert sum(counts(schema, BY_THREAD)) == sum(counts(schema, BY_NAME)) == sum(counts(schema, BY_INSTANCE))
        assert schema.table("rwlock_instances")["READ_LOCKED_BY_COUNT"].eq(0).all()
    by_handler = sum(handler for _, handler in pairs)
    assert by_handler > 40, "no signal has come"
    assert lost <= by_handler


def test_setup_changes_while_a_thread_remembers_the_lock(program: Path) -> None:
    child = subprocess.Popen(
        [*PFS, "run", "--no-report", "--", program, "steps", "10"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None

    def step() -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("next\n")
        child.stdin.flush()
        assert child.stdout.readline() == "next\n"

    try:
        assert child.stdout.readline() == "ready\n"
        there = pfs.processes()
        with pfs.attach(int(there["PID"].iloc[0]), write=True) as schema:

            def all_counts() -> tuple[int, ...]:
                return tuple(sum(counts(schema, table)) for table in (BY_NAME, BY_INSTANCE, BY_THREAD))

            assert all_counts() == (10, 10, 10)
            step()
            assert all_counts() == (20, 20, 20)
            schema.truncate(BY_INSTANCE)
            step()
            assert all_counts() == (10, 10, 30), "the total of a lock is that of its instances"
            schema.truncate(BY_THREAD)
            step()
            assert all_counts() == (20, 20, 10)
            schema.truncate(BY_NAME)
            step()
            before = all_counts()
            assert before[0] == 10
            assert before[2] == 20
            for change, expected in (
                ({"enabled": False}, 0),
                ({"enabled": True}, 10),
                ({"timed": True}, 10),
                ({"timed": False}, 10),
                ({"timed": "CONTENDED"}, 10),
            ):
                schema.setup_instruments.update(RWLOCKS, **change)
                step()
                after = all_counts()
                assert [one - other for one, other in zip(after, before, strict=True)] == [expected] * 3, change
                before = after
            for instrumented, expected in ((False, 0), (True, 10)):
                schema.threads.update(instrumented=instrumented)
                step()
                after = all_counts()
                assert [one - other for one, other in zip(after, before, strict=True)] == [expected] * 3
                before = after
            assert schema.table("rwlock_instances")["READ_LOCKED_BY_COUNT"].eq(0).all()
    finally:
        child.stdin.close()
        assert child.wait(60) == 0
        child.stdout.close()
