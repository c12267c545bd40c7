"""Samples of what a process does now: the numbers of ``pfs top``, without a screen.

A `Sample` holds the sums at one moment. Two samples give, for each `Section`, the rows of the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pfs._read.places.readable import Readable
from pfs._read.present import Blocked, Event, blocked, running
from pfs._read.source import losses
from pfs._read.where import Condition, order_of, places

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["BUSIEST", "SECTIONS", "Choice", "Row", "Sample", "Section", "rows_between", "take"]


@dataclass(frozen=True, slots=True)
class Section:
    """Describes one part of the screen: a table of sums with one row per key."""

    name: str
    table: str
    key: tuple[str, ...]
    extras: Mapping[str, str] = field(default_factory=dict)  # by heading; these columns are sums, too
    untimed: str = ""  # of `count`: those that SAMPLED only counted, so `time` is that of the others
    count: str = "COUNT_STAR"
    time: str = "SUM_TIMER_WAIT"

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns of its sums, in the order of a `Sample`."""
        return (self.count, self.time, *self.extras.values(), *([self.untimed] if self.untimed else []))


UNTIMED = "COUNT_NOT_SAMPLED"
_TABLE = "busiest"  # with a row for each instrument of a thread
SECTIONS = (
    Section("waits", _TABLE, ("NAME",), untimed=UNTIMED),
    Section(
        "files", _TABLE, ("NAME",), {"read/s": "SUM_NUMBER_OF_BYTES_READ", "written/s": "SUM_NUMBER_OF_BYTES_WRITE"}, UNTIMED
    ),
    Section("statements", _TABLE, ("SCHEMA_NAME", "NAME"), {"rows/s": "SUM_ROWS_SENT", "errors/s": "SUM_ERRORS"}),
    Section("threads", _TABLE, ("THREAD_ID",), untimed=UNTIMED),
)
SHORTEST_BLOCK = 10_000_000_000  # picoseconds: who has waited for less may well get the lock before anybody reads the screen
_IDLE = "idle"  # a thread that waits for work waits for nothing slow


@dataclass(slots=True)
class Sample:
    """Holds the sums of a process at one moment: numbers in the order of `Section.sums` by key, by name of section."""

    taken: float  # time.monotonic()
    sums: dict[str, dict[tuple[Any, ...], list[int]]]
    threads: dict[int, str]  # names by THREAD_ID
    now: dict[int, str]  # the innermost running event by THREAD_ID
    lost: int  # events, objects and rows that could not be recorded
    running: dict[str, dict[tuple[Any, ...], int]] = field(default_factory=dict)  # picoseconds so far of the events that run
    blocked: list[Blocked] = field(default_factory=list)  # those that have waited for some time
    times: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # by role and state of thread_time: threads, time


@dataclass(frozen=True, slots=True)
class Row:
    """Holds what happened to one key, per second."""

    name: str
    count: float
    time: float  # picoseconds; that of running events counts while they run
    extras: tuple[float, ...]
    now: str = ""
    running: float = 0.0  # the part of `time` that is not of the events that ended: it is negative when a long event has ended
    untimed: float = 0.0  # of `count`
    key: tuple[Any, ...] = field(default=(), compare=False)  # in the sums of a sample

    @property
    def average(self) -> float:
        """The picoseconds per event that ended and was timed."""
        timed = self.count - self.untimed
        return (self.time - self.running) / timed if timed > 0 else 0.0


