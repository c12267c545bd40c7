"""Threads as C programs make them: handles of thread pools, pfs_thread_create, PROCESSLIST_ setters. Beside driver.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.python._programs.driver import MUTEX, WAITS, Mutex, Row, Worker, count, key_of, perfschema, rows

USER_FLAG = 64
E_NOT_FOUND, E_STATE = 2, 6

BY_THREAD = "events_waits_summary_by_thread_by_event_name"
BY_ACCOUNT = "events_waits_summary_by_account_by_event_name"
BY_USER = "events_waits_summary_by_user_by_event_name"
BY_HOST = "events_waits_summary_by_host_by_event_name"
LEVELS = (BY_THREAD, BY_ACCOUNT, BY_USER, BY_HOST)


@cache
def api() -> ctypes.CDLL:
    library = perfschema()
    handle = ctypes.c_uint64
    library.pfs_thread_new.restype = library.pfs_thread_current.restype = library.pfs_thread_own.restype = handle
    library.pfs_thread_id_of.restype = handle
    library.pfs_thread_identity.restype = ctypes.c_void_p
    library.pfs_thread_new.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64]
    for name in ("pfs_thread_attach", "pfs_thread_delete", "pfs_thread_id_of", "pfs_thread_identity", "pfs_thread_set_id"):
        getattr(library, name).argtypes = [handle]
    library.pfs_thread_set_info.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.pfs_thread_set_start_time.argtypes = [ctypes.c_long]
    library.pfs_thread_create.argtypes = [
        ctypes.c_uint32,
        ctypes.POINTER(ctypes.c_ulong),
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return library


def spawn(key: int, function: Callable[[], Any]) -> Any:
    """Runs a function in a thread of pfs_thread_create(), waits for it and gives its result."""
    result: list[Any] = []

    def run(argument: int | None) -> int | None:
        try:
            result.append(function())
        except BaseException as error:
            result.append(error)
        return argument

    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(run)
    thread = ctypes.c_ulong()
    rc = api().pfs_thread_create(key, ctypes.byref(thread), None, ctypes.cast(start, ctypes.c_void_p), 0x77)
    assert rc == 0
    given = ctypes.c_void_p()
    libc = ctypes.CDLL(None)
    assert libc.pthread_join(thread, ctypes.byref(given)) == 0
    assert given.value == 0x77
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def session(name: str = "g/session", flags: int = USER_FLAG, processlist_id: int = 0, identity: int = 0) -> int:
    handle = int(api().pfs_thread_new(key_of("thread", name, flags), identity, processlist_id))
    assert handle != 0
    return handle


def attach(handle: int) -> int:
    return int(api().pfs_thread_attach(handle))


def detach() -> int:
    return int(api().pfs_thread_detach())


def id_of(handle: int) -> int:
    return int(api().pfs_thread_id_of(handle))


def account(user: str, host: str) -> None:
    assert api().pfs_set_account(user.encode(), host.encode()) == 0


def working_for(user: str, host: str) -> Worker:
    worker = Worker()
    worker.do(account, user, host)
    return worker


def thread(thread_id: int) -> Row:
    (row,) = rows("threads", THREAD_ID=thread_id)
    return row


def settings_of(worker: Worker) -> tuple[str, str]:
    row = thread(worker.id)
    return row["INSTRUMENTED"], row["HISTORY"]


def connections(table: str) -> dict[Any, tuple[int, int]]:
    """CURRENT and TOTAL by (USER, HOST), USER or HOST."""
    found = {}
    for row in rows(table):
        key = tuple(row[column] for column in ("USER", "HOST") if column in row)
        found[key if len(key) == 2 else key[0]] = (row["CURRENT_CONNECTIONS"], row["TOTAL_CONNECTIONS"])
    assert len(found) == len(rows(table))
    return found


def by(table: str, name: str) -> dict[Any, int]:
    """COUNT_STAR by the key of the level, those that are not 0."""
    found = {}
    for row in rows(table, EVENT_NAME=name):
        key = tuple(row[column] for column in ("USER", "HOST", "THREAD_ID") if column in row)
        if row["COUNT_STAR"] != 0:
            found[key if len(key) == 2 else key[0]] = row["COUNT_STAR"]
    return found


def totals(name: str) -> dict[str, int]:
    return {table: count(table, EVENT_NAME=name) for table in (*LEVELS, WAITS)}


class Counted:
    """A mutex whose uses are counted by table: ``use(worker, n)``."""

    def __init__(self, name: str = "f/LOCK_counted") -> None:
        self.mutex = Mutex(name)
        self.name = MUTEX + name

    def use(self, worker: Worker, times: int = 1) -> None:
        worker.do(self.mutex.use, times)
