"""lock_holds: how long locks are held, by object and by instrument, and where the longest hold began."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import pfs
from tests.conftest import Build
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python.programs.test_programs import WAYS, environment, every_way, talking
from tests.python.programs.test_programs import rows as rows_of

BY_OBJECT, BY_EVENT = "lock_holds_summary_by_instance", "lock_holds_summary_global_by_event_name"
LOCK = MUTEX + "h/LOCK"
ON = "performance_schema_consumer_lock_holds=ON"
MS = 10**9  # picoseconds


def holds(name: str = LOCK) -> tuple[int, int]:
    """COUNT_HOLD of a lock's only object, and of its instrument; 0 = no row."""
    found = [rows(table, EVENT_NAME=name) for table in (BY_OBJECT, BY_EVENT)]
    assert all(len(some) <= 1 for some in found)
    first, second = (sum(int(row["COUNT_HOLD"]) for row in some) for some in found)
    return first, second


def hold(segment: str, name: str, table: str = BY_OBJECT) -> Row:
    found = [row for row in rows_of(segment, table) if row["EVENT_NAME"].endswith("/held/" + name)]
    assert len(found) == 1, found
    return found[0]


def both(segment: str, name: str) -> Row:
    """The row of the only object of an instrument, which is also that of the instrument."""
    row, total = hold(segment, name), hold(segment, name, BY_EVENT)
    del row["OBJECT_INSTANCE_BEGIN"]
    assert row == total
    return row


@every_way
def test_a_c_program_whatever_else_is_recorded(way: str, build: Build, tmp_path: Path) -> None:
    """The longest hold is the one of 20 ms, from its line; the wait for a condition is no part of a hold."""
    with talking(build("held"), "life", folder=tmp_path, options=f"{WAYS[way]},{ON}".strip(",")) as program:
        program.until("ended")
        segment = program.said["segment"]
        row = both(segment, "mutex")
        assert row["COUNT_HOLD"] == 11
        assert 20 * MS <= row["MAX_TIMER_HOLD"] <= row["SUM_TIMER_HOLD"] <= 2000 * MS
        assert 0 < row["MIN_TIMER_HOLD"] < 20 * MS
        assert row["AVG_TIMER_HOLD"] == row["SUM_TIMER_HOLD"] // 11
        assert row["LONGEST_SOURCE"] == f"held.c:{program.said['line']}"
        owner = next(row for row in rows_of(segment, "mutex_instances") if row["NAME"].endswith("/held/mutex"))
        assert row["LONGEST_THREAD_ID"] == owner["LOCKED_BY_THREAD_ID"] is not None
        program.go()
        program.until("waited")
        row = both(segment, "guard")
        assert row["COUNT_HOLD"] == 2
        assert row["LONGEST_SOURCE"] == f"held.c:{program.said['cond_line']}"
        assert row["MIN_TIMER_HOLD"] < 30 * MS <= row["MAX_TIMER_HOLD"]
        assert both(segment, "mutex")["COUNT_HOLD"] == 12
        program.go()
        program.until("families")
        assert both(segment, "again")["COUNT_HOLD"] == 1
        assert both(segment, "again")["MIN_TIMER_HOLD"] >= 5 * MS
        assert both(segment, "check")["COUNT_HOLD"] == 1
        assert both(segment, "check")["LONGEST_SOURCE"].startswith("held.c:")
        assert both(segment, "tree")["COUNT_HOLD"] == 1
        program.go()
        program.until("foreign")
        assert both(segment, "mutex")["COUNT_HOLD"] == 13
        program.go()
        program.until("reborn")
        before = hold(segment, "mutex", BY_EVENT)
        assert before["COUNT_HOLD"] == 13
        assert not [row for row in rows_of(segment, BY_OBJECT) if row["EVENT_NAME"].endswith("/held/mutex")]
        program.go()
        program.until("again")
        after = hold(segment, "mutex", BY_EVENT)
        assert (after["COUNT_HOLD"], hold(segment, "mutex")["COUNT_HOLD"]) == (14, 1)
        assert after["MAX_TIMER_HOLD"] == before["MAX_TIMER_HOLD"]
        assert after["LONGEST_SOURCE"] == before["LONGEST_SOURCE"]


@every_way
def test_a_forked_child_begins_with_none(way: str, build: Build, tmp_path: Path) -> None:
    """A hold that began in the parent is none of the child's; the parent's goes on."""
    with talking(build("held"), "fork", folder=tmp_path, options=f"{WAYS[way]},{ON}".strip(",")) as program:
        program.until("child")
        row = both(program.said["child_segment"], "mutex")
        assert row["COUNT_HOLD"] == 1
        assert row["MIN_TIMER_HOLD"] >= 10 * MS
        assert both(program.said["segment"], "mutex")["COUNT_HOLD"] == 1
        program.go()
        program.until("parent")
        assert both(program.said["segment"], "mutex")["COUNT_HOLD"] == 2


