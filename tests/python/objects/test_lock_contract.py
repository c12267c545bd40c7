"""What every lock of pfs does: arguments as in threading, one event for each acquire, no trace of what was not recorded."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import pfs
from tests.each import for_each
from tests.python.objects.seen import Stop, alarm, await_waiting, count, events, open_events, row, seconds, start, stop


@dataclass(frozen=True)
class Kind:
    """A way to hold a lock, or to wait for a condition."""

    make: Callable[..., Any]
    standard: Callable[[], Any]  # the lock of threading that takes the same arguments
    table: str
    acquire: str = "acquire"
    release: str = "release"
    blocker: str = "acquire"  # what another thread holds, so that this one waits
    through: Callable[[Any], Any] = lambda lock: lock  # the object that is called
    family: str = "cond"  # whose names its objects cannot have

    def take(self, lock: Any, *arguments: Any) -> Any:
        return getattr(self.through(lock), self.acquire)(*arguments)

    def give(self, lock: Any) -> None:
        getattr(self.through(lock), self.release)()


READ = ("acquire_read", "release_read", "acquire_write")
WRITE = ("acquire_write", "release_write", "acquire_read")
KINDS = {
    "Lock": Kind(pfs.Lock, threading.Lock, "mutex_instances"),
    "RLock": Kind(pfs.RLock, threading.RLock, "mutex_instances"),
    "read": Kind(pfs.RWLock, threading.Lock, "rwlock_instances", *READ),
    "write": Kind(pfs.RWLock, threading.Lock, "rwlock_instances", *WRITE),
    "Lock of a Condition": Kind(
        pfs.Lock, threading.Lock, "mutex_instances", through=lambda lock: pfs.Condition("test/CONTRACT", lock)
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class Waits(Kind):
    """An event of a condition is a wait, with its lock held. Nobody ends it."""

    def take(self, lock: Any, *_: Any) -> Any:
        lock.acquire()
        return lock.wait(0)


WITH_WAITS = {**KINDS, "Condition": Waits(pfs.Condition, threading.Condition, "cond_instances", family="mutex")}
each_kind_and_wait = pytest.mark.parametrize("kind", WITH_WAITS.values(), ids=WITH_WAITS)


class Holder:
    """A thread that has the lock until the block ends, or for some seconds."""

    def __init__(self, kind: Kind, lock: Any, seconds: float = 60) -> None:
        held, self.let_go = threading.Event(), threading.Event()

        def hold() -> None:
            getattr(lock, kind.blocker)()
            held.set()
            self.let_go.wait(seconds)
            getattr(lock, kind.blocker.replace("acquire", "release"))()

        self.thread = start(hold)
        assert held.wait(20)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.thread.join()


@each_kind
@for_each("arguments", [(0, 1), (0, 0), (True, -2), (True, float("nan")), (True, 1e100), (True, "soon"), (1, 2, 3)])
def test_bad_arguments_raise_as_in_threading(kind: Kind, arguments: tuple[Any, ...]) -> None:
    lock = kind.make("test/CONTRACT_bad")
    errors = []
    for acquire in (lambda *given: kind.take(lock, *given), kind.standard().acquire):
        with pytest.raises((ValueError, OverflowError, TypeError)) as caught:
            acquire(*arguments)
        errors.append(caught.type)
    assert errors[0] is errors[1]
    assert not lock.locked()


@each_kind_and_wait
def test_bad_names_are_refused(kind: Kind) -> None:
    with pytest.raises(TypeError):
        kind.make(3)
    with pytest.raises(pfs.InvalidValue, match="another family"):
        kind.make(f"wait/synch/{kind.family}/test/CONTRACT")
    with pytest.raises(pfs.InvalidValue, match="component"):
        kind.make("CONTRACT")


@each_kind_and_wait
def test_disabled_lock_still_locks_and_is_not_counted(kind: Kind) -> None:
    lock = kind.make("test/CONTRACT_off")
    before, free = count(lock.name), row(kind.table, lock)
    with pfs.setup_instruments:
        pfs.setup_instruments[lock.name].enabled = False
        kind.take(lock)
        assert lock.locked()
        assert row(kind.table, lock).equals(free)
        kind.give(lock)
        assert not lock.locked()
        kind.take(lock)
    assert row(kind.table, lock).equals(free)  # nobody looked when it was taken
    kind.give(lock)
    assert not lock.locked()
    assert count(lock.name) == before
    kind.take(lock)
    kind.give(lock)
    assert count(lock.name) == before + 1


@each_kind
def test_waiting_time_is_that_of_the_wait_and_a_holder_is_not_charged(kind: Kind) -> None:
    lock = kind.make(f"test/CONTRACT_time_{[*KINDS.values()].index(kind)}")
    with Holder(kind, lock, seconds=0.2):
        kind.take(lock)
        kind.give(lock)
    held, waited = seconds(events(lock.name))
    assert held < 0.05  # the holder got it at once
    assert 0.05 < waited < 5


@each_kind
def test_signal_handler_that_raises_ends_the_wait_and_its_event(kind: Kind) -> None:
    lock = kind.make("test/CONTRACT_signal")
    before = count(lock.name)
    with Holder(kind, lock):
        held = row(kind.table, lock)
        with alarm(stop), pytest.raises(Stop):
            kind.take(lock)
        assert open_events() == 0
        assert row(kind.table, lock).equals(held)
        assert lock.locked()
    assert not lock.locked()
    kind.take(lock)  # nobody is left in line
    kind.give(lock)
    assert events(lock.name)["END_EVENT_ID"].notna().all()
    assert count(lock.name) == before + 3


@each_kind
def test_wait_goes_on_after_a_handler_that_returns(kind: Kind) -> None:
    lock = kind.make("test/CONTRACT_handler")
    calls: list[int] = []
    with Holder(kind, lock, seconds=0.3), alarm(lambda: calls.append(1)):
        assert kind.take(lock, True, 20)
        kind.give(lock)
    assert calls == [1]


@each_kind
def test_counts_are_exact_with_many_threads_while_they_are_read(kind: Kind) -> None:
    lock = kind.make("test/CONTRACT_exact")
    before = count(lock.name)

    def work() -> None:
        for _ in range(1000):
            kind.take(lock)
            kind.give(lock)

    threads = [start(work) for _ in range(8)]
    while any(thread.is_alive() for thread in threads):
        assert before <= count(lock.name) <= before + 8000
    assert count(lock.name) == before + 8000
    summary = pfs.table("events_waits_summary_by_instance").set_index("OBJECT_INSTANCE_BEGIN")
    assert summary.loc[id(lock), "COUNT_STAR"] == 8000


@each_kind_and_wait
def test_row_goes_with_the_lock_and_its_numbers_stay(kind: Kind) -> None:
    if kind.make in (pfs.RLock, pfs.Condition):  # a subclass may name itself: the collector must see it
        lock = type("Own", (kind.make,), {})("test/CONTRACT_dies")
        lock.itself = lock
    else:
        lock = kind.make("test/CONTRACT_dies")
    name, before = lock.name, count(lock.name)
    reference = weakref.ref(lock)
    kind.take(lock)  # it dies while it is held
    assert (pfs.table(kind.table)["NAME"] == name).any()
    del lock
    gc.collect()
    assert reference() is None
    assert not (pfs.table(kind.table)["NAME"] == name).any()
    assert count(name) == before + 1


@each_kind
def test_a_thread_that_waits_is_in_its_event(kind: Kind) -> None:
    lock = kind.make("test/CONTRACT_waits")
    with Holder(kind, lock):
        waiter = start(kind.take, lock)
        await_waiting(lock.name)
    waiter.join()
    assert events(lock.name)["END_EVENT_ID"].notna().all()
