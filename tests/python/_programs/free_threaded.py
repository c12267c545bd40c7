"""Threads of a Python without the GIL use one object of pfs. Each line of the input is a case and its seconds.

A case is a function that all threads call again and again. The program checks what the object promises, and prints how often each
thing was done. The caller compares that with the tables.
"""

from __future__ import annotations

import asyncio
import collections
import errno
import faulthandler
import json
import os
import queue
import socket
import sqlite3
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pfs

THREADS = 8
total: collections.Counter[str] = collections.Counter()
own = threading.local()
Case = Callable[[int], None]


def done(what: str, times: int = 1) -> None:
    """Counts for the calling thread."""
    own.done[what] += times


def lock() -> Case:
    shared, value = pfs.Lock("free/lock"), [0]

    def step(thread: int) -> None:
        assert shared.locked() is not None
        with shared:
            before = value[0]
            value[0] = before + 1
        done("wait/synch/mutex/free/lock")

    checks.append(lambda: value[0] == total["wait/synch/mutex/free/lock"])
    return step


def rlock() -> Case:
    shared, value = pfs.RLock("free/rlock"), [0]

    def step(thread: int) -> None:
        assert "pfs.RLock" in repr(shared)  # which reads what its holder changes
        with shared, shared:
            before = value[0]
            value[0] = before + 1
        done("wait/synch/mutex/free/rlock", 2)

    checks.append(lambda: 2 * value[0] == total["wait/synch/mutex/free/rlock"])
    return step


def rwlock() -> Case:
    shared, value = pfs.RWLock("free/rwlock"), [0, 0]

    def step(thread: int) -> None:
        with shared.write():
            value[0] += 1
            value[1] += 1
        with shared.read():
            assert value[0] == value[1]
        done("wait/synch/rwlock/free/rwlock", 2)

    checks.append(lambda: 2 * value[0] == total["wait/synch/rwlock/free/rwlock"])
    return step


def condition() -> Case:
    shared, value = pfs.Condition("free/condition"), [0]

    def step(thread: int) -> None:
        with shared:
            if shared.wait(0.0005):
                done("woken")
            value[0] += 1
            shared.notify(2)
        done("wait/synch/cond/free/condition")

    checks.append(lambda: value[0] == total["wait/synch/cond/free/condition"])
    return step


def semaphore() -> Case:
    shared, inside = pfs.Semaphore("free/semaphore", 3), collections.deque[int]()

    def step(thread: int) -> None:
        with shared:
            inside.append(thread)
            assert len(inside) <= 3
            inside.pop()
        done("turns")

    checks.append(lambda: shared.acquire(blocking=False) and not inside)
    return step


def bounded_semaphore() -> Case:
    shared, inside = pfs.BoundedSemaphore("free/bounded_semaphore", 3), collections.deque[int]()

    def step(thread: int) -> None:
        with shared:
            inside.append(thread)
            assert len(inside) <= 3
            inside.pop()
        done("wait/synch/mutex/free/bounded_semaphore", 2)

    def is_full() -> bool:
        try:
            shared.release()
        except ValueError:
            total["wait/synch/mutex/free/bounded_semaphore"] += 1
            return not inside
        return False

    checks.append(is_full)
    return step


def barrier() -> Case:
    """Each round has each place once. A round that is not full when the time is over is broken."""
    shared = pfs.Barrier("free/barrier", THREADS)

    def step(thread: int) -> None:
        try:
            done(f"place {shared.wait(2)}")
        except threading.BrokenBarrierError:
            done("broken")
            if thread == 0:
                shared.reset()

    checks.append(lambda: len({total[f"place {place}"] for place in range(THREADS)}) == 1)
    return step


def event() -> Case:
    shared = pfs.Event("free/event")

    def step(thread: int) -> None:
        if thread == 0:
            shared.set()
            shared.clear()
        else:
            shared.wait(0.001)
        done("turns")

    return step


def simple_queue() -> Case:
    shared: pfs.SimpleQueue[int] = pfs.SimpleQueue("free/queue")

    def step(thread: int) -> None:
        assert shared.empty() is not None
        assert shared.qsize() >= 0
        if thread % 2:
            shared.put(thread)
            done("in", thread)
        else:
            try:
                done("out", shared.get(timeout=0.01))
            except queue.Empty:
                done("empty")

    def rest() -> int:
        return sum(shared.get() for _ in range(shared.qsize()))

    checks.append(lambda: total["in"] == total["out"] + rest())
    return step


def bounded(shared: pfs.Queue[int]) -> Case:
    """Threads put and get through a queue that holds three."""
    put, got = f"put {shared.name}", f"got {shared.name}"

    def step(thread: int) -> None:
        try:
            if thread % 2:
                shared.put(thread, timeout=0.01)
                done(put, thread)
            else:
                done(got, shared.get(timeout=0.01))
                shared.task_done()
        except (queue.Empty, queue.Full):
            done("not")

    def rest() -> bool:
        left = [shared.get() for _ in range(shared.qsize())]
        return total[put] == total[got] + sum(left) and shared.unfinished_tasks == len(left)

    checks.append(rest)
    return step


