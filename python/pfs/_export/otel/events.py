"""Reads the events of a process, and knows which of them an earlier reading has had.

An event is known by THREAD_ID and EVENT_ID: a thread numbers its events of all kinds. A number that a thread has given, and that
no table has, is an event that has been overwritten, or that no consumer kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pfs import _core

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["Event", "History", "Id", "Kind", "Parent", "Why"]

Kind = Literal["wait", "stage", "statement", "transaction"]
Why = Literal["", "running", "missing"]  # why there is no span of the parent yet, or ever
Id = tuple[int, int]  # THREAD_ID, EVENT_ID


class Parent(NamedTuple):
    """The nearest event around another that is a span, or will be one."""

    id: Id | None
    why: Why = ""


# A parent is read after its children: it then runs, or it has ended and is in a history.
_KINDS: tuple[Kind, ...] = ("wait", "stage", "statement", "transaction")
_VIEWS = ("current", "history", "history_long", "current")


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    values: dict[str, Any]  # by column

    @property
    def id(self) -> Id:
        return self.values["THREAD_ID"], self.values["EVENT_ID"]

    @property
    def parent(self) -> Id | None:
        """The event that this one is nested in. A number that is not lower cannot be one."""
        number = self.values["NESTING_EVENT_ID"]
        return None if number is None or number >= self.values["EVENT_ID"] else (self.values["THREAD_ID"], number)

    @property
    def has_ended(self) -> bool:
        return self.values["END_EVENT_ID"] is not None

    @property
    def is_timed(self) -> bool:
        return self.values["TIMER_START"] is not None and (not self.has_ended or self.values["TIMER_WAIT"] is not None)


@dataclass(slots=True)
class _Thread:
    read_to: int = 0  # every event up to this one has been read, or is lost
    read: set[int] = field(default_factory=set)  # events that have been given out, or need not be, and are still in the tables
    running: set[int] = field(default_factory=set)


class History:
    """Gives out each event of a process once.

    Attributes:
        missing: events that were in no table any more when they should have been read. Those that a thread made last are not in
            it if the thread has ended, too: its number of events goes with it.
        untimed: events that have no time, so that they cannot be spans.
    """

    def __init__(self, min_wait: int) -> None:
        self._min_wait = min_wait
        self._threads: dict[int, _Thread] = {}
        self._columns = {
            (kind, view): [column["name"] for column in _core.table_info(f"events_{kind}s_{view}")["columns"]]
            for kind in _KINDS
            for view in _VIEWS
        }
        self.missing = 0
        self.untimed = 0
        self.events: dict[Id, Event] = {}  # of the last reading, sorted by id
        self._given: set[Id] = set()  # by the last reading

    def new(self, source: Source, threads: Container[int], is_over: bool) -> list[tuple[Event, Parent]]:
        """Reads the tables and returns the events that have ended since the last reading; of a dead process also those that
        never ended. Waits are there if they took long. `threads` are those that live."""
        begun: dict[int, int] = {}
        for kind in _KINDS:
            for thread, number in source.rows(f"events_{kind}s_current", ["THREAD_ID", "EVENT_ID"]):
                begun[thread] = max(begun.get(thread, 0), number)
        self.events = {event.id: event for event in sorted(self._rows(source), key=lambda event: (event.id, event.has_ended))}
        numbers: dict[int, list[int]] = {}
        for thread, number in self.events:
            numbers.setdefault(thread, []).append(number)
        found: list[Event] = []
        for thread in sorted(numbers.keys() | self._threads.keys()):
            there = numbers.get(thread, [])
            state = self._threads.setdefault(thread, _Thread())
            newest = max(begun.get(thread, max(there, default=0)), state.read_to)
            found += self._of_thread(thread, state, there, newest, is_over)
            if not there and thread not in threads:
                del self._threads[thread]
        made = [(event, self._parent(event, is_over)) for event in found]
        self._given = {event.id for event in found}
        return made

    def _rows(self, source: Source) -> Iterator[Event]:
        for kind in _KINDS:
            for view in _VIEWS:
                columns = self._columns[kind, view]
                for row in source.rows(f"events_{kind}s_{view}", columns):
                    yield Event(kind, dict(zip(columns, row, strict=True)))

    def _of_thread(self, thread: int, state: _Thread, there: list[int], newest: int, is_over: bool) -> list[Event]:
        now = set(there)
        known = now | state.read
        between = sum(1 for number in known if state.read_to < number <= newest)
        self.missing += newest - state.read_to - between + len(state.running - known)
        # What a reading could not see beside a busy writer, and a later one does: it was counted above then.
        self.missing -= sum(1 for number in now - state.read - state.running if number <= state.read_to)
        chosen: list[Event] = []
        running = set()
        for number in reversed(there):
            event = self.events[thread, number]
            if number in state.read:
                continue
            if not event.has_ended and not is_over:
                running.add(number)
                continue
            state.read.add(number)
            if not event.is_timed:
                self.untimed += 1
            elif not self._is_short(event):
                chosen.append(event)
        state.running = running
        state.read = {number for number in state.read if number in now or number > newest}
        state.read_to = newest
        return chosen[::-1]

    def _is_short(self, event: Event) -> bool:
        if event.values["EVENT_NAME"] == "idle":  # between two requests nothing happens
            return True
        return event.kind == "wait" and event.has_ended and event.values["TIMER_WAIT"] < self._min_wait

    def _parent(self, event: Event, is_over: bool) -> Parent:
        id = event.parent
        while id is not None:
            around = self.events.get(id)
            if around is None:
                return Parent(id) if id in self._given else Parent(None, "missing")
            if around.is_timed and not self._is_short(around):
                return Parent(id, "" if around.has_ended or is_over else "running")
            id = around.parent
        return Parent(None)
