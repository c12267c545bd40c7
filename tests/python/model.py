"""What the tables must show: a plain model of waits, without time, threads or memory. test_model_waits.py compares it with
pfs at each step.

The durations of events are taken from pfs (``learn``); what follows from them (SUM, MIN, AVG, MAX of every summary) is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

CURRENT, HISTORY, HISTORY_LONG = "events_waits_current", "events_waits_history", "events_waits_history_long"
PARENT = {
    HISTORY: CURRENT,
    HISTORY_LONG: CURRENT,
    CURRENT: "thread_instrumentation",
    "thread_instrumentation": "global_instrumentation",
}


THREAD, ACCOUNT, USER, HOST = LEVELS = ("thread", "account", "user", "host")
# What TRUNCATE of a level empties (F4-F6).
EMPTIED = {THREAD: (THREAD,), ACCOUNT: (THREAD, ACCOUNT), USER: (THREAD, ACCOUNT, USER), HOST: (THREAD, ACCOUNT, HOST)}
Party = tuple[str | None, ...]


@dataclass(eq=False)
class Thing:
    """A mutex or a file."""

    instrument: str
    identity: int = 0
    name: str = ""
    open_count: int = 0
    is_dead: bool = False


@dataclass(eq=False)
class Event:
    thread: int
    instrument: str
    operation: str
    timed: bool
    by_thread: bool
    recorded: bool
    id: int = 0
    end_id: int | None = None
    nesting: int | None = None
    target: int = 0
    bytes: int | None = None
    views: set[str] = field(default_factory=set)  # that show it
    account: tuple[str | None, str | None] = (None, None)
    levels: set[str] = field(default_factory=set)  # that it still counts for
    wait: int | None = None  # TIMER_WAIT, once it is known

    def row(self) -> tuple[object, ...]:
        times = self.timed and self.end_id is not None
        return (
            self.thread,
            self.id,
            self.end_id,
            self.instrument,
            self.operation,
            self.target,
            self.nesting,
            self.bytes,
            self.timed,
            times,
        )


@dataclass
class Settings:
    enabled: bool = True
    timed: bool = True
    account: tuple[str | None, str | None] = (None, None)  # of a thread


Cell = list[Event]


def numbers(cell: Iterable[Event], kinds: tuple[str, ...] = ()) -> tuple[int, ...] | tuple[int, None]:
    """COUNT, SUM, MIN, AVG, MAX of events (of some operations); only COUNT if a duration is not known."""
    events = [e for e in cell if not kinds or e.operation in kinds]
    waits = [e.wait for e in events if e.timed]
    if None in waits:
        return len(events), None
    known = [wait for wait in waits if wait is not None]
    total = sum(known)
    return len(events), total, min(known, default=0), total // max(len(events), 1), max(known, default=0)


class Model:
    def __init__(self, history_size: int, history_long_size: int = 10000) -> None:
        self.history_size, self.history_long_size = history_size, history_long_size
        self.instruments: dict[str, Settings] = {}
        self.consumers: dict[str, bool] = defaultdict(lambda: True)
        self.threads: dict[int, Settings] = {}  # live ones; enabled = INSTRUMENTED, timed = HISTORY
        self.events: list[Event] = []  # recorded ones, in the order of their ends; open ones in `open`
        self.open: dict[int, list[Event]] = defaultdict(list)
        self.last_id: dict[int, int] = defaultdict(int)
        self.things: dict[Thing, Cell] = {}
        self.dead: dict[str, Cell] = defaultdict(list)
        self.counted: Cell = []  # for threads and whom they work for
        self.connections: dict[str, dict[Party, list[int]]] = {ACCOUNT: {}, USER: {}, HOST: {}}  # current, total

    def acts(self, consumer: str) -> bool:
        return self.consumers[consumer] and (consumer not in PARENT or self.acts(PARENT[consumer]))

    @staticmethod
    def party(level: str, event_or_thread: Event | Settings) -> Party:
        user, host = event_or_thread.account
        return {ACCOUNT: (user, host), USER: (user,), HOST: (host,)}[level]

    def connect(self, thread: int, by: int) -> None:
        for level, parties in self.connections.items():
            counts = parties.setdefault(self.party(level, self.threads[thread]), [0, 0])
            counts[0] += by
            counts[1] += max(by, 0)

    def new_thread(self, thread: int) -> None:
        self.threads[thread] = Settings()
        self.connect(thread, 1)

    def set_account(self, thread: int, user: str | None, host: str | None) -> None:
        self.connect(thread, -1)
        self.leave(thread)
        # The one row of setup_actors fits everybody: it decides anew (G2, G3).
        self.threads[thread] = Settings(account=(user, host))
        self.connect(thread, 1)

    def leave(self, thread: int) -> None:
        """Its numbers move to its account (F3)."""
        for event in self.counted:
            if event.thread == thread:
                event.levels.discard(THREAD)

    def sums(self, level: str) -> dict[tuple[Any, ...], Cell]:
        """Events by (member of the level, instrument)."""
        cells: dict[tuple[Any, ...], Cell] = defaultdict(list)
        for event in self.counted:
            if level in event.levels:
                member = (event.thread,) if level == THREAD else self.party(level, event)
                cells[*member, event.instrument].append(event)
        return cells

    def begin(self, thread: int, instrument: str, operation: str, target: int = 0) -> Event | None:
        """None: nobody looks at it."""
        settings, own = self.instruments[instrument], self.threads[thread]
        by_thread = self.acts("thread_instrumentation")
        if not settings.enabled or not self.acts("global_instrumentation") or (by_thread and not own.enabled):
            return None
        event = Event(thread, instrument, operation, settings.timed, by_thread, self.acts(CURRENT), target=target)
        if event.recorded:
            event.id = self.last_id[thread] = self.last_id[thread] + 1
            event.nesting = self.open[thread][-1].id if self.open[thread] else None
            event.views = {CURRENT} | {view for view in (HISTORY, HISTORY_LONG) if self.acts(view) and own.timed}
            self.open[thread].append(event)
        return event

    def end(self, event: Event | None, thing: Thing | None, number_of_bytes: int | None = None) -> None:
        """Counts it for the thing, or for its class if there is none or it is dead."""
        if event is None:
            return
        event.bytes = number_of_bytes
        cell = self.dead[event.instrument] if thing is None or thing.is_dead else self.things[thing]
        cell.append(event)
        if event.by_thread:
            event.account, event.levels = self.threads[event.thread].account, set(LEVELS)
            self.counted.append(event)
        if event.recorded:
            event.end_id = self.last_id[event.thread]
            self.open[event.thread].remove(event)
            self.events.append(event)

    def kill(self, thing: Thing) -> None:
        self.dead[thing.instrument] += self.things.pop(thing)
        thing.is_dead = True

    def end_thread(self, thread: int) -> None:
        self.connect(thread, -1)
        self.leave(thread)
        del self.threads[thread]

    def truncate(self, table: str) -> None:
        if table in (CURRENT, HISTORY, HISTORY_LONG):
            for event in self.events + [event for events in self.open.values() for event in events]:
                event.views.discard(table)
        elif table in ("accounts", "users", "hosts"):
            level = table[:-1]
            self.empty(level)
            for forgotten in {ACCOUNT, level}:
                parties = self.connections[forgotten]
                self.connections[forgotten] = {party: [current, current] for party, (current, _) in parties.items() if current}
        elif (level := table.removeprefix("events_waits_summary_by_").removesuffix("_by_event_name")) in LEVELS:
            self.empty(level)
        else:
            prefix = "wait/io/file/" if table.startswith("file") else "wait/"
            for thing, cell in self.things.items():
                if thing.instrument.startswith(prefix):
                    cell.clear()
            for instrument, cell in self.dead.items():
                if instrument.startswith(prefix) and table.endswith("by_event_name"):
                    cell.clear()

    def empty(self, level: str) -> None:
        for event in self.counted:
            event.levels.difference_update(EMPTIED[level])
        self.counted = [event for event in self.counted if event.levels]

    def of_class(self, instrument: str) -> Cell:
        return self.dead[instrument] + [e for thing, cell in self.things.items() if thing.instrument == instrument for e in cell]

    def rows(self, view: str) -> list[Event]:
        if view == HISTORY_LONG:
            return [event for event in self.events if view in event.views][-self.history_long_size :]
        shown: list[Event] = []
        for thread in self.threads:
            ended = [event for event in self.events if event.thread == thread and view in event.views]
            if view == HISTORY:
                shown += ended[-self.history_size :]
                continue
            running = [event for event in self.open[thread] if view in event.views]
            shown += running or sorted((event for event in ended if event.nesting is None), key=lambda event: event.id)[-1:]
        return shown
