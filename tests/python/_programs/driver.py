"""The C API for facts: functions of driver.c, tables as plain rows, threads that do one thing at a time.

Loaded in the fresh process of a test. No pandas: rows come from the core as they are.
"""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pfs
from pfs import _core
from pfs._base import installed

# Tests of facts import these names with "*".
__all__ = [
    "Row", "WAITS", "WAITS_BY_INSTANCE", "WAITS_BY_THREAD", "FILES", "FILES_BY_INSTANCE", "HISTORY", "HISTORY_LONG",
    "CURRENT", "MUTEX", "FILE", "NO_SPINS", "EBUSY", "PATHS", "C", "Cond", "Mutex", "OwnLock", "Rwlock", "Worker",
    "choose_path", "columns", "consumer", "count", "counts", "events", "every", "instrument", "key_of", "losses", "me",
    "names_of", "one", "perfschema", "raises", "register", "rows", "settings", "status",
]  # fmt: skip

Row = dict[str, Any]

WAITS = "events_waits_summary_global_by_event_name"
WAITS_BY_INSTANCE = "events_waits_summary_by_instance"
WAITS_BY_THREAD = "events_waits_summary_by_thread_by_event_name"
FILES = "file_summary_by_event_name"
FILES_BY_INSTANCE = "file_summary_by_instance"
HISTORY, HISTORY_LONG, CURRENT = "events_waits_history", "events_waits_history_long", "events_waits_current"
MUTEX, FILE = "wait/synch/mutex/", "wait/io/file/"
NO_SPINS = 0xFFFFFFFF
EBUSY = errno.EBUSY

_POINTER = (
    "mutex_new",
    "mutex_new_of",
    "own_new",
    "own_begin",
    "rwlock_new",
    "cond_new",
    "ownrw_new",
    "ownrw_begin",
    "owncond_new",
    "owncond_begin",
)
_LONG = ("read", "pread", "write", "lseek", "tell")
_ARGUMENTS: dict[str, list[Any]] = {
    "read": [ctypes.c_int, ctypes.c_size_t],
    "pread": [ctypes.c_int, ctypes.c_size_t, ctypes.c_long],
    "write": [ctypes.c_int, ctypes.c_size_t],
    "lseek": [ctypes.c_int, ctypes.c_long, ctypes.c_int],
    "ftruncate": [ctypes.c_int, ctypes.c_long],
    "own_pause": [ctypes.c_void_p, ctypes.c_long],
    "own_new": [ctypes.c_uint32, ctypes.c_void_p],
    "own_begin": [ctypes.c_void_p, ctypes.c_int],
    "own_end": [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32],
    "mutex_free": [ctypes.c_void_p],
    "mutex_lock": [ctypes.c_void_p],
    "mutex_trylock": [ctypes.c_void_p],
    "mutex_unlock": [ctypes.c_void_p],
    "mutex_timedlock": [ctypes.c_void_p, ctypes.c_long],
    "mutex_consistent": [ctypes.c_void_p],
    "rwlock_timed_write_lock": [ctypes.c_void_p, ctypes.c_long],
    "hammer": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int],
    "own_free": [ctypes.c_void_p],
    "own_released": [ctypes.c_void_p],
    "lock_far_away": [ctypes.c_void_p],
    **{
        f"rwlock_{call}": [ctypes.c_void_p]
        for call in ("free", "read_lock", "write_lock", "try_read_lock", "try_write_lock", "unlock")
    },
    **{f"cond_{call}": [ctypes.c_void_p] for call in ("free", "late", "signal")},
    "cond_wait": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long],
    "cond_cancel": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p],
    **{f"own{kind}_new": [ctypes.c_uint32, ctypes.c_void_p] for kind in ("rw", "cond")},
    **{f"own{kind}_free": [ctypes.c_void_p] for kind in ("rw", "cond")},
    **{f"own{kind}_begin": [ctypes.c_void_p, ctypes.c_int] for kind in ("rw", "cond")},
    "ownrw_end": [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32],
    "ownrw_released": [ctypes.c_void_p, ctypes.c_int],
    "owncond_end": [ctypes.c_void_p, ctypes.c_int],
}


