"""pfs.RWLock: many readers or one writer, first come first served; who holds it is in rwlock_instances."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Self

import pandas as pd
import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import (
    Stop,
    alarm,
    await_true,
    await_waiting,
    count,
    events,
    operations,
    row,
    start,
    stop,
    this_thread,
)


def holders(lock: pfs.RWLock) -> tuple[int | None, int]:
    """WRITE_LOCKED_BY_THREAD_ID and READ_LOCKED_BY_COUNT."""
    shown = row("rwlock_instances", lock)
    writer = shown["WRITE_LOCKED_BY_THREAD_ID"]
    return (None if pd.isna(writer) else int(writer)), int(shown["READ_LOCKED_BY_COUNT"])


class Holder:
    """A thread that takes the lock and holds it until it is told."""

    def __init__(self, lock: pfs.RWLock, write: bool = False) -> None:
        self.has_it, self.let_go = threading.Event(), threading.Event()

        def work() -> None:
            with lock.write() if write else lock.read():
                self.has_it.set()
                self.let_go.wait()

        self.thread = start(work)

    def __enter__(self) -> Self:
        assert self.has_it.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.thread.join()


def test_readers_share_and_writers_do_not() -> None:
    lock = pfs.RWLock("test/RW_share")
    with Holder(lock), Holder(lock), lock.read() as got:
        assert got is True
        assert lock.locked()
        assert holders(lock) == (None, 3)
    assert lock.acquire_write() is True
    assert holders(lock) == (this_thread(), 0)
    refused: list[bool] = []

    def other() -> None:
        refused.append(lock.acquire_read(False))
        refused.append(lock.acquire_write(blocking=False))
        refused.append(lock.acquire_read(timeout=0.01))
        refused.append(lock.acquire_write(True, 0.01))
        refused.append(lock.acquire_write(timeout=0))

    start(other).join()
    lock.release_write()
    assert refused == [False] * 5
    assert not lock.locked()
    assert holders(lock) == (None, 0)


def test_each_acquire_is_one_event_of_its_kind() -> None:
    lock = pfs.RWLock("test/RW_events")
    with lock.read():
        assert lock.acquire_read(False)
        lock.release_read()
    assert lock.acquire_read(timeout=1)
    assert not lock.acquire_write(False)
    lock.release_read()
    with lock.write():
        assert not lock.acquire_read(False)
    assert lock.acquire_write(False)
    lock.release_write()
    assert operations(lock.name) == [
        "read_lock",
        "try_read_lock",
        "read_lock",
        "try_write_lock",
        "write_lock",
        "try_read_lock",
        "try_write_lock",
    ]
    assert set(events(lock.name)["SOURCE"].str.partition(":")[0]) == {"test_rwlock.py"}
    assert lock.name == "wait/synch/rwlock/test/RW_events"


def test_writer_waits_for_the_readers_before_it_and_no_reader_passes_it() -> None:
    lock = pfs.RWLock("test/RW_fair")
    order: list[str] = []

    def write() -> None:
        with lock.write():
            order.append("write")

    def read() -> None:
        with lock.read():
            order.append("read")

    with Holder(lock):
        threads = [start(write)]
        await_waiting(lock.name, 1)
        for _ in range(3):
            threads.append(start(read))
        await_waiting(lock.name, 4)  # behind the writer, though there are but readers
        assert order == []
        assert holders(lock) == (None, 1)
    for thread in threads:
        thread.join()
    assert order == ["write", "read", "read", "read"]


def test_readers_behind_a_writer_go_in_together() -> None:
    lock = pfs.RWLock("test/RW_together")
    together = threading.Barrier(3)

    def read() -> None:
        with lock.read():
            together.wait(20)

    with Holder(lock, write=True):
        threads = [start(read) for _ in range(3)]
        await_waiting(lock.name, 3)
    for thread in threads:
        thread.join()
    assert not together.broken


def test_reader_may_read_again_though_a_writer_waits() -> None:
    lock = pfs.RWLock("test/RW_again")
    with lock.read():
        writer = Holder(lock, write=True)
        await_waiting(lock.name)
        with lock.read():
            assert holders(lock) == (None, 2)
        assert not writer.has_it.is_set()
    with writer:
        assert lock.locked()
    assert not lock.locked()


def test_wait_for_oneself_is_refused() -> None:
    lock = pfs.RWLock("test/RW_self")
    with lock.write():
        for acquire in (lock.acquire_read, lock.acquire_write):
            for arguments in ((), (True, 1)):
                with pytest.raises(RuntimeError, match="wait for itself"):
                    acquire(*arguments)
    with lock.read(), pytest.raises(RuntimeError, match="reads under the lock"), lock.write():
        pass
    assert not lock.locked()
    assert count(lock.name) == 2


def test_release_of_what_one_does_not_hold_is_refused() -> None:
    lock = pfs.RWLock("test/RW_release")
    with Holder(lock):
        for release in (lock.release_read, lock.release_write):
            with pytest.raises(RuntimeError, match="without acquire"):
                release()
        assert holders(lock) == (None, 1)
    with Holder(lock, write=True):
        for release in (lock.release_read, lock.release_write):
            with pytest.raises(RuntimeError, match="without acquire"):
                release()
    assert not lock.locked()


def test_exception_in_the_block_releases_and_a_guard_may_be_used_again() -> None:
    lock = pfs.RWLock("test/RW_guard")
    for guard in (lock.read(), lock.write()):
        for _ in range(2):
            with pytest.raises(KeyError), guard:
                raise KeyError(lock.locked())
        assert not lock.locked()
        with pytest.raises(RuntimeError):
            guard.__exit__(None, None, None)


@pytest.mark.parametrize("how", ["time", "signal"])
def test_writer_that_gives_up_lets_readers_behind_it_in(how: str) -> None:
    lock = pfs.RWLock("test/RW_gives_up")
    with Holder(lock):
        in_line = threading.Event()

        def read() -> None:
            await_waiting(lock.name)
            in_line.set()
            with lock.read():
                pass

        reader = start(read)
        if how == "time":
            assert not lock.acquire_write(timeout=0.2)
        else:
            with alarm(stop, 0.2), pytest.raises(Stop):
                lock.acquire_write()
        assert in_line.is_set()
        reader.join(20)
        assert not reader.is_alive()


def test_a_guard_keeps_its_lock() -> None:
    lock = pfs.RWLock("test/RW_dies")
    reference = weakref.ref(lock)
    lock.acquire_read()
    guard = lock.read()
    assert repr(lock).startswith("<read-locked pfs.RWLock object 'wait/synch/rwlock/test/RW_dies' readers=1 waiting=0 at ")
    del lock
    gc.collect()
    assert reference() is not None  # the guard has it
    del guard
    assert reference() is None


def test_counts_are_exact_with_many_threads_and_the_lock_locks() -> None:
    lock = pfs.RWLock("test/RW_exact")
    state = {"readers": 0, "writers": 0, "worst": 0}
    guard = threading.Lock()

    def note(kind: str, by: int) -> None:
        with guard:
            state[kind] += by
            if state["writers"] > 1 or (state["writers"] and state["readers"]):
                state["worst"] += 1

    def work(me: int) -> None:
        for i in range(300):
            if (i + me) % 4 == 0:
                with lock.write():
                    note("writers", 1)
                    note("writers", -1)
            else:
                with lock.read(), lock.read():
                    note("readers", 1)
                    note("readers", -1)

    for thread in [start(work, me) for me in range(8)]:
        thread.join()
    assert state == {"readers": 0, "writers": 0, "worst": 0}
    assert count(lock.name) == 8 * (75 + 2 * 225)
    assert holders(lock) == (None, 0)
    await_true(lambda: not lock.locked())


def test_child_can_make_a_lock_new_that_others_held_at_fork(fresh: Run) -> None:
    out = fresh("""
        import os, threading
        import pfs
        lock, held, go_on = pfs.RWLock("test/RW_fork"), threading.Event(), threading.Event()
        def hold():
            with lock.read():
                held.set()
                go_on.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            assert not lock.acquire_write(timeout=0.01)
            lock._at_fork_reinit()
            with lock.write(): pass
            with lock.read(): pass
            os._exit(0 if not lock.locked() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), lock.locked())
        go_on.set()
        thread.join()
    """)
    assert out == "0 True\n"
