"""TIMED = 'CONTENDED' of mutexes and rwlocks: one that is free is counted as a wait of zero, one that must be waited for is an
event as with YES. Each test runs in a process of its own, through the C API."""

from __future__ import annotations

import time
from errno import EBUSY, EDEADLK, EOWNERDEAD, EPERM, ETIMEDOUT
from functools import partial
from typing import Any

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process

LOCK, TREE = MUTEX + "c/LOCK", "wait/synch/rwlock/c/tree"
RECURSIVE, ERRORCHECK = 1, 2  # PTHREAD_MUTEX_*
SUMMARIES = (WAITS, WAITS_BY_INSTANCE, WAITS_BY_THREAD)
RECORDS = (CURRENT, HISTORY, HISTORY_LONG)


def contended(name: str = LOCK) -> None:
    assert pfs.setup_instruments.update({"NAME": name}, timed="CONTENDED") == 1


def mutex(timed: str = "CONTENDED", kind: int = 0, robust: bool = False) -> Mutex:
    made = Mutex(key_of("mutex", "c/LOCK"))
    if kind or robust:
        made.free()
        made.at = C.mutex_new_of(key_of("mutex", "c/LOCK"), kind, int(robust))
    instrument(LOCK, timed=timed)
    return made


def rwlock() -> Rwlock:
    made = Rwlock(key_of("rwlock", "c/tree"))
    contended(TREE)
    return made


def times(name: str = LOCK) -> set[tuple[int, int, int]]:
    """SUM, MIN, MAX in every summary that has counted it."""
    found = [row for table in SUMMARIES for row in rows(table, EVENT_NAME=name) if row["COUNT_STAR"] != 0]
    return {(row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) for row in found}


def everywhere(number: int) -> dict[str, int]:
    return dict.fromkeys(SUMMARIES, number)


def records() -> list[list[Row]]:
    return [rows(table) for table in RECORDS]


def await_waiting(worker: Worker) -> None:
    while not [row for row in events(CURRENT, THREAD_ID=worker.id) if row["END_EVENT_ID"] is None]:
        time.sleep(0.001)


def waited_for(worker: Worker, take: Any, release: Any) -> Row:
    """What a lock that this thread holds has cost a worker, who waited for some time."""
    before = time.perf_counter_ns()
    worker.start(take)
    await_waiting(worker)
    begun = time.perf_counter_ns()
    time.sleep(0.02)
    held = time.perf_counter_ns() - begun
    assert release() == 0
    assert worker.result() == 0
    all_of_it = time.perf_counter_ns() - before
    found = events(HISTORY, THREAD_ID=worker.id)
    assert found == events(HISTORY_LONG, THREAD_ID=worker.id)
    assert 0.99 * held <= found[-1]["TIMER_WAIT"] / 1000 <= 1.01 * all_of_it
    return found[-1]


# ---- A lock that is free -----------------------------------------------------------------------------------------------------


@fresh_process()
def test_a_free_mutex_is_a_wait_of_zero_and_leaves_no_row() -> None:
    """Also the first event of a thread, and of an object. Nothing has an EVENT_ID."""
    m, worker = mutex(), Worker()
    m.use(70)  # more than a chunk of records
    worker.do(m.use, 30)
    assert counts(LOCK) == everywhere(100)
    assert times() == {(0, 0, 0)}
    assert records() == [[], [], []]
    instrument(LOCK, timed=True)
    m.use()
    assert one(HISTORY_LONG)["EVENT_ID"] == 1
    assert losses() == {}


@fresh_process()
def test_a_wait_of_zero_is_the_shortest_and_lowers_the_average() -> None:
    """It is timed, by the try that succeeded: unlike with NO, MIN knows it."""
    m = mutex("YES").use(3)
    ((total, shortest, longest),) = times()
    assert 0 < shortest <= longest
    instrument(LOCK, timed=False)
    m.use()
    assert times() == {(total, shortest, longest)}
    contended()
    m.use(2)
    assert times() == {(total, 0, longest)}
    assert counts(LOCK) == everywhere(6)
    assert one(WAITS, EVENT_NAME=LOCK)["AVG_TIMER_WAIT"] == total // 6
    assert len(events()) == 4


