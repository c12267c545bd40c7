"""A signal handler raises in the middle of what a program does with our objects, hundreds of times, while another thread uses
them: they stay whole, and no event stays open."""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import pfs
from tests.python.objects.seen import Stop, events, open_events, owner, start

ROUNDS = 300


@dataclass
class Play:
    instrument: str
    work: Callable[[], object]  # of the thread that is interrupted
    clean: Callable[[], object]  # undoes what work() may have left, wherever it was interrupted
    rival: Callable[[], object]
    check: Callable[[], object]  # at the end


def rlock() -> Play:
    lock: Any = pfs.RLock("test/INTERRUPTED_rlock")

    def clean() -> None:
        while lock._is_owned():
            lock.release()

    def rival() -> None:
        with lock:
            time.sleep(0.0005)

    def check() -> None:
        assert not lock.locked()
        assert owner(lock) is None

    return Play(lock.name, lambda: (lock.acquire(), lock.acquire()), clean, rival, check)


def condition() -> Play:
    cond: Any = pfs.Condition("test/INTERRUPTED_cond")

    def clean() -> None:
        while cond._is_owned():
            cond.release()

    def work() -> None:
        cond.acquire()
        cond.wait(0.001)
        cond.wait_for(lambda: False, 0.0005)

    def rival() -> None:
        with cond:
            cond.notify()

    def check() -> None:
        assert "0)>" in repr(cond)  # nobody is left in line
        assert not cond.locked()

    return Play(cond.name, work, clean, rival, check)


def rwlock() -> Play:
    lock = pfs.RWLock("test/INTERRUPTED_rw")
    random_ = random.Random(3)

    def clean() -> None:
        for release in (lock.release_read, lock.release_write):
            with contextlib.suppress(RuntimeError):
                release()

    def rival() -> None:
        with lock.write() if random_.random() < 0.5 else lock.read():
            time.sleep(0.0003)

    def work() -> None:
        if random_.random() < 0.5:
            lock.acquire_write()
        else:
            lock.acquire_read(timeout=0.001)

    def check() -> None:
        assert repr(lock).startswith("<unlocked pfs.RWLock object")
        assert "readers=0 waiting=0" in repr(lock)

    return Play(lock.name, work, clean, rival, check)


def simple_queue() -> Play:
    simple: pfs.SimpleQueue[int] = pfs.SimpleQueue("test/INTERRUPTED_simple")

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            simple.get(timeout=0.001)

    def check() -> None:
        while not simple.empty():
            simple.get()
        simple.put(1)
        assert simple.get() == 1

    return Play(simple.name, work, lambda: None, lambda: simple.put(1), check)


def semaphore() -> Play:
    # What the standard semaphore loses when it is interrupted, ours loses, too; its lock is free in any case.
    semaphore = pfs.Semaphore("test/INTERRUPTED_sem", 0)

    def check() -> None:
        assert not semaphore._cond.locked()

    return Play(semaphore.name, lambda: semaphore.acquire(timeout=0.001), lambda: None, semaphore.release, check)


def jobs() -> Play:
    jobs: pfs.Queue[int] = pfs.Queue("test/INTERRUPTED_queue", 2)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            jobs.get(timeout=0.001)

    def rival() -> None:
        with contextlib.suppress(queue.Full):
            jobs.put(1, timeout=0.001)

    def check() -> None:
        assert not jobs.mutex.locked()

    return Play(jobs.name, work, lambda: None, rival, check)


def sockets() -> Play:
    one, other = pfs.socketpair("test/SOCKET")
    one.settimeout(0.001)

    def work() -> None:
        with contextlib.suppress(TimeoutError):
            one.recv(10)

    def check() -> None:
        one.close()
        other.close()
        assert not (pfs.table("socket_instances")["EVENT_NAME"] == one.name).any()

    return Play(one.name, work, lambda: None, lambda: other.send(b"x"), check)


@pytest.mark.parametrize("make", [rlock, condition, rwlock, simple_queue, semaphore, jobs, sockets])
def test_object_stays_whole(make: Callable[[], Play]) -> None:
    play = make()
    armed = over = False
    raised = rounds = 0

    def handler(*_: object) -> None:
        if armed:
            raise Stop

    def repeat() -> None:
        while not over:
            play.rival()
            time.sleep(0.0003)

    random_ = random.Random(7)
    old = signal.signal(signal.SIGALRM, handler)
    thread = start(repeat)
    try:
        while rounds < ROUNDS or (raised == 0 and rounds < 100 * ROUNDS):  # on a busy machine the timer is often late
            rounds += 1
            armed = True
            try:
                signal.setitimer(signal.ITIMER_REAL, random_.uniform(0.00001, 0.001))
                play.work()
                armed = False
            except Stop:  # once: the timer does not repeat
                raised += 1
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            play.clean()
    finally:
        over = True
        thread.join()
        signal.signal(signal.SIGALRM, old)
    assert raised > 0
    assert open_events() == 0
    rows = events(play.instrument)
    assert len(rows) > 0
    assert rows["END_EVENT_ID"].notna().all()
    play.check()
