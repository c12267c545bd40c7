"""Stages, statements and transactions by the C API for facts, by ctypes. Their SOURCE is "facts.c:1"."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from tests.python._programs.driver import perfschema

STAGES, STATEMENTS, TRANSACTIONS = "events_stages", "events_statements", "events_transactions"
UNKNOWN, READ_UNCOMMITTED, READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = range(5)
PROGRESS, MUTABLE = 8, 2  # PFS_PROGRESS, PFS_MUTABLE

_HEADERS = Path(__file__).resolve().parents[3] / "cpp/include/perfschema"
_LIBRARY = perfschema()
_SITE = (b"facts.c", ctypes.c_uint32(1))


def room_of(name: str, header: str) -> Any:
    """Memory for a struct of the header, which is so many words."""
    words = re.search(rf"struct {name} {{\s+uint64_t opaque\[(\d+)\];", (_HEADERS / header).read_text())
    assert words is not None, name
    return (ctypes.c_uint64 * int(words[1]))()


class Info(ctypes.Structure):
    """pfs_instrument_info."""

    _fields_ = (
        ("key", ctypes.POINTER(ctypes.c_uint32)),
        ("name", ctypes.c_char_p),
        ("flags", ctypes.c_uint32),
        ("documentation", ctypes.c_char_p),
    )


def key_of(family: str, name: str, flags: int = 0) -> int:
    """Key of "component/name" of a family that pfs_register_FAMILY() registers; 0 if there is no room."""
    component, _, rest = name.partition("/")
    key = ctypes.c_uint32(12345)
    info = Info(ctypes.pointer(key), rest.encode(), flags, None)
    assert getattr(_LIBRARY, f"pfs_register_{family}")(component.encode(), ctypes.byref(info), 1) == 0, _LIBRARY.pfs_last_error()
    return key.value


def stage(of: str | int, flags: int = 0) -> None:
    """The calling thread is in this stage from now on."""
    _LIBRARY.pfs_stage_begin_at(key_of("stage", of, flags) if isinstance(of, str) else of, *_SITE)


def end_stage() -> None:
    _LIBRARY.pfs_stage_end()


def progress(completed: int | None = None, estimated: int | None = None, more: int | None = None) -> None:
    if completed is not None:
        _LIBRARY.pfs_stage_set_completed(ctypes.c_uint64(completed))
    if estimated is not None:
        _LIBRARY.pfs_stage_set_estimated(ctypes.c_uint64(estimated))
    if more is not None:
        _LIBRARY.pfs_stage_add_completed(ctypes.c_uint64(more))


class Transaction:
    """A pfs_transaction_t that has begun."""

    def __init__(self, isolation: int = REPEATABLE_READ, read_only: bool = False, autocommit: bool = False) -> None:
        self.room = room_of("pfs_transaction", "transaction.h")
        self.begun = _LIBRARY.pfs_transaction_begin_at(self.room, isolation, int(read_only), int(autocommit), *_SITE)

    def end(self, committed: bool = True) -> None:
        _LIBRARY.pfs_transaction_end(self.room, int(committed))

    def set(self, what: str, *arguments: Any) -> None:
        """what: xid, xa_state, gtid, trx_id, or savepoints, rollbacks, releases to add to."""
        verb = "add" if what in ("savepoints", "rollbacks", "releases") else "set"
        wide = [ctypes.c_uint64(a) if what in ("trx_id",) or verb == "add" else a for a in arguments]
        getattr(_LIBRARY, f"pfs_transaction_{verb}_{what}")(self.room, *wide)


COUNTERS = (
    "LOCK_TIME",
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SELECT_FULL_JOIN",
    "SELECT_FULL_RANGE_JOIN",
    "SELECT_RANGE",
    "SELECT_RANGE_CHECK",
    "SELECT_SCAN",
    "SORT_MERGE_PASSES",
    "SORT_RANGE",
    "SORT_ROWS",
    "SORT_SCAN",
    "NO_INDEX_USED",
    "NO_GOOD_INDEX_USED",
)

for _pointer in ("pfs_program", "pfs_prepared_create"):
    getattr(_LIBRARY, _pointer).restype = ctypes.c_void_p


class Statement:
    """A pfs_statement_t that has begun, with a text and a schema if there are any."""

    def __init__(
        self, of: str | int, text: str | bytes | None = None, schema: str | None = None, program: int | None = None
    ) -> None:
        self.room = room_of("pfs_statement", "statement.h")
        key = key_of("statement", of) if isinstance(of, str) else of
        self.begun = _LIBRARY.pfs_statement_begin_at(self.room, key, ctypes.c_void_p(program), *_SITE)
        if schema is not None:
            self.set_schema(schema)
        if text is not None:
            self.set_text(text)

    def set_schema(self, schema: str) -> Statement:
        _LIBRARY.pfs_statement_set_schema(self.room, schema.encode())
        return self

    def set_text(self, text: str | bytes) -> Statement:
        raw = text.encode() if isinstance(text, str) else text
        _LIBRARY.pfs_statement_set_text(self.room, raw, ctypes.c_size_t(len(raw)))
        return self

    def refine(self, to: str | int) -> Statement:
        _LIBRARY.pfs_statement_refine(self.room, key_of("statement", to) if isinstance(to, str) else to)
        return self

    def add(self, counter: str, more: int) -> Statement:
        _LIBRARY.pfs_statement_add(self.room, COUNTERS.index(counter), ctypes.c_uint64(more))
        return self

    def set(self, counter: str, value: int) -> Statement:
        _LIBRARY.pfs_statement_set(self.room, COUNTERS.index(counter), ctypes.c_uint64(value))
        return self

    def lock_time(self, microseconds: int) -> Statement:
        return self.set("LOCK_TIME", microseconds * 1_000_000)

    def error(self, number: int, sqlstate: str | None = None, message: str | None = None) -> Statement:
        texts = [None if text is None else text.encode() for text in (sqlstate, message)]
        _LIBRARY.pfs_statement_set_error(self.room, number, *texts)
        return self

    def set_id(self, number: int) -> Statement:
        _LIBRARY.pfs_statement_set_id(self.room, ctypes.c_uint64(number))
        return self

    def traceparent(self, text: str | bytes) -> int:
        raw = text.encode() if isinstance(text, str) else text
        return int(_LIBRARY.pfs_statement_set_traceparent(self.room, raw, ctypes.c_size_t(len(raw))))

    def secondary(self, yes: bool = True) -> Statement:
        _LIBRARY.pfs_statement_set_secondary(self.room, int(yes))
        return self

    def executes(self, prepared: int) -> Statement:
        _LIBRARY.pfs_statement_executes(self.room, ctypes.c_void_p(prepared))
        return self

    def end(self) -> None:
        _LIBRARY.pfs_statement_end(self.room)


PROCEDURE, FUNCTION = 3, 2


def program(schema: str, name: str, kind: int = PROCEDURE) -> int:
    """Handle of a stored program; 0 if there is no room."""
    return int(_LIBRARY.pfs_program(kind, schema.encode(), name.encode()) or 0)


def drop_program(schema: str, name: str, kind: int = PROCEDURE) -> None:
    _LIBRARY.pfs_program_drop(kind, schema.encode(), name.encode())


class Call:
    """A call of a stored program."""

    def __init__(self, of: int) -> None:
        self.room = room_of("pfs_program_call", "statement.h")
        _LIBRARY.pfs_program_begin(self.room, ctypes.c_void_p(of))

    def end(self) -> None:
        _LIBRARY.pfs_program_end(self.room)


def prepare(
    text: str, statement: Statement | None = None, name: str | None = None, number: int = 1, identity: int = 0x7000
) -> int:
    """Handle of a prepared statement; 0 if there is no room."""
    raw, room = text.encode(), None if statement is None else statement.room
    shown = None if name is None else name.encode()
    made = _LIBRARY.pfs_prepared_create(
        ctypes.c_void_p(identity), ctypes.c_uint64(number), room, shown, raw, ctypes.c_size_t(len(raw))
    )
    return int(made or 0)


def destroy(prepared: int) -> None:
    _LIBRARY.pfs_prepared_destroy(ctypes.c_void_p(prepared))


def reprepare(prepared: int) -> None:
    _LIBRARY.pfs_prepared_reprepare(ctypes.c_void_p(prepared))
