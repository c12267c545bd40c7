"""What the tables must show: a plain model of waits, without time, threads or memory. test_model_waits.py compares it with
pfs at each step. Tables of the program, and metadata locks, are in model_tables.py.

The durations of events are taken from pfs (``learn``); what follows from them (SUM, MIN, AVG, MAX of every summary) is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

CURRENT, HISTORY, HISTORY_LONG = "events_waits_current", "events_waits_history", "events_waits_history_long"
PARENT = {
    **{
        f"events_{kind}_{view}": f"events_{kind}_current"
        for kind in ("waits", "stages", "statements", "transactions")
        for view in ("history", "history_long")
    },
    **{f"events_{kind}_current": "thread_instrumentation" for kind in ("waits", "stages", "statements", "transactions")},
    "thread_instrumentation": "global_instrumentation",
    "statements_digest": "global_instrumentation",
}


THREAD, ACCOUNT, USER, HOST = LEVELS = ("thread", "account", "user", "host")
# What TRUNCATE of a level empties (F4-F6).
EMPTIED = {THREAD: (THREAD,), ACCOUNT: (THREAD, ACCOUNT), USER: (THREAD, ACCOUNT, USER), HOST: (THREAD, ACCOUNT, HOST)}
Party = tuple[str | None, ...]

MUTEX, RWLOCK, COND = "wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/cond/"
FILE, SOCKET = "wait/io/file/", "wait/io/socket/"
# Single instruments: of all tables of the program, of all metadata locks, of threads that have nothing to do.
TABLE_IO, TABLE_LOCK = "wait/io/table/sql/handler", "wait/lock/table/sql/handler"
METADATA, IDLE = "wait/lock/metadata/sql/mdl", "idle"

# What TRUNCATE of a summary of objects empties: things whose instruments begin so, and what dead ones left to these (F8-F11).
OBJECTS_OF: dict[str, tuple[str, ...]] = {
    "events_waits_summary_by_instance": ("wait/synch/", FILE, SOCKET),
    "events_waits_summary_global_by_event_name": ("",),
    "file_summary_by_instance": (FILE,),
    "file_summary_by_event_name": (FILE,),
    "socket_summary_by_instance": (SOCKET,),
    "socket_summary_by_event_name": (SOCKET,),
    "objects_summary_global_by_type": (TABLE_IO, TABLE_LOCK),
    "table_io_waits_summary_by_table": (TABLE_IO,),
    "table_io_waits_summary_by_index_usage": (TABLE_IO,),
    "table_lock_waits_summary_by_table": (TABLE_LOCK,),
}
# Of which NUMBER_OF_BYTES tells how much they moved: bytes, or rows of a table.
SHOWS_BYTES = ("read", "write", "send", "recv", "sendto", "recvfrom", "fetch", "insert", "update", "delete")


@dataclass(eq=False)
class Thing:
    """What numbers are kept for: a lock, a condition, a file, a socket, an index or the locks of a table."""

    instrument: str
    identity: int = 0
    is_dead: bool = False


@dataclass(eq=False)
class File(Thing):
    name: str = ""
    open_count: int = 0


@dataclass(eq=False)
class Socket(Thing):
    descriptor: int = -1
    address: tuple[str, int] = ("", 0)
    thread: int | None = None
    state: str = "ACTIVE"


# OBJECT_SCHEMA, OBJECT_NAME and INDEX_NAME of what belongs to a schema.
Names = tuple[str | None, str | None, str | None]
NAMELESS: Names = (None, None, None)


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
    nesting_type: str | None = None
    target: int = 0
    bytes: int | None = None  # that it moved, or asks for
    count: int = 1  # as how many it counts: the rows of a table
    about: Names = NAMELESS
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
            self.nesting_type,
            self.bytes if self.operation in SHOWS_BYTES else None,
            self.timed,
            times,
        )


@dataclass
class Settings:
    """Of an instrument or a rule; of a thread INSTRUMENTED and HISTORY, and for whom it works."""

    enabled: bool = True
    timed: bool = True
    account: tuple[str | None, str | None] = (None, None)


ALWAYS = Settings()


Cell = list[Event]


def numbers(cell: Iterable[Event], kinds: tuple[str, ...] = ()) -> tuple[int, ...] | tuple[int, None]:
    """COUNT, SUM, MIN, AVG, MAX of events (of some operations); only COUNT if a duration is not known. One wait for many rows is
    that many events, and its time is in the sum once (L7)."""
    events = [e for e in cell if not kinds or e.operation in kinds]
    count, waits = sum(e.count for e in events), [e.wait for e in events if e.timed]
    if None in waits:
        return count, None
    known = [wait for wait in waits if wait is not None]
    total = sum(known)
    return count, total, min(known, default=0), total // count if count else 0, max(known, default=0)


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

    def is_on(self, instrument: str) -> bool:
        return self.instruments[instrument].enabled and self.acts("global_instrumentation")

    def begin(self, thread: int, instrument: str, operation: str, target: int = 0, rule: Settings = ALWAYS) -> Event | None:
        """None: nobody looks at it."""
        own, by_thread = self.threads[thread], self.acts("thread_instrumentation")
        if not self.is_on(instrument) or not rule.enabled or (by_thread and not own.enabled):
            return None
        timed = self.instruments[instrument].timed and rule.timed
        event = Event(thread, instrument, operation, timed, by_thread, self.acts(CURRENT), target=target)
        if event.recorded:
            if instrument != IDLE:  # D6
                event.nesting, event.nesting_type = self.parent_of_wait(thread)
                if self.open[thread]:
                    event.nesting, event.nesting_type = self.open[thread][-1].id, "WAIT"
            event.id = self.last_id[thread] = self.last_id[thread] + 1
            event.views = {CURRENT} | {view for view in (HISTORY, HISTORY_LONG) if self.acts(view) and own.timed}
            self.open[thread].append(event)
        return event

    def parent_of_wait(self, thread: int) -> tuple[int | None, str | None]:
        """EVENT_ID and type of what a wait is in that is in no other wait."""
        return None, None

    def running_in(self, thread: int) -> int | None:
        """EVENT_ID of the innermost event that runs, else of the last one."""
        return self.open[thread][-1].id if self.open[thread] else self.last_id[thread] or None

    def end(self, event: Event | None, thing: Thing | None, moved: int | None = None, count: int = 1) -> None:
        """Counts it for the thing, or for its class if there is none or it is dead."""
        if event is None:
            return
        event.bytes, event.count = moved, count
        cell = self.dead[event.instrument] if thing is None or thing.is_dead else self.things[thing]
        cell.append(event)
        if event.by_thread:
            event.account, event.levels = self.threads[event.thread].account, set(LEVELS)
            self.counted.append(event)
        if event.recorded:
            event.end_id = self.last_id[event.thread]
            self.open[event.thread].remove(event)
            self.events.append(event)

    def add(self, thing: Thing) -> None:
        self.things[thing] = []

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
            for thing, cell in self.things.items():
                if thing.instrument.startswith(OBJECTS_OF[table]):
                    if thing.instrument in (TABLE_IO, TABLE_LOCK) and not table.endswith("by_event_name"):
                        self.dead[thing.instrument] += cell  # F11: the total keeps them
                    cell.clear()
            for instrument, cell in self.dead.items():
                if instrument.startswith(OBJECTS_OF[table]) and table.endswith("by_event_name"):
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
                # An event ends after those begun in it; where it does not, and nothing began between their ends, it is taken to.
                ended.sort(key=lambda event: (event.end_id, -event.id))
                shown += ended[-self.history_size :]
                continue
            running = [event for event in self.open[thread] if view in event.views]
            shown += (
                running or sorted((event for event in ended if event.nesting_type != "WAIT"), key=lambda event: event.id)[-1:]
            )
        return shown
