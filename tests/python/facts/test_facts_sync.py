"""rwlocks, prlocks, sxlocks and conditions: semantics.md H2 to H4, and A, C, F where these families differ. Each test runs in a
process of its own."""

from __future__ import annotations

import ctypes
import os
from errno import EBUSY, EDEADLK, ETIMEDOUT

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process

RWLOCKS, CONDS, MUTEXES = "rwlock_instances", "cond_instances", "mutex_instances"
RWLOCK, PRLOCK, SXLOCK, COND = "wait/synch/rwlock/", "wait/synch/prlock/", "wait/synch/sxlock/", "wait/synch/cond/"
PR, SX = 256, 16  # PFS_RWLOCK_PR, PFS_RWLOCK_SX
READ, WRITE, TRY_READ, TRY_WRITE, TIMED_READ, TIMED_WRITE, S, SX_LOCK, X, TRY_S, TRY_SX, TRY_X = range(
    1, 13
)  # enum pfs_rwlock_op
OPERATIONS = {
    READ: "read_lock", WRITE: "write_lock", TRY_READ: "try_read_lock", TRY_WRITE: "try_write_lock", TIMED_READ: "read_lock",
    TIMED_WRITE: "write_lock", S: "shared_lock", SX_LOCK: "shared_exclusive_lock", X: "exclusive_lock", TRY_S: "try_shared_lock",
    TRY_SX: "try_shared_exclusive_lock", TRY_X: "try_exclusive_lock",
}  # fmt: skip
IS_SHARED = {READ, TRY_READ, TIMED_READ, S, TRY_S}


class OwnRwlock:
    """A lock of one's own."""

    def __init__(self, name: str, flags: int = 0, identity: int = 0x2000) -> None:
        self.row: int = C.ownrw_new(key_of("rwlock", name, flags), identity)

    def take(self, operation: int, rc: int = 0, spins: int = NO_SPINS) -> None:
        C.ownrw_end(C.ownrw_begin(self.row, operation), rc, spins)

    def release(self, operation: int) -> None:
        C.ownrw_released(self.row, operation)

    def use(self, operation: int) -> None:
        self.take(operation)
        self.release(operation)

    def free(self) -> None:
        C.ownrw_free(self.row)


def rwlock(name: str = "h/tree", flags: int = 0) -> Rwlock:
    return Rwlock(key_of("rwlock", name, flags))


def holders(name: str) -> tuple[int | None, int]:
    """WRITE_LOCKED_BY_THREAD_ID and READ_LOCKED_BY_COUNT of the only lock of an instrument."""
    row = one(RWLOCKS, NAME=name)
    return row["WRITE_LOCKED_BY_THREAD_ID"], row["READ_LOCKED_BY_COUNT"]


# ---- H2: who holds a read-write lock -----------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize(("prefix", "flags"), [(RWLOCK, 0), (PRLOCK, PR)])
def test_H2_readers_are_counted_and_a_writer_is_named(prefix: str, flags: int) -> None:
    """H2: two readers make 2, a writer its thread and 0; a lock that fails changes nothing, and is an event."""
    tree, name = rwlock(flags=flags), prefix + "h/tree"
    first, second = Worker(), Worker()
    assert holders(name) == (None, 0)
    assert first.do(tree.do, "read_lock") == 0
    assert holders(name) == (None, 1)
    assert second.do(tree.do, "try_read_lock") == 0
    assert first.do(tree.do, "read_lock") == 0  # again
    assert holders(name) == (None, 3)
    assert tree.do("try_write_lock") == EBUSY
    assert holders(name) == (None, 3)
    for worker, left in ((first, 2), (second, 1), (first, 0)):
        assert worker.do(tree.do, "unlock") == 0
        assert holders(name) == (None, left)
    assert second.do(tree.do, "write_lock") == 0
    assert holders(name) == (second.id, 0)
    assert second.do(tree.do, "write_lock") == second.do(tree.do, "read_lock") == EDEADLK
    assert first.do(tree.do, "try_read_lock") == first.do(tree.do, "try_write_lock") == EBUSY
    assert holders(name) == (second.id, 0)
    assert second.do(tree.do, "unlock") == 0
    assert holders(name) == (None, 0)
    assert first.do(tree.do, "try_write_lock") == 0
    assert holders(name) == (first.id, 0)
    assert first.do(tree.do, "unlock") == 0
    assert counts(name) == {WAITS: 10, WAITS_BY_INSTANCE: 10, WAITS_BY_THREAD: 10}
    assert losses() == {}


