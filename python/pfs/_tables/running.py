"""Shows what runs now: open events with the time so far, threads that wait for locks, and the holders of those locks.

The tables give NULL as TIMER_END of an open event. Here the reader adds the time so far: the program pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pfs._places.readable import Readable
from pfs._source import OWN

if TYPE_CHECKING:
    import pandas as pd

    from pfs._source import Source

__all__ = ["Blocked", "Event", "VIEWS", "blocked", "deadlocks", "events", "view_frame"]

_EVENT = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "SOURCE", "TIMER_START", "TIMER_WAIT", "NESTING_EVENT_ID")
# The tables of events, the outermost kind first, with the fields of Event that only this kind has, and their columns.
_KINDS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("TRANSACTION", "events_transactions_current", {}),
    (
        "STATEMENT",
        "events_statements_current",
        {"info": "SQL_TEXT", "schema": "CURRENT_SCHEMA", "digest_text": "DIGEST_TEXT"},
    ),
    ("STAGE", "events_stages_current", {}),
    (
        "WAIT",
        "events_waits_current",
        {
            "schema": "OBJECT_SCHEMA",
            "object_name": "OBJECT_NAME",
            "object": "OBJECT_INSTANCE_BEGIN",
            "operation": "OPERATION",
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Event:
    """An open event. Times are picoseconds; they are None if the event is not timed."""

    kind: str
    thread: int
    id: int
    name: str
    source: str | None
    start: int | None
    wait: int | None
    nesting: int | None
    info: str | None = None  # text of a statement
    schema: str | None = None  # of a statement, or of a table
    digest_text: str | None = None
    object_name: str | None = None
    object: int | None = None
    operation: str | None = None

    def in_words(self, names: Readable) -> Event:
        """Returns the same with symbols and lines, if the program is an unchanged one."""
        return replace(self, name=names.name(self.name), source=names.source(self.source))


def _of_kind(source: Source, kind: str, table: str, fields: Mapping[str, str], now: int) -> list[Event]:
    found = []
    for row in source.rows(table, (*_EVENT, *fields.values()), True, now):
        thread, event, end, name, at, start, wait, nesting, *rest = row
        if end is None:
            extra = dict(zip(fields, rest, strict=True))
            found.append(Event(kind, thread, event, name, at, start, wait, nesting, **extra))
    return found


def events(source: Source, now: int) -> list[Event]:
    """Returns the open events of all threads, by thread, the outermost first."""
    found = [event for kind in _KINDS for event in _of_kind(source, *kind, now)]
    return sorted(found, key=lambda event: (event.thread, event.id))


def _waits(source: Source, now: int) -> list[Event]:
    return _of_kind(source, *_KINDS[-1], now)


# ---- Who is in the way


@dataclass(frozen=True, slots=True)
class Holder:
    """Holds a lock that is waited for: a thread, or (thread = None) a number of readers who are not known."""

    thread: int | None
    readers: int = 0


@dataclass(slots=True)
class Blocked:
    """A thread that waits for a lock, and one holder of the lock, if a holder is known."""

    wait: Event
    thread: str  # name
    holder: int | None = None
    readers: int = 0
    holder_name: str | None = None  # None: the holder is not known, or has ended
    held_at: str | None = None  # where the holder took the lock
    held: int | None = None  # picoseconds since then
    holder_event: Event | None = None  # the innermost open event of the holder
    deadlock: str | None = None

    def in_words(self, names: Readable) -> Blocked:
        """Returns the same with symbols and lines, if the program is an unchanged one."""
        event = self.holder_event
        return replace(
            self,
            wait=self.wait.in_words(names),
            thread=names.name(self.thread),
            holder_name=None if self.holder_name is None else names.name(self.holder_name),
            held_at=names.source(self.held_at),
            holder_event=None if event is None else event.in_words(names),
        )


_READ_WRITE = ("wait/synch/rwlock/", "wait/synch/prlock/", "wait/synch/sxlock/")
_METADATA = ("OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "COLUMN_NAME")


def _mutex_holders(source: Source, waits: Sequence[Event]) -> dict[Any, list[Holder]]:
    owners = dict(source.rows("mutex_instances", ("OBJECT_INSTANCE_BEGIN", "LOCKED_BY_THREAD_ID")))
    return {wait: [Holder(owner)] for wait in waits if (owner := owners.get(wait.object)) is not None}


def _rwlock_holders(source: Source, waits: Sequence[Event]) -> dict[Any, list[Holder]]:
    columns = ("OBJECT_INSTANCE_BEGIN", "WRITE_LOCKED_BY_THREAD_ID", "READ_LOCKED_BY_COUNT")
    locks = {row[0]: row[1:] for row in source.rows("rwlock_instances", columns)}
    held = {}
    for wait in waits:
        writer, readers = locks.get(wait.object, (None, 0))
        if writer is not None or readers:
            held[wait] = [Holder(writer, readers)]
    return held


def _metadata_holders(source: Source, waits: Sequence[Event]) -> dict[Any, list[Holder]]:
    locks = source.rows("metadata_locks", ("OBJECT_INSTANCE_BEGIN", "LOCK_STATUS", "OWNER_THREAD_ID", *_METADATA))
    what = {row[0]: row[3:] for row in locks}
    return {
        wait: [
            Holder(owner)
            for _, status, owner, *on in locks
            if status == "GRANTED" and tuple(on) == what.get(wait.object) and owner not in (None, wait.thread)
        ]
        for wait in waits
    }


def _table_holders(source: Source, waits: Sequence[Event]) -> dict[Any, list[Holder]]:
    columns = ("OBJECT_SCHEMA", "OBJECT_NAME", "OWNER_THREAD_ID", "INTERNAL_LOCK", "EXTERNAL_LOCK")
    handles = source.rows("table_handles", columns)
    return {
        wait: [
            Holder(owner)
            for schema, name, owner, internal, external in handles
            if (schema or None, name) == (wait.schema, wait.object_name)
            and owner not in (None, wait.thread)
            and (internal is not None or external is not None)
        ]
        for wait in waits
    }


_LOCKS: tuple[tuple[tuple[str, ...], Callable[[Source, Sequence[Event]], dict[Any, list[Holder]]]], ...] = (
    (("wait/synch/mutex/",), _mutex_holders),
    (_READ_WRITE, _rwlock_holders),
    (("wait/lock/metadata/",), _metadata_holders),
    (("wait/lock/table/",), _table_holders),
)


def blocked(source: Source, now: int, at_least: int = 0) -> list[Blocked]:
    """Returns the threads that wait for locks, those that wait longest first. A lock with several holders gives several rows.

    Args:
        at_least: leaves out waits that are younger, in picoseconds.
    """
    waits = [wait for wait in _waits(source, now) if wait.wait is None or wait.wait >= at_least]
    held: dict[Any, list[Holder]] = {}
    chosen = []
    for prefixes, holders in _LOCKS:
        if some := [wait for wait in waits if wait.name.startswith(prefixes)]:
            chosen += some
            held.update(holders(source, some))
    if not chosen:
        return []
    # A wait that still runs after its holder was read ran all the time. So a circle of holders is one, and no two moments mixed.
    open_events = events(source, now)
    still = {(event.thread, event.id) for event in open_events}
    chosen = [wait for wait in chosen if (wait.thread, wait.id) in still]
    innermost = {event.thread: event for event in open_events}
    names = dict(source.rows("threads", ("THREAD_ID", "NAME")))
    rows = []
    for wait in chosen:
        for holder in held.get(wait) or [Holder(None)]:
            row = Blocked(wait, names.get(wait.thread, ""), holder.thread, holder.readers)
            if holder.thread is not None:
                row.holder_name = names.get(holder.thread)
                row.holder_event = innermost.get(holder.thread)
            rows.append(row)
    _add_acquisitions(source, now, rows)
    circles = deadlocks([(row.wait.thread, row.holder) for row in rows if row.holder is not None])
    for row in rows:
        circle = circles.get(row.wait.thread)
        if circle is not None and row.holder in circle:
            row.deadlock = " -> ".join(map(str, circle))
    return sorted(rows, key=lambda row: (-1 if row.wait.wait is None else -row.wait.wait, row.wait.thread))


def _add_acquisitions(source: Source, now: int, rows: Iterable[Blocked]) -> None:
    """Finds where and when the holders took the locks: the last wait of the holder for the lock, if it is still recorded."""
    missing: dict[tuple[int, int], list[Blocked]] = {}
    for row in rows:
        if row.holder is not None and row.wait.object:
            missing.setdefault((row.holder, row.wait.object), []).append(row)
    columns = ("THREAD_ID", "OBJECT_INSTANCE_BEGIN", "EVENT_ID", "SOURCE", "TIMER_END")
    for table in ("events_waits_history", "events_waits_history_long"):
        if not missing:
            return
        newest: dict[tuple[int, int], tuple[int, str | None, int | None]] = {}
        for thread, instance, event, at, end in source.rows(table, columns):
            key = (thread, instance)
            if key in missing and (key not in newest or newest[key][0] < event):
                newest[key] = (event, at, end)
        for key, (_, at, end) in newest.items():
            for row in missing.pop(key):
                row.held_at, row.held = at, None if end is None else max(0, now - end)


def deadlocks(edges: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Returns the circles among threads: edges lead from a thread that waits to a thread that holds.

    Each thread of a circle has the shortest circle through it, which begins and ends with its smallest thread.
    """
    follow: dict[int, list[int]] = {}
    for waiter, holder in edges:
        follow.setdefault(waiter, []).append(holder)
    found = {}
    for start in follow:
        before: dict[int, int] = {}
        reached = [start]
        for thread in reached:  # grows: breadth first
            for holder in follow.get(thread, ()):
                if holder not in before:
                    before[holder] = thread
                    reached.append(holder)
        if start not in before:
            continue
        circle = [start]
        while (thread := before[circle[-1]]) != start:
            circle.append(thread)
        circle.reverse()
        least = circle.index(min(circle))
        circle = circle[least:] + circle[:least]
        found[start] = [*circle, circle[0]]
    return found


