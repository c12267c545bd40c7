"""pfs.Lock behaves as threading.Lock, and each acquire is one event with the real time of the wait."""

from __future__ import annotations

import signal
import threading
import time

import pandas as pd
import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import events

INSTRUMENT = "wait/synch/mutex/test/LOCK_behaviour"


@pytest.fixture
def lock() -> pfs.Lock:
    return pfs.Lock("test/LOCK_behaviour")


def test_without_a_name_it_is_named_by_its_line() -> None:
    """As the classes of C++, and as pfs run names the locks of a program."""
    made = [
        *(pfs.Lock(), pfs.RLock(), pfs.RWLock(None), pfs.Condition(), pfs.Condition(lock=pfs.Lock("test/LOCK_named"))),
        *(pfs.SimpleQueue[int](), pfs.Queue[int](maxsize=2).mutex, pfs.Semaphore(value=3), pfs.Event()),
    ]
    families = ["mutex", "mutex", "rwlock", "cond", "cond", "cond", "mutex", "cond", "cond"]
    first = test_without_a_name_it_is_named_by_its_line.__code__.co_firstlineno + 3
    lines = [first] * 5 + [first + 1] * 4
    names = [f"wait/synch/{family}/python/{__name__}:{line}" for family, line in zip(families, lines, strict=True)]
    assert [each.name for each in made] == names  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="name must be str or None, not int"):
        pfs.Lock(3)  # type: ignore[arg-type]


def test_acquire_and_release_as_documented(lock: pfs.Lock) -> None:
    assert lock.locked() is False
    assert lock.acquire() is True
    assert lock.locked() is True
    assert lock.acquire(False) is False
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0) is False
    assert lock.acquire(True, 0.01) is False
    lock.release()
    assert lock.acquire(blocking=True, timeout=1) is True
    lock.release()
    with lock as got:
        assert got is True
        assert lock.locked()
    assert not lock.locked()


def test_release_of_an_unlocked_lock_raises_runtime_error(lock: pfs.Lock) -> None:
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        lock.release()


def test_exception_in_the_block_releases_the_lock(lock: pfs.Lock) -> None:
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.locked()


def test_another_thread_may_release(lock: pfs.Lock) -> None:
    lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert not lock.locked()


def test_waiting_lets_other_threads_run(lock: pfs.Lock) -> None:
    lock.acquire()
    steps: list[int] = []

    def work() -> None:
        for i in range(100):
            steps.append(i)
        lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    assert lock.acquire(timeout=10)
    assert len(steps) == 100
    lock.release()
    thread.join()


def test_works_under_condition_and_queue() -> None:
    condition = threading.Condition(pfs.Lock("test/LOCK_condition"))  # type: ignore[arg-type]
    items: list[int] = []

    def produce() -> None:
        for i in range(50):
            with condition:
                items.append(i)
                condition.notify()

    thread = threading.Thread(target=produce)
    thread.start()
    with condition:
        assert condition.wait_for(lambda: len(items) == 50, timeout=10)
    thread.join()


def test_repr_and_name(lock: pfs.Lock) -> None:
    assert repr(lock).startswith(f"<unlocked pfs.Lock object '{INSTRUMENT}' at 0x")
    with lock:
        assert repr(lock).startswith("<locked ")
    assert lock.name == INSTRUMENT


def test_mutex_instances_has_the_lock_while_it_lives_and_its_holder(lock: pfs.Lock) -> None:
    def rows() -> pd.DataFrame:
        frame = pfs.table("mutex_instances")
        return frame[frame["OBJECT_INSTANCE_BEGIN"] == id(lock)]

    assert rows()["NAME"].tolist() == [INSTRUMENT]
    assert rows()["LOCKED_BY_THREAD_ID"].isna().all()
    with lock:
        holder = rows()["LOCKED_BY_THREAD_ID"].iloc[0]
    names = pfs.table("threads").set_index("THREAD_ID")["NAME"]
    assert names[holder] == "thread/python/MainThread"
    assert rows()["LOCKED_BY_THREAD_ID"].isna().all()


def test_mutex_instances_forgets_a_lock_that_is_gone() -> None:
    def count() -> int:
        return int((pfs.table("mutex_instances")["NAME"] == "wait/synch/mutex/test/LOCK_gone").sum())

    lock = pfs.Lock("test/LOCK_gone")
    other = pfs.Lock("test/LOCK_gone")
    assert count() == 2
    with other:
        pass
    del other
    assert count() == 1
    del lock
    assert count() == 0
    summary = pfs.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")
    assert summary.loc["wait/synch/mutex/test/LOCK_gone", "COUNT_STAR"] == 1  # what it counted stays


def test_one_event_per_acquire_with_operation_and_source() -> None:
    lock = pfs.Lock("test/LOCK_events")
    with lock:
        assert not lock.acquire(False)
        assert not lock.acquire(timeout=0.01)
    lock.acquire()
    lock.release()
    rows = events(lock.name)
    assert rows["OPERATION"].tolist() == ["lock", "try_lock", "lock", "lock"]
    files = rows["SOURCE"].str.partition(":")
    assert set(files[0]) == {"test_lock.py"}
    first = int(files[2].iloc[0])
    assert [int(line) - first for line in files[2]] == [0, 1, 2, 3]
    assert rows["TIMER_WAIT"].iloc[2] >= 10 * 10**9


def test_python_threads_carry_their_name() -> None:
    lock = pfs.Lock("test/LOCK_names")
    seen: list[str] = []

    def work() -> None:
        with lock:
            seen.extend(pfs.table("threads")["NAME"].tolist())

    thread = threading.Thread(target=work, name="reader-7")
    thread.start()
    thread.join()
    assert "thread/python/reader-7" in seen
    assert "thread/python/MainThread" in seen


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("LOCK", "component"),
        ("/LOCK", "empty"),
        ("test/", "empty"),
        ("wait/io/file/test/data", "another family"),
        ("a" * 108 + "/LOCK", "128"),
        ("test/" + "n" * 128, "128"),
        ("", "component"),
    ],
)
def test_bad_name_raises_and_names_the_rule(name: str, why: str) -> None:
    with pytest.raises(pfs.InvalidValue, match=why):
        pfs.Lock(name)


def test_full_name_and_short_name_are_the_same_instrument() -> None:
    assert pfs.Lock("test/LOCK_same").name == pfs.Lock("wait/synch/mutex/test/LOCK_same").name
    names = pfs.table("setup_instruments")["NAME"].tolist()
    assert names.count("wait/synch/mutex/test/LOCK_same") == 1


def test_timeout_is_kept_though_signals_interrupt(lock: pfs.Lock) -> None:
    old = signal.signal(signal.SIGALRM, lambda *_: None)
    lock.acquire()
    start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        assert not lock.acquire(timeout=0.2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        lock.release()
    assert 0.19 < time.monotonic() - start < 2


def test_forked_child_works_on_and_parent_is_untouched(fresh: Run) -> None:
    out = fresh("""
        import os
        import pfs
        lock = pfs.Lock("test/LOCK_fork")
        for _ in range(5):
            with lock: pass
        def count():
            rows = pfs.table("events_waits_summary_by_instance").set_index("OBJECT_INSTANCE_BEGIN")
            return int(rows.loc[id(lock), "COUNT_STAR"])
        pid = os.fork()
        if pid == 0:
            for _ in range(7):
                with lock: pass
            os._exit(0 if count() == 7 else 1)
        status = os.waitpid(pid, 0)[1]
        print(status, count())
    """)
    assert out == "0 5\n"