@fresh_process()
def test_H2_a_lock_that_waits_is_not_held() -> None:
    """H2: a reader that waits for a writer is no reader yet; its event runs."""
    tree, name, reader = rwlock(), RWLOCK + "h/tree", Worker()
    assert tree.do("write_lock") == 0
    reader.start(tree.do, "read_lock")
    while not (running := [row for row in events(CURRENT, THREAD_ID=reader.id) if row["END_EVENT_ID"] is None]):
        pass
    assert (running[0]["EVENT_NAME"], running[0]["OPERATION"], running[0]["TIMER_WAIT"]) == (name, "read_lock", None)
    assert holders(name) == (me(), 0)
    assert tree.do("unlock") == 0
    assert reader.result() == 0
    assert holders(name) == (None, 1)
    assert reader.do(tree.do, "unlock") == 0
    assert holders(name) == (None, 0)


@fresh_process()
def test_H2_sxlock_an_SX_or_X_is_the_writer_and_S_are_the_readers() -> None:
    """H2 of sxlocks: S beside SX; X alone; SX and X of one thread nest."""
    lock, name, other = OwnRwlock("h/page", SX), SXLOCK + "h/page", Worker()
    lock.take(SX_LOCK, spins=3)
    assert holders(name) == (me(), 0)
    other.do(lock.take, S)
    other.do(lock.take, TRY_S)
    assert holders(name) == (me(), 2)
    other.do(lock.take, TRY_X, EBUSY)
    assert holders(name) == (me(), 2)
    other.do(lock.release, S)
    other.do(lock.release, TRY_S)
    assert holders(name) == (me(), 0)
    lock.take(X)  # the holder of SX goes on to X
    assert holders(name) == (me(), 0)
    lock.release(X)
    assert holders(name) == (me(), 0)
    lock.release(SX_LOCK)
    assert holders(name) == (None, 0)
    lock.use(TRY_SX)
    assert counts(name) == {WAITS: 6, WAITS_BY_INSTANCE: 6, WAITS_BY_THREAD: 6}


@fresh_process()
@pytest.mark.parametrize("how", ["instrument", "thread", "global_instrumentation"])
def test_H2_locks_taken_unseen_are_never_counted_and_seen_ones_are_counted_down(how: str) -> None:
    """H2: what was read-locked while the instrument, the thread or everything was off is not in the count, also not when it
    is on again;
    what was counted before is counted down while it is off."""
    tree, name = rwlock(), RWLOCK + "h/tree"

    def switch(on: bool) -> None:
        if how == "instrument":
            instrument(name, enabled=on)
        elif how == "thread":
            pfs.threads.update({"THREAD_ID": me()}, instrumented=on)
        else:
            consumer(how, on)

    assert tree.do("read_lock") == 0
    switch(False)
    assert holders(name) == (None, 1)
    assert tree.do("unlock") == 0
    assert holders(name) == (None, 0)
    assert tree.do("read_lock") == 0  # unseen
    switch(True)
    assert holders(name) == (None, 0)
    assert tree.do("read_lock") == 0  # seen
    assert holders(name) == (None, 1)
    assert tree.do("unlock") == tree.do("unlock") == 0
    assert holders(name) == (None, 0)
    switch(False)
    assert tree.do("write_lock") == 0
    switch(True)
    assert holders(name) == (None, 0)
    assert tree.do("unlock") == tree.do("write_lock") == 0
    switch(False)
    assert holders(name) == (me(), 0)
    assert tree.do("unlock") == 0
    assert holders(name) == (None, 0)
    assert count(WAITS, EVENT_NAME=name) == 3


