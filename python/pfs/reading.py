"""Functions that read this process, beside ``pfs.table``: what runs now, Arrow, texts for people, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfs import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from pfs._names import TableName
    from pfs._notebook.timeline import Timeline

__all__ = ["arrow", "blocked", "measure_timers", "now", "readable", "running", "timeline"]


def now() -> int:
    """Returns the present time on the time line of the events, in picoseconds since the start of pfs: what TIMER_START of an
    event that begins now would be. It is 0 if pfs is off."""
    return _core.now(None)


def running() -> pd.DataFrame:
    """Returns the events that run now: the open transactions, statements, stages and waits of all threads.

    Returns:
        One row per event, by thread, the outermost event first. THREAD is the name of the thread; EVENT_TYPE is TRANSACTION,
        STATEMENT, STAGE or WAIT; TIMER_WAIT is the time so far, or NULL if the event is not timed. The other columns are those
        of the events_*_current tables.
    """
    from pfs._tables.running import view_frame

    return view_frame("running")


def blocked() -> pd.DataFrame:
    """Returns the threads that wait for a lock now, those that wait longest first, and who holds the lock.

    It covers mutexes, read-write locks, metadata locks and table locks. Conditions, files and sockets have no holder:
    ``pfs.running()`` shows who waits for them.

    Returns:
        One row per waiting thread and holder. THREAD_ID to TIMER_WAIT say which thread waits for what, at which line, and for how
        long. HOLDER_THREAD_ID holds the lock; it is NULL if only readers hold the lock (READ_LOCKED_BY_COUNT) or no holder is
        recorded. HOLDER is the name of that thread, or NULL if the thread has ended, or was not copied by fork. HOLDER_SOURCE
        and HOLDER_TIMER_WAIT say where it took the lock and for how long it has held it, if that event is still in a history
        table. HOLDER_EVENT_* is the innermost event that the holder is in now. DEADLOCK is a circle of threads, such as
        ``2 -> 3 -> 2``, in which each waits for the next one.
    """
    from pfs._tables.running import view_frame

    return view_frame("blocked")


def arrow(name: TableName | str, columns: Iterable[str] | None = None) -> _core.ArrowTable:
    """Returns the current rows of a table for any reader of the Arrow C stream interface: DuckDB, polars, pyarrow, pandas 3.

        polars.DataFrame(pfs.arrow("file_summary_by_instance"))

    The result is a snapshot: it may be read again and again. It needs no package beside the reader.

    Args:
        name: one of ``pfs.tables()``.
        columns: the columns to read, in this order; None reads all. Case does not matter.

    Returns:
        Integers as they are, TEXT and ENUM as dictionaries of strings, TIMESTAMP in microseconds UTC. A byte of a text that is no
        UTF-8 becomes ``\\xNN``.

    Raises:
        UnknownTable: no table has this name.
        UnknownColumn: the table has no such column.
        InvalidValue: a column is named twice.
    """
    return _core.arrow(str(name), [columns] if isinstance(columns, str) else None if columns is None else list(columns), None)


def measure_timers() -> None:
    """Makes the next read of ``performance_timers`` measure the timers again. Later reads show that measurement."""
    _core.measure_timers()


def readable(frame: pd.DataFrame, limit: int | None = None) -> pd.DataFrame:
    """Returns a frame of texts for people: times and bytes with units, long texts cut in the middle.

    It takes a frame of ``pfs.table``, or one made from it: the names of the columns decide. ``%load_ext pfs`` shows all such
    frames like this. The numbers themselves stay in the original.

    Args:
        frame: the frame.
        limit: the most rows to write; None writes all.
    """
    from pfs._tables import readable

    if not hasattr(frame, "columns"):
        raise TypeError(f"a DataFrame is needed, not {type(frame).__name__}")
    return readable.readable(frame, limit)


def timeline(
    events: pd.DataFrame, threads: dict[int, str] | None = None, begin: int | None = None, end: int | None = None
) -> Timeline:
    """Draws events as a picture with one lane per thread, which a notebook shows. ``save(path)`` writes it as SVG.

    Args:
        events: rows of a table of events, such as ``events_waits_history_long``, with times in picoseconds.
        threads: names of threads by THREAD_ID, for the lanes.
        begin, end: the time to draw, in picoseconds as TIMER_START. Events that cross it are cut. None draws all events.

    Raises:
        InvalidValue: the frame lacks a column that is needed, or its times are not in picoseconds.
    """
    from pfs._notebook import timeline

    return timeline.timeline(events, threads, begin, end)
