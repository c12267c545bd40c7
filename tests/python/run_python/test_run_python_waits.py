"""``pfs run`` says what threads of Python wait for: conditions by their line, and the GIL, as long as C code measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import pfs
from tests.conftest import ROOT
from tests.python.run.test_run import PFS, own_folder, pytestmark, run
from tests.python.run_python.test_run_python import written

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

CONDITIONS = """\
import concurrent.futures, queue, threading, time
event, items, changed = threading.Event(), queue.Queue(), threading.Condition()
def late():
    with changed: changed.notify()  # the main thread has let it go, so it waits
    time.sleep(0.2); event.set()
    time.sleep(0.2); items.put(1)
with changed:
    threading.Thread(target=late).start()
    changed.wait()
    changed.wait(0.01)
event.wait()
items.get()
with concurrent.futures.ThreadPoolExecutor(1) as pool: pool.submit(time.sleep, 0.2).result()
"""


def test_a_wait_for_a_condition_has_its_line(tmp_path: Path) -> None:
    """The line of the program that waits, not one of threading or queue: in the name, and in SOURCE."""
    (path := tmp_path / "shop.py").write_text(CONDITIONS)
    done = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, path)
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        rows = schema.table("events_waits_history_long", where="EVENT_NAME like 'wait/synch/cond/python/__main__:%'")
    # The worker waits for an item of the pool's queue, which has the line that makes it.
    is_of_pool = rows["SOURCE"].str.startswith("concurrent.futures.thread:")
    assert set(rows[is_of_pool]["EVENT_NAME"]) <= {"wait/synch/cond/python/__main__:13"}
    rows = rows[~is_of_pool]
    found = {int(name.rpartition(":")[2]) for name in rows["EVENT_NAME"]}
    assert list(rows["SOURCE"]) == [f"shop.py:{name.rpartition(':')[2]}" for name in rows["EVENT_NAME"]]
    # A start, too, may wait for its thread. The main thread need not wait where it comes late.
    assert {9, 10} <= found <= {8, 9, 10, 11, 12, 13}


QUEUES = """\
import queue, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
class Own(queue.SimpleQueue): pass
class Other(queue.SimpleQueue):
    def __new__(kind, number): return super().__new__(kind)
    def __init__(self, number): self.number = number
all = [queue.SimpleQueue(), Own(), Other(5), queue.SimpleQueue.__new__(Own)]
lock = threading.Lock()
def work(items):
    for _ in range(3): items.get()
    with lock: pass
threads = [threading.Thread(target=work, args=(items,)) for items in all for _ in range(2)]
for thread in threads: thread.start()
with lock:
    for _ in range(6):
        time.sleep(0.05)
        for items in all: items.put(1)
    time.sleep(0.05)
for thread in threads: thread.join()
with ThreadPoolExecutor(1) as pool:
    pool.submit(time.sleep, 0.05).result(); time.sleep(0.05)
print(all[0].get.__doc__, all[2].number, [items.empty() for items in all], queue.SimpleQueue, Own.__mro__)
for wrong in (lambda: queue.SimpleQueue(1), lambda: Other.__new__(int, 1), lambda: all[0].get(timeout=-1), all[0].get_nowait):
    try: wrong()
    except Exception as error: print(type(error), error)