@fresh_process()
def test_H2_a_read_lock_outlives_TRUNCATE() -> None:
    """H2, F9: TRUNCATE empties statistics; who holds what is none."""
    tree, name, reader = rwlock(), RWLOCK + "h/tree", Worker()
    reader.do(tree.do, "read_lock")
    tree.do("read_lock")
    for table in (WAITS_BY_INSTANCE, WAITS, WAITS_BY_THREAD):
        pfs.truncate(table)
        assert holders(name) == (None, 2)
    assert set(counts(name).values()) == {0}
    tree.do("read_lock")
    assert holders(name) == (None, 3)
    for _ in range(2):
        tree.do("unlock")
    reader.do(tree.do, "unlock")
    assert holders(name) == (None, 0)
    assert set(counts(name).values()) == {1}


@fresh_process()
def test_H2_several_locks_in_several_threads_are_counted_apart() -> None:
    """H2: nested and crossing read locks of many locks, whose cells are not the ones used last."""
    locks = [rwlock(f"h/tree_{i}") for i in range(5)]
    workers = [Worker() for _ in range(3)]
    for w, worker in enumerate(workers):
        for i, lock in enumerate(locks):
            for _ in range(i + w):
                assert worker.do(lock.do, "read_lock") == 0
    assert [holders(f"{RWLOCK}h/tree_{i}")[1] for i in range(5)] == [3 * i + 3 for i in range(5)]
    for i, lock in enumerate(locks):
        for w, worker in enumerate(workers):
            for _ in range(i + w):
                assert worker.do(lock.do, "unlock") == 0
            left = sum(i + other for other in range(w + 1, 3))
            assert holders(f"{RWLOCK}h/tree_{i}") == (None, left)


# ---- H3: conditions ------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_H3_cond_instances_has_name_and_address_and_signals_leave_no_trace() -> None:
    """H3: two columns; signal and broadcast are no events."""
    key = key_of("cond", "h/changed")
    changed = Cond(key)
    assert columns(CONDS) == ("NAME", "OBJECT_INSTANCE_BEGIN")
    assert rows(CONDS) == [{"NAME": COND + "h/changed", "OBJECT_INSTANCE_BEGIN": changed.at}]
    changed.signal()
    assert set(counts(COND + "h/changed").values()) == {0}
    assert events() == []
    assert changed.late() == ETIMEDOUT
    changed.signal()
    assert set(counts(COND + "h/changed").values()) == {1}


@fresh_process()
def test_H3_while_a_thread_waits_its_mutex_has_no_owner() -> None:
    """H1, H3: the mutex is free during the wait and its holder's again after it; the wait is no event of the mutex."""
    mutex, changed, waiter = Mutex("h/LOCK_changed"), Cond(key_of("cond", "h/changed")), Worker()
    lock, cond = MUTEX + "h/LOCK_changed", COND + "h/changed"
    assert waiter.do(mutex.lock) == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == waiter.id
    waiter.start(C.cond_wait, changed.at, mutex.at, -1)
    assert mutex.lock() == 0
    running = one(CURRENT, THREAD_ID=waiter.id)
    assert (running["EVENT_NAME"], running["OPERATION"], running["END_EVENT_ID"]) == (cond, "wait", None)
    assert running["OBJECT_INSTANCE_BEGIN"] == changed.at
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == me()
    changed.signal()
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == me()
    assert mutex.unlock() == 0
    assert waiter.result() == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == waiter.id
    assert waiter.do(C.cond_wait, changed.at, mutex.at, 1000) == ETIMEDOUT
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == waiter.id
    assert waiter.do(mutex.unlock) == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] is None
    assert names_of(events(THREAD_ID=waiter.id), "OPERATION") == ["lock", "wait", "timed_wait"]
    assert (count(WAITS, EVENT_NAME=lock), count(WAITS, EVENT_NAME=cond)) == (2, 2)


@fresh_process()
@pytest.mark.parametrize("disabled", [False, True])
def test_H3_the_owner_is_right_where_the_condition_or_the_mutex_is_disabled(disabled: bool) -> None:
    """H1: the condition's instrument says what becomes of its events, and nothing of the mutex."""
    mutex, changed, waiter = Mutex("h/LOCK_changed"), Cond(key_of("cond", "h/changed") if disabled else 0), Worker()
    if disabled:
        instrument(COND + "h/changed", enabled=False)
    assert waiter.do(mutex.lock) == 0
    waiter.start(C.cond_wait, changed.at, mutex.at, -1)
    assert mutex.lock() == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == me()
    instrument(MUTEX + "h/LOCK_changed", enabled=False)
    changed.signal()
    assert mutex.unlock() == 0
    assert waiter.result() == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] == waiter.id  # it has it, whatever setup says since
    assert waiter.do(mutex.unlock) == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] is None
    assert waiter.do(mutex.lock) == 0  # unseen
    waiter.start(C.cond_wait, changed.at, mutex.at, -1)
    instrument(MUTEX + "h/LOCK_changed", enabled=True)
    assert mutex.lock() == 0
    changed.signal()
    assert mutex.unlock() == 0
    assert waiter.result() == 0
    assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] is None
    assert waiter.do(mutex.unlock) == 0
    assert [row for row in events() if row["EVENT_NAME"].startswith(COND)] == []