@fresh_process()
def test_read_and_write_locks_that_are_free() -> None:
    """Readers beside readers do not wait; who holds it is shown as ever."""
    tree, worker = rwlock(), Worker()
    assert tree.do("read_lock") == worker.do(tree.do, "read_lock") == worker.do(tree.do, "try_read_lock") == 0
    assert (one("rwlock_instances")["WRITE_LOCKED_BY_THREAD_ID"], one("rwlock_instances")["READ_LOCKED_BY_COUNT"]) == (None, 3)
    assert tree.do("unlock") == worker.do(tree.do, "unlock") == worker.do(tree.do, "unlock") == 0
    assert worker.do(tree.do, "write_lock") == 0
    assert (one("rwlock_instances")["WRITE_LOCKED_BY_THREAD_ID"], one("rwlock_instances")["READ_LOCKED_BY_COUNT"]) == (
        worker.id,
        0,
    )
    assert tree.do("try_read_lock") == tree.do("try_write_lock") == EBUSY
    assert worker.do(tree.do, "unlock") == 0
    assert counts(TREE) == everywhere(6)
    assert times(TREE) == {(0, 0, 0)}
    assert records() == [[], [], []]


@fresh_process()
def test_who_holds_a_mutex_is_shown() -> None:
    m, worker = mutex(kind=RECURSIVE), Worker()

    def owner() -> int | None:
        return one("mutex_instances")["LOCKED_BY_THREAD_ID"]  # type: ignore[no-any-return]

    assert worker.do(m.lock) == worker.do(m.lock) == worker.do(m.trylock) == 0
    for _ in range(3):
        assert owner() == worker.id
        assert m.trylock() == EBUSY
        assert worker.do(m.unlock) == 0
    assert owner() is None
    assert m.lock() == 0
    assert owner() == me()
    assert m.unlock() == 0
    assert owner() is None
    assert counts(LOCK) == everywhere(7)
    assert times() == {(0, 0, 0)}
    assert records() == [[], [], []]


# ---- A lock that must be waited for ------------------------------------------------------------------------------------------


@fresh_process()
def test_a_mutex_that_is_held_is_one_event_with_the_time_waited() -> None:
    m, worker = mutex().use(5), Worker()
    assert m.lock() == 0
    seen = waited_for(worker, m.lock, m.unlock)
    assert (seen["EVENT_NAME"], seen["OPERATION"], seen["OBJECT_INSTANCE_BEGIN"]) == (LOCK, "lock", m.at)
    assert (seen["EVENT_ID"], seen["END_EVENT_ID"]) == (1, 1)
    assert seen["SOURCE"].startswith("driver.c:")
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == worker.id
    assert worker.do(m.unlock) == 0
    wait = seen["TIMER_WAIT"]
    assert counts(LOCK) == everywhere(7)
    assert times() == {(wait, 0, wait), (0, 0, 0), (wait, wait, wait)}  # of the object and in all; of this thread; of the other
    assert [len(found) for found in records()] == [1, 1, 1]


@fresh_process()
@pytest.mark.parametrize("other", ["read_lock", "write_lock", "timed_write"])
def test_an_rwlock_that_is_held_is_one_event(other: str) -> None:
    tree, worker = rwlock(), Worker()
    assert tree.do("read_lock" if other != "read_lock" else "write_lock") == 0
    take = partial(C.rwlock_timed_write_lock, tree.at, 60 * 10**9) if other == "timed_write" else partial(tree.do, other)
    seen = waited_for(worker, take, partial(tree.do, "unlock"))
    assert seen["OPERATION"] == ("write_lock" if other == "timed_write" else other)
    assert worker.do(tree.do, "unlock") == 0
    assert counts(TREE) == everywhere(2)
    assert (one("rwlock_instances")["WRITE_LOCKED_BY_THREAD_ID"], one("rwlock_instances")["READ_LOCKED_BY_COUNT"]) == (None, 0)


