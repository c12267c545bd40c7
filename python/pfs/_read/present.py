"""Reads what runs now and who waits for whom, for screens: rows of the tables ``running`` and ``blocked``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pfs._read.places.readable import Readable
    from pfs._read.source import Source

__all__ = ["Blocked", "Event", "blocked", "running"]


class Event(NamedTuple):
    """An event that runs. Times are picoseconds."""

    thread: int
    kind: str  # TRANSACTION, STATEMENT, STAGE or WAIT
    name: str
    wait: int | None  # so far; None: it is not timed
    schema: str | None
    object_name: str | None
    digest_text: str | None

    def in_words(self, names: Readable) -> Event:
        """Returns the same with symbols, if the program is an unchanged one."""
        return self._replace(name=names.name(self.name))


_OF_EVENT = ("THREAD_ID", "EVENT_TYPE", "EVENT_NAME", "TIMER_WAIT", "OBJECT_SCHEMA", "OBJECT_NAME", "DIGEST_TEXT")


class Blocked(NamedTuple):
    """A thread that waits for a lock, and one holder of the lock, if a holder is known. Times are picoseconds."""

    thread_id: int
    thread: str
    name: str
    operation: str | None
    object_name: str | None
    source: str | None
    wait: int | None  # so far; None: it is not timed
    holder: int | None
    holder_name: str | None  # None: the holder is not known, or has ended
    held_at: str | None
    held: int | None
    doing: str | None  # the innermost event of the holder
    doing_at: str | None
    doing_for: int | None
    readers: int
    deadlock: str | None

    def in_words(self, names: Readable) -> Blocked:
        """Returns the same with symbols and lines, if the program is an unchanged one."""
        return self._replace(
            thread=names.name(self.thread),
            name=names.name(self.name),
            source=names.source(self.source),
            holder_name=None if self.holder_name is None else names.name(self.holder_name),
            held_at=names.source(self.held_at),
            doing=None if self.doing is None else names.name(self.doing),
            doing_at=names.source(self.doing_at),
        )


_OF_BLOCKED = (
    *("THREAD_ID", "THREAD", "EVENT_NAME", "OPERATION", "OBJECT_NAME", "SOURCE", "TIMER_WAIT"),
    *("HOLDER_THREAD_ID", "HOLDER", "HOLDER_SOURCE", "HOLDER_TIMER_WAIT"),
    *("HOLDER_EVENT_NAME", "HOLDER_EVENT_SOURCE", "HOLDER_EVENT_WAIT", "READ_LOCKED_BY_COUNT", "DEADLOCK"),
)


def running(source: Source, now: int) -> list[Event]:
    """Returns the events that run, by thread, the outermost first."""
    return [Event(*row) for row in source.rows("running", _OF_EVENT, False, now)]


def blocked(source: Source, now: int, at_least: int = 0) -> list[Blocked]:
    """Returns the threads that wait for locks, those that wait longest first. A lock with several holders gives several rows.

    Args:
        at_least: leaves out waits that are younger, in picoseconds.
    """
    rows = [Blocked(*row) for row in source.rows("blocked", _OF_BLOCKED, False, now)]
    return [row for row in rows if row.wait is None or row.wait >= at_least]
