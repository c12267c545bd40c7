"""What the tables must show: a plain model of waits, without time, threads or memory. test_model_waits.py compares it with
pfs at each step.

The durations of events are taken from pfs (``learn``); what follows from them (SUM, MIN, AVG, MAX of every summary) is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

CURRENT, HISTORY, HISTORY_LONG = "events_waits_current", "events_waits_history", "events_waits_history_long"
PARENT = {
    HISTORY: CURRENT,
    HISTORY_LONG: CURRENT,
    CURRENT: "thread_instrumentation",
    "thread_instrumentation": "global_instrumentation",
}


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
        self.by_thread: dict[tuple[int, str], Cell] = defaultdict(list)

    def acts(self, consumer: str) -> bool:
        return self.consumers[consumer] and (consumer not in PARENT or self.acts(PARENT[consumer]))

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
            self.by_thread[event.thread, event.instrument].append(event)
        if event.recorded:
            event.end_id = self.last_id[event.thread]
            self.open[event.thread].remove(event)
            self.events.append(event)

    def kill(self, thing: Thing) -> None:
        self.dead[thing.instrument] += self.things.pop(thing)
        thing.is_dead = True

    def end_thread(self, thread: int) -> None:
        del self.threads[thread]
        for key in [key for key in self.by_thread if key[0] == thread]:
            del self.by_thread[key]

    def truncate(self, table: str) -> None:
        if table in (CURRENT, HISTORY, HISTORY_LONG):
            for event in self.events + [event for events in self.open.values() for event in events]:
                event.views.discard(table)
        elif table == "events_waits_summary_by_thread_by_event_name":
            self.by_thread.clear()
        else:
            prefix = "wait/io/file/" if table.startswith("file") else "wait/"
            for thing, cell in self.things.items():
                if thing.instrument.startswith(prefix):
                    cell.clear()
            for instrument, cell in self.dead.items():
                if instrument.startswith(prefix) and table.endswith("by_event_name"):
                    cell.clear()

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
