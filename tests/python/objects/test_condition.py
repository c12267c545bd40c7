"""pfs.Condition behaves as threading.Condition; a wait is one event, from letting the lock go to having it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

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
    open_events,
    operations,
    owner,
    row,
    seconds,
    start,
    stop,
    this_thread,
)

INSTRUMENT = "wait/synch/cond/test/COND"
MUTEX = "wait/synch/mutex/test/COND"


@pytest.fixture
def condition() -> pfs.Condition:
    return pfs.Condition("test/COND")


class Custom:
    """A lock of the program's own."""

    def __init__(self) -> None:
        self.inner = threading.Lock()
        self.calls: list[str] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.calls.append("acquire")
        return self.inner.acquire(blocking, timeout)

    def release(self) -> None:
        self.calls.append("release")
        self.inner.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def wake(condition: pfs.Condition) -> None:
    with condition:
        condition.notify_all()


LOCKS: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "pfs.Lock": lambda: pfs.Lock("test/COND"),
    "pfs.RLock": lambda: pfs.RLock("test/COND"),
    "subclass": lambda: type("Mine", (pfs.RLock,), {})("test/COND"),
    "Lock": threading.Lock,
    "RLock": threading.RLock,
    "custom": Custom,
}
each_lock = pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS)


@each_lock
def test_wait_and_notify_with_any_lock(make: Callable[[], object]) -> None:
    condition = pfs.Condition("test/COND", make())  # type: ignore[arg-type]
    items: list[int] = []
    taken: list[int] = []

    def take() -> None:
        for _ in range(50):
            with condition:
                while not items:
                    assert condition.wait(20)
                taken.append(items.pop(0))

    takers = [start(take) for _ in range(2)]
    for i in range(100):
        with condition:
            items.append(i)
            condition.notify()
    for taker in takers:
        taker.join()
    assert sorted(taken) == list(range(100))


@each_lock
def test_wait_and_notify_without_the_lock_are_refused(make: Callable[[], object]) -> None:
    condition = pfs.Condition("test/COND_unheld", make())  # type: ignore[arg-type]
    for call in (condition.wait, lambda: condition.wait(0), condition.notify, condition.notify_all):
        with pytest.raises(RuntimeError, match="on un-acquired lock"):
            call()
    assert condition.acquire(False)  # and it is still free
    condition.release()
    assert count("wait/synch/cond/test/COND_unheld") == 0


@each_lock
@pytest.mark.parametrize("timeout", [0, -1, 0.0001, float("nan")])
def test_wait_that_nobody_ends_is_false_and_has_the_lock_back(make: Callable[[], object], timeout: float) -> None:
    condition = pfs.Condition("test/COND", make())  # type: ignore[arg-type]
    with condition:
        assert condition.wait(timeout) is False
        assert condition._is_owned()  # type: ignore[attr-defined]
    assert not condition._is_owned()  # type: ignore[attr-defined]


def test_acquire_and_release_are_those_of_the_lock(condition: pfs.Condition) -> None:
    assert condition.acquire() is True
    assert condition.acquire(blocking=False) is True
    assert condition.locked()
    condition.release()
    condition.release()
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        condition.release()
    plain = pfs.Condition("test/COND", pfs.Lock("test/COND_lock"))
    with plain as got:
        assert got is True
        assert plain.acquire(False) is False
        assert plain.acquire(timeout=0.001) is False
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        plain.release()


@pytest.mark.parametrize("timeout", ["soon", 1e100, object()])
def test_bad_timeout_raises_as_in_threading(condition: pfs.Condition, timeout: object) -> None:
    errors = []
    for each in (condition, threading.Condition()):
        with each, pytest.raises((TypeError, OverflowError)) as caught:
            each.wait(timeout)  # type: ignore[arg-type]
        errors.append(caught.type)
    assert errors[0] is errors[1]
    with condition:
        condition.notify()  # nobody stands in line


def test_longest_waiting_wake_first_and_as_many_as_asked(condition: pfs.Condition) -> None:
    woken: list[int] = []

    def work(number: int) -> None:
        with condition:
            condition.wait()
            woken.append(number)

    threads = []
    for number in range(6):
        threads.append(start(work, number))
        await_waiting(INSTRUMENT, number + 1)
    for asked, expected in ((1, [0]), (2, [0, 1, 2]), (0, [0, 1, 2])):
        with condition:
            condition.notify(asked)
        await_true(lambda expected=expected: sorted(woken) == expected)  # type: ignore[misc]
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert sorted(woken) == list(range(6))


