"""Python's objects where there is no room for their rows, where pfs is off, and with the longest timeouts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import Stop, alarm, stop

USE_EVERYTHING = """
import queue, threading
import pfs
lock, rlock, other_rw, rw = pfs.Lock("t/LOCK"), pfs.RLock("t/RLOCK"), pfs.RWLock("t/RW_1"), pfs.RWLock("t/RW")
with other_rw.read(): pass
condition, event, semaphore = pfs.Condition("t/COND"), pfs.Event("t/EVENT"), pfs.Semaphore("t/SEM")
jobs, simple, barrier = pfs.Queue("t/QUEUE"), pfs.SimpleQueue("t/SIMPLE"), pfs.Barrier("t/BARRIER", 1)
for _ in range(3):
    with lock, rlock, rlock, semaphore: pass
    with rw.read(), rw.read(): pass
    with rw.write(): assert not rw.acquire_read(False)
    with condition:
        assert not condition.wait(0.001)
        condition.notify_all()
    event.set(), event.wait(), event.clear()
    assert not event.wait(0.001)
    jobs.put(1), simple.put(2)
    assert (jobs.get(), simple.get()) == (1, 2)
    try: simple.get(timeout=0.001)
    except queue.Empty: pass
    barrier.wait()
    with pfs.create_server("t/SERVER", ("127.0.0.1", 0)) as server:
        with pfs.create_connection("t/CLIENT", server.getsockname()) as client, server.accept()[0] as other:
            client.sendall(b"hello")
            assert other.recv(9) == b"hello"
    a, b = pfs.socketpair("t/PAIR")
    with a, b, a.dup() as c:
        c.send(b"x")
        assert b.recv(1) == b"x"
thread = threading.Thread(target=simple.get)
thread.start()
simple.put(None)
thread.join()
"""

LOST = {
    "max_mutex_instances": "Performance_schema_mutex_instances_lost",
    "max_mutex_classes": "Performance_schema_mutex_classes_lost",
    "max_rwlock_instances": "Performance_schema_rwlock_instances_lost",
    "max_rwlock_classes": "Performance_schema_rwlock_classes_lost",
    "max_cond_instances": "Performance_schema_cond_instances_lost",
    "max_cond_classes": "Performance_schema_cond_classes_lost",
    "max_socket_instances": "Performance_schema_socket_instances_lost",
    "max_socket_classes": "Performance_schema_socket_classes_lost",
    "max_thread_instances": "Performance_schema_thread_instances_lost",
}


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("option", LOST)
def test_objects_without_room_work_and_are_counted(fresh: Run, option: str, limit: int) -> None:
    out = fresh(f"{USE_EVERYTHING}\nprint(pfs.status['{LOST[option]}'] > 0)", options=f"performance_schema_{option}={limit}")
    assert out == "True\n"


def test_objects_work_where_pfs_is_off(fresh: Run) -> None:
    assert fresh(f"{USE_EVERYTHING}\nprint(lock.name, a.name)", options="performance_schema=OFF") == (
        "wait/synch/mutex/t/LOCK wait/io/socket/t/PAIR\n"
    )


def test_longest_timeout_is_a_wait_without_end() -> None:
    lock, rw, condition = pfs.Lock("test/LONG"), pfs.RWLock("test/LONG"), pfs.Condition("test/LONG")
    lock.acquire()
    threading.Thread(target=rw.acquire_write).start()
    longest = threading.TIMEOUT_MAX
    with condition:
        waits: tuple[Callable[[], object], ...] = (
            lambda: lock.acquire(timeout=longest),
            lambda: rw.acquire_read(timeout=longest),
            lambda: condition.wait(longest),
            lambda: pfs.SimpleQueue[int]("test/LONG").get(timeout=longest),
        )
        for wait in waits:
            calls: list[int] = []

            def handler(calls: list[int] = calls) -> None:
                if len(calls) == 3:  # the wait has ended, and the timer is not off yet
                    return
                calls.append(1)
                if len(calls) == 3:  # it goes on after the first two
                    stop()

            with alarm(handler, 0.01, 0.01), pytest.raises(Stop):
                wait()
            assert len(calls) == 3