class Calls:
    """``C.open(key, path, flags, mode)`` is pfs_open() from C. Text is passed as bytes. ``errno()`` is that of the last call."""

    @cache  # noqa: B019
    def _call(self, name: str) -> Any:
        function = getattr(_library(), "t_" + name)
        if name in _POINTER:
            function.restype = ctypes.c_void_p
        elif name in _LONG:
            function.restype = ctypes.c_long
        if name in _ARGUMENTS:
            function.argtypes = _ARGUMENTS[name]
        return function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = self._call(name)
        return lambda *arguments: call(*[os.fsencode(a) if isinstance(a, str | os.PathLike) else a for a in arguments])

    @staticmethod
    def errno() -> int:
        return ctypes.get_errno()


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["PFS_TEST_DRIVER"], use_errno=True)


C = Calls()


def perfschema() -> ctypes.CDLL:
    """libperfschema itself."""
    folder = installed.library_dir()
    library = ctypes.CDLL(next(f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("libperfschema.so.")))
    library.pfs_last_error.restype = ctypes.c_char_p
    library.pfs_thread_id.restype = ctypes.c_uint64
    return library


def me() -> int:
    """THREAD_ID of the calling thread."""
    return int(perfschema().pfs_thread_id())


def register(family: str, name: str, flags: int = 0, documentation: str | None = None) -> tuple[int, int]:
    """Key and result of pfs_register_*()."""
    component, _, rest = name.partition("/")
    error = ctypes.c_int()
    text = None if documentation is None else documentation.encode()
    function = getattr(_library(), "t_register_" + family)
    key = function(component.encode(), rest.encode(), ctypes.c_uint32(flags), text, ctypes.byref(error))
    return int(key), error.value


def key_of(family: str, name: str, flags: int = 0, documentation: str | None = None) -> int:
    key, error = register(family, name, flags, documentation)
    assert error == 0, perfschema().pfs_last_error()
    return key


class Mutex:
    """A pfs_mutex_t of "component/name", or of a key."""

    def __init__(self, name: str | int) -> None:
        self.at: int = C.mutex_new(key_of("mutex", name) if isinstance(name, str) else name)

    def lock(self) -> int:
        return int(C.mutex_lock(self.at))

    def trylock(self) -> int:
        return int(C.mutex_trylock(self.at))

    def unlock(self) -> int:
        return int(C.mutex_unlock(self.at))

    def free(self) -> int:
        return int(C.mutex_free(self.at))

    def use(self, times: int = 1) -> Mutex:
        for _ in range(times):
            assert self.lock() == 0
            assert self.unlock() == 0
        return self


class Rwlock:
    """A pfs_rwlock_t of a key."""

    def __init__(self, key: int) -> None:
        self.at: int = C.rwlock_new(key)

    def do(self, operation: str) -> int:
        """read_lock, write_lock, try_read_lock, try_write_lock, unlock, free."""
        return int(getattr(C, "rwlock_" + operation)(self.at))


class Cond:
    """A pfs_cond_t of a key."""

    def __init__(self, key: int) -> None:
        self.at: int = C.cond_new(key)

    def late(self) -> int:
        """A timed wait that is over before it begins: ETIMEDOUT."""
        return int(C.cond_late(self.at))

    def signal(self) -> None:
        assert C.cond_signal(self.at) == 0

    def free(self) -> None:
        assert C.cond_free(self.at) == 0


class OwnLock:
    """A lock of one's own: begin and end of its waits are two calls, so that anything may happen in between."""

    def __init__(self, name: str | int, identity: int = 0x1000) -> None:
        self.row: int = C.own_new(key_of("mutex", name) if isinstance(name, str) else name, identity)

    def begin(self, operation: int = 1) -> int:
        return int(C.own_begin(self.row, operation))

    def end(self, wait: int, rc: int = 0, spins: int = NO_SPINS) -> None:
        C.own_end(wait, rc, spins)
        if rc == 0:
            C.own_released(self.row)

    def use(self, times: int = 1) -> OwnLock:
        for _ in range(times):
            self.end(self.begin())
        return self

    def pause(self, seconds: float) -> None:
        C.own_pause(self.row, int(seconds * 1e9))

    def free(self) -> None:
        C.own_free(self.row)


@cache
def columns(table: str) -> tuple[str, ...]:
    return tuple(column["name"] for column in _core.table_info(table)["columns"])


# Every process has these, also one that does not know them.
SINGLE = (
    "wait/io/table/sql/handler",
    "wait/lock/table/sql/handler",
    "transaction",
    "idle",
    "wait/lock/metadata/sql/mdl",
    "error",
)
OWN_MEMORY = "memory/performance_schema/"  # what pfs itself takes