@fresh_process()
def test_H3_a_cancelled_wait_ends_and_the_mutex_is_its_holders_in_the_cleanup() -> None:
    """H1, H3: the thread that is cancelled in a wait has the mutex when its handlers run, and so says the row; its event has
    an end."""
    mutex, changed = Mutex("h/LOCK_changed"), Cond(key_of("cond", "h/changed"))
    seen = (ctypes.c_uint64 * 3)()
    for n in range(1, 4):
        assert C.cond_cancel(changed.at, mutex.at, ctypes.addressof(seen)) == 0
        trylock, owner, thread_id = seen
        assert trylock == EBUSY
        assert owner == thread_id != 0
        assert one(MUTEXES)["LOCKED_BY_THREAD_ID"] is None
        event = events(THREAD_ID=thread_id)[-1]
        assert (event["EVENT_NAME"], event["OPERATION"], event["END_EVENT_ID"]) == (COND + "h/changed", "wait", event["EVENT_ID"])
        assert counts(COND + "h/changed") == {WAITS: n, WAITS_BY_INSTANCE: n, WAITS_BY_THREAD: 0}  # F3: the thread is gone
    assert changed.late() == ETIMEDOUT
    changed.free()
    assert mutex.use().free() == 0


# ---- H4: death ---------------------------------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("kind", ["rwlock", "prlock", "sxlock", "cond", "own cond"])
def test_H4_a_destroyed_object_leaves_its_numbers_to_its_class(kind: str) -> None:
    """H4, F9: no row of its own any more, totals as before; the next one starts from zero."""
    flags = {"prlock": PR, "sxlock": SX}.get(kind, 0)
    name = f"wait/synch/{kind.removeprefix('own ')}/h/object"
    table = CONDS if kind.endswith("cond") else RWLOCKS
    worker = Worker()

    def one_life() -> None:
        if kind == "cond":
            condition = Cond(key_of("cond", "h/object"))
            assert (condition.late(), worker.do(condition.late)) == (ETIMEDOUT, ETIMEDOUT)
            assert counts(name)[WAITS_BY_INSTANCE] == len(rows(table)) * 2 == 2
            condition.free()
        elif kind == "own cond":
            row = C.owncond_new(key_of("cond", "h/object"), 0x2000)
            C.owncond_end(C.owncond_begin(row, 1), 0)
            worker.do(lambda: C.owncond_end(C.owncond_begin(row, 2), ETIMEDOUT))
            assert counts(name)[WAITS_BY_INSTANCE] == len(rows(table)) * 2 == 2
            C.owncond_free(row)
        elif kind == "sxlock":
            own = OwnRwlock("h/object", SX)
            own.use(X)
            worker.do(own.use, S)
            assert counts(name)[WAITS_BY_INSTANCE] == len(rows(table)) * 2 == 2
            own.free()
        else:
            lock = rwlock("h/object", flags)
            assert lock.do("write_lock") == lock.do("unlock") == 0
            assert worker.do(lock.do, "read_lock") == worker.do(lock.do, "unlock") == 0
            assert counts(name)[WAITS_BY_INSTANCE] == len(rows(table)) * 2 == 2
            assert lock.do("free") == 0

    for lives in range(1, 4):
        one_life()
        assert rows(table) == []
        assert counts(name) == {WAITS: 2 * lives, WAITS_BY_INSTANCE: 0, WAITS_BY_THREAD: 2 * lives}
    pfs.truncate(WAITS_BY_INSTANCE)
    assert count(WAITS, EVENT_NAME=name) == 6
    worker.end()
    assert counts(name) == {WAITS: 6, WAITS_BY_INSTANCE: 0, WAITS_BY_THREAD: 3}
    pfs.truncate(WAITS)
    assert count(WAITS, EVENT_NAME=name) == 0


