"""Memory by the C API for facts, by ctypes, and a model of what the tables must show."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.python._programs.driver import Row, Worker, perfschema, rows
from tests.python._programs.nested import key_of

BY_THREAD = "memory_summary_by_thread_by_event_name"
BY_ACCOUNT = "memory_summary_by_account_by_event_name"
BY_USER = "memory_summary_by_user_by_event_name"
BY_HOST = "memory_summary_by_host_by_event_name"
GLOBAL = "memory_summary_global_by_event_name"
LEVELS = (BY_THREAD, BY_ACCOUNT, BY_USER, BY_HOST, GLOBAL)
GLOBAL_STATISTICS, CONTROLLED = 128, 4096

_LIBRARY = perfschema()
_SIZE, _KEY, _OWNER = ctypes.c_size_t, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64)
for _name, _arguments in {
    "malloc": [_KEY, _SIZE],
    "calloc": [_KEY, _SIZE, _SIZE],
    "realloc": [_KEY, ctypes.c_void_p, _SIZE],
    "aligned_alloc": [_KEY, _SIZE, _SIZE],
    "strdup": [_KEY, ctypes.c_char_p],
    "free": [ctypes.c_void_p],
    "claim": [ctypes.c_void_p, ctypes.c_int],
    "memory_alloc": [_KEY, _SIZE, _OWNER],
    "memory_realloc": [_KEY, _SIZE, _SIZE, _OWNER],
    "memory_claim": [_KEY, _SIZE, _OWNER, ctypes.c_int],
    "memory_free": [_KEY, _SIZE, ctypes.c_uint64],
}.items():
    getattr(_LIBRARY, "pfs_" + _name).argtypes = _arguments
for _name in ("malloc", "calloc", "realloc", "aligned_alloc", "strdup"):
    getattr(_LIBRARY, "pfs_" + _name).restype = ctypes.c_void_p
for _name in ("memory_alloc", "memory_realloc", "memory_claim"):
    getattr(_LIBRARY, "pfs_" + _name).restype = ctypes.c_uint32


def call(name: str, *arguments: Any) -> Any:
    """pfs_NAME(...)"""
    return getattr(_LIBRARY, "pfs_" + name)(*arguments)


def malloc(key: int, size: int) -> int:
    block = call("malloc", key, size)
    assert block
    assert block % 16 == 0
    return int(block)


def free(block: int) -> None:
    call("free", block)


def claim(block: int, takes: bool) -> None:
    call("claim", block, int(takes))


class Memory:
    """An instrument, ``malloc(worker, size)`` with it, and its rows. No worker: the calling thread."""

    def __init__(self, name: str = "k/blocks", flags: int = 0) -> None:
        self.key = key_of("memory", name, flags)
        self.name = "memory/" + name

    def malloc(self, size: int, worker: Worker | None = None) -> int:
        return int(worker.do(malloc, self.key, size)) if worker else malloc(self.key, size)

    @staticmethod
    def free(block: int, worker: Worker | None = None) -> None:
        worker.do(free, block) if worker else free(block)

    def row(self, table: str = GLOBAL, **where: Any) -> Row:
        (row,) = rows(table, EVENT_NAME=self.name, **where)
        return row

    def counted(self, table: str = GLOBAL, **where: Any) -> tuple[int, ...]:
        """COUNT_ALLOC, COUNT_FREE, SUM_NUMBER_OF_BYTES_ALLOC, _FREE: the sum of the rows of a table."""
        found = rows(table, EVENT_NAME=self.name, **where)
        columns = ("COUNT_ALLOC", "COUNT_FREE", "SUM_NUMBER_OF_BYTES_ALLOC", "SUM_NUMBER_OF_BYTES_FREE")
        return tuple(sum(row[column] for row in found) for column in columns)

    def used(self, table: str = GLOBAL, what: str = "NUMBER_OF_BYTES", **where: Any) -> tuple[int, int, int]:
        """LOW, CURRENT, HIGH of one row."""
        row = self.row(table, **where)
        return row[f"LOW_{what}_USED"], row[f"CURRENT_{what}_USED"], row[f"HIGH_{what}_USED"]

    def check(self) -> None:
        """K1 of every row of all five tables."""
        for table in LEVELS:
            for row in rows(table, EVENT_NAME=self.name):
                for what, of in (("COUNT", "COUNT"), ("SUM_NUMBER_OF_BYTES", "NUMBER_OF_BYTES")):
                    current = row[f"CURRENT_{of}_USED"]
                    assert current == row[f"{what}_ALLOC"] - row[f"{what}_FREE"], (table, row)
                    assert row[f"LOW_{of}_USED"] <= current <= row[f"HIGH_{of}_USED"], (table, row)
