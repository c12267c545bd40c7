"""pfs.Semaphore, BoundedSemaphore, Event and Barrier: the standard ones, whose waits are seen."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

import pfs
from tests.python.objects.seen import Stop, alarm, await_waiting, count, events, open_events, operations, start, stop


def cond(name: str) -> str:
    return f"wait/synch/cond/{name}"


def mutex(name: str) -> str:
    return f"wait/synch/mutex/{name}"


def test_semaphore_that_has_room_is_an_event_of_its_lock_only() -> None:
    semaphore = pfs.Semaphore("test/SEM_room", 2)
    with semaphore:
        assert semaphore.acquire() is True
        assert semaphore.acquire(blocking=False) is False
        semaphore.release()
    assert operations(mutex("test/SEM_room")) == ["lock"] * 5
    assert count(cond("test/SEM_room")) == 0
    assert set(events(mutex("test/SEM_room"))["SOURCE"].str.partition(":")[0]) == {"test_semaphores.py"}
    assert semaphore.name == cond("test/SEM_room")


def test_semaphore_that_waits_is_an_event_of_its_condition() -> None:
    semaphore = pfs.Semaphore("test/SEM_wait", 0)
    thread = start(semaphore.acquire)
    await_waiting(semaphore.name)
    semaphore.release()
    thread.join()
    assert semaphore.acquire(timeout=0.001) is False
    assert operations(semaphore.name) == ["wait", "timed_wait"]
    sources = events(semaphore.name)["SOURCE"].str.partition(":")[0].tolist()
    assert sources == ["threading.py", "test_semaphores.py"]  # the first thread has no code but the standard library's


def test_semaphore_refuses_what_the_standard_one_refuses() -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        pfs.Semaphore("test/SEM", -1)
    bounded = pfs.BoundedSemaphore("test/SEM", value=1)
    with pytest.raises(ValueError, match="too many times"):
        bounded.release()
    with pytest.raises(ValueError, match="timeout"):
        bounded.acquire(False, 1)
    assert isinstance(bounded, threading.BoundedSemaphore)
    assert isinstance(bounded, pfs.Semaphore)
    assert isinstance(pfs.Semaphore("test/SEM"), threading.Semaphore)
    assert repr(bounded).startswith("<pfs.BoundedSemaphore at ")


MAKERS: dict[str, Callable[[str], object]] = {
    "Semaphore": pfs.Semaphore,
    "BoundedSemaphore": pfs.BoundedSemaphore,
    "Event": pfs.Event,
    "Barrier": lambda name: pfs.Barrier(name, 2),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_name_is_short_or_that_of_the_condition(make: Callable[[str], object]) -> None:
    one, other = make("test/NAMED"), make("wait/synch/cond/test/NAMED")
    assert one.name == other.name == cond("test/NAMED")  # type: ignore[attr-defined]
    for name in ("NAMED", "wait/synch/mutex/test/NAMED", "test/"):
        with pytest.raises(pfs.InvalidValue):
            make(name)
    with pytest.raises(TypeError):
        make(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_go_with_the_object(make: Callable[[str], object]) -> None:
    def rows() -> int:
        names = [pfs.table(table)["NAME"] for table in ("mutex_instances", "cond_instances")]
        return sum(int(name.str.endswith("/test/DIES").sum()) for name in names)

    thing = make("test/DIES")
    reference = weakref.ref(thing)
    assert rows() == 2
    del thing
    gc.collect()
    assert reference() is None
    assert rows() == 0


def test_event_waits_until_it_is_set() -> None:
    event = pfs.Event("test/EVENT_set")
    assert isinstance(event, threading.Event)
    assert event.wait(0.001) is False
    threads = [start(event.wait) for _ in range(3)]
    await_waiting(event.name, 3)
    event.set()
    for thread in threads:
        thread.join()
    assert event.wait() is True
    assert event.is_set()
    event.clear()
    assert not event.is_set()
    assert operations(event.name) == ["timed_wait", "wait", "wait", "wait"]
    assert count(mutex("test/EVENT_set")) == 7  # five waits, set, clear


def test_barrier_lets_all_go_together() -> None:
    barrier = pfs.Barrier("test/BARRIER", 3, timeout=20)
    numbers: list[int] = []
    threads = [start(lambda: numbers.append(barrier.wait())) for _ in range(2)]
    await_waiting(barrier.name, 2)
    numbers.append(barrier.wait())
    for thread in threads:
        thread.join()
    assert sorted(numbers) == [0, 1, 2]
    assert operations(barrier.name)[:2] == ["timed_wait", "timed_wait"]
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait(0.001)
    assert barrier.broken
    assert isinstance(barrier, threading.Barrier)


@pytest.mark.parametrize("what", ["Semaphore", "Event", "Barrier"])
def test_signal_handler_that_raises_leaves_no_open_event_and_a_free_lock(what: str) -> None:
    semaphore, event, barrier = pfs.Semaphore("test/SIGNAL", 0), pfs.Event("test/SIGNAL"), pfs.Barrier("test/SIGNAL", 2)
    waits: dict[str, Callable[[], object]] = {"Semaphore": semaphore.acquire, "Event": event.wait, "Barrier": barrier.wait}
    with alarm(stop, 0.02), pytest.raises(Stop):
        waits[what]()
    assert open_events() == 0
    semaphore.release()
    assert semaphore.acquire()
    event.set()
    assert event.wait()
    barrier.reset()


def test_counts_are_exact_with_many_threads() -> None:
    semaphore = pfs.Semaphore("test/SEM_exact", 2)
    inside, most = [0], [0]
    guard = threading.Lock()

    def work() -> None:
        for _ in range(200):
            with semaphore:
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with guard:
                    inside[0] -= 1

    for thread in [start(work) for _ in range(8)]:
        thread.join()
    assert inside == [0]
    assert most[0] <= 2
    assert count(mutex("test/SEM_exact")) == 2 * 8 * 200
