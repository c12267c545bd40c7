"""pfs.Queue and its like: the standard ones, whose waits are seen by what they are for; pfs.SimpleQueue."""

from __future__ import annotations

import gc
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import Stop, alarm, await_waiting, count, events, open_events, operations, row, start, stop


def test_queue_gives_in_order_and_its_waits_are_told_apart() -> None:
    jobs: pfs.Queue[int] = pfs.Queue("test/QUEUE_jobs", 1)
    thread = start(jobs.get)
    await_waiting("wait/synch/cond/test/QUEUE_jobs/not_empty")
    jobs.put(1)
    thread.join()
    jobs.put(2)
    with pytest.raises(queue.Full):
        jobs.put(3, timeout=0.001)
    with pytest.raises(queue.Full):
        jobs.put_nowait(3)
    assert jobs.get() == 2
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.001)
    thread = start(jobs.join)
    await_waiting("wait/synch/cond/test/QUEUE_jobs/all_tasks_done")
    jobs.task_done()
    jobs.task_done()
    thread.join()
    name = "wait/synch/cond/test/QUEUE_jobs"
    assert operations(f"{name}/not_empty") == ["wait", "timed_wait"]
    assert operations(f"{name}/not_full") == ["timed_wait"]
    assert operations(f"{name}/all_tasks_done") == ["wait"]
    assert jobs.name == "wait/synch/mutex/test/QUEUE_jobs"
    assert count(jobs.name) == 10  # one for each call of put, get, task_done and join
    sources = events(jobs.name)["SOURCE"].str.partition(":")[0]
    # Two threads have nothing but a method of the queue to run: there is no code of the user's.
    assert sources.value_counts().to_dict() == {"test_queues.py": 8, "queue.py": 2}


def test_kinds_of_order() -> None:
    lifo: pfs.LifoQueue[int] = pfs.LifoQueue("test/QUEUE_lifo")
    priority: pfs.PriorityQueue[int] = pfs.PriorityQueue("test/QUEUE_priority", maxsize=9)
    fifo: pfs.Queue[int] = pfs.Queue("test/QUEUE_fifo")
    for each in (lifo, priority, fifo):
        for item in (2, 3, 1):
            each.put(item)
    assert [lifo.get() for _ in range(3)] == [1, 3, 2]
    assert [priority.get() for _ in range(3)] == [1, 2, 3]
    assert [fifo.get() for _ in range(3)] == [2, 3, 1]
    assert isinstance(lifo, queue.LifoQueue)
    assert isinstance(priority, queue.PriorityQueue)
    assert isinstance(fifo, queue.Queue)
    assert priority.maxsize == 9


def test_names() -> None:
    full: pfs.Queue[int] = pfs.Queue("wait/synch/mutex/test/QUEUE_full")
    assert full.not_empty.name == "wait/synch/cond/test/QUEUE_full/not_empty"  # type: ignore[attr-defined]
    for name in ("QUEUE", "wait/synch/cond/test/QUEUE", "test/"):
        for make in (pfs.Queue, pfs.LifoQueue, pfs.PriorityQueue):
            with pytest.raises(pfs.InvalidValue):
                make(name)
    with pytest.raises(pfs.InvalidValue):
        pfs.SimpleQueue("wait/synch/mutex/test/QUEUE")
    with pytest.raises(TypeError):
        pfs.SimpleQueue(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [pfs.Queue, pfs.SimpleQueue])
def test_many_threads_lose_and_double_nothing(make: Callable[[str], Any]) -> None:
    jobs = make("test/QUEUE_many")
    taken: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        while (item := jobs.get()) is not None:
            mine.append(item)

    def give(first: int) -> None:
        for i in range(500):
            jobs.put(first + i)

    takers = [start(take, mine) for mine in taken]
    for giver in [start(give, first) for first in range(0, 2000, 500)]:
        giver.join()
    for _ in takers:
        jobs.put(None)
    for taker in takers:
        taker.join()
    assert sorted(item for mine in taken for item in mine) == list(range(2000))
    for mine in taken:
        for first in range(0, 2000, 500):
            part = [item for item in mine if first <= item < first + 500]
            assert part == sorted(part)


# ---- SimpleQueue --------------------------------------------------------------------------------------------------


