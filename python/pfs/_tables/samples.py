"""Samples of what a process does now: the numbers of ``pfs top``, without a screen.

A `Sample` holds the sums at one moment. Two samples give, for each `Section`, the rows of the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pfs._source import Source

__all__ = ["SECTIONS", "SORTS", "Row", "Sample", "Section", "lost", "rows_between", "take"]

Sort = Literal["time", "count", "average", "name"]
SORTS: tuple[Sort, ...] = ("time", "count", "average", "name")


@dataclass(frozen=True, slots=True)
class Section:
    """Describes one part of the screen: a table of sums with one row per key."""

    name: str
    table: str
    key: tuple[str, ...]
    extras: Mapping[str, str] = field(default_factory=dict)  # by heading; these columns are sums, too
    count: str = "COUNT_STAR"
    time: str = "SUM_TIMER_WAIT"


SECTIONS = (
    Section("waits", "events_waits_summary_global_by_event_name", ("EVENT_NAME",)),
    Section(
        "files",
        "file_summary_by_instance",
        ("FILE_NAME",),
        {"read/s": "SUM_NUMBER_OF_BYTES_READ", "written/s": "SUM_NUMBER_OF_BYTES_WRITE"},
    ),
    Section(
        "statements",
        "events_statements_summary_by_digest",
        ("SCHEMA_NAME", "DIGEST_TEXT"),
        {"rows/s": "SUM_ROWS_SENT", "errors/s": "SUM_ERRORS"},
    ),
    Section("threads", "events_waits_summary_by_thread_by_event_name", ("THREAD_ID",)),
)
_IDLE = "idle"  # a thread that waits for work waits for nothing slow


@dataclass(slots=True)
class Sample:
    """Holds the sums of a process at one moment: [count, picoseconds, extras...] by key, by name of section."""

    taken: float  # time.monotonic()
    sums: dict[str, dict[tuple[Any, ...], list[int]]]
    threads: dict[int, str]  # names by THREAD_ID
    now: dict[int, str]  # the innermost running event by THREAD_ID
    lost: int  # events, objects and rows that could not be recorded


@dataclass(frozen=True, slots=True)
class Row:
    """Holds what happened to one key, per second."""

    name: str
    count: float
    time: float  # picoseconds
    extras: tuple[float, ...]
    now: str = ""

    @property
    def average(self) -> float:
        """The picoseconds per event."""
        return self.time / self.count if self.count else 0.0


def take(source: Source) -> Sample:
    """Reads the sums. It takes some twenty milliseconds for a big process, and does not disturb that process."""
    sample = Sample(time.monotonic(), {}, {}, {}, lost(source))
    for section in SECTIONS:
        sums: dict[tuple[Any, ...], list[int]] = {}
        names = [*section.key, section.count, section.time, *section.extras.values()]
        is_of_threads = section.name == "threads"
        if is_of_threads:
            names.append("EVENT_NAME")
        width = len(section.key)
        for row in source.rows(section.table, names):
            if row[width] == 0 or (row[-1] if is_of_threads else row[0]) == _IDLE:
                continue
            numbers = row[width : width + 2 + len(section.extras)]
            old = sums.get(row[:width])
            sums[row[:width]] = list(numbers) if old is None else [a + b for a, b in zip(old, numbers, strict=True)]
        sample.sums[section.name] = sums
    sample.threads = {row[0]: row[1] for row in source.rows("threads", ("THREAD_ID", "NAME"))}
    # The innermost event that runs: waits are in stages, stages in statements.
    for table in ("events_statements_current", "events_stages_current", "events_waits_current"):
        for thread, _, name, end in sorted(
            source.rows(table, ("THREAD_ID", "EVENT_ID", "EVENT_NAME", "END_EVENT_ID")), key=lambda row: row[:2]
        ):
            if end is None:
                sample.now[thread] = name
    return sample


def lost(source: Source) -> int:
    """Returns the number of events, objects and rows that could not be recorded since the start."""
    status = source.rows("global_status", ("VARIABLE_NAME", "VARIABLE_VALUE"))
    return sum(int(value) for name, value in status if name.endswith("_lost"))


def rows_between(before: Sample | None, after: Sample, seconds: float, section: Section, sort: Sort) -> list[Row]:
    """Returns what happened between two samples, or since the start, in `seconds`; busiest first.

    Sums that went down were truncated in between: their current values count since then.
    """
    old = {} if before is None else before.sums[section.name]
    rows = []
    for key, now in after.sums[section.name].items():
        then = old.get(key)
        numbers = now if then is None or now[0] < then[0] else [max(0, a - b) for a, b in zip(now, then, strict=True)]
        running = after.now.get(key[0], "") if section.name == "threads" else ""
        if numbers[0] == 0 and not running:
            continue
        count, picoseconds, *extras = (number / seconds for number in numbers)
        rows.append(Row(_name(section, key, after), count, picoseconds, tuple(extras), running))
    if sort == "name":
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (-float(getattr(row, sort)), row.name))


def _name(section: Section, key: Sequence[Any], sample: Sample) -> str:
    if section.name == "threads":
        return f"{key[0]} {sample.threads.get(key[0], '')}".rstrip()
    texts = [str(text) for text in key if text is not None]
    return ": ".join(texts) if texts else "(all others)"