@fresh_process()
def test_H4_a_wait_that_ends_after_its_condition_died_counts_for_the_class() -> None:
    """H4: whoever was woken may destroy the condition before the others have returned; also after a TRUNCATE, and with a new
    condition in its place."""
    key, name, waiter = key_of("cond", "h/short"), COND + "h/short", Worker()
    for truncate in (False, True):
        for known in (False, True):  # the thread has counted on the condition before
            pfs.truncate(WAITS)
            row = C.owncond_new(key, 0x2000)
            if known:
                waiter.do(lambda: C.owncond_end(C.owncond_begin(row, 1), 0))  # noqa: B023
            wait = waiter.do(C.owncond_begin, row, 1)
            C.owncond_free(row)
            if truncate:
                pfs.truncate(WAITS_BY_INSTANCE)
            successor = C.owncond_new(key, 0x3000)
            assert successor == row  # the slot is used again
            waiter.do(C.owncond_end, wait, 0)
            assert count(WAITS, EVENT_NAME=name) == 1 + known
            assert count(WAITS_BY_INSTANCE, EVENT_NAME=name) == 0
            C.owncond_end(C.owncond_begin(successor, 1), 0)
            waiter.do(lambda: C.owncond_end(C.owncond_begin(successor, 1), 0))  # noqa: B023
            assert count(WAITS_BY_INSTANCE, EVENT_NAME=name) == 2
            assert count(WAITS, EVENT_NAME=name) == 3 + known
            C.owncond_free(successor)
    assert losses() == {}


# ---- F20: where the longest wait began -----------------------------------------------------------------------------------------


def longest() -> dict[str, str | None]:
    """MAX_SOURCE of each instrument of a lock or a condition that has waited."""
    found = rows(WAITS)
    assert not [row for row in found if row["MAX_SOURCE"] and not row["EVENT_NAME"].startswith("wait/synch/")]
    return {row["EVENT_NAME"]: row["MAX_SOURCE"] for row in found if row["EVENT_NAME"].startswith("wait/synch/")}


def source_of_last() -> str:
    return str(events(THREAD_ID=me())[-1]["SOURCE"])


@fresh_process()
@pytest.mark.parametrize("setting", ["on", "contended"])
def test_F20_the_longest_wait_keeps_its_source_until_a_truncate(setting: str) -> None:
    """F20: the first of 50,000 waits is the longest, and its event has gone."""
    lock, dying, name = pfs.Lock("f/LOCK_long"), pfs.Lock("f/LOCK_long"), "wait/synch/mutex/f/LOCK_long"
    instrument(name, timed="CONTENDED" if setting == "contended" else True)
    holder = Worker()
    assert longest() == {name: None}
    for each in (lock, dying):
        assert holder.do(each.acquire)
    assert not lock.acquire(timeout=0.3)
    first = source_of_last()
    assert longest() == {name: first}
    assert not lock.acquire(timeout=0.01)
    second = source_of_last()
    assert second != first
    holder.do(lock.release)
    for _ in range(50_000):
        assert lock.acquire()
        lock.release()
    assert longest() == {name: first}
    if setting == "on":
        assert first not in {row["SOURCE"] for row in events()}
    pfs.truncate(WAITS)
    assert longest() == {name: None}
    holder.do(lock.acquire)
    assert not lock.acquire(timeout=0.01)
    assert longest() == {name: source_of_last()}
    assert longest() != {name: first}

    assert not dying.acquire(timeout=0.3)
    first = source_of_last()
    assert longest() == {name: first}
    holder.do(dying.release)
    holder.do(int)  # else it keeps the lock
    del each, dying
    pfs.truncate(WAITS_BY_INSTANCE)
    assert longest() == {name: first}
    assert not lock.acquire(timeout=0.01)
    assert longest() == {name: None}
    assert not lock.acquire(timeout=0.6)
    assert longest() == {name: source_of_last()}


