"""The interpreter ends while daemon threads wait in our calls, hold our locks, or are called by finalizers: nothing crashes."""

from __future__ import annotations

import pytest

from tests.conftest import Run

WAITS = {
    "Lock": "lock = pfs.Lock('test/X'); lock.acquire(); wait = lock.acquire",
    "Lock with a timeout": "lock = pfs.Lock('test/X'); lock.acquire(); wait = lambda: lock.acquire(timeout=0.05)",
    "RLock": "lock = pfs.RLock('test/X'); lock.acquire(); wait = lock.acquire",
    "Condition": "lock = pfs.Condition('test/X')\ndef wait():\n    with lock: lock.wait()",
    "Condition with a timeout": "lock = pfs.Condition('test/X')\ndef wait():\n    with lock: lock.wait(0.05)",
    "Condition on another lock": "lock = pfs.Condition('test/X', threading.RLock())\ndef wait():\n    with lock: lock.wait(0.05)",
    "Semaphore": "lock = pfs.Semaphore('test/X', 0); wait = lock.acquire",
    "Event": "lock = pfs.Event('test/X'); wait = lambda: lock.wait(0.05)",
    "Barrier": "lock = pfs.Barrier('test/X', 2); wait = lock.wait",
    "RWLock": "lock = pfs.RWLock('test/X'); lock.acquire_write(); wait = lock.acquire_read",
    "RWLock with a timeout": "lock = pfs.RWLock('test/X'); lock.acquire_read(); wait = lambda: lock.acquire_write(timeout=0.05)",
    "Queue": "lock = pfs.Queue('test/X'); wait = lock.get",
    "socket": "a, b = pfs.socketpair('test/X'); wait = lambda: a.recv(1)",
    "socket with a timeout": "a, b = pfs.socketpair('test/X'); a.settimeout(0.05); wait = lambda: a.recv(1)",
    "SimpleQueue": "lock = pfs.SimpleQueue('test/X'); wait = lambda: lock.get(timeout=0.05)",
}


@pytest.mark.parametrize("setup", WAITS.values(), ids=WAITS)
def test_daemon_thread_that_waits(fresh: Run, setup: str) -> None:
    script = f"""
import threading, time
import pfs
{setup}
def work():
    while True:
        try: wait()
        except Exception: pass
threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
def waiting():
    frame = pfs.table("events_waits_current")
    return (frame["EVENT_NAME"].str.contains("/test/X") & frame["END_EVENT_ID"].isna()).sum()
while not waiting(): time.sleep(0.001)
print("end")
"""
    assert fresh(script) == "end\n"


def test_finalizers_that_notify_and_put_when_waiters_are_dead(fresh: Run) -> None:
    out = fresh("""
        import sys, threading, time
        import pfs
        condition, simple, jobs = pfs.Condition("test/X"), pfs.SimpleQueue("test/X"), pfs.Queue("test/X")
        def wait():
            with condition: condition.wait(0.05)
        for function in (wait, simple.get, jobs.get, wait):
            threading.Thread(target=function, daemon=True).start()
        class Last:
            def __init__(self, *kept):
                self.kept = kept
            def __del__(self):
                condition, simple, jobs, sleep = self.kept
                sleep(0.2)
                with condition: condition.notify_all()
                simple.put(1)
                jobs.put(1)
        sys.last = Last(condition, simple, jobs, time.sleep)
        time.sleep(0.05)
        print("end")
    """)
    assert out == "end\n"


def test_objects_that_die_with_the_interpreter_while_held(fresh: Run) -> None:
    out = fresh("""
        import pfs
        kinds = pfs.Lock, pfs.RLock, pfs.Condition, pfs.Semaphore, pfs.BoundedSemaphore
        things = [kind("test/X") for kind in kinds]
        for thing in things: thing.acquire()
        lock = pfs.RWLock("test/X")
        lock.acquire_read()
        guard = lock.read()
        guard.__enter__()
        things.append(things)
        print("end")
    """)
    assert out == "end\n"