@fresh_process()
def test_a_try_that_fails_has_not_waited() -> None:
    m, worker = mutex(), Worker()
    assert worker.do(m.lock) == 0
    assert m.trylock() == m.trylock() == EBUSY
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == worker.id
    assert counts(LOCK) == everywhere(3)
    assert times() == {(0, 0, 0)}
    assert records() == [[], [], []]


@fresh_process()
def test_a_deadline() -> None:
    """A free lock needs none; one that passes is an event that lasted until then."""
    m, worker = mutex(), Worker()
    assert C.mutex_timedlock(m.at, -1) == 0
    assert records() == [[], [], []]
    assert worker.do(C.mutex_timedlock, m.at, -1) == worker.do(C.mutex_timedlock, m.at, 10_000_000) == ETIMEDOUT
    over, late = events()
    assert over["OPERATION"] == late["OPERATION"] == "lock"
    assert late["TIMER_WAIT"] > 9_900_000_000
    assert m.unlock() == 0
    assert counts(LOCK) == everywhere(3)


@fresh_process()
def test_results_are_those_of_the_plain_calls() -> None:
    """A holder's second lock of an error-checking mutex is EDEADLK, though a try says EBUSY; a robust one tells of its dead
    owner."""
    m, worker = mutex(kind=ERRORCHECK), Worker()
    assert m.unlock() == EPERM
    assert m.lock() == 0
    assert m.lock() == C.mutex_timedlock(m.at, 10**9) == EDEADLK
    assert m.trylock() == EBUSY
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == me()
    assert m.unlock() == m.free() == 0
    robust = mutex(robust=True)
    assert worker.do(robust.lock) == 0
    worker.end()
    assert robust.lock() == EOWNERDEAD
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == me()
    assert C.mutex_consistent(robust.at) == robust.unlock() == robust.lock() == robust.unlock() == 0
    assert count(WAITS, EVENT_NAME=LOCK) == 7
    assert len(events()) == 2  # the two EDEADLK: they came to wait
    assert times() & {(0, 0, 0)}


@fresh_process()
def test_locks_of_ones_own_are_timed_as_with_yes() -> None:
    """Their waits begin and end in two calls: nobody knows how to try them. So is pfs.Lock."""
    own, python = OwnLock("c/LOCK_own"), pfs.Lock("c/LOCK_python")
    assert pfs.setup_instruments.update("%/c/LOCK_%", timed="CONTENDED") == 2
    own.use(2)
    with python:
        pass
    assert [row["TIMER_WAIT"] is not None for row in events()] == [True] * 3
    assert count(WAITS) == 3


# ---- With the rest of the setup ----------------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("table", SUMMARIES)
def test_truncate_begins_anew(table: str) -> None:
    m, tree, worker = mutex("YES").use(3), rwlock(), Worker()
    contended()
    for _ in range(2):
        m.use(4)
        worker.do(m.use, 2)
        assert tree.do("read_lock") == 0
        pfs.truncate(table)
        assert [count(table, EVENT_NAME=name) for name in (LOCK, TREE)] == [0, 0]
        assert tree.do("unlock") == tree.do("read_lock") == tree.do("unlock") == 0
        m.use(5)
        worker.do(m.use)
        assert [count(table, EVENT_NAME=name) for name in (LOCK, TREE)] == [6, 1]
        found = [row for row in rows(table, EVENT_NAME=LOCK) if row["COUNT_STAR"] != 0]
        assert {(row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) for row in found} == {(0, 0, 0)}
        assert one("rwlock_instances")["READ_LOCKED_BY_COUNT"] == 0