@fresh_process()
def test_F20_shared_locks_and_conditions_have_it_and_waits_without_a_row_do_not() -> None:
    """F20: a reader that is refused, a late wait for a condition; files and waits that are only counted or timed have none."""
    with pfs.open("file", "w", name="f/data") as file:
        file.write("text")
    tree, changed, writer = pfs.RWLock("f/tree"), Cond(key_of("cond", "f/changed")), Worker()
    writer.do(tree.acquire_write)
    assert not tree.acquire_read(timeout=0.01)
    reads = source_of_last()
    changed.late()
    assert longest() == {RWLOCK + "f/tree": reads, COND + "f/changed": source_of_last()}
    consumer("events_waits_current", False)
    assert not tree.acquire_read(timeout=0.03)
    assert longest()[RWLOCK + "f/tree"] is None
    consumer("events_waits_current", True)
    assert not tree.acquire_read(timeout=0.06)
    assert longest()[RWLOCK + "f/tree"] == source_of_last()


@fresh_process()
def test_F20_a_forked_child_has_its_own() -> None:
    """F20: the child has no statistics of its parent, and so no source of its longest wait."""
    lock, name = pfs.Lock("f/LOCK_long"), "wait/synch/mutex/f/LOCK_long"
    holder = Worker()
    holder.do(lock.acquire)
    assert not lock.acquire(timeout=0.03)
    first = longest()
    child = os.fork()
    if child == 0:
        assert longest() == {name: None}
        assert not lock.acquire(timeout=0.01)
        assert longest() == {name: source_of_last()}
        os._exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    assert longest() == first


# ---- A: events ---------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_A_every_operation_has_its_name_its_object_and_its_end() -> None:
    """A1, A3, A9: OPERATION as in operations.json; OBJECT_INSTANCE_BEGIN is the address; no OBJECT_TYPE, no name, no bytes."""
    tree = rwlock()
    for call in ("read_lock", "unlock", "write_lock", "unlock", "try_read_lock", "unlock", "try_write_lock", "unlock"):
        assert tree.do(call) == 0
    lock = OwnRwlock("h/page", SX, 0x7000)
    for operation in OPERATIONS:
        lock.use(operation)
    changed = Cond(key_of("cond", "h/changed"))
    changed.late()
    seen = events()
    expected = ["read_lock", "write_lock", "try_read_lock", "try_write_lock", *OPERATIONS.values(), "timed_wait"]
    assert names_of(seen, "OPERATION") == expected
    assert names_of(seen, "EVENT_ID") == list(range(1, len(expected) + 1))
    assert names_of(seen, "END_EVENT_ID") == names_of(seen, "EVENT_ID")
    assert names_of(seen, "OBJECT_INSTANCE_BEGIN") == [tree.at] * 4 + [0x7000] * 12 + [changed.at]
    for row in seen:
        assert row["SOURCE"].startswith("driver.c:")
        assert {row[c] for c in ("OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME", "NUMBER_OF_BYTES", "FLAGS")} == {
            None
        }
        assert row["TIMER_END"] - row["TIMER_START"] == row["TIMER_WAIT"]
    assert holders(SXLOCK + "h/page") == (None, 0)


@fresh_process()
def test_A10_spins_of_a_lock_that_spins() -> None:
    """A10 as pfs has it: SPINS where the lock counts them, else NULL."""
    lock = OwnRwlock("h/page", SX)
    for spins, operation in ((0, S), (17, S), (NO_SPINS, X), (5, X)):
        lock.take(operation, spins=spins)
        lock.release(operation)
    assert names_of(events(), "SPINS") == [0, 17, None, 5]


@fresh_process()
def test_A4_untimed_locks_and_waits_have_no_times_and_are_counted() -> None:
    """A4, C11: TIMED = NO; also COUNTED without records, where another way through the code counts."""
    tree, changed = rwlock(), Cond(key_of("cond", "h/changed"))
    for name in (RWLOCK + "h/tree", COND + "h/changed"):
        instrument(name, timed=False)
    for recorded in (True, False):
        consumer(CURRENT, recorded)
        for call in ("read_lock", "read_lock", "unlock", "try_write_lock", "unlock", "write_lock", "unlock"):
            assert tree.do(call) == (EBUSY if call == "try_write_lock" else 0)
        assert changed.late() == ETIMEDOUT
    assert holders(RWLOCK + "h/tree") == (None, 0)
    assert len(events()) == 5
    assert {row[c] for row in events() for c in ("TIMER_START", "TIMER_END", "TIMER_WAIT")} == {None}
    for name, total in ((RWLOCK + "h/tree", 8), (COND + "h/changed", 2)):
        assert set(counts(name).values()) == {total}
        row = one(WAITS, EVENT_NAME=name)
        assert (row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) == (0, 0, 0)


