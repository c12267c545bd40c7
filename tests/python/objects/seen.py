"""What the tables show of an instrument or an object; threads at a known place. For the tests of instrumented objects."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pandas as pd

import pfs


def events(instrument: str) -> pd.DataFrame:
    """The events of an instrument, in the order in which they began."""
    frame = pfs.table("events_waits_history_long")
    return frame[frame["EVENT_NAME"] == instrument].sort_values("TIMER_START")


def operations(instrument: str) -> list[str]:
    found: list[str] = events(instrument)["OPERATION"].tolist()
    return found


def seconds(rows: pd.DataFrame) -> list[float]:
    """How long the events took."""
    return [float(wait) / 1e12 for wait in rows["TIMER_WAIT"]]


def count(instrument: str) -> int:
    """Events of an instrument since the process started."""
    frame = pfs.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")
    return int(frame["COUNT_STAR"][instrument])


def row(table: str, thing: object) -> pd.Series:
    """The row of an object that lives."""
    frame = pfs.table(table)
    rows = frame[frame["OBJECT_INSTANCE_BEGIN"] == id(thing)]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def owner(lock: object) -> int | None:
    """LOCKED_BY_THREAD_ID of a mutex."""
    thread = row("mutex_instances", lock)["LOCKED_BY_THREAD_ID"]
    return None if pd.isna(thread) else int(thread)


def this_thread() -> int:
    frame = pfs.table("threads")
    mine = frame[frame["THREAD_OS_ID"] == threading.get_native_id()]
    return int(mine["THREAD_ID"].iloc[0])


def open_events() -> int:
    """Events of this thread that have not ended."""
    frame = pfs.table("events_waits_current")
    return int(frame[frame["THREAD_ID"] == this_thread()]["END_EVENT_ID"].isna().sum())


def await_true(condition: Callable[[], object], limit: float = 20) -> None:
    """Until it is true. No test is about how long that takes."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.001)


def waiting_in(instrument: str) -> int:
    """Threads that wait in an event of the instrument now."""
    frame = pfs.table("events_waits_current")
    return int(((frame["EVENT_NAME"] == instrument) & frame["END_EVENT_ID"].isna()).sum())


def await_waiting(instrument: str, threads: int = 1) -> None:
    await_true(lambda: waiting_in(instrument) == threads)


def start(function: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


class Stop(Exception):
    """What a signal handler raises."""


@contextmanager
def alarm(handler: Callable[[], object], after: float = 0.05, every: float = 0) -> Iterator[None]:
    """Calls handler() in the main thread, in the middle of what the block does."""
    old = signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, after, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def stop() -> None:
    raise Stop