# ---- Frames


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str  # "integer" or "text"
    value: Callable[[Any], Any]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Describes the columns of pfs.running() or pfs.blocked()."""

    columns: tuple[_Column, ...]
    rows: Callable[[Source, int], Sequence[Any]]

    def units(self) -> dict[str, str]:
        return {column.name: column.unit for column in self.columns}


def _of_holder(name: str) -> Callable[[Blocked], Any]:
    return lambda row: None if row.holder_event is None else getattr(row.holder_event, name)


def _of_wait(name: str) -> Callable[[Blocked], Any]:
    return lambda row: getattr(row.wait, name)


def _running_rows(source: Source, now: int) -> list[tuple[Event, str]]:
    found = events(source, now)
    threads = dict(source.rows("threads", ("THREAD_ID", "NAME")))
    names = Readable(source)
    return [(event.in_words(names), names.name(threads.get(event.thread, ""))) for event in found]


def _blocked_rows(source: Source, now: int) -> list[Blocked]:
    names = Readable(source)
    return [row.in_words(names) for row in blocked(source, now)]


def _of_event(name: str) -> Callable[[tuple[Event, str]], Any]:
    return lambda row: getattr(row[0], name)


VIEWS = {
    "running": View(
        (
            _Column("THREAD_ID", "integer", _of_event("thread")),
            _Column("THREAD", "text", lambda row: row[1]),
            _Column("EVENT_ID", "integer", _of_event("id")),
            _Column("EVENT_TYPE", "text", _of_event("kind")),
            _Column("EVENT_NAME", "text", _of_event("name")),
            _Column("SOURCE", "text", _of_event("source")),
            _Column("TIMER_START", "integer", _of_event("start"), "picoseconds"),
            _Column("TIMER_WAIT", "integer", _of_event("wait"), "picoseconds"),
            _Column("OPERATION", "text", _of_event("operation")),
            _Column("OBJECT_NAME", "text", _of_event("object_name")),
            _Column("OBJECT_INSTANCE_BEGIN", "integer", _of_event("object")),
            _Column("SQL_TEXT", "text", _of_event("info")),
            _Column("NESTING_EVENT_ID", "integer", _of_event("nesting")),
        ),
        _running_rows,
    ),
    "blocked": View(
        (
            _Column("THREAD_ID", "integer", _of_wait("thread")),
            _Column("THREAD", "text", lambda row: row.thread),
            _Column("EVENT_ID", "integer", _of_wait("id")),
            _Column("EVENT_NAME", "text", _of_wait("name")),
            _Column("OPERATION", "text", _of_wait("operation")),
            _Column("OBJECT_NAME", "text", _of_wait("object_name")),
            _Column("OBJECT_INSTANCE_BEGIN", "integer", _of_wait("object")),
            _Column("SOURCE", "text", _of_wait("source")),
            _Column("TIMER_WAIT", "integer", _of_wait("wait"), "picoseconds"),
            _Column("HOLDER_THREAD_ID", "integer", lambda row: row.holder),
            _Column("HOLDER", "text", lambda row: row.holder_name),
            _Column("HOLDER_SOURCE", "text", lambda row: row.held_at),
            _Column("HOLDER_TIMER_WAIT", "integer", lambda row: row.held, "picoseconds"),
            _Column("HOLDER_EVENT_NAME", "text", _of_holder("name")),
            _Column("HOLDER_EVENT_SOURCE", "text", _of_holder("source")),
            _Column("HOLDER_EVENT_WAIT", "integer", _of_holder("wait"), "picoseconds"),
            _Column("READ_LOCKED_BY_COUNT", "integer", lambda row: row.readers, "count"),
            _Column("DEADLOCK", "text", lambda row: row.deadlock),
        ),
        _blocked_rows,
    ),
}


def view_frame(view: str, source: Source = OWN) -> pd.DataFrame:
    """Returns what pfs.running() or pfs.blocked() returns, of this process or of an attached one."""
    import pandas as pd

    from pfs._tables.dtypes import TEXT

    rows = VIEWS[view].rows(source, source.now())
    return pd.DataFrame(
        {
            column.name: pd.array(list(map(column.value, rows)), dtype="UInt64" if column.kind == "integer" else TEXT)
            for column in VIEWS[view].columns
        }
    )
