"""Watches what the threads of a process do: a few samples a second, averaged over the time between two questions."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pfs import _core
from pfs._process.history.names import DECLARED, NOT_ACTIVE
from pfs.errors import Error

__all__ = ["Activity", "Watch", "activity_of"]

_HZ = 5.0
_MINUTE = 60
_SECOND = 10**12  # picoseconds
_SHORTEST_BLOCK = 10_000_000_000  # picoseconds: a shorter wait for a lock is no news
_LOCKS = ("wait/synch/mutex", "wait/synch/rwlock", "wait/synch/prlock", "wait/synch/sxlock", "wait/lock/")

Event = tuple[str, str]  # WAIT_CLASS, EVENT_NAME


@dataclass(slots=True)
class Activity:
    """Says what threads did.

    Attributes:
        active: threads by class and event, on average. Idle threads are left out, and those that are blocked in nothing that pfs
            records, unless a statement or a stage runs in them.
        blocked: threads that wait for a lock.
        longest: picoseconds of the longest wait for a lock, or in a statement or a stage.
        deadlocked: threads behind a circle of locks.
    """

    active: dict[Event, float] = field(default_factory=dict)
    blocked: int = 0
    longest: int = 0
    deadlocked: int = 0

    def merge(self, other: Activity) -> None:
        """Adds another process."""
        for event, threads in other.active.items():
            self.active[event] = self.active.get(event, 0.0) + threads
        self.blocked += other.blocked
        self.deadlocked += other.deadlocked
        self.longest = max(self.longest, other.longest)


_COLUMNS = (
    "SAMPLE_ID", "WEIGHT", "THREAD_STATE", "WAIT_CLASS", "EVENT_NAME", "TIMER_WAIT", "STATEMENT_EVENT_ID", "STAGE_NAME",
    "IS_DEADLOCKED",
)  # fmt: skip


def _rows_of(parts: list[_core.Part]) -> list[tuple[Any, ...]]:
    """Returns these columns of samples as rows."""
    columns = {part[0]: part for part in parts}

    def values(name: str) -> list[Any]:
        _, _, _, numbers, mask, texts = columns[name]
        if texts is not None:
            return [None if code < 0 else str(texts[code]) for code in numbers.tolist()]
        if mask is None:
            return list(numbers.tolist())
        return [None if is_null else number for number, is_null in zip(numbers.tolist(), mask.tolist(), strict=True)]

    return list(zip(*map(values, _COLUMNS), strict=True))


def _sums(rows: Sequence[tuple[Any, ...]], with_weight: bool) -> tuple[Counter[Event], Activity]:
    """Returns the picoseconds of active threads by event, and what the last sample says. Without weights a row is a second."""
    sums: Counter[Event] = Counter()
    now = Activity()
    for number, weight, state, wait_class, event, wait, statement, stage, is_deadlocked in rows:
        works = statement is not None or stage is not None
        if works or state not in NOT_ACTIVE:
            sums[wait_class, event or ""] += weight if with_weight else _SECOND
        if number != rows[-1][0] or state != "WAITING":
            continue
        is_lock = wait_class.startswith(_LOCKS)
        if is_lock and (wait is None or wait >= _SHORTEST_BLOCK):
            now.blocked += 1
            now.deadlocked += is_deadlocked
        if is_lock or works:
            now.longest = max(now.longest, wait or 0)
    return sums, now


def activity_of(segment: _core.Segment | None) -> Activity:
    """Returns what the threads of a process do now."""
    sums, now = _sums(_core.rows(DECLARED, _COLUMNS, segment), with_weight=False)
    now.active = {event: time / _SECOND for event, time in sums.items()}
    return now


class Watch:
    """Samples a process from a thread of its own until it ends or `stop` is called."""

    def __init__(self, segment: _core.Segment) -> None:
        self._segment = segment
        self._sampling = _core.Sampling(segment, _HZ)
        self._lock = threading.Lock()  # of those below
        self._sums: Counter[Event] = Counter()
        self._now: Activity | None = None
        self._is_stopping = False
        self._asked = time.monotonic()
        self._seconds: deque[tuple[float, Counter[str]]] = deque()  # when, and picoseconds by class
        self._thread = threading.Thread(target=self._run, name="pfs.watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._sampling.stop()
        self._thread.join()

    def _run(self) -> None:
        goes_on = True
        try:
            while goes_on and not self._is_stopping:
                goes_on, rows, _, parts = self._sampling.run(1.0)
                sums, now = _sums(_rows_of(parts) if rows else [], with_weight=True)
                by_class: Counter[str] = Counter()
                for (wait_class, _event), spent in sums.items():
                    by_class[wait_class] += spent
                with self._lock:
                    self._sums.update(sums)
                    self._now = now
                    self._seconds.append((time.monotonic(), by_class))
                    while self._seconds[0][0] < time.monotonic() - _MINUTE:
                        self._seconds.popleft()
        except Error:
            pass  # its file was cut: the process has gone
        with self._lock:
            self._now = Activity()

    def activity(self) -> Activity:
        """Returns what the threads did since the last question, and do now."""
        with self._lock:
            passed, self._asked = time.monotonic() - self._asked, time.monotonic()
            sums, self._sums, now = self._sums, Counter(), self._now
        if now is None:  # it has just begun
            return activity_of(self._segment)
        now.active = {event: spent / _SECOND / max(passed, 0.1) for event, spent in sums.items()}
        return now

    def minute(self, parts: int) -> dict[str, list[float]]:
        """Returns the active threads of the last minute by class, in parts of equal length, the oldest first."""
        length = _MINUTE / parts
        found: dict[str, list[float]] = {}
        with self._lock:
            now = time.monotonic()
            for at, by_class in self._seconds:
                part = parts - 1 - int((now - at) / length)
                for wait_class, spent in by_class.items():
                    found.setdefault(wait_class, [0.0] * parts)[max(0, part)] += spent / _SECOND / length
        return found
