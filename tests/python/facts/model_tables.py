"""The model of tables of the program: what setup_objects lets one see of them, handles, and metadata locks. Beside model.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.python.facts.model import METADATA, TABLE_IO, TABLE_LOCK, Event, Model, Settings, Thing

ANY = "%"
SERVER_SCHEMAS = ("mysql", "performance_schema", "information_schema")
OBJECT_TYPES = ("EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER")
Key = tuple[str, str, str]  # type, schema, name


@dataclass(eq=False)
class Table:
    key: Key
    locks: Thing
    rule: Settings
    indexes: dict[str | None, Thing] = field(default_factory=dict)  # None: rows that were reached through no index


@dataclass(eq=False)
class Handle:
    table: Table
    identity: int
    indexes: list[str]
    owner: tuple[int, int | None] | tuple[None, None]
    held: dict[str, str] = field(default_factory=dict)  # by column: INTERNAL_LOCK, EXTERNAL_LOCK
    waits: int = 0  # that are open on it

    def row(self) -> tuple[object, ...]:
        return (*self.table.key, self.identity, *self.owner, self.held.get("INTERNAL_LOCK"), self.held.get("EXTERNAL_LOCK"))


@dataclass(eq=False)
class MetadataLock:
    key: Key
    column: str | None
    identity: int
    status: str
    owner: tuple[int, int | None]
    lock: str = "EXCLUSIVE"
    duration: str = "TRANSACTION"

    def row(self) -> tuple[object, ...]:
        return (*self.key, self.column, self.identity, self.lock, self.duration, self.status, *self.owner)


class TablesModel(Model):
    def __init__(self, history_size: int, history_long_size: int) -> None:
        super().__init__(history_size, history_long_size)
        self.tables: dict[Key, Table] = {}
        self.handles: list[Handle] = []
        self.metadata: list[MetadataLock] = []
        # G11
        self.rules: dict[Key, Settings] = {}
        for kind in OBJECT_TYPES:
            self.rules |= {(kind, schema, ANY): Settings(False, False) for schema in SERVER_SCHEMAS}
            self.rules[kind, ANY, ANY] = Settings(True, True)

    def rule_of(self, key: Key) -> Settings:
        """G11: the row of its name, else of its schema, else of its type; none: it is not watched."""
        kind, schema, name = key
        kind = "TABLE" if kind == "TEMPORARY TABLE" else kind
        for row in ((kind, schema, name), (kind, schema, ANY), (kind, ANY, ANY)):
            if row in self.rules:
                return self.rules[row]
        return Settings(False, False)

    def rules_changed(self) -> None:
        """G12: live tables follow at once."""
        for table in self.tables.values():
            rule = self.rule_of(table.key)
            table.rule = Settings(rule.enabled, rule.timed)

    def open_table(self, thread: int, key: Key, identity: int, indexes: list[str]) -> Handle:
        if key not in self.tables:
            rule = self.rule_of(key)
            self.tables[key] = Table(key, Thing(TABLE_LOCK), Settings(rule.enabled, rule.timed))
            self.add(self.tables[key].locks)
        table = self.tables[key]
        for index in (None, *indexes):
            if index not in table.indexes:
                table.indexes[index] = Thing(TABLE_IO)
                self.add(table.indexes[index])
        self.handles.append(Handle(table, identity, indexes, (thread, self.running_in(thread))))
        return self.handles[-1]

    def drop_table(self, key: Key) -> None:
        """Its rows go, its numbers stay with the instruments; handles stay (L7)."""
        if key in self.tables:
            table = self.tables.pop(key)
            for thing in (table.locks, *table.indexes.values()):
                self.kill(thing)

    def begin_rows(self, thread: int, handle: Handle, operation: str, index: int) -> tuple[Event | None, Thing]:
        """L7: rows are inserted through no index, and an index that the handle does not name is none."""
        named = operation != "insert" and 0 <= index < len(handle.indexes)
        name = handle.indexes[index] if named else None
        event = self.begin(thread, TABLE_IO, operation, handle.identity, handle.table.rule)
        if event is not None:
            event.about = (*handle.table.key[1:], name)
        return event, handle.table.indexes[name]

    def begin_lock(self, thread: int, handle: Handle, operation: str) -> tuple[Event | None, Thing]:
        event = self.begin(thread, TABLE_LOCK, operation, handle.identity, handle.table.rule)
        if event is not None:
            event.about = (*handle.table.key[1:], None)
        return event, handle.table.locks

    def begin_metadata(self, thread: int, lock: MetadataLock) -> Event | None:
        event = self.begin(thread, METADATA, "metadata lock", lock.identity)
        if event is not None:
            event.about = (*lock.key[1:], None)
        return event

    def truncate(self, table: str) -> None:
        if table == "setup_objects":
            self.rules.clear()
            self.rules_changed()
        else:
            super().truncate(table)