@fresh_process()
def test_A11_an_operation_keeps_what_it_began_with() -> None:
    """A11: the instrument goes off while a thread waits for a lock; the event ends, counts, and what it took is counted down."""
    tree, name, reader = rwlock(), RWLOCK + "h/tree", Worker()
    assert tree.do("write_lock") == 0
    reader.start(tree.do, "read_lock")
    while not [row for row in events(CURRENT, THREAD_ID=reader.id) if row["END_EVENT_ID"] is None]:
        pass
    instrument(name, enabled=False)
    assert tree.do("unlock") == 0
    assert reader.result() == 0
    assert holders(name) == (None, 1)
    assert count(WAITS, EVENT_NAME=name) == 2
    assert events(THREAD_ID=reader.id)[0]["TIMER_WAIT"] > 0
    assert reader.do(tree.do, "unlock") == 0
    assert holders(name) == (None, 0)


# ---- C: instruments and limits -------------------------------------------------------------------------------------------------


@fresh_process()
def test_C_the_flag_of_a_registration_chooses_the_family() -> None:
    """C1, C3: PFS_RWLOCK_PR and PFS_RWLOCK_SX; both is refused; the same short name may be of all three families, with keys
    of its own."""
    keys = [key_of("rwlock", "c/lock", flags) for flags in (0, PR, SX)]
    assert len(set(keys)) == 3
    assert [key_of("rwlock", "c/lock", flags) for flags in (SX, PR, 0)] == keys[::-1]
    assert names_of(rows("setup_instruments"), "NAME") == [prefix + "c/lock" for prefix in (RWLOCK, PRLOCK, SXLOCK)]
    assert register("rwlock", "c/other", PR | SX) == (0, 1)
    assert b"PFS_RWLOCK_PR" in perfschema().pfs_last_error()
    assert register("rwlock", "c/single", SX | 1)[1] == 0
    assert one("setup_instruments", NAME=SXLOCK + "c/single")["PROPERTIES"] == "singleton"
    locks = [Rwlock(key) for key in keys]
    assert sorted(names_of(rows(RWLOCKS), "NAME")) == sorted(prefix + "c/lock" for prefix in (RWLOCK, PRLOCK, SXLOCK))
    for lock in locks:
        lock.do("read_lock")
        lock.do("unlock")
    assert [count(WAITS, EVENT_NAME=prefix + "c/lock") for prefix in (RWLOCK, PRLOCK, SXLOCK)] == [1, 1, 1]


@fresh_process("performance_schema_max_rwlock_classes=2,performance_schema_max_cond_classes=1")
def test_C5_a_full_family_gives_key_0_and_plain_objects() -> None:
    """C5: rwlocks, prlocks and sxlocks have one limit; conditions their own."""
    keys = [register("rwlock", "c/lock", flags) for flags in (0, PR, SX)]
    assert [error for _, error in keys] == [0, 0, 0]
    assert [key != 0 for key, _ in keys] == [True, True, False]
    assert [register("cond", f"c/cond_{i}")[0] != 0 for i in range(3)] == [True, False, False]
    assert losses() == {"Performance_schema_rwlock_classes_lost": 1, "Performance_schema_cond_classes_lost": 2}
    plain, condition = Rwlock(keys[2][0]), Cond(0)
    for call in ("read_lock", "unlock", "write_lock", "unlock", "free"):
        assert plain.do(call) == 0
    assert condition.late() == ETIMEDOUT
    condition.free()
    assert rows(RWLOCKS) == rows(CONDS) == events() == []
    assert status("rwlock_instances_lost") == status("cond_instances_lost") == 0


