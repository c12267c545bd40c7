"""pfs.RLock behaves as threading.RLock; each acquire is an event, and the holder is shown until the last release."""

from __future__ import annotations

import threading

import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import (
    await_true,
    await_waiting,
    count,
    events,
    operations,
    owner,
    start,
    this_thread,
)

INSTRUMENT = "wait/synch/mutex/test/RLOCK"


@pytest.fixture
def lock() -> pfs.RLock:
    return pfs.RLock("test/RLOCK")


def test_holder_may_take_it_again_and_lets_it_go_as_often(lock: pfs.RLock) -> None:
    assert lock.acquire() is True
    assert lock.acquire(False) is True
    assert lock.acquire(timeout=1) is True
    with lock as got:
        assert got is True
    assert lock.locked()
    for _ in range(3):
        assert lock.locked()
        lock.release()
    assert not lock.locked()
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        lock.release()


def test_others_wait_and_may_not_release(lock: pfs.RLock) -> None:
    results: list[object] = []

    def other() -> None:
        results.append(lock.acquire(False))
        results.append(lock.acquire(timeout=0.01))
        with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
            lock.release()
        results.append(lock._is_owned())  # type: ignore[attr-defined]
        results.append(lock.acquire())

    with lock:
        thread = start(other)
        await_true(lambda: len(results) == 3)
        await_waiting(INSTRUMENT)
        assert lock._is_owned()  # type: ignore[attr-defined]
    thread.join()
    assert results[:2] == [False, False]
    assert results[2:] == [False, True]
    assert lock.locked()


def test_each_acquire_is_an_event_and_the_holder_is_shown_to_the_last_release() -> None:
    lock = pfs.RLock("test/RLOCK_events")
    shown = []
    with lock:
        shown.append(owner(lock))
        with lock:
            lock.acquire(False)
            shown.append(owner(lock))
            lock.release()
            shown.append(owner(lock))
        shown.append(owner(lock))
    assert shown == [this_thread()] * 4
    assert owner(lock) is None
    assert operations(lock.name) == ["lock", "lock", "try_lock"]
    assert set(events(lock.name)["SOURCE"].str.partition(":")[0]) == {"test_rlock.py"}


@pytest.mark.parametrize("enabled", [(True, False), (False, True)])
def test_levels_that_were_not_looked_at_do_no_harm(enabled: tuple[bool, bool]) -> None:
    lock = pfs.RLock("test/RLOCK_switch")
    before = len(events(lock.name))
    with pfs.setup_instruments:
        pfs.setup_instruments[lock.name].enabled = enabled[0]
        lock.acquire()
        pfs.setup_instruments[lock.name].enabled = enabled[1]
        lock.acquire()
        lock.release()
        assert owner(lock) == this_thread()  # one of the two was seen, and it is held still
        lock.release()
    assert owner(lock) is None
    assert len(events(lock.name)) == before + 1


def test_deeper_than_the_shown_depth_has_bits() -> None:
    lock = pfs.RLock("test/RLOCK_deep")
    for _ in range(70_000):
        lock.acquire()
    assert owner(lock) == this_thread()
    for _ in range(69_999):
        lock.release()
    assert lock.locked()
    lock.release()
    assert owner(lock) is None
    assert not lock.locked()
    assert count(lock.name) == 70_000


def test_subclass_and_repr() -> None:
    class Mine(pfs.RLock):
        extra = 3

    lock = Mine("test/RLOCK_mine")
    with lock:
        assert repr(lock).startswith("<locked Mine object 'wait/synch/mutex/test/RLOCK_mine' owner=")
        assert "count=1" in repr(lock)
    assert lock.name == "wait/synch/mutex/test/RLOCK_mine"


def test_standard_condition_on_it_shows_the_wait_for_the_lock() -> None:
    lock = pfs.RLock("test/RLOCK_standard")
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    with condition, condition:
        assert not condition.wait(0.001)  # gives both levels back
        assert lock._recursion_count() == 2  # type: ignore[attr-defined]
        assert owner(lock) == this_thread()
    assert owner(lock) is None
    assert operations(lock.name) == ["lock", "lock", "lock"]  # the last is the standard condition's
    assert set(events(lock.name)["SOURCE"].str.partition(":")[0]) == {"test_rlock.py"}  # and not threading.py


def test_counts_are_exact_with_many_threads() -> None:
    lock = pfs.RLock("test/RLOCK_exact")
    inside = [0]

    def work() -> None:
        for _ in range(1000):
            with lock, lock:
                inside[0] += 1

    for thread in [start(work) for _ in range(8)]:
        thread.join()
    assert inside == [8000]
    assert count(lock.name) == 16_000
    assert owner(lock) is None


def test_lock_that_another_thread_held_at_fork_can_be_made_new(fresh: Run) -> None:
    out = fresh("""
        import os, threading
        import pfs
        lock, held, go_on = pfs.RLock("test/RLOCK_fork"), threading.Event(), threading.Event()
        def hold():
            with lock, lock:
                held.set()
                go_on.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            assert not lock.acquire(timeout=0.01)
            lock._at_fork_reinit()
            with lock, lock:
                pass
            shown = pfs.table("mutex_instances").set_index("OBJECT_INSTANCE_BEGIN").loc[id(lock), "LOCKED_BY_THREAD_ID"]
            os._exit(0 if str(shown) == "<NA>" and not lock.locked() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), lock.locked())
        go_on.set()
        thread.join()
    """)
    assert out == "0 True\n"