@fresh_process()
@pytest.mark.parametrize("off", ["thread", "current", "my_thread", "global", "instrument"])
def test_what_is_switched_off(off: str) -> None:
    m, tree, worker = mutex(), rwlock(), Worker()
    if off == "my_thread":
        pfs.threads.update({"THREAD_ID": me()}, instrumented=False)
        pfs.threads.update({"THREAD_ID": worker.id}, instrumented=False)
    elif off == "instrument":
        pfs.setup_instruments.update("%/c/%", enabled=False)
    else:
        consumer({"thread": "thread_instrumentation", "global": "global_instrumentation"}.get(off, CURRENT), False)
    m.use(2)
    assert tree.do("read_lock") == tree.do("unlock") == m.lock() == 0
    assert worker.do(m.trylock) == EBUSY
    assert worker.do(C.mutex_timedlock, m.at, 2_000_000) == ETIMEDOUT
    assert m.unlock() == 0
    seen = {"thread": 5, "current": 5}.get(off, 0)
    by_thread = 5 if off == "current" else 0
    assert counts(LOCK) == {WAITS: seen, WAITS_BY_INSTANCE: seen, WAITS_BY_THREAD: by_thread}
    assert count(WAITS, EVENT_NAME=TREE) == min(seen, 1)
    assert one(WAITS, EVENT_NAME=TREE)["SUM_TIMER_WAIT"] == one(WAITS, EVENT_NAME=LOCK)["MIN_TIMER_WAIT"] == 0
    assert (one(WAITS, EVENT_NAME=LOCK)["MAX_TIMER_WAIT"] > 0) == (seen > 0)
    assert records() == [[], [], []]
    assert losses() == {}


@fresh_process()
def test_any_timer_will_do() -> None:
    m, worker = mutex(), Worker()
    pfs.setup.setup_timers["wait"].timer_name = "MICROSECOND"
    m.use(3)
    assert m.lock() == 0
    assert waited_for(worker, m.lock, m.unlock)["TIMER_WAIT"] % 10**6 == 0
    assert counts(LOCK) == everywhere(5)
    assert worker.do(m.unlock) == 0


@fresh_process(
    options="performance_schema_instrument='wait/%=CONTENDED',performance_schema_instrument='wait/%/c/LOCK_b=ON',"
    "performance_schema_instrument='wait/%/c/LOCK_c=contended'"
)
def test_preset() -> None:
    """Of what else a pattern finds, all is timed."""
    for family, name in (
        ("mutex", "c/LOCK_a"),
        ("mutex", "c/LOCK_b"),
        ("mutex", "c/LOCK_c"),
        ("rwlock", "c/tree"),
        ("cond", "c/x"),
        ("file", "c/x"),
    ):
        key_of(family, name)
    key_of("rwlock", "c/page", 16)  # PFS_RWLOCK_SX
    found = {row["NAME"].rpartition("synch/")[2]: row["TIMED"] for row in rows("setup_instruments") if "/c/" in row["NAME"]}
    assert found == {
        "mutex/c/LOCK_a": "CONTENDED",
        "mutex/c/LOCK_b": "YES",
        "mutex/c/LOCK_c": "CONTENDED",
        "rwlock/c/tree": "CONTENDED",
        "sxlock/c/page": "YES",
        "cond/c/x": "YES",
        "wait/io/file/c/x": "YES",
    }
    assert {row["TIMED"] for row in rows("setup_instruments")} == {"YES", "CONTENDED"}
    Mutex("c/LOCK_a").use()
    assert records() == [[], [], []]


@fresh_process()
def test_python_reads_and_sets_it() -> None:
    mutex("YES")
    mine, both = pfs.setup_instruments[LOCK], pfs.setup_instruments["wait/%/c/%"]
    key_of("rwlock", "c/tree")
    assert (mine.timed, both.timed) == (True, True)
    mine.timed = "CONTENDED"
    assert (mine.timed, both.timed) == ("CONTENDED", None)
    assert one("setup_instruments", NAME=LOCK)["TIMED"] == "CONTENDED"
    assert pfs.table("setup_instruments").set_index("NAME").loc[LOCK, "TIMED"] == "CONTENDED"
    with pfs.setup_instruments as table:
        assert table.update("wait/%/c/%", timed="contended") == 2
        assert both.timed == "CONTENDED"
        assert table.update({"TIMED": "CONTENDED"}, timed=False) == 2
        assert pfs.setup_instruments["wait/%/c/%"].timed is False
    assert (mine.timed, pfs.setup_instruments[TREE].timed) == ("CONTENDED", True)
    mine.timed = True
    assert [row["TIMED"] for row in rows("setup_instruments") if "/c/" in row["NAME"]] == ["YES", "YES"]
    # semantics.md C2: ignored where there is no duration.
    pfs.setup_instruments["error"].timed = pfs.setup_instruments["memory/%"].timed = "CONTENDED"
    assert pfs.setup_instruments["error"].timed is pfs.setup_instruments["memory/%"].timed is None