def test_simple_queue_as_documented() -> None:
    simple: pfs.SimpleQueue[object] = pfs.SimpleQueue("test/SIMPLE")
    assert simple.empty()
    for item in range(20):  # grows, with its beginning anywhere
        simple.put(item)
        simple.put(item, False)
        assert simple.get() == item // 2
    assert simple.qsize() == 20
    assert [simple.get(block=False) for _ in range(20)] == [i // 2 for i in range(20, 40)]
    for arguments in ((False,), (True, 0), (True, 0.001), (False, 5)):
        with pytest.raises(queue.Empty):
            simple.get(*arguments)
    with pytest.raises(queue.Empty):
        simple.get_nowait()
    simple.put_nowait("x")
    assert simple.get(timeout=1) == "x"
    assert str(pfs.SimpleQueue[int]) == "pfs.SimpleQueue[int]"


def test_simple_queue_refuses_what_the_standard_one_refuses() -> None:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/SIMPLE")
    standard: queue.SimpleQueue[int] = queue.SimpleQueue()
    for arguments in ((True, -1), (True, "soon"), (True, 1e100), (1, 2, 3)):
        errors = []
        for each in (simple, standard):
            with pytest.raises((ValueError, TypeError, OverflowError)) as caught:
                each.get(*arguments)
            errors.append(caught.type)
        assert errors[0] is errors[1], arguments


def test_simple_queue_has_an_event_for_each_get_that_waits() -> None:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/SIMPLE_events")
    simple.put(1)
    simple.get()
    with pytest.raises(queue.Empty):
        simple.get(timeout=0.001)
    with alarm(lambda: simple.put(2)):  # also from a handler, in the middle of a get()
        assert simple.get() == 2
    assert operations(simple.name) == ["timed_wait", "wait"]
    assert set(events(simple.name)["SOURCE"].str.partition(":")[0]) == {"test_queues.py"}
    assert row("cond_instances", simple)["NAME"] == simple.name == "wait/synch/cond/test/SIMPLE_events"


def test_simple_queue_keeps_its_timeout_when_others_are_faster() -> None:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/SIMPLE_fast")

    def put_and_take() -> None:
        simple.put(1)
        simple.get_nowait()

    begin = time.monotonic()
    with alarm(put_and_take, 0.02, 0.02), pytest.raises(queue.Empty):
        simple.get(timeout=0.2)
    assert 0.19 < time.monotonic() - begin < 5
    assert operations(simple.name) == ["timed_wait"]  # still one


def test_simple_queue_and_a_handler_that_raises() -> None:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/SIMPLE_signal")
    got: list[int] = []
    with alarm(stop), pytest.raises(Stop):
        simple.get()
    assert open_events() == 0
    thread = start(lambda: got.append(simple.get()))
    await_waiting(simple.name)
    simple.put(1)  # nobody else is in line
    thread.join()
    assert got == [1]


def test_item_of_an_interrupted_get_goes_to_the_next_in_line() -> None:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/SIMPLE_next")
    got: list[int] = []
    threads: list[threading.Thread] = []

    def wake_and_raise() -> None:
        threads.append(start(lambda: got.append(simple.get())))
        await_waiting(simple.name, 2)
        simple.put(1)  # wakes the thread that runs this handler
        raise Stop

    with alarm(wake_and_raise), pytest.raises(Stop):
        simple.get()
    threads[0].join(20)
    assert got == [1]


def test_items_die_with_the_queue_also_in_a_cycle() -> None:
    class Item:
        pass

    item = Item()
    reference = weakref.ref(item)
    simple: pfs.SimpleQueue[object] = pfs.SimpleQueue("test/SIMPLE_dies")
    simple.put(item)
    simple.put(simple)
    del item
    gc.collect()
    assert reference() is not None
    del simple
    gc.collect()
    assert reference() is None
    assert not (pfs.table("cond_instances")["NAME"] == "wait/synch/cond/test/SIMPLE_dies").any()


def test_put_from_a_finalizer_during_put() -> None:
    simple: pfs.SimpleQueue[object] = pfs.SimpleQueue("test/SIMPLE_finalizer")

    class Item:
        def __del__(self) -> None:
            simple.put("dead")

    for _ in range(100):
        cycle: list[object] = [Item()]
        cycle.append(cycle)
        del cycle
        simple.put("item")
    gc.collect()
    items = [simple.get() for _ in range(200)]
    assert items.count("dead") == items.count("item") == 100


def test_child_forgets_who_waited_in_the_parent(fresh: Run) -> None:
    out = fresh("""
        import os, threading, time
        import pfs
        simple = pfs.SimpleQueue("test/SIMPLE_fork")
        def waiting():
            frame = pfs.table("events_waits_current")
            return ((frame["EVENT_NAME"] == simple.name) & frame["END_EVENT_ID"].isna()).sum()
        def start():
            thread = threading.Thread(target=simple.get)
            thread.start()
            while not waiting(): time.sleep(0.001)
            return thread
        thread = start()
        pid = os.fork()
        if pid == 0:
            mine = start()
            simple.put(1)  # not to the one of the parent
            mine.join(20)
            os._exit(1 if mine.is_alive() else 0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        simple.put(1)
        thread.join()
    """)
    assert out == "0\n"