def bounded_queue() -> Case:
    return bounded(pfs.Queue("free/bounded", 3))


def lifo_queue() -> Case:
    return bounded(pfs.LifoQueue("free/lifo", 3))


def priority_queue() -> Case:
    return bounded(pfs.PriorityQueue("free/priority", 3))


def statement() -> Case:
    shared = pfs.statement("sql/free", text="select 1")

    def step(thread: int) -> None:
        with shared as running:
            running.add(rows_sent=2)
            running.text = "select 2"
        done("statement/sql/free")

    return step


def one_statement() -> Case:
    """Threads change one running statement."""
    running = pfs.statement("sql/one").begin()

    def step(thread: int) -> None:
        running.text = f"select {thread}"
        assert str(running.text).startswith("select")
        running.rows_sent = thread
        done("changes")

    def end() -> bool:
        running.end()
        total["statement/sql/one"] = 1
        return True

    checks.append(end)
    return step


def names() -> Case:
    def step(thread: int) -> None:
        number = own.done["turns"] % 40
        with pfs.statement(f"sql/free{number}"), pfs.stage(f"free/stage{number}"):
            pass
        done(f"statement/sql/free{number}")
        done(f"stage/free/stage{number}")
        done("turns")

    return step


def stage() -> Case:
    shared = pfs.stage("free/stage", progress=True)

    def step(thread: int) -> None:
        with shared:
            shared.completed += 1
            assert shared.completed == 1
        done("stage/free/stage")

    return step


def transaction() -> Case:
    shared = pfs.transaction()

    def step(thread: int) -> None:
        with shared as running:
            running.savepoint()
        done("transaction")

    return step


def entered(shared: AbstractContextManager[object], event: str) -> Case:
    """Threads enter one object."""

    def step(thread: int) -> None:
        with shared:
            pass
        done(event)

    return step


def wait() -> Case:
    return entered(pfs.wait("free/wait"), "wait/app/free/wait")


def idle() -> Case:
    return entered(pfs.idle(), "idle")


def threads() -> Case:
    """Threads start others, and wait for their end."""
    shared = pfs.Lock("free/started")

    def work() -> None:
        with shared:
            pass

    def step(thread: int) -> None:
        started = pfs.Thread(target=work, name=f"free {own.done['turns'] % 10}", instrument="free/worker")
        started.start()
        started.join()
        done("wait/synch/mutex/free/started")
        done("turns")

    checks.append(lambda: "thread/free/worker" not in set(pfs.table("threads")["NAME"]))
    return step


def table_object() -> Case:
    """Threads use one table of the program."""
    shared = pfs.Table("free.rows", indexes=("PRIMARY",))

    def step(thread: int) -> None:
        with shared.fetch(index="PRIMARY") as io:
            io.rows = thread
        with shared.insert():
            pass
        with shared.lock("write"):
            pass
        shared.unlock()
        done("fetched", thread)
        done("inserted")

    def counts() -> bool:
        rows = pfs.table("table_io_waits_summary_by_table")
        row = rows[rows["OBJECT_NAME"] == "rows"].iloc[0]
        return (row["COUNT_FETCH"], row["COUNT_INSERT"]) == (total["fetched"], total["inserted"])

    checks.append(counts)
    return step


def tasks() -> Case:
    shared, lock = pfs.statement("sql/task"), pfs.Lock("free/task")

    async def one() -> None:
        async with shared:
            await asyncio.sleep(0)
            with lock:
                pass

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(5)))

    def step(thread: int) -> None:
        asyncio.run(all_of_them())
        done("statement/sql/task", 5)
        done("wait/synch/mutex/free/task", 5)

    return step


def elsewhere() -> Case:
    """A thread begins blocks, and another one ends them, while the first has begun others."""
    begun: queue.SimpleQueue[Iterator[None]] = queue.SimpleQueue()
    what, where, waits, active = pfs.statement("sql/else"), pfs.stage("free/else"), pfs.wait("free/else"), pfs.transaction()

    def blocks() -> Iterator[None]:
        with what as running, where, waits, active:
            running.rows_sent = 1
            yield
            running.rows_sent = 2

    def step(thread: int) -> None:
        fresh = blocks()
        next(fresh)
        begun.put(fresh)
        with what, where:
            next(begun.get(), None)
        done("statement/sql/else", 2)
        done("transaction")
        done("wait/app/free/else")

    return step


