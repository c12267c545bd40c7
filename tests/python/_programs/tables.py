"""The C API of tables, metadata locks, data locks and idle for facts: functions of table_driver.c behind a few classes."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from pfs import _core
from tests.python._programs.driver import _library

IO, LOCK, IDLE, MDL = "wait/io/table/sql/handler", "wait/lock/table/sql/handler", "idle", "wait/lock/metadata/sql/mdl"
BY_TABLE, BY_INDEX = "table_io_waits_summary_by_table", "table_io_waits_summary_by_index_usage"
LOCKS, OBJECTS = "table_lock_waits_summary_by_table", "objects_summary_global_by_type"
TABLE, TEMPORARY = 4, 6
FETCH, INSERT, UPDATE, DELETE = range(4)
INTERNAL = {
    0: "READ",
    1: "READ WITH SHARED LOCKS",
    2: "READ HIGH PRIORITY",
    3: "READ NO INSERT",
    5: "WRITE ALLOW WRITE",
    6: "WRITE CONCURRENT INSERT",
    7: "WRITE LOW PRIORITY",
    8: "WRITE",
}
EXTERNAL = {4: "READ EXTERNAL", 9: "WRITE EXTERNAL"}
PENDING, GRANTED = 0, 1

_POINTERS = ("table_open", "io_begin", "table_lock_begin", "metadata_create", "metadata_begin", "idle_begin", "engine_new")


@cache
def _call(name: str) -> Any:
    function = getattr(_library(), "t_" + name)
    function.restype = ctypes.c_void_p if name in _POINTERS else ctypes.c_int
    return function


def call(name: str, *arguments: int | str | ctypes._SimpleCData[Any] | None) -> Any:
    """An int is a C int; pointers are c_void_p; text goes as bytes."""
    return _call(name)(*[a.encode() if isinstance(a, str) else a for a in arguments])


def _at(pointer: int | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer)


class Table:
    """A handle of "schema.name"."""

    def __init__(self, name: str, indexes: str = "", identity: int = 0, kind: int = TABLE) -> None:
        self.schema, _, self.name = name.rpartition(".")
        self.kind = kind
        self.at: int | None = call("table_open", kind, self.schema, self.name, _at(identity), indexes)

    def begin(self, operation: int, index: int = -1) -> int:
        return int(call("io_begin", _at(self.at), operation, index))

    @staticmethod
    def end(wait: int, rows: int = 1) -> None:
        call("io_end", _at(wait), ctypes.c_uint64(rows))

    def io(self, operation: int, index: int = -1, rows: int = 1) -> Table:
        self.end(self.begin(operation, index), rows)
        return self

    def lock_begin(self, kind: int) -> int:
        return int(call("table_lock_begin", _at(self.at), kind))

    @staticmethod
    def lock_end(wait: int, rc: int = 0) -> None:
        call("table_lock_end", _at(wait), rc)

    def lock(self, kind: int, rc: int = 0) -> Table:
        self.lock_end(self.lock_begin(kind), rc)
        return self

    def unlock(self, which: str = "") -> None:
        call("table_unlock" + which, _at(self.at))

    def bind(self) -> None:
        call("table_bind", _at(self.at))

    def unbind(self) -> None:
        call("table_unbind", _at(self.at))

    def close(self) -> None:
        call("table_close", _at(self.at))

    def drop(self) -> None:
        call("table_drop", self.kind, self.schema, self.name)


class MetadataLock:
    """A request for a lock on "schema.name"; EXCLUSIVE, of a transaction, PENDING."""

    def __init__(
        self,
        name: str = "s.t",
        column: str | None = None,
        kind: int = TABLE,
        lock: int = 10,
        duration: int = 1,
        status: int = PENDING,
        identity: int = 0,
    ) -> None:
        schema, _, rest = name.rpartition(".")
        self.at: int | None = call("metadata_create", _at(identity), kind, schema, rest, column, lock, duration, status)

    def set(self, lock: int = 99, duration: int = 99, status: int = 99) -> None:
        """99 is no value: nothing changes."""
        call("metadata_set", _at(self.at), lock, duration, status)

    def begin(self) -> int:
        return int(call("metadata_begin", _at(self.at)))

    @staticmethod
    def end(wait: int, rc: int = 0) -> None:
        call("metadata_end", _at(wait), rc)

    def wait(self) -> MetadataLock:
        self.end(self.begin())
        return self

    def destroy(self) -> None:
        call("metadata_destroy", _at(self.at))


def idle_begin() -> int:
    return int(call("idle_begin"))


def idle_end(wait: int) -> None:
    call("idle_end", _at(wait))


def idle() -> None:
    idle_end(idle_begin())


class Engine:
    """An inspector of data locks."""

    def __init__(self, name: str, locks: int, registers: bool = False) -> None:
        self.at: int = call("engine_new", name, locks, registers)

    def register(self) -> int:
        return int(call("engine_register", _at(self.at)))

    def unregister(self) -> int:
        return int(call("engine_unregister", _at(self.at)))

    @property
    def scans(self) -> int:
        return int(call("engine_scans", _at(self.at)))

    @property
    def error(self) -> int:
        return int(call("engine_error", _at(self.at)))


def rule(schema: str, name: str = "%", enabled: str = "YES", timed: str = "YES", kind: str = "TABLE") -> None:
    """A row of setup_objects."""
    values = [("OBJECT_TYPE", kind), ("OBJECT_SCHEMA", schema), ("OBJECT_NAME", name), ("ENABLED", enabled), ("TIMED", timed)]
    _core.insert("setup_objects", values)