@fresh_process()
def test_what_cannot_be_tried_is_refused_and_nothing_is_changed() -> None:
    """Also where a pattern finds locks and others, in any order of theirs."""
    m = Mutex("c/LOCK")
    for family in ("file", "cond", "mutex"):
        key_of(family, "c/a")
    key_of("rwlock", "c/tree", 256)  # PFS_RWLOCK_PR
    before = settings()
    for where in ("%", "wait/%/c/%", "wait/synch/%", "idle", "transaction", None, {"ENABLED": True}, "wait/synch/prlock/%"):
        raises(
            pfs.InvalidValue,
            partial(pfs.setup_instruments.update, where, timed="CONTENDED", enabled=False),
            "CONTENDED is for wait/synch/mutex/% and wait/synch/rwlock/%",
            "can be YES",
        )
        assert settings() == before
    raises(
        pfs.InvalidValue,
        partial(pfs.setup_instruments.update, timed="SOMETIMES"),
        "YES, NO, CONTENDED, SAMPLED or STATE",
        "SOMETIMES",
    )
    raises(pfs.InvalidValue, partial(pfs.setup_objects.update, timed="CONTENDED"), "YES or NO")
    # The same mechanism: nothing is traced where one of those chosen is off.
    pfs.setup_instruments["wait/synch/mutex/c/a"].enabled = False
    before = settings()
    raises(pfs.InvalidValue, partial(pfs.setup_instruments.update, "wait/synch/%/c/%", trace_enabled=True), "ENABLED is YES")
    assert settings() == before
    m.use()
    assert len(events()) == 1


@fresh_process()
@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("timed", [True, False, "CONTENDED"])
def test_a_lock_of_an_instrument_that_the_threads_row_has_no_place_for_yet(timed: bool | str, records: bool) -> None:
    """Registered after the thread's first event, behind more instruments than a page of its row holds; of every kind of lock."""
    first, worker = mutex("YES").use(), Worker()
    worker.do(first.use)
    for i in range(80):
        key_of("mutex", f"c/many_{i}")
    last, tree = Mutex("c/last"), Rwlock(key_of("rwlock", "c/tree"))
    consumer(CURRENT, records)
    assert pfs.setup_instruments.update("wait/%/c/%", timed=timed) == 83
    last.use(3)
    assert worker.do(tree.do, "read_lock") == worker.do(tree.do, "unlock") == 0
    assert worker.do(tree.do, "write_lock") == worker.do(tree.do, "unlock") == worker.do(last.trylock) == 0
    assert last.trylock() == EBUSY
    assert counts(MUTEX + "c/last") == everywhere(5)
    assert counts(TREE) == everywhere(2)
    recorded = 0 if timed == "CONTENDED" or not records else 7
    assert len(events()) == 2 + recorded
    assert losses() == {}


# ---- Switched while threads lock ---------------------------------------------------------------------------------------------


@fresh_process()
def test_switched_while_four_threads_lock() -> None:
    """No lock is lost or counted twice, whatever TIMED was when it began; the mutex is a mutex."""
    m, tree, workers = mutex(), rwlock(), [Worker() for _ in range(4)]
    for worker in workers:
        worker.start(C.hammer, m.at, tree.at, 30_000)
    turns = 0
    while not all(worker.is_done() for worker in workers):
        for timed in (True, "CONTENDED", False, "CONTENDED"):
            assert pfs.setup_instruments.update("wait/synch/%/c/%", timed=timed) <= 2
        turns += 1
    assert sum(worker.result() for worker in workers) == C.hammered() == 4 * 30_000
    print(turns, "turns")
    assert counts(LOCK) == counts(TREE) == everywhere(4 * 30_000)
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] is None
    assert one("rwlock_instances")["READ_LOCKED_BY_COUNT"] == 0
    assert losses() == {}