def test_wait_for_gives_what_the_predicate_said(condition: pfs.Condition) -> None:
    answers = iter([0, "", "yes"])
    with condition:
        assert condition.wait_for(lambda: 7) == 7
        assert condition.wait_for(lambda: 0.0, timeout=0.01) == 0.0
        with alarm(lambda: wake(condition), 0.01, 0.01):
            assert condition.wait_for(lambda: next(answers)) == "yes"
        with pytest.raises(KeyError):
            condition.wait_for({}.popitem)
        assert condition.wait_for(lambda: None, -1) is None
    assert not condition.locked()


def test_wait_for_keeps_its_timeout_over_wakes_for_nothing() -> None:
    condition = pfs.Condition("test/COND_for")
    start_time = time.monotonic()
    with condition, alarm(lambda: wake(condition), 0.02, 0.02):
        assert condition.wait_for(lambda: False, timeout=0.2) is False
    assert 0.19 < time.monotonic() - start_time < 5
    assert len(events(condition.name)) > 1  # an event for each wait in it


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_old_name_of_notify_all_warns(condition: pfs.Condition) -> None:
    with condition, pytest.warns(DeprecationWarning, match="notify_all"):
        condition.notifyAll()


# ---- What the tables show -----------------------------------------------------------------------------------------


def test_wait_is_one_event_and_the_lock_has_none_in_it() -> None:
    condition = pfs.Condition("test/COND_events")
    with condition:
        condition.wait(0.001)
        condition.wait(0)
        with alarm(lambda: wake(condition), 0.2):  # long enough that it comes in the wait
            condition.wait()
    assert operations(condition.name) == ["timed_wait", "timed_wait", "wait"]
    assert operations("wait/synch/mutex/test/COND_events") == ["lock", "lock"]  # of the block, and of the handler
    assert set(events(condition.name)["SOURCE"].str.partition(":")[0]) == {"test_condition.py"}
    assert row("cond_instances", condition)["NAME"] == condition.name


def test_notify_leaves_no_trace(condition: pfs.Condition) -> None:
    before = count(INSTRUMENT)
    with condition:
        condition.notify()
        condition.notify_all()
    assert count(INSTRUMENT) == before


@pytest.mark.parametrize("levels", [1, 3])
def test_lock_has_no_holder_during_the_wait_and_the_same_after_it(levels: int) -> None:
    lock = pfs.RLock("test/COND_holder")
    condition = pfs.Condition("test/COND_holder", lock)
    shown: list[int | None] = []
    for _ in range(levels):
        lock.acquire()
    with alarm(lambda: shown.append(owner(lock)), 0.02):
        condition.wait(0.1)
    shown.append(owner(lock))
    for _ in range(levels):
        assert owner(lock) == this_thread()
        lock.release()
    assert shown == [None, this_thread()]
    assert owner(lock) is None


def test_event_lasts_until_the_lock_is_back() -> None:
    condition = pfs.Condition("test/COND_back")
    done = threading.Event()

    def work() -> None:
        with condition:
            condition.wait()
        done.set()

    thread = start(work)
    await_waiting(condition.name)
    with condition:
        condition.notify()
        assert not done.wait(0.1)  # woken, and waits for the lock
        await_waiting(condition.name)  # still within the same event
    thread.join()
    assert seconds(events(condition.name))[0] >= 0.1
    assert operations("wait/synch/mutex/test/COND_back") == ["lock", "lock"]


def test_lock_of_another_kind_keeps_its_own_events() -> None:
    inner = pfs.Lock("test/COND_inner")

    class Own:
        acquire, release = inner.acquire, inner.release

    condition = pfs.Condition("test/COND_own", Own())
    inner.acquire()
    condition.wait(0.001)
    rows = events(inner.name)
    assert rows["OPERATION"].tolist() == ["lock", "try_lock", "lock"]  # is it held, and taking it back
    wait = events(condition.name)
    assert rows["NESTING_EVENT_ID"].iloc[2] == wait["EVENT_ID"].iloc[0]
    inner.release()


def test_names_and_instruments() -> None:
    full = pfs.Condition("wait/synch/cond/test/COND_full")
    assert full.name == pfs.Condition("test/COND_full").name
    lock = "<unlocked pfs.RLock object 'wait/synch/mutex/test/COND_full'"
    assert repr(full).startswith(f"<pfs.Condition 'wait/synch/cond/test/COND_full' ({lock}")


