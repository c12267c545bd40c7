"""TIMED = 'STATE' of waits: all count, none is timed, and each has a row while it runs; of a lock only if a thread must wait."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import pfs
from pfs._process.run.launch import options_text
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import subject, until
from tests.python.facts.test_contended import LOCK, await_waiting, everywhere, records, times

SECOND = 10**12


@fresh_process("performance_schema_preset=sampling")
def test_a_lock_that_is_free_counts_and_one_that_must_be_waited_for_has_a_row_without_times() -> None:
    m, worker = Mutex(key_of("mutex", "c/LOCK")), Worker()
    m.use()
    assert worker.do(m.lock) == worker.do(m.unlock) == 0
    assert counts(LOCK) == everywhere(2)
    assert records() == [[], [], []]
    assert m.lock() == 0
    worker.start(m.lock)
    await_waiting(worker)
    [row] = events(CURRENT, THREAD_ID=worker.id)
    assert (row["EVENT_NAME"], row["OPERATION"], row["OBJECT_INSTANCE_BEGIN"]) == (LOCK, "lock", m.at)
    assert row["TIMER_START"] is row["TIMER_WAIT"] is row["TIMER_END"] is None
    [blocked] = rows("blocked")
    assert blocked["EVENT_NAME"] == LOCK
    assert m.unlock() == 0
    assert worker.result() == 0
    assert worker.do(m.unlock) == 0
    assert counts(LOCK) == everywhere(4)
    assert times() == {(0, 0, 0)}


@fresh_process("performance_schema_preset=sampling")
def test_other_waits_have_rows_without_times() -> None:
    with pfs.open("data", "wb", buffering=0, name="c/data") as file:
        file.write(b"x" * 10)
    mine = events(HISTORY, EVENT_NAME=FILE + "c/data")
    assert [row["OPERATION"] for row in mine][-2:] == ["write", "close"]
    assert {row["TIMER_WAIT"] for row in mine} == {None}
    [summary] = rows(WAITS, EVENT_NAME=FILE + "c/data")
    assert (summary["COUNT_STAR"], summary["SUM_TIMER_WAIT"]) == (len(mine), 0)


@fresh_process("performance_schema_preset=sampling,performance_schema_instrument='wait/io/file/c/journal=ON'")
def test_the_preset() -> None:
    for family, name in (("mutex", "LOCK"), ("rwlock", "tree"), ("cond", "COND"), ("file", "data"), ("file", "journal")):
        key_of(family, f"c/{name}")
    with pfs.statement("c/query", "SELECT 1"), pfs.stage("c/work"):
        pass
    timed = {row["NAME"]: row["TIMED"] for row in rows("setup_instruments")}
    assert timed.pop(FILE + "c/journal") == "YES"  # the options themselves hold over the preset
    waits = {value for name, value in timed.items() if name.startswith(("wait/", "idle"))}
    assert waits == {"STATE"}
    assert timed["stage/c/work"] == timed["statement/c/query"] == "YES"


@fresh_process()
def test_what_is_no_wait_is_refused() -> None:
    with pfs.statement("c/query", "SELECT 1"):
        pass
    said = "SAMPLED and STATE are for wait/% and idle"
    raises(pfs.InvalidValue, partial(pfs.setup_instruments.update, "statement/c/%", timed="STATE"), said)
    raises(pfs.InvalidValue, partial(pfs.setup_instruments.rules.insert, pattern="statement/d/%", timed="STATE"), said)


def test_pfs_run_leaves_locks_to_a_preset() -> None:
    assert "CONTENDED" in options_text((), False, False, None)
    text = options_text((), False, False, "performance_schema_preset=sampling")
    assert "CONTENDED" not in text
    assert "gil%=OFF" in text


def test_a_sampler_knows_how_long_a_wait_takes_that_nobody_times(tmp_path: Path) -> None:
    with subject(tmp_path, PFS_OPTIONS="performance_schema_preset=sampling") as program:
        program.do(
            "import threading\nlock, locked = pfs.Lock('app/LOCK'), threading.Event()\nlock.acquire()\n"
            "def wait():\n    with lock: pass\n"
            "waiter = threading.Thread(target=wait)\nwaiter.start()"
        )
        with pfs.attach(program.path) as schema:
            until(lambda: len(schema.table("blocked")))
        samples = pfs.samples(program.path, seconds=1.5, hz=50)
        waits = samples[samples["EVENT_NAME"].notna() & samples["THREAD_STATE"].eq("WAITING")]
        assert len(waits) > 10
        assert waits["BLOCKING_THREAD_ID"].notna().all()
        assert waits["TIMER_WAIT"].is_monotonic_increasing
        passed = (waits["SAMPLE_TIME"].max() - waits["SAMPLE_TIME"].min()).total_seconds() * SECOND
        assert waits["TIMER_WAIT"].max() == pytest.approx(passed, rel=0.02)
        program.do("lock.release()\nwaiter.join()")