def files() -> Case:
    folder = tempfile.mkdtemp()
    shared = pfs.open(f"{folder}/shared", "ab", buffering=0, name="free/shared")
    total["wait/io/file/free/shared"] += 3  # open, stat, seek

    def step(thread: int) -> None:
        with pfs.open(f"{folder}/{thread}", "wb", buffering=0, name="free/file") as file:
            file.write(b"12345")
        done("wait/io/file/free/file", 4)  # open, stat, write, close
        shared.write(b"1")
        done("wait/io/file/free/shared")

    def end() -> bool:
        shared.close()
        total["wait/io/file/free/shared"] += 1
        return os.stat(f"{folder}/shared").st_size == total["wait/io/file/free/shared"] - 4

    checks.append(end)
    return step


def sockets() -> Case:
    left, right = pfs.socketpair(name="free/socket")

    def step(thread: int) -> None:
        left.send(b"1")
        assert right.recv(1) == b"1"
        done("moved", 2)

    def end() -> bool:
        left.close()
        right.close()
        return True

    checks.append(end)
    return step


def database() -> Case:
    """Threads use one module, and a connection each."""
    shared = pfs.dbapi(sqlite3, name="sql/driver")
    connections = [shared.connect(":memory:", check_same_thread=False) for _ in range(THREADS)]

    def step(thread: int) -> None:
        assert connections[thread].execute("select ?", (thread,)).fetchall() == [(thread,)]
        done("statement/sql/driver")

    checks.append(lambda: [each.close() for each in connections])
    return step


def closes() -> Case:
    """Threads close one socket."""
    made: list[socket.socket] = []

    def step(thread: int) -> None:
        if thread == 0:
            made[:] = pfs.socketpair(name="free/closed")
        for each in list(made):
            try:
                each.close()
            except OSError as error:  # CPython itself takes the number and forgets it in two steps: two threads may close it
                if error.errno != errno.EBADF:
                    raise
        done("turns")

    return step


def errors() -> Case:
    def step(thread: int) -> None:
        kind: type[Exception] = type(f"Failure{own.done['turns'] % 10}", (Exception,), {})
        try:
            with pfs.raised():
                raise kind
        except kind:
            done("turns")

    return step


def memory() -> Case:
    shared = pfs.memory("free/memory")

    def step(thread: int) -> None:
        shared.alloc(100)
        shared.free(100)
        block = shared.block(10)
        block.resize(20)
        block.free()
        done("turns")

    return step


def tables() -> Case:
    shared = pfs.Lock("free/table")

    def step(thread: int) -> None:
        with shared:
            pass
        done("wait/synch/mutex/free/table")
        assert len(pfs.table("mutex_instances")) >= 1
        if thread == 0:
            pfs.setup_instruments.update("wait/io/file/%", enabled=bool(own.done["turns"] % 2))
        done("turns")

    return step


def report() -> Case:
    """Cells of a notebook: a thread runs them, one after the other, and others use objects meanwhile."""
    from pfs._ui.notebook.report import Report

    shared, seen = pfs.Lock("free/cell"), [0]

    def step(thread: int) -> None:
        if thread == 0:
            with Report() as cell, shared:
                pass
            done("wait/synch/mutex/free/cell")
            seen[0] += "free/cell" in repr(cell)
            done("cells")
        else:
            with shared:
                pass
            done("wait/synch/mutex/free/cell")

    checks.append(lambda: seen[0] == total["cells"])
    return step


def setup() -> Case:
    shared, name = pfs.Lock("free/setup"), "wait/synch/mutex/free/setup"

    def step(thread: int) -> None:
        with shared:
            pass
        done(name)
        pfs.setup_instruments.update(name, timed=bool(thread % 2))
        assert pfs.setup_instruments[name].enabled

    return step


checks: list[Callable[[], object]] = []
CASES = [
    lock, rlock, rwlock, condition, semaphore, bounded_semaphore, barrier, event, simple_queue, bounded_queue, lifo_queue,
    priority_queue, statement, one_statement, names, stage, transaction, wait, idle, threads, table_object, tasks, elsewhere,
    files, sockets, database, closes, errors, memory, tables, report, setup,
]  # fmt: skip


def run(case: str, seconds: float) -> list[str]:
    """Returns what went wrong."""
    checks.clear()
    step = next(each for each in CASES if each.__name__ == case)()
    start = threading.Barrier(THREADS)
    over = threading.Event()
    failures: list[str] = []
    counted: list[collections.Counter[str]] = []

    def work(thread: int) -> None:
        own.done = collections.Counter()
        start.wait()
        try:
            while not over.is_set():
                step(thread)
        except BaseException as error:
            failures.append(repr(error))
            over.set()
        counted.append(own.done)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join()
    for each in counted:
        total.update(each)
    return failures + [f"check {number}" for number, check in enumerate(checks) if not check()]


if __name__ == "__main__":
    faulthandler.enable()
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]
    warnings.simplefilter("error")
    for line in sys.stdin:  # a case and its seconds
        case, seconds = line.split()
        failures = run(case, float(seconds))
        print(json.dumps({"case": case, "failures": failures, "done": total}), flush=True)