@fresh_process("performance_schema_max_rwlock_instances={limit},performance_schema_max_cond_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_C6_objects_beyond_the_limit_work_uninstrumented_and_freed_places_are_used_again(limit: int) -> None:
    """C6: 5 of each, of all kinds of rwlocks together."""
    keys = [key_of("rwlock", "c/lock", flags) for flags in (0, PR, SX)]
    cond_key = key_of("cond", "c/cond")
    for turn in range(1, 3):
        locks = [Rwlock(keys[i % 3]) for i in range(5)]
        conditions = [Cond(cond_key) for _ in range(5)]
        assert len(rows(RWLOCKS)) == len(rows(CONDS)) == limit
        assert status("rwlock_instances_lost") == status("cond_instances_lost") == turn * (5 - limit)
        for lock in locks:
            for call in ("read_lock", "read_lock", "unlock", "unlock", "try_write_lock", "unlock", "free"):
                assert lock.do(call) == 0
        for condition in conditions:
            assert condition.late() == ETIMEDOUT
            condition.free()
        assert rows(RWLOCKS) == rows(CONDS) == []
        assert sum(count(WAITS, EVENT_NAME=prefix + "c/lock") for prefix in (RWLOCK, PRLOCK, SXLOCK)) == turn * 3 * limit
        assert count(WAITS, EVENT_NAME=COND + "c/cond") == turn * limit


@fresh_process("performance_schema_max_object_cells=0")
def test_C6_without_cells_everything_works_and_the_loss_is_counted() -> None:
    """Capacity: no place for what a thread counts apart: read locks and waits count for the instrument alone."""
    tree, changed, name = rwlock(), Cond(key_of("cond", "h/changed")), RWLOCK + "h/tree"
    for call in ("read_lock", "read_lock", "unlock", "unlock", "write_lock", "unlock"):
        assert tree.do(call) == 0
    assert changed.late() == ETIMEDOUT
    assert holders(name) == (None, 0)
    assert (count(WAITS_BY_INSTANCE, EVENT_NAME=name), count(WAITS_BY_THREAD, EVENT_NAME=name)) == (1, 3)
    assert (count(WAITS, EVENT_NAME=name), count(WAITS, EVENT_NAME=COND + "h/changed")) == (3, 1)
    assert status("object_cells_lost") == 3
    assert len(events()) == 4


@fresh_process()
def test_C7_a_disabled_class_lists_its_objects_and_enabling_makes_them_count() -> None:
    """C7: rows are there, nothing moves; on again, live objects count at once."""
    names = {RWLOCK + "c/lock": "rwlock", COND + "c/cond": "cond"}
    lock, condition = Rwlock(key_of("rwlock", "c/lock", 8192)), Cond(key_of("cond", "c/cond", 8192))
    own = OwnRwlock("c/own", SX | 8192)
    assert names_of(rows(RWLOCKS), "NAME") == [RWLOCK + "c/lock", SXLOCK + "c/own"]
    assert names_of(rows(CONDS), "NAME") == [COND + "c/cond"]

    def use() -> None:
        for call in ("read_lock", "unlock"):
            assert lock.do(call) == 0
        assert condition.late() == ETIMEDOUT
        own.use(S)

    for name in (*names, SXLOCK + "c/own"):
        use()
        assert count(WAITS, EVENT_NAME=name) == 0
        instrument(name, enabled=True)
        use()
        assert count(WAITS, EVENT_NAME=name) == 1
        instrument(name, enabled=False)


@fresh_process()
def test_B4_without_thread_instrumentation_objects_count_and_threads_do_not() -> None:
    """B4: by_instance and global grow; by_thread, current and history do not; READ_LOCKED_BY_COUNT is right."""
    consumer("thread_instrumentation", False)
    tree, changed, name = rwlock(), Cond(key_of("cond", "h/changed")), RWLOCK + "h/tree"
    assert tree.do("read_lock") == tree.do("read_lock") == 0
    assert holders(name) == (None, 2)
    assert tree.do("unlock") == tree.do("unlock") == 0
    assert holders(name) == (None, 0)
    assert changed.late() == ETIMEDOUT
    assert counts(name) == {WAITS: 2, WAITS_BY_INSTANCE: 2, WAITS_BY_THREAD: 0}
    assert counts(COND + "h/changed") == {WAITS: 1, WAITS_BY_INSTANCE: 1, WAITS_BY_THREAD: 0}
    assert events(HISTORY_LONG) == events(CURRENT) == []
