"""Reads the events that a picture shows: of a frame, a process or a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

    class Readable(Protocol):
        def table(self, name: str, /) -> pd.DataFrame: ...

    Process = Readable | Mapping[str, pd.DataFrame] | None
    What = pd.DataFrame | Process

__all__ = ["Event", "events_of", "short", "table_of", "thread_names", "thread_title"]

TABLES = tuple(f"events_{kind}_history_long" for kind in ("transactions", "statements", "stages", "waits"))
IDLE = "idle"  # waits for work, so nothing waits for it
_NEEDED = ("THREAD_ID", "EVENT_ID", "EVENT_NAME", "TIMER_START", "TIMER_WAIT")


@dataclass(frozen=True, slots=True)
class Event:
    """Holds a timed event that has ended. Times are in picoseconds."""

    thread: int
    id: int
    name: str
    start: int
    wait: int
    source: str | None = None
    parent: int | None = None  # the EVENT_ID of the event around it, of the same thread
    text: str | None = None  # of a statement, without its values: DIGEST_TEXT
    object: str | None = None

    @property
    def end(self) -> int:
        return self.start + self.wait


def table_of(what: Process, name: str) -> pd.DataFrame:
    """Returns a table of this process (None), of a snapshot, or of what ``pfs.attach`` returns."""
    if isinstance(what, Mapping):
        return what[name]
    if what is not None:
        return what.table(name)
    from pfs._read.frame import frame

    return frame(name)


def events_of(what: What, tables: tuple[str, ...] = TABLES) -> list[Event]:
    """Returns the events of a frame, or of these tables.

    Raises:
        InvalidValue: the frame lacks a column that is needed, or its times are not in picoseconds.
    """
    import pandas as pd

    if isinstance(what, pd.DataFrame):
        return _events_in(what)
    return [event for table in tables for event in _events_in(table_of(what, table))]


def _events_in(frame: pd.DataFrame) -> list[Event]:
    missing = [name for name in _NEEDED if name not in frame]
    if missing:
        raise InvalidValue(f"a picture of events needs the columns {', '.join(_NEEDED)}: {', '.join(missing)} is missing")
    if frame.attrs.get("unit", "ps") != "ps":
        raise InvalidValue(f"a picture needs times in picoseconds, not in {frame.attrs['unit']}: read the table without unit")
    timed = frame.dropna(subset=["TIMER_START", "TIMER_WAIT"])

    def column(name: str) -> list[Any]:
        if name not in timed:
            return [None] * len(timed)
        return [None if is_null else value for value, is_null in zip(timed[name], timed[name].isna(), strict=True)]

    return [
        Event(
            int(thread),
            int(id),
            str(name),
            int(start),
            int(wait),
            source,
            parent if parent is None else int(parent),
            text,
            object,
        )
        for thread, id, name, start, wait, source, parent, text, object in zip(
            timed["THREAD_ID"],
            timed["EVENT_ID"],
            timed["EVENT_NAME"],
            timed["TIMER_START"],
            timed["TIMER_WAIT"],
            *(column(name) for name in ("SOURCE", "NESTING_EVENT_ID", "DIGEST_TEXT", "OBJECT_NAME")),
            strict=True,
        )
    ]


def thread_names(what: What) -> dict[int, str]:
    """Returns names by THREAD_ID; of a frame there are none."""
    import pandas as pd

    if isinstance(what, pd.DataFrame):
        return {}
    threads = table_of(what, "threads")
    return {int(id): str(name) for id, name in zip(threads["THREAD_ID"], threads["NAME"], strict=True)}


def thread_title(name: object, id: object) -> str:
    """Returns what a picture calls a thread: ``python/MainThread 1``."""
    return f"{str(name).removeprefix('thread/')} {id}"


def short(name: str) -> str:
    """Returns an EVENT_NAME without what its color says already: ``mutex/app/LOCK`` for ``wait/synch/mutex/app/LOCK``."""
    return name.split("/", 2)[2] if name.startswith("wait/") and name.count("/") > 2 else name.partition("/")[2] or name