"""


def test_a_wait_for_an_item_is_no_wait_for_a_lock(tmp_path: Path) -> None:
    """get() of a queue.SimpleQueue waits in a lock that nobody holds: it is a condition, by the line that makes the queue."""
    (path := tmp_path / "shop.py").write_text(QUEUES)
    plain = run(sys.executable, path)
    report = tmp_path / "report.json"
    done = run(*PFS, "run", "--json", "-o", report, "--", sys.executable, path)
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    found = json.loads(report.read_text())
    locks = {row["name"]: row for row in found["locks"]}
    conditions = {row["name"]: row for row in [*found["conditions"], *found["idle"]]}
    queue, lock = 7 if sys.version_info < (3, 13) else 10, 8  # from 3.13 on the queue is no lock: the line that waits
    assert conditions[f"wait/synch/cond/python/__main__:{queue}"]["count"] >= 12
    assert f"wait/synch/mutex/python/__main__:{queue}" not in locks
    assert locks[f"wait/synch/mutex/python/__main__:{lock}"]["time"] > 0  # the lock itself
    # A thread that starts may meet the one that starts it at the lock of the event that says so, which line 12 makes.
    assert {row["name"] for row in found["blocked"]} - {"wait/synch/mutex/python/__main__:12"} == {
        f"wait/synch/mutex/python/__main__:{lock}"
    }


HELD = """\
import json, threading, time
lock, first, changed = threading.Lock(), threading.Event(), threading.Condition()
def hold():
    with lock: first.set(); time.sleep(0.3)
    time.sleep(0.2)
    with changed: changed.notify()
threading.Thread(target=hold).start()
first.wait()
begin = time.monotonic()
with lock: waited = time.monotonic() - begin
with changed: changed.wait(10)
late = threading.Thread(target=time.sleep, args=(0.2,))
late.start(); late.join()
print(json.dumps(waited))
"""


def test_only_what_is_held_is_a_lock(tmp_path: Path) -> None:
    """A lock, a condition and the end of a thread are three classes in each CPython, whatever its locks are made of."""
    (path := tmp_path / "shop.py").write_text(HELD)
    report = tmp_path / "report.json"
    done = run(*PFS, "run", "--json", "-o", report, "--", sys.executable, path)
    found = json.loads(report.read_text())
    name = "wait/synch/mutex/python/__main__:2"
    (blocked,) = found["blocked"]
    assert (blocked["name"], blocked["source"], blocked["count"]) == (name, "shop.py:10", 1)
    assert blocked["time"] / 1e12 == pytest.approx(float(done.stdout), rel=0.2)
    assert {row["name"]: row["count"] for row in found["locks"] if "__main__" in row["name"]}[name] >= 1
    classes = {row["class"]: row["time"] / 1e12 for row in found["classes"]}
    assert classes["ends of threads of Python (join)"] >= 0.15
    waits = {row["name"] for row in [*found["conditions"], *found["idle"]]}
    assert {f"wait/synch/cond/python/__main__:{line}" for line in (8, 11)} & waits


SHARED = """\
import ctypes, json, os, sys, threading, time
c = ctypes.PyDLL(sys.argv[1])  # a call of it has the GIL
c.compute.argtypes, c.receive.argtypes = (ctypes.c_double,) * 3, (ctypes.c_double, ctypes.c_double, ctypes.c_int)
c.compute.restype = c.receive.restype = ctypes.c_double
begin = time.monotonic() + 0.5  # all threads have started by then
end = begin + 2
out, into = os.pipe()
waited, done, stay = {}, threading.Barrier(4), threading.Event()
def work(name, call, *arguments):
    waited[name] = call(begin, end, *arguments)
    done.wait()
    stay.wait()
calls = {"first": (c.compute, 0.012), "second": (c.compute, 0.008), "reader": (c.receive, out)}
for name, arguments in calls.items():
    threading.Thread(target=work, args=(name, *arguments), name=name).start()
writer = os.fork()  # it has no GIL to wait for
if writer == 0:
    while time.monotonic() < end + 0.1:
        os.write(into, b"x"); time.sleep(0.005)
    os._exit(0)
