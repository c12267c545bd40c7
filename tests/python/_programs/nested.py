"""Stages, statements and transactions by the C API for facts, by ctypes. Their SOURCE is "facts.c:1"."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.python._programs.driver import perfschema

STAGES, STATEMENTS, TRANSACTIONS = "events_stages", "events_statements", "events_transactions"
UNKNOWN, READ_UNCOMMITTED, READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = range(5)
PROGRESS = 2

_LIBRARY = perfschema()
_SITE = (b"facts.c", ctypes.c_uint32(1))


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
        self.room = (ctypes.c_uint64 * 6)()
        self.begun = _LIBRARY.pfs_transaction_begin_at(self.room, isolation, int(read_only), int(autocommit), *_SITE)

    def end(self, committed: bool = True) -> None:
        _LIBRARY.pfs_transaction_end(self.room, int(committed))

    def set(self, what: str, *arguments: Any) -> None:
        """what: xid, xa_state, gtid, trx_id, or savepoints, rollbacks, releases to add to."""
        verb = "add" if what in ("savepoints", "rollbacks", "releases") else "set"
        wide = [ctypes.c_uint64(a) if what in ("trx_id",) or verb == "add" else a for a in arguments]
        getattr(_LIBRARY, f"pfs_transaction_{verb}_{what}")(self.room, *wide)
