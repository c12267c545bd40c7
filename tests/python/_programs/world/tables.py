"""Steps with tables of the program, rules of setup_objects, metadata locks, idle time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pfs
from tests.python._programs import tables as calls
from tests.python._programs.driver import Worker, every
from tests.python._programs.world.base import Base
from tests.python._programs.world.compare import check, check_groups, same, values
from tests.python.facts.model import IDLE, METADATA, Event, Settings
from tests.python.facts.model_tables import ANY, Handle, Key, MetadataLock

TABLES: tuple[tuple[int, Key], ...] = (
    (calls.TABLE, ("TABLE", "a", "t")),
    (calls.TABLE, ("TABLE", "a", "u")),
    (calls.TEMPORARY, ("TEMPORARY TABLE", "a", "t")),
    (calls.TABLE, ("TABLE", "mysql", "t")),
)
INDEXES = ("", "PRIMARY", "PRIMARY,by_name")
OPERATIONS = ("fetch", "insert", "update", "delete")
ROWS = (1, 1, 10, 0, 3)
# Column group: operation.
READ_LOCKS = {
    "READ_NORMAL": "read normal",
    "READ_WITH_SHARED_LOCKS": "read with shared locks",
    "READ_HIGH_PRIORITY": "read high priority",
    "READ_NO_INSERT": "read no inserts",
    "READ_EXTERNAL": "read external",
}
WRITE_LOCKS = {
    "WRITE_ALLOW_WRITE": "write allow write",
    "WRITE_CONCURRENT_INSERT": "write concurrent insert",
    "WRITE_LOW_PRIORITY": "write low priority",
    "WRITE_NORMAL": "write normal",
    "WRITE_EXTERNAL": "write external",
}
LOCKS = list((READ_LOCKS | WRITE_LOCKS).values())
# What column groups count.
Groups = dict[str, tuple[str, ...]]
IO_GROUPS: Groups = {operation.upper(): (operation,) for operation in OPERATIONS}
IO_GROUPS |= {"READ": OPERATIONS[:1], "WRITE": OPERATIONS[1:]}
LOCK_GROUPS: Groups = {suffix: (operation,) for suffix, operation in (READ_LOCKS | WRITE_LOCKS).items()}
LOCK_GROUPS |= {"READ": tuple(READ_LOCKS.values()), "WRITE": tuple(WRITE_LOCKS.values())}
RULES: tuple[Key, ...] = (
    ("TABLE", "a", "t"),
    ("TABLE", "a", ANY),
    ("TABLE", ANY, ANY),
    ("TABLE", "mysql", ANY),
    ("TABLE", ANY, "t"),
    ("TRIGGER", "a", "t"),
)
STATUSES = ("PENDING", "GRANTED", "PRE_ACQUIRE_NOTIFY", "POST_RELEASE_NOTIFY")
DURATIONS = ("STATEMENT", "TRANSACTION", "EXPLICIT")
YES = ("NO", "YES")
KEY = ("OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME")
# As the row() of each in the model.
OWNER = ("OWNER_THREAD_ID", "OWNER_EVENT_ID")
HANDLE_COLUMNS = (*KEY, "OBJECT_INSTANCE_BEGIN", *OWNER, "INTERNAL_LOCK", "EXTERNAL_LOCK")
METADATA_COLUMNS = (*KEY, "COLUMN_NAME", "OBJECT_INSTANCE_BEGIN", "LOCK_TYPE", "LOCK_DURATION", "LOCK_STATUS", *OWNER)
MOST = 6  # handles, and metadata locks

End = Callable[[int], None]


class Tables(Base):
    def __init__(self) -> None:
        super().__init__()
        self.handles: list[tuple[calls.Table, Handle]] = []
        self.metadata: list[tuple[calls.MetadataLock, MetadataLock]] = []

    # ---- Tables

    def table_open(self, t: int, n: int, indexes: int) -> None:
        worker, (kind, key), names = self.worker(t), TABLES[n % len(TABLES)], INDEXES[indexes % len(INDEXES)]
        if len(self.handles) < MOST:
            identity = self.new_identity()
            table = worker.do(calls.Table, ".".join(key[1:]), names, identity, kind)
            handle = self.model.open_table(worker.id, key, identity, [name for name in names.split(",") if name])
            self.handles.append((table, handle))

    def table_close(self, n: int) -> None:
        free = [pair for pair in self.handles if pair[1].waits == 0]
        if free:
            table, handle = free[n % len(free)]
            table.close()
            self.handles.remove((table, handle))
            self.model.handles.remove(handle)

    def table_drop(self, n: int) -> None:
        kind, key = TABLES[n % len(TABLES)]
        calls.call("table_drop", kind, *key[1:])
        self.model.drop_table(key)

    def table_bind(self, t: int, n: int, bound: int) -> None:
        worker = self.worker(t)
        if self.handles:
            table, handle = self.handles[n % len(self.handles)]
            worker.do(table.bind if bound else table.unbind)
            handle.owner = (worker.id, self.model.running_in(worker.id)) if bound else (None, None)

    def begin_rows(self, worker: Worker, n: int, operation: int, index: int) -> End:
        table, handle = self.handles[n % len(self.handles)]
        operation, index = operation % len(OPERATIONS), index % 4 - 1
        event, thing = self.model.begin_rows(worker.id, handle, OPERATIONS[operation], index)
        wait = worker.do(table.begin, operation, index)
        handle.waits += 1

        def end(rows: int) -> None:
            worker.do(table.end, wait, rows)
            self.model.end(event, thing, rows, rows)
            handle.waits -= 1

        return end

    def begin_lock(self, worker: Worker, n: int, kind: int) -> End:
        table, handle = self.handles[n % len(self.handles)]
        kind %= len(LOCKS)
        event, thing = self.model.begin_lock(worker.id, handle, LOCKS[kind])
        wait = worker.do(table.lock_begin, kind)
        handle.waits += 1

        def end(rc: int) -> None:
            worker.do(table.lock_end, wait, rc)
            self.model.end(event, thing)
            handle.waits -= 1
            if rc == 0 and event is not None:  # as every owner: it shows if anybody looked (C7)
                column = "EXTERNAL_LOCK" if kind in calls.EXTERNAL else "INTERNAL_LOCK"
                handle.held[column] = (calls.INTERNAL | calls.EXTERNAL)[kind]

        return end

    def table_io(self, t: int, n: int, operation: int, index: int, rows: int) -> None:
        worker = self.worker(t)
        if self.handles:
            self.begin_rows(worker, n, operation, index)(ROWS[rows % len(ROWS)])

    def table_lock(self, t: int, n: int, kind: int, rc: int) -> None:
        worker = self.worker(t)
        if self.handles:
            self.begin_lock(worker, n, kind)(rc)

    def table_unlock(self, n: int, which: int) -> None:
        """No event."""
        if self.handles:
            table, handle = self.handles[n % len(self.handles)]
            suffix, columns = (
                ("", ("INTERNAL_LOCK", "EXTERNAL_LOCK")),
                ("_internal", ("INTERNAL_LOCK",)),
                ("_external", ("EXTERNAL_LOCK",)),
            )[which % 3]
            table.unlock(suffix)
            for column in columns:
                handle.held.pop(column, None)

    def table_begin(self, t: int, n: int, kind: int) -> None:
        """A wait that stays open: for rows, or for a lock."""
        worker = self.worker(t)
        if self.handles and self.may_begin(worker):
            self.waits[worker].append(self.begin_rows(worker, n, kind, kind) if kind % 2 else self.begin_lock(worker, n, kind))

    # ---- Rules

    def rule_insert(self, n: int, enabled: int, timed: int) -> None:
        key = RULES[n % len(RULES)]
        try:
            calls.rule(key[1], key[2], YES[enabled], YES[timed], kind=key[0])
        except pfs.AlreadyExists:
            assert key in self.model.rules
        else:
            assert key not in self.model.rules
            self.model.rules[key] = Settings(enabled > 0, timed > 0)
            self.model.rules_changed()

    def rule_update(self, n: int, enabled: int, timed: int) -> None:
        key = RULES[n % len(RULES)]
        changed = pfs.setup_objects.update(exactly(key), enabled=enabled > 0, timed=timed > 0)
        assert changed <= (key in self.model.rules)
        if key in self.model.rules:
            self.model.rules[key] = Settings(enabled > 0, timed > 0)
            self.model.rules_changed()

    def rule_delete(self, n: int) -> None:
        key = RULES[n % len(RULES)]
        assert pfs.setup_objects.delete(exactly(key)) == (key in self.model.rules)
        self.model.rules.pop(key, None)
        self.model.rules_changed()

    # ---- Metadata locks and idle

    def metadata_create(self, t: int, n: int, status: int) -> None:
        """A request; no row while the instrument is off."""
        worker, (kind, key) = self.worker(t), TABLES[n % len(TABLES)]
        if len(self.metadata) >= MOST:
            return
        identity, column = self.new_identity(), "id" if n % 2 else None
        make = partial(calls.MetadataLock, ".".join(key[1:]), column, kind=kind, status=status % 4, identity=identity)
        lock = worker.do(make)
        assert (lock.at is not None) == self.model.is_on(METADATA)
        if lock.at is not None:
            owner = (worker.id, self.model.running_in(worker.id))
            self.model.metadata.append(MetadataLock(key, column, identity, STATUSES[status % 4], owner))
            self.metadata.append((lock, self.model.metadata[-1]))

    def metadata_set(self, n: int, status: int, duration: int) -> None:
        if self.metadata:
            lock, row = self.metadata[n % len(self.metadata)]
            lock.set(duration=duration % 3, status=status % 4)
            row.status, row.duration = STATUSES[status % 4], DURATIONS[duration % 3]

    def metadata_destroy(self, n: int) -> None:
        if self.metadata:
            lock, row = self.metadata.pop(n % len(self.metadata))
            lock.destroy()
            self.model.metadata.remove(row)

    def begin_without_object(self, worker: Worker, event: Event | None, begin: Callable[[], int], end: End) -> End:
        wait = worker.do(begin)

        def end_both(_: int) -> None:
            worker.do(end, wait)
            self.model.end(event, None)

        return end_both

    def begin_metadata(self, worker: Worker, n: int) -> End:
        lock, row = self.metadata[n % len(self.metadata)]
        return self.begin_without_object(worker, self.model.begin_metadata(worker.id, row), lock.begin, lock.end)

    def begin_idle(self, worker: Worker) -> End:
        return self.begin_without_object(worker, self.model.begin(worker.id, IDLE, "idle"), calls.idle_begin, calls.idle_end)

    def metadata_wait(self, t: int, n: int) -> None:
        worker = self.worker(t)
        if self.metadata:
            self.begin_metadata(worker, n)(0)

    def metadata_begin(self, t: int, n: int) -> None:
        """A wait that stays open. The lock may be released meanwhile."""
        worker = self.worker(t)
        if self.metadata and self.may_begin(worker):
            self.waits[worker].append(self.begin_metadata(worker, n))

    def idle(self, t: int) -> None:
        self.begin_idle(self.worker(t))(0)

    def idle_begin(self, t: int) -> None:
        worker = self.worker(t)
        if self.may_begin(worker):
            self.waits[worker].append(self.begin_idle(worker))

    # ---- Comparison

    def compare(self) -> None:
        super().compare()
        self.compare_summaries_of_tables()
        model = self.model
        rules = [(*key, YES[rule.enabled], YES[rule.timed]) for key, rule in model.rules.items()]
        same("rules", [values(row, *KEY, "ENABLED", "TIMED") for row in every("setup_objects")], rules)
        handles = [handle.row() for handle in model.handles if handle.table.rule.enabled]
        same("handles", [values(row, *HANDLE_COLUMNS) for row in every("table_handles")], handles)
        locks = [lock.row() for lock in model.metadata]
        same("metadata locks", [values(row, *METADATA_COLUMNS) for row in every("metadata_locks")], locks)

    def compare_summaries_of_tables(self) -> None:
        """Of those that setup_objects lets one see."""
        shown = {key: table for key, table in self.model.tables.items() if table.rule.enabled}
        by_table, by_lock, by_type = (
            {values(row, *KEY): row for row in every(summary)} for summary in (calls.BY_TABLE, calls.LOCKS, calls.OBJECTS)
        )
        by_index = {values(row, *KEY, "INDEX_NAME"): row for row in every(calls.BY_INDEX)}
        for rows in (by_table, by_lock, by_type):
            same("tables", rows, shown)
        same("indexes", by_index, [(*key, name) for key, table in shown.items() for name in table.indexes])
        for key, table in shown.items():
            locks, indexes = self.model.things[table.locks], {name: self.model.things[it] for name, it in table.indexes.items()}
            io = [event for cell in indexes.values() for event in cell]
            check_groups(by_table[key], io, IO_GROUPS)
            check_groups(by_lock[key], locks, LOCK_GROUPS)
            check(by_type[key], io + locks)
            for name, cell in indexes.items():
                check_groups(by_index[*key, name], cell, IO_GROUPS)


def exactly(key: Key) -> dict[str, str]:
    """No pattern."""
    return dict(zip(KEY, (text.replace("%", "\\%") for text in key), strict=True))