def every(table: str) -> list[Row]:
    """All rows."""
    names = columns(table)
    return [dict(zip(names, row, strict=True)) for row in _core.rows(table, names, None)]


def rows(table: str, **where: Any) -> list[Row]:
    """Rows whose columns have these values, those of unused single instruments left out."""
    names, found = columns(table), every(table)
    if table == "setup_instruments":
        found = [row for row in found if row["NAME"] not in SINGLE and not row["NAME"].startswith(OWN_MEMORY)]
    elif "COUNT_STAR" in names and "EVENT_NAME" in names:
        found = [row for row in found if row["COUNT_STAR"] != 0 or row["EVENT_NAME"] not in SINGLE]
    return [row for row in found if all(row[column] == value for column, value in where.items())]


def one(table: str, **where: Any) -> Row:
    found = rows(table, **where)
    assert len(found) == 1, f"{len(found)} rows of {table} where {where}"
    return found[0]


def events(table: str = HISTORY_LONG, **where: Any) -> list[Row]:
    return sorted(rows(table, **where), key=lambda row: (row["THREAD_ID"], row["EVENT_ID"]))


def count(table: str, **where: Any) -> int:
    """COUNT_STAR of all these rows."""
    return sum(int(row["COUNT_STAR"]) for row in rows(table, **where))


def counts(name: str) -> dict[str, int]:
    """COUNT_STAR of an instrument in every summary that has it."""
    tables = (WAITS, WAITS_BY_INSTANCE, WAITS_BY_THREAD, FILES, FILES_BY_INSTANCE)
    return {table: count(table, EVENT_NAME=name) for table in tables if FILE in name or not table.startswith("file")}


def status(name: str) -> int:
    return int(pfs.status["Performance_schema_" + name])


def losses() -> dict[str, int]:
    return {name: value for name, value in pfs.status.items() if name.endswith("_lost") and isinstance(value, int) and value != 0}


def instrument(name: str, enabled: bool | None = None, timed: bool | str | None = None) -> None:
    assert pfs.setup_instruments.update({"NAME": name}, enabled=enabled, timed=timed) <= 1


def consumer(name: str, enabled: bool) -> None:
    pfs.setup_consumers[name].enabled = enabled


# Settings of an instrument that each have a fast path of their own, and one that has none.
PATHS = ("all on", "untimed", "timed only", "counted", "sampled", "sampled, all recorded")


def choose_path(name: str, setting: str) -> None:
    """Gives an instrument one of PATHS."""
    consumer("events_waits_current", setting in ("all on", "untimed", "sampled, all recorded"))
    timed: bool | str = "SAMPLED" if "sampled" in setting else setting not in ("counted", "untimed")
    instrument(name, timed=timed)


def settings() -> dict[str, list[Row]]:
    """Everything that can be set, and what else must not move when a change is refused."""
    tables = ("setup_instruments", "setup_consumers", "setup_timers", "global_variables", "mutex_instances", "file_instances")
    return {table: rows(table) for table in tables} | {
        "threads": [{c: row[c] for c in ("THREAD_ID", "NAME", "INSTRUMENTED", "HISTORY")} for row in rows("threads")]
    }


class Worker:
    """A thread that does what it is told, one call at a time, and waits otherwise (not on anything of pfs)."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.id = self.do(me)

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            try:
                self._done.put((item[0](*item[1]), None))
            except BaseException as error:
                self._done.put((None, error))

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Begins a call; ``result()`` waits for it."""
        self._todo.put((function, arguments))

    def is_done(self) -> bool:
        """Is there a result that nobody has asked for?"""
        return not self._done.empty()

    def result(self) -> Any:
        value, error = self._done.get(timeout=60)
        if error is not None:
            raise error
        return value

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.start(function, *arguments)
        return self.result()

    def end(self) -> None:
        self._todo.put(None)
        self._thread.join()
        # Python's join() returns before the thread's last acts: pfs hears of its end from the C library.
        while os.path.exists(f"/proc/self/task/{self._thread.native_id}"):
            time.sleep(0.0001)


def raises(kind: type[BaseException], call: Callable[[], Any], *words: str) -> str:
    """The message of an error that must come, and must say these words."""
    try:
        call()
    except kind as error:
        text = str(error)
        missing = [word for word in words if word.lower() not in text.lower()]
        assert not missing, f"{text!r} does not say {missing}"
        return text
    raise AssertionError(f"no {kind.__name__}")


def names_of(found: Iterable[Row], column: str = "EVENT_NAME") -> list[Any]:
    return [row[column] for row in found]