def test_the_rows_of_a_dead_process(build: Build, tmp_path: Path) -> None:
    done = subprocess.run(
        [build("held"), "kill"],
        env=environment(tmp_path, PFS_OPTIONS=ON),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    segment = done.stdout.splitlines()[0].partition(" ")[2]
    row = both(segment, "mutex")
    assert row["COUNT_HOLD"] == 5
    assert row["LONGEST_SOURCE"].startswith("held.c:")


@fresh_process()
def test_off_at_start_without_rows_and_without_memory() -> None:
    def memory() -> int:
        names = ("memory/performance_schema/holds", "memory/performance_schema/hold_totals")
        found = {row["EVENT_NAME"]: row for row in every("memory_summary_global_by_event_name")}
        return sum(int(found[name]["CURRENT_NUMBER_OF_BYTES_USED"]) for name in names)

    assert pfs.setup_consumers["lock_holds"].enabled is False
    lock = Mutex("h/LOCK").use(5)
    assert every(BY_OBJECT) == every(BY_EVENT) == []
    assert memory() == 0
    consumer("lock_holds", True)
    lock.use(3)
    assert holds() == (3, 3)
    assert memory() > 0
    # A hold that begins while it is off does not count, and one that begins before counts.
    lock.lock()
    consumer("lock_holds", False)
    lock.unlock()
    assert holds() == (4, 4)
    lock.lock()
    consumer("lock_holds", True)
    lock.unlock()
    assert holds() == (4, 4)
    consumer("global_instrumentation", False)
    lock.use()
    consumer("global_instrumentation", True)
    lock.use()
    assert holds() == (5, 5)
    assert losses() == {}


@fresh_process()
@pytest.mark.parametrize("table", [BY_OBJECT, BY_EVENT])
def test_truncate_of_either_table_empties_both(table: str) -> None:
    consumer("lock_holds", True)
    live, dead = Mutex("h/LOCK").use(3), Mutex("h/LOCK").use(4)
    dead.free()
    assert holds() == (3, 7)
    live.lock()
    pfs.truncate(table)
    assert every(BY_OBJECT) == every(BY_EVENT) == []
    live.unlock()  # the hold that ran counts when it ends
    assert holds() == (1, 1)
    fresh = Mutex("h/LOCK").use(2)  # in the dead one's slot
    assert rows(BY_EVENT, EVENT_NAME=LOCK)[0]["COUNT_HOLD"] == 3
    fresh.free()
    assert holds() == (1, 3)
    assert count(WAITS, EVENT_NAME=LOCK) == 10


@fresh_process()
def test_locks_of_the_programs_own_and_of_python() -> None:
    consumer("lock_holds", True)
    own = OwnLock("h/own").use(3)
    wait = own.begin()
    own.end(wait, rc=EBUSY)
    assert holds(MUTEX + "h/own") == (3, 3)
    lock, again, tree = pfs.Lock("h/plock"), pfs.RLock("h/prlock"), pfs.RWLock("h/ptree")
    with lock:
        time.sleep(0.01)
    assert lock.acquire(blocking=False)
    lock.release()
    with again, again:
        pass
    with tree.write():
        pass
    with tree.read():
        pass
    assert holds(lock.name) == (2, 2)
    assert holds(again.name) == (1, 1)
    assert holds(tree.name) == (1, 1)
    row = one(BY_OBJECT, EVENT_NAME=lock.name)
    assert row["MAX_TIMER_HOLD"] >= 10 * MS
    assert row["LONGEST_SOURCE"].startswith("test_holds.py:")
    assert row["LONGEST_THREAD_ID"] == me()
    # Python allows that another thread releases a lock.
    worker = Worker()
    assert worker.do(lock.acquire)
    lock.release()
    assert holds(lock.name) == (3, 3)
    condition = pfs.Condition(name="h/pcond", lock=lock)
    with condition:
        condition.wait(timeout=0.03)
        time.sleep(0.02)
    assert holds(lock.name) == (5, 5)
    row = one(BY_OBJECT, EVENT_NAME=lock.name)
    assert row["MAX_TIMER_HOLD"] >= 20 * MS
    assert losses() == {}


@fresh_process()
def test_threads_take_one_lock_and_no_hold_is_lost() -> None:
    consumer("lock_holds", True)
    lock = Mutex("h/LOCK")
    workers = [Worker() for _ in range(4)]
    for worker in workers:
        worker.start(lock.use, 2000)
    for worker in workers:
        worker.result()
    assert holds() == (8000, 8000)
    row = one(BY_OBJECT, EVENT_NAME=LOCK)
    assert row["LONGEST_THREAD_ID"] in {worker.id for worker in workers}
    assert row["MIN_TIMER_HOLD"] <= row["AVG_TIMER_HOLD"] <= row["MAX_TIMER_HOLD"]
    assert [row["LOCKED_BY_THREAD_ID"] for row in every("mutex_instances")] == [None]


def test_from_outside(build: Build, tmp_path: Path) -> None:
    """`pfs set PID setup_consumers lock_holds enabled=YES` while the program runs."""
    with talking(build("held"), "life", folder=tmp_path) as program:
        program.until("ended")
        segment = program.said["segment"]
        assert rows_of(segment, BY_OBJECT) == []
        with pfs.attach(segment, write=True) as other:
            other.setup_consumers["lock_holds"].enabled = True
        program.go()
        program.until("waited")
        assert both(segment, "guard")["COUNT_HOLD"] == 2
        for name in ("families", "foreign", "reborn", "again"):
            program.go()
            program.until(name)
        assert hold(segment, "mutex", BY_EVENT)["COUNT_HOLD"] == 2
