"""What all steps have in common: threads, waits that are open, and the tables that all events are in."""

from __future__ import annotations

from collections.abc import Callable

import pfs
from tests.python._programs import driver
from tests.python._programs.driver import Worker, every
from tests.python._programs.world.compare import check, check_names, event_row, same, values
from tests.python.facts.model import ACCOUNT, CURRENT, HISTORY, HISTORY_LONG, HOST, THREAD, USER, Settings
from tests.python.facts.model_nested import NestedModel

HISTORY_SIZE = 4
WAITS = ("wait/", "idle")
RECORDED = (*WAITS, "stage/", "statement/", "transaction")
MOST_OPEN = 4  # waits in a thread: with the operation inside there are 5
VIEWS = (CURRENT, HISTORY, HISTORY_LONG)
# Level, table of its members, key.
LEVELS = (
    (THREAD, "threads", ("THREAD_ID",)),
    (ACCOUNT, "accounts", ("USER", "HOST")),
    (USER, "users", ("USER",)),
    (HOST, "hosts", ("HOST",)),
)


class Base:
    def __init__(self) -> None:
        self.model = NestedModel(HISTORY_SIZE, int(pfs.variables["events_waits_history_long_size"]))
        self.workers: list[Worker | None] = [None, None, None]
        self.waits: dict[Worker, list[Callable[[int], None]]] = {}  # that are open: how to end each
        self.identities = 0x5000

    def registered(self, key: int) -> int:
        """The key of an instrument that is new: all that there are have a row."""
        for row in every("setup_instruments"):
            if not row["NAME"].startswith(RECORDED):
                continue
            self.model.instruments.setdefault(row["NAME"], Settings())
        return key

    def new_identity(self) -> int:
        """Of an object of the program, which has none of its own."""
        self.identities += 0x10
        return self.identities

    def worker(self, n: int) -> Worker:
        n %= len(self.workers)
        found = self.workers[n]
        if found is None:
            found = self.workers[n] = Worker()
            self.model.new_thread(found.id)
            self.waits[found] = []
        return found

    def may_begin(self, worker: Worker) -> bool:
        return len(self.waits[worker]) < MOST_OPEN

    def is_free(self, worker: Worker) -> bool:
        """It may end: nothing of it is open or held."""
        return not self.waits[worker]

    def end_wait(self, t: int, which: int, n: int) -> None:
        """Ends a wait that is open, in any order. What the number means is up to the kind of wait."""
        worker = self.worker(t)
        if self.waits[worker]:
            self.waits[worker].pop(which % len(self.waits[worker]))(n)

    # ---- Comparison

    def learn(self) -> None:
        """Durations come from the tables."""
        new = {(event.thread, event.id): event for event in self.model.events[-4:] if event.timed and event.wait is None}
        for row in (row for view in VIEWS for row in every(view)) if new else ():
            if event := new.get(values(row, "THREAD_ID", "EVENT_ID")):
                event.wait = row["TIMER_WAIT"]

    def compare(self) -> None:
        self.learn()
        self.compare_events()
        self.compare_levels()
        total = {row["EVENT_NAME"]: row for row in every("events_waits_summary_global_by_event_name")}
        same("instruments", total, [name for name in self.model.instruments if name.startswith(WAITS)])
        for name, row in total.items():
            check(row, self.model.of_class(name))
        objects = {row["OBJECT_INSTANCE_BEGIN"]: row for row in every("events_waits_summary_by_instance")}
        things = {thing.identity: cell for thing, cell in self.model.things.items() if thing.identity != 0}
        same("objects", objects, things)
        for identity, cell in things.items():
            check(objects[identity], cell)
        assert driver.losses() == {}

    def compare_events(self) -> None:
        for view in VIEWS:
            shown = every(view)
            events = {(event.thread, event.id): event for event in self.model.rows(view)}
            same(view, map(event_row, shown), [event.row() for event in events.values()])
            for row in shown:
                event = events[values(row, "THREAD_ID", "EVENT_ID")]
                assert row["TIMER_WAIT"] == event.wait or event.wait is None or event.end_id is None
                check_names(row, event)

    def compare_levels(self) -> None:
        for level, table, key in LEVELS:
            cells = self.model.sums(level)
            found = {values(row, *key, "EVENT_NAME"): row for row in every(f"events_waits_summary_by_{level}_by_event_name")}
            for member, row in found.items():
                check(row, cells.pop(member, []))
            assert not cells, f"by_{level}: not shown {list(cells)}"
            if level == THREAD:
                assert {row["THREAD_ID"] for row in found.values()} <= set(self.model.threads)
                continue
            counts = [values(row, *key, "CURRENT_CONNECTIONS", "TOTAL_CONNECTIONS") for row in every(table)]
            same(table, counts, [(*party, *both) for party, both in self.model.connections[level].items()])