done.wait()
print(json.dumps(waited), flush=True)
os.kill(writer, 9)
os.kill(os.getpid(), 9)  # the rows of threads that are alive stay
"""


def gil_by_thread(done: subprocess.CompletedProcess[str]) -> Mapping[str, int]:
    """Returns the time that each thread of a run has waited for the GIL."""
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        threads = schema.table("threads").set_index("THREAD_ID")["NAME"]
        waits = schema.table("events_waits_summary_by_thread_by_event_name")
    waits["THREAD"] = waits["THREAD_ID"].map(threads)
    gil = waits[waits["EVENT_NAME"].str.startswith("wait/synch/cond/python/gil")]
    return {str(name): int(time) for name, time in gil.groupby("THREAD")["SUM_TIMER_WAIT"].sum().items()}


@pytest.mark.alone  # beside other load a thread queues for a processor between the clocks of C: up to 20 %
@pytest.mark.needs("gcc")
def test_the_wait_for_the_gil_is_what_c_measures(tmp_path: Path) -> None:
    """Two threads compute, and one reads. One of three runs counts.

    Starting threads wait for the GIL outside of what C measures: they begin together when all have started.
    """
    library = tmp_path / "gil.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, ROOT / "tests/programs/extensions/gil.c"], check=True)
    (path := tmp_path / "shared.py").write_text(SHARED)
    for _ in range(3):
        done = run(*PFS, "run", "--keep", "--no-report", "--children", "none", "--", sys.executable, path, library)
        by_c: dict[str, float] = json.loads(done.stdout)
        gil = gil_by_thread(done)
        by_pfs = {name: gil[f"thread/python/{name}"] / 1e12 for name in by_c}
        print(f"C measures {by_c}, pfs {by_pfs}")
        assert by_c.keys() == {"first", "second", "reader"}
        assert min(by_c.values()) > 0.2, "three threads share 2 s"
        if by_pfs == pytest.approx(by_c, rel=0.05):
            return
    assert by_pfs == pytest.approx(by_c, rel=0.05)


GIL = """\
import os, sys, threading, time
end = time.monotonic() + float(sys.argv[1])
stay = threading.Event()
def slept_and_queued(before=(0, 0)):
    "Seconds in which this thread slept, and waited for a processor: the kernel's own account."
    now = time.monotonic()
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        run, queued, _ = (int(n) / 1e9 for n in file.read().split())
    return now - run - queued - before[0], queued - before[1]
def burn():
    before = slept_and_queued()
    n = 0
    while time.monotonic() < end:
        for i in range(5000): n += i
    os.write(1, ("%.6f %.6f\\n" % slept_and_queued(before)).encode())
    stay.wait()
def read():
    a, b = os.pipe()
    while time.monotonic() < end:
        os.write(b, b"x"); os.read(a, 1); time.sleep(0.002)
    stay.wait()
threads = [threading.Thread(target=burn, name=f"burn{i}") for i in range(2)] + [threading.Thread(target=read, name="read")]
for thread in threads: thread.start()
time.sleep(float(sys.argv[1]) + 0.5)
os.kill(os.getpid(), 9)  # the rows of threads that are alive stay
"""


def stolen() -> float:
    """Returns the seconds of all processors that the hypervisor has given to others."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.alone
def test_is_it_the_gil(tmp_path: Path) -> None:
    """A thread that only computes sleeps for nothing but the GIL, and the kernel says how long it slept. A thread that is woken
    may wait for a processor before it can note the end of its wait. What a hypervisor takes is sleep to the kernel.
    """
    before = stolen()
    done = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, written(tmp_path, GIL), "2")
    accounts = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
    asleep, queued = (sum(column) for column in zip(*accounts, strict=True))
    assert asleep > 1, "two threads that compute for 2 s have the GIL half of the time each; other load makes them queue instead"
    gil = gil_by_thread(done)
    total = sum(gil[f"thread/python/burn{i}"] for i in range(2)) / 1e12
    taken = stolen() - before
    print(f"asleep {asleep:.3f} s, {taken:.3f} s of it perhaps stolen, queued {queued:.3f} s; the GIL, by pfs: {total:.3f} s")
    assert asleep * 0.95 < total < (asleep + queued) * 1.05
    assert 0 < gil["thread/python/read"] / 1e12 < 2.1, "one thread, for 2 s"
