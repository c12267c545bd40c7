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


# What releases the GIL: each is called again and again by daemon threads while the interpreter ends.
CALLS = {
    "file: open and close": "def call(): pfs.open('x', 'rb', buffering=0, name='test/f').close()",
    "file: read": "f = pfs.open('x', 'rb', buffering=0, name='test/f')\ndef call(): f.seek(0); f.read()",
    "file: readinto": "f = pfs.open('x', 'rb', buffering=0, name='test/f')\ndef call(): f.seek(0); f.readinto(bytearray(9))",
    "file: write": "f = pfs.open('y', 'wb', buffering=0, name='test/f')\ndef call(): f.write(b'123')",
    "file: seek and tell": "f = pfs.open('x', 'rb', buffering=0, name='test/f')\ndef call(): f.seek(1); f.tell()",
    "file: truncate": "f = pfs.open('y', 'wb', buffering=0, name='test/f')\ndef call(): f.truncate(5)",
    "file: text": "def call():\n    with pfs.open('x', name='test/f') as f: f.read()",
    "table: read": "def call(): pfs.table('events_waits_history_long')",
    "table: truncate": "def call(): pfs.truncate('events_waits_history_long')",
    "setup: update": "def call(): pfs.setup_instruments.update('wait/io/%', timed=True)",
    "setup: insert and delete": (
        "def call():\n    try: pfs.setup_actors.insert(user='u')\n    except pfs.Error: pass\n"
        "    pfs.setup_actors.delete({'USER': 'u'})"
    ),
    "digest": "text = 'select ' + '1 + a, ' * 9000 + '1'\ndef call(): pfs.digest(text, 100000)",
    "socket": "def call(): pfs.socket('test/s').close()",
    "socketpair": "def call():\n    for s in pfs.socketpair('test/s'): s.close()",
    "socket: sendfile": (
        "a, b = pfs.socketpair('test/s')\nb.setblocking(False)\ndef call():\n    with open('x', 'rb') as f: a.sendfile(f)\n"
        "    try: b.recv(4096)\n    except BlockingIOError: pass"
    ),
    "Lock that is passed on": "lock = pfs.Lock('test/X')\ndef call():\n    with lock: time.sleep(0)",
    "SimpleQueue that is passed on": "q = pfs.SimpleQueue('test/X')\nq.put(1)\ndef call(): q.put(q.get())",
}


@pytest.mark.parametrize("setup", CALLS.values(), ids=CALLS)
def test_daemon_thread_that_is_without_the_gil(fresh: Run, setup: str) -> None:
    """The thread must not end by unwinding: that is an abort, exit code 134."""
    script = f"""
import sys, threading, time
import pfs
open("x", "w").write("1234")
sys.setswitchinterval(1e-4)
{setup}
calls = 0
def work():
    global calls
    while True:
        call()
        calls += 1
call()
for _ in range(4): threading.Thread(target=work, daemon=True).start()
while calls < 5: time.sleep(0.001)
class Last:
    def __init__(self, sleep): self.sleep = sleep
    def __del__(self): self.sleep(0.1)      # the interpreter ends: whoever comes back wants the GIL
sys.last = Last(time.sleep)
print("end")
"""
    assert fresh(script) == "end\n"


def test_first_table_in_an_atexit_handler(fresh: Run) -> None:
    """pandas is imported for it, when threads have been shut down already."""
    out = fresh("""
        import atexit, sys, threading
        import pfs
        def report():
            assert "pandas" not in sys.modules
            print(pfs.table("mutex_instances")["NAME"].tolist())
            print(pfs.describe("threads").shape[1])
        atexit.register(report)
        lock = pfs.Lock("test/X")
        with lock: pass
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
    """)
    assert out == "['wait/synch/mutex/test/X']\n6\n"


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
