"""Finds what the holders of a lock did while other threads waited for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pfs._source import OWN
from pfs._tables.nearest import hint
from pfs.errors import UnknownName

if TYPE_CHECKING:
    import pandas as pd

    from pfs._source import Source

__all__ = ["Named", "why", "why_of"]


class Named(Protocol):
    """A lock of pfs."""

    @property
    def name(self) -> str: ...


_SHORTEST = 10**6  # picoseconds: a wait for a free lock is shorter


class _Wait(NamedTuple):
    start: int
    end: int
    thread: int
    id: int
    name: str
    source: str | None
    operation: str
    object_name: str | None
    object: int


_COLUMNS = (
    "TIMER_START",
    "TIMER_END",
    "THREAD_ID",
    "EVENT_ID",
    "EVENT_NAME",
    "SOURCE",
    "OPERATION",
    "OBJECT_NAME",
    "OBJECT_INSTANCE_BEGIN",
    "NESTING_EVENT_TYPE",
    "END_EVENT_ID",
)


def _read(source: Source, now: int) -> tuple[list[_Wait], set[tuple[int, int]]]:
    """Returns the timed waits that are no part of other waits, by start, and which of them still run."""
    found: dict[tuple[int, int], _Wait] = {}
    running = set()
    for table in ("events_waits_history_long", "events_waits_history", "events_waits_current"):
        for row in source.rows(table, _COLUMNS, True, now):
            *fields, nested_in, end_event = row
            is_timed = fields[0] is not None
            wait = _Wait(*fields)
            if not is_timed or nested_in == "WAIT" or wait.name == "idle":
                continue
            key = (wait.thread, wait.id)
            found[key] = wait
            running.discard(key)
            if end_event is None:
                running.add(key)
    return sorted(found.values()), running


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the union of intervals that are sorted by their begin."""
    union: list[tuple[int, int]] = []
    for begin, end in spans:
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((begin, end))
    return union


def _overlap(union: Sequence[tuple[int, int]], ends: Sequence[int], begin: int, end: int) -> int:
    """Returns how much of [begin, end) the union covers. `ends` are the ends of its intervals."""
    total = 0
    for at in range(bisect_left(ends, begin), len(union)):
        if union[at][0] >= end:
            break
        total += max(0, min(end, union[at][1]) - max(begin, union[at][0]))
    return total


def _names(lock: Named | str, source: Source) -> set[str]:
    wanted = lock if isinstance(lock, str) else getattr(lock, "name", None)
    if not isinstance(wanted, str):
        raise TypeError(f"a lock of pfs or its name is needed, not {type(lock).__name__}")
    names = [name for (name,) in source.rows("setup_instruments", ("NAME",)) if name.startswith("wait/")]
    found = {name for name in names if name == wanted or name.endswith("/" + wanted)}
    if not found:
        raise UnknownName(f"no lock '{wanted}'" + (hint(wanted, names) or ": no lock is registered"))
    return found


def why(lock: Named | str) -> pd.DataFrame:
    """Says why threads had to wait for a lock: what its holders did meanwhile, from the waits in the history tables.

        pfs.why(lock)                      # or its name: pfs.why("shop/LOCK_orders")

    Args:
        lock: a lock of pfs, the name of its instrument, or the end of that name.

    Returns:
        One row per line of the holder and thing that it did, the longest first. HOLDER_SOURCE is where the holder took the lock.
        EVENT_NAME, OPERATION, OBJECT_NAME and SOURCE are what it did then; they are NULL for the time in which it was in no wait,
        such as computing. COUNT_STAR counts them. SUM_TIMER_WAIT is their time during which at least one other thread waited for
        the lock: the time that would be gained. The history tables bound how far back it looks, and waits must be timed. With
        read-write locks, the last thread that took the lock counts as its holder. All holds since the start, and the line of
        the longest, are in lock_holds_summary_by_instance while the consumer lock_holds is on.

    Raises:
        UnknownName: there is no such lock.
    """
    return why_of(lock, OWN)


def why_of(lock: Named | str, source: Source) -> pd.DataFrame:
    """Returns what pfs.why() returns, of this process or of an attached one."""
    now = source.now()
    names = _names(lock, source)
    waits, running = _read(source, now)
    of_thread: dict[int, list[_Wait]] = {}
    of_object: dict[int, list[_Wait]] = {}
    for wait in waits:
        of_thread.setdefault(wait.thread, []).append(wait)
        if wait.name in names:
            of_object.setdefault(wait.object, []).append(wait)
    sums: dict[tuple[Any, ...], list[int]] = {}
    for tries in of_object.values():
        # In each moment of the union somebody waited, so somebody held the lock.
        union = _merged([(wait.start, wait.end) for wait in tries if wait.end - wait.start >= _SHORTEST])
        ends = [end for _, end in union]
        got = sorted((wait for wait in tries if (wait.thread, wait.id) not in running), key=lambda wait: wait.end)
        for at, taken in enumerate(got):
            until = got[at + 1].end if at + 1 < len(got) else now
            if not (waited := _overlap(union, ends, taken.end, until)):
                continue
            own = of_thread[taken.thread]
            for event in own[bisect_left(own, (taken.end,)) :]:
                if event.start >= until:
                    break
                if event.object == taken.object and event.name == taken.name:
                    continue  # another turn for the same lock
                if time := _overlap(union, ends, event.start, min(event.end, until)):
                    waited -= time
                    key = (taken.name, taken.source, event.name, event.operation, event.object_name, event.source)
                    sums.setdefault(key, [0, 0])[0] += 1
                    sums[key][1] += time
            if waited > 0:
                sums.setdefault((taken.name, taken.source, None, None, None, None), [0, 0])[0] += 1
                sums[taken.name, taken.source, None, None, None, None][1] += waited
    return _frame(sums)


def _frame(sums: dict[tuple[Any, ...], list[int]]) -> pd.DataFrame:
    import pandas as pd

    from pfs._tables.dtypes import TEXT

    rows = [(*key, *numbers) for key, numbers in sorted(sums.items(), key=lambda item: -item[1][1])]
    texts = ("LOCK_NAME", "HOLDER_SOURCE", "EVENT_NAME", "OPERATION", "OBJECT_NAME", "SOURCE")
    columns = dict(zip((*texts, "COUNT_STAR", "SUM_TIMER_WAIT"), zip(*rows, strict=True), strict=True)) if rows else {}
    return pd.DataFrame(
        {
            name: pd.array(list(columns.get(name, ())), dtype=TEXT if name in texts else "uint64")
            for name in (*texts, "COUNT_STAR", "SUM_TIMER_WAIT")
        }
    )