COLUMNS = ("NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "AVG_TIMER_WAIT")  # of a row, for conditions and orders


class Choice:
    """Chooses rows by a condition on `COLUMNS`, and orders them."""

    def __init__(self, order: str = "SUM_TIMER_WAIT desc", where: str | None = None) -> None:
        """
        Raises:
            UnknownColumn, InvalidValue: a wrong order or condition.
        """
        self.order = order_of("pfs top", COLUMNS, order, "--sort")
        self.where = None if where is None else Condition("pfs top", COLUMNS, where, "--where")

    def of(self, rows: Iterable[Row]) -> list[Row]:
        by_name = sorted(rows, key=lambda row: row.name)
        values = zip(*((row.name, row.count, row.time, row.average) for row in by_name), strict=True)
        columns = dict(zip(COLUMNS, values, strict=True)) if by_name else dict.fromkeys(COLUMNS, ())
        return [by_name[at] for at in places(columns, len(by_name), self.where, self.order)]


BUSIEST = Choice()


def take(
    source: Source, is_dead: bool = False, names: Readable | None = None, leave_out: Callable[[str], bool] | None = None
) -> Sample:
    """Reads the sums. It takes some twenty milliseconds for a big process, and does not disturb that process.

    Args:
        is_dead: all waits for locks count as blocked: the time of a dead process ends with its last event.
        names: those of an earlier sample.
        leave_out: returns whether events of a name count neither in the waits nor for their threads.
    """
    names = names or Readable(source)
    # All is read before symbols and lines are looked for, which may take long: the numbers are of one moment.
    columns = list(dict.fromkeys(["PART", "EVENT_NAME", *(name for part in SECTIONS for name in (*part.key, *part.sums))]))
    rows = source.rows(_TABLE, columns)
    threads = source.rows("threads", ("THREAD_ID", "NAME"))
    states = source.rows("thread_time", ("NAME", "STATE", "COUNT_THREADS", "SUM_TIMER_WAIT"))
    missing = sum(losses(source).values())
    # After the sums: an event that ends in between is missing for one interval, and counts in none twice.
    taken, now = time.monotonic(), source.now()
    open_events = running(source, now)
    is_any = any(event.kind == "WAIT" for event in open_events)
    waiting = blocked(source, now, 0 if is_dead else SHORTEST_BLOCK) if is_any else []

    sample = Sample(taken, {}, {row[0]: names.name(row[1]) for row in threads}, {}, missing)
    for section in SECTIONS:
        sums: dict[tuple[Any, ...], list[int]] = {}
        keys, numbers = ([columns.index(name) for name in chosen] for chosen in (section.key, section.sums))
        is_left = leave_out if section.name in ("waits", "threads") else None
        for row in rows:
            if row[0] != section.name or (is_left is not None and is_left(row[1])):
                continue
            key = (names.name(row[1]),) if section.name == "waits" else tuple(row[at] for at in keys)
            old = sums.get(key, [0] * len(numbers))
            sums[key] = [a + row[at] for a, at in zip(old, numbers, strict=True)]
        sample.sums[section.name] = sums
    in_words = [event.in_words(names) for event in open_events]
    for event in in_words:
        if event.kind != "TRANSACTION":
            sample.now[event.thread] = event.name
    sample.running = _running_times(in_words)
    sample.blocked = [row.in_words(names) for row in waiting]
    for name, state, count, spent in states:
        if not name.startswith("("):  # processor time of no thread
            key = names.name(name), state  # users may give two roles one name
            of_others, others = sample.times.get(key, (0, 0))
            sample.times[key] = (of_others + count, others + spent)
    return sample


def _running_times(events: Sequence[Event]) -> dict[str, dict[tuple[Any, ...], int]]:
    """Returns the times so far of running events, by section and key."""
    times: dict[str, dict[tuple[Any, ...], int]] = {section.name: {} for section in SECTIONS}

    def add(section: str, key: tuple[Any, ...], time: int) -> None:
        times[section][key] = times[section].get(key, 0) + time

    for event in events:
        if event.wait is None or event.name == _IDLE:
            continue
        if event.kind == "WAIT":
            add("waits", (event.name,), event.wait)
            add("threads", (event.thread,), event.wait)
            if event.name.startswith("wait/io/file/") and event.object_name is not None:
                add("files", (event.object_name,), event.wait)
        elif event.kind == "STATEMENT" and event.digest_text is not None:
            add("statements", (event.schema, event.digest_text), event.wait)
    return times


def rows_between(before: Sample | None, after: Sample, seconds: float, section: Section, choice: Choice = BUSIEST) -> list[Row]:
    """Returns what happened between two samples, or since the start, in `seconds`.

    Sums that went down were truncated in between: their current values count since then.
    """
    old = {} if before is None else before.sums[section.name]
    runs = after.running.get(section.name, {})
    ran = {} if before is None else before.running.get(section.name, {})
    none = [0] * len(section.sums)
    rows = []
    for key in {**after.sums[section.name], **dict.fromkeys(runs)}:
        now, then = after.sums[section.name].get(key, none), old.get(key)
        is_new = then is None or now[0] < then[0]
        numbers = now if then is None or is_new else [max(0, a - b) for a, b in zip(now, then, strict=True)]
        # A wait that has ended counts in full in the sums: what counted while it ran is taken off.
        running = max(-numbers[1], runs.get(key, 0) - (0 if now[0] < (then or none)[0] else ran.get(key, 0)))
        event = after.now.get(key[0], "") if section.name == "threads" else ""
        if numbers[0] == 0 and running <= 0 and not event:
            continue
        count, picoseconds, *extras = (number / seconds for number in numbers)
        untimed = extras.pop() if section.untimed else 0.0
        name = _name(section, key, after)
        rows.append(Row(name, count, picoseconds + running / seconds, tuple(extras), event, running / seconds, untimed, key))
    return choice.of(rows)


def _name(section: Section, key: Sequence[Any], sample: Sample) -> str:
    if section.name == "threads":
        return f"{key[0]} {sample.threads.get(key[0], '')}".rstrip()
    texts = [str(text) for text in key if text is not None]
    return ": ".join(texts) if texts else "(all others)"