# ---- Signals, threads, processes ----------------------------------------------------------------------------------


@each_lock
def test_signal_handler_that_raises_ends_the_wait_with_the_lock_held(make: Callable[[], object]) -> None:
    condition = pfs.Condition("test/COND_signal", make())  # type: ignore[arg-type]
    before = count(condition.name)
    with condition:
        with alarm(stop, 0.02), pytest.raises(Stop):
            condition.wait()
        assert condition._is_owned()  # type: ignore[attr-defined]
        condition.notify()  # nobody is left in line
        assert condition.wait(0) is False
    assert open_events() == 0
    assert count(condition.name) == before + 2
    assert not condition._is_owned()  # type: ignore[attr-defined]


def test_wait_goes_on_after_a_handler_that_returns_and_keeps_its_timeout(condition: pfs.Condition) -> None:
    calls: list[int] = []
    begin = time.monotonic()
    with condition, alarm(lambda: calls.append(1), 0.02, 0.02):
        assert not condition.wait(0.2)
    assert 0.19 < time.monotonic() - begin < 5
    assert len(calls) > 1


def test_lock_that_cannot_be_taken_back_raises_and_ends_the_event() -> None:
    class Broken(Custom):
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            if self.calls.count("release") == 1:
                raise KeyError("broken")
            return super().acquire(blocking, timeout)

    condition = pfs.Condition("test/COND_broken", Broken())
    condition.acquire()
    with alarm(stop, 0.02), pytest.raises(KeyError, match="broken") as caught:
        condition.wait()
    assert isinstance(caught.value.__context__, Stop)
    assert open_events() == 0
    assert events(condition.name)["END_EVENT_ID"].notna().all()


def test_wake_just_as_the_time_is_over_is_not_lost() -> None:
    condition = pfs.Condition("test/COND_late")
    results: list[bool] = []

    def work() -> None:
        with condition:
            results.append(condition.wait(0.05))

    thread = start(work)
    await_waiting(condition.name)
    with condition:
        time.sleep(0.1)  # its time is over, and it waits for the lock
        condition.notify()
    thread.join()
    assert results == [True]


def test_counts_are_exact_with_many_threads() -> None:
    condition = pfs.Condition("test/COND_exact", pfs.Lock("test/COND_exact"))
    waits = [0]
    turn = [0]

    def work(me: int) -> None:
        for _ in range(100):
            with condition:
                while turn[0] % 4 != me:
                    waits[0] += 1
                    condition.wait()
                turn[0] += 1
                condition.notify_all()

    for thread in [start(work, me) for me in range(4)]:
        thread.join()
    assert turn == [400]
    assert count(condition.name) == waits[0]
    by_instance = pfs.table("events_waits_summary_by_instance").set_index("OBJECT_INSTANCE_BEGIN")
    assert by_instance.loc[id(condition), "COUNT_STAR"] == waits[0]
    assert pd.isna(row("mutex_instances", condition._lock)["LOCKED_BY_THREAD_ID"])  # type: ignore[attr-defined]


def test_child_forgets_who_waited_in_the_parent(fresh: Run) -> None:
    out = fresh("""
        import os, threading, time
        import pfs
        condition = pfs.Condition("test/COND_fork")
        def wait():
            with condition: condition.wait()
        def waiting():
            frame = pfs.table("events_waits_current")
            return ((frame["EVENT_NAME"] == condition.name) & frame["END_EVENT_ID"].isna()).sum()
        def start():
            thread = threading.Thread(target=wait)
            thread.start()
            while not waiting(): time.sleep(0.001)
            return thread
        thread = start()
        pid = os.fork()
        if pid == 0:
            assert waiting() == 0
            mine = start()
            with condition: condition.notify()  # not to the one of the parent
            mine.join(20)
            os._exit(1 if mine.is_alive() else 0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        with condition: condition.notify()
        thread.join()
    """)
    assert out == "0\n"


def test_fork_in_a_handler_during_the_wait(fresh: Run) -> None:
    out = fresh("""
        import os, signal
        import pfs
        condition = pfs.Condition("test/COND_fork")
        child = []
        def fork(*_):
            child.append(os.fork())
            with condition: condition.notify()  # the thread that waits, in both
        signal.signal(signal.SIGALRM, fork)
        with condition:
            with condition:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                assert condition.wait(20)
        assert not condition.locked()
        assert pfs.table("events_waits_current")["END_EVENT_ID"].notna().all()
        if child[0] == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]))
    """)
    assert out == "0\n"
