"""Reads the history of one row of ``pfs top``: the last events of a lock, a file, a statement or a thread, and their lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pfs._read.places.readable import Readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pfs._read.source import Source

__all__ = ["HEADINGS", "Event", "Line", "Past", "past"]

# What the two texts of an event are, by section of the screen: `what` also divides the events of a line.
HEADINGS = {
    "waits": ("operation", "thread"),
    "files": ("operation", "thread"),
    "statements": ("thread", "text"),
    "threads": ("wait", "object"),
}
_WAIT = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "SOURCE", "TIMER_END", "TIMER_WAIT", "OPERATION", "OBJECT_NAME")
_STATEMENT = (*_WAIT[:-2], "DIGEST_TEXT", "CURRENT_SCHEMA", "SQL_TEXT")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the history. Times are picoseconds."""

    ago: int | None  # since its end; None: it runs, or has no time
    is_running: bool
    time: int | None  # so far, if it runs
    what: str
    line: str
    more: str


@dataclass(slots=True)
class Line:
    """Adds up the events of a line of the program."""

    what: str
    line: str
    time: int = 0
    count: int = 0
    longest: int = 0


@dataclass(slots=True)
class Past:
    """Holds the events of one row that the history still has, the newest first, and its lines, the longest first."""

    events: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def past(source: Source, section: str, key: tuple[Any, ...], threads: Mapping[int, str], names: Readable | None = None) -> Past:
    """Returns the history of a row.

    Args:
        section: "waits", "files", "statements" or "threads".
        key: that of the row in a `Sample`.
        threads: names by THREAD_ID.
        names: those of the sample.
    """
    names = names or Readable(source)
    kind, columns = ("statements", _STATEMENT) if section == "statements" else ("waits", _WAIT)
    rows = {row[:2]: row for row in source.rows(f"events_{kind}_history_long", columns)}
    if section == "threads":  # the last events of a thread that was idle while others filled the long history
        rows |= {row[:2]: row for row in source.rows(f"events_{kind}_history", columns) if row[0] == key[0]}
    now = source.now()
    rows |= {row[:2]: row for row in source.rows(f"events_{kind}_current", columns, True, now) if row[2] is None}
    found = Past()
    lines: dict[tuple[str, str], Line] = {}
    for thread_id, _, ended_by, name, source_text, end, time, *rest in rows.values():
        thread = f"{thread_id} {threads.get(thread_id, '').removeprefix('thread/')}".rstrip()
        if section == "statements":
            digest, schema, text = rest
            is_it, what, more = (schema, digest) == key, thread, text or digest or ""
        elif section == "threads":
            is_it, what, more = thread_id == key[0], names.name(name).removeprefix("wait/"), rest[1] or rest[0] or ""
        else:
            is_it = (rest[1] == key[0]) if section == "files" else names.name(name) == key[0]
            what, more = rest[0] or "", thread
        if not is_it:
            continue
        is_running = ended_by is None
        line = names.source(source_text) or ""
        ago = None if is_running or end is None else max(0, now - end)
        found.events.append(Event(ago, is_running, time, what, line, more))
        of_line = lines.setdefault((what, line), Line(what, line))
        of_line.time += time or 0
        of_line.count += 1
        of_line.longest = max(of_line.longest, time or 0)
    found.events.sort(key=lambda event: (not event.is_running, event.ago is None, event.ago or 0))
    found.lines = sorted(lines.values(), key=lambda of_line: (-of_line.time, -of_line.count, of_line.line))
    return found
