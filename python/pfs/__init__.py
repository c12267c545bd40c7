"""A Performance Schema for any program: it shows what the program waits for, locks, reads and writes, as pandas DataFrames.

    import pfs

    lock = pfs.Lock("myapp/LOCK_queue")            # a threading.Lock that is instrumented
    with lock, pfs.open("in.csv", name="myapp/data") as f:
        text = f.read()

    pfs.table("file_summary_by_instance")          # any table of pfs.tables(), at any time
    pfs.setup_instruments["wait/io/file/%"].enabled = False

    pfs.attach(4711).table("threads")              # a table of another process, or of a dead one: pfs.processes()

All times are picoseconds since the start of the program (columns TIMER_*); ``pfs.table(name, unit="s")`` gives seconds.
``pfs.describe()`` lists the tables, ``pfs.describe(table)`` explains every column. In Jupyter: ``%load_ext pfs`` and ``%%pfs``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # type checkers take it as true; importing typing would cost more than the rest of this file
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    import pandas as pd

    from pfs import plot
    from pfs._dbapi.rows import dbapi_plain
    from pfs._dbapi.wrap import dbapi
    from pfs._names import TableName
    from pfs._outside.attach import Schema, attach
    from pfs._outside.processes import gc, processes
    from pfs._outside.questions import sql, view
    from pfs._snapshots.diff import Diff, diff
    from pfs._snapshots.merge import merge
    from pfs._snapshots.snapshot import Merged, Snapshot, read_snapshot, snapshot
    from pfs._tables.why import why
    from pfs._trace.frames import read_trace
    from pfs.blocks import memory
    from pfs.counted import StatusVariable, handled, raised, register_status
    from pfs.error_log import LoggingHandler, log, logging_handler
    from pfs.locks import Barrier, BoundedSemaphore, Event, Semaphore
    from pfs.program import (
        Function,
        Logger,
        Meter,
        Task,
        Variable,
        account_lock,
        host_error,
        host_forget,
        host_seen,
        login_failed,
        login_succeeded,
        register_function,
        register_logger,
        register_meter,
        register_task,
        register_variable,
        set_connect_attrs,
        set_user_variable,
    )
    from pfs.queues import LifoQueue, PriorityQueue, Queue
    from pfs.reading import arrow, blocked, measure_timers, now, readable, running, timeline
    from pfs.sockets import create_connection, create_server, socket, socketpair
    from pfs.thread import Thread, set_account, set_processlist, set_thread_name

    Unit = Literal["ps", "ns", "us", "ms", "s", "min", "timedelta"]

from pfs import errors
from pfs.errors import (
    AlreadyExists,
    AttachError,
    Error,
    InvalidValue,
    LimitReached,
    OperationNotAllowed,
    StateError,
    UnknownColumn,
    UnknownName,
    UnknownTable,
)

try:
    from pfs import _core
except ImportError as error:
    if "subinterpreter" not in str(error):  # that message needs no note
        error.add_note(
            "pfs: the compiled module pfs._core is missing or broken. Install the package with 'pip install .' in the root of "
            "the source tree (it needs g++ and libmd-dev), and do not run Python from inside its python/ folder."
        )
        from pfs._namesake import namesake

        if other := namesake():
            error.add_note(f"pfs: {other}")
    raise

from pfs._core import Condition, Lock, RLock, RWLock, SimpleQueue, stage, statement, transaction
from pfs._tables.names import t
from pfs.files import fsync, open
from pfs.instrument import Table, idle, wait
from pfs.setup import (
    setup_actors,
    setup_consumers,
    setup_instruments,
    setup_loggers,
    setup_meters,
    setup_objects,
    setup_overhead,
    setup_threads,
    setup_timers,
    status,
    threads,
    variables,
)

__version__ = _core.__version__

__all__ = [
    # Reading
    "tables",
    "table",
    "now",
    "running",
    "blocked",
    "why",
    "sql",
    "view",
    "arrow",
    "measure_timers",
    "t",
    "describe",
    "readable",
    "timeline",
    "plot",
    "ddl",
    "truncate",
    "digest",
    "variables",
    "status",
    # Other processes, snapshots and traces
    "processes",
    "attach",
    "Schema",
    "gc",
    "snapshot",
    "read_snapshot",
    "Snapshot",
    "diff",
    "Diff",
    "merge",
    "Merged",
    "read_trace",
    # Setting up
    "configure",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_loggers",
    "setup_meters",
    "setup_objects",
    "setup_overhead",
    "setup_threads",
    "setup_timers",
    "threads",
    "set_account",
    "set_processlist",
    "set_thread_name",
    # Instrumenting
    "Lock",
    "RLock",
    "RWLock",
    "Condition",
    "Semaphore",
    "BoundedSemaphore",
    "Event",
    "Barrier",
    "Queue",
    "LifoQueue",
    "PriorityQueue",
    "SimpleQueue",
    "Thread",
    "socket",
    "socketpair",
    "create_connection",
    "create_server",
    "open",
    "fsync",
    "wait",
    "idle",
    "stage",
    "statement",
    "transaction",
    "dbapi",
    "dbapi_plain",
    "Table",
    "memory",
    # Objects that the program declares
    "register_variable",
    "register_meter",
    "register_logger",
    "register_task",
    "register_function",
    "Variable",
    "Meter",
    "Logger",
    "Task",
    "Function",
    "set_connect_attrs",
    "set_user_variable",
    "host_seen",
    "host_error",
    "host_forget",
    "login_failed",
    "login_succeeded",
    "account_lock",
    "log",
    "logging_handler",
    "LoggingHandler",
    "raised",
    "handled",
    "register_status",
    "StatusVariable",
    # Building C and C++ programs
    "get_include",
    "get_library_dir",
    "get_cmake_dir",
    # Errors
    "errors",
    "Error",
    "AlreadyExists",
    "AttachError",
    "InvalidValue",
    "LimitReached",
    "OperationNotAllowed",
    "StateError",
    "UnknownColumn",
    "UnknownName",
    "UnknownTable",
    "__version__",
]


# Names whose modules are imported at their first use, because those modules import others that few programs need.
_LATER = {
    "pfs.blocks": ("memory",),
    "pfs.error_log": ("LoggingHandler", "log", "logging_handler"),
    "pfs.program": (
        "Function",
        "Logger",
        "Meter",
        "Task",
        "Variable",
        "account_lock",
        "host_error",
        "host_forget",
        "host_seen",
        "login_failed",
        "login_succeeded",
        "register_function",
        "register_logger",
        "register_meter",
        "register_task",
        "register_variable",
        "set_connect_attrs",
        "set_user_variable",
    ),
    "pfs.counted": ("StatusVariable", "handled", "raised", "register_status"),
    "pfs._outside.attach": ("Schema", "attach"),
    "pfs._dbapi.wrap": ("dbapi",),
    "pfs._dbapi.rows": ("dbapi_plain",),
    "pfs._outside.processes": ("gc", "processes"),
    "pfs._outside.questions": ("sql", "view"),
    "pfs._snapshots.diff": ("Diff", "diff"),
    "pfs._snapshots.merge": ("merge",),
    "pfs._snapshots.snapshot": ("Merged", "Snapshot", "read_snapshot", "snapshot"),
    "pfs._tables.why": ("why",),
    "pfs._trace.frames": ("read_trace",),
    "pfs.locks": ("Barrier", "BoundedSemaphore", "Event", "Semaphore"),
    "pfs.queues": ("LifoQueue", "PriorityQueue", "Queue"),
    "pfs.reading": ("arrow", "blocked", "measure_timers", "now", "readable", "running", "timeline"),
    "pfs.sockets": ("create_connection", "create_server", "socket", "socketpair"),
    "pfs.thread": ("Thread", "set_account", "set_processlist", "set_thread_name"),
}


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "plot":
            return import_module("pfs.plot")
        for module, names in _LATER.items():
            if name in names:
                value = globals()[name] = getattr(import_module(module), name)
                return value
        raise AttributeError(f"module 'pfs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def tables() -> list[str]:
    """Returns the names of all tables, sorted."""
    return _core.tables()


def table(
    name: TableName | str,
    columns: Iterable[str] | None = None,
    *,
    running: Literal["elapsed"] | None = None,
    unit: Unit | None = None,
    where: str | Mapping[str, object] | None = None,
    order: str | Sequence[str] | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """Returns the current rows of a table as a DataFrame.

        pfs.table("events_waits_history_long", where="TIMER_WAIT > 5ms", order="TIMER_WAIT desc", limit=10, unit="s")

    Args:
        name: one of ``pfs.tables()``.
        columns: the columns to read, in this order; None reads all. Case does not matter.
        running: what an event that still runs shows as TIMER_END and TIMER_WAIT. None: NULL. "elapsed": ``pfs.now()``, and the
            time from TIMER_START to then, as MySQL 8 does. END_EVENT_ID stays NULL.
        unit: how times are written. None or "ps": whole picoseconds. "ns", "us", "ms", "s" or "min": floating point, with NaN for
            NULL. "timedelta": ``timedelta64[ns]``, rounded down, with NaT for NULL.
        where: the rows to read: comparisons of columns with numbers and 'texts' (``= <> < <= > >= like in between is null``)
            joined by ``and``, ``or``, ``not``. Times are in picoseconds or have a unit (``5ms``). ``=`` regards case, ``like``
            does not. A dict gives a pattern or value per column: ``{"EVENT_NAME": "wait/io/%"}``. Other rows are not copied.
        order: columns to sort by: ``"SUM_TIMER_WAIT desc, EVENT_NAME"``, or a list of such texts. NULL comes first, behind
            ``desc`` last. None is storage order: sort events by THREAD_ID and EVENT_ID, or by TIMER_END.
        limit: the most rows to return.

    Returns:
        One row per row of the table. Whole numbers are int64, or the nullable Int64 where NULL is possible; a column that has a
        value of 2**63 or more is uint64 or UInt64. Text is ``string``; ENUM is ``category``; TIMESTAMP is ``datetime64[us]`` in
        UTC. No column has dtype object. TIMER_* and *_TIMER_* columns are times. ``attrs`` has the table, the unit, the pid, the
        time of the reading, and the counters of lost events and objects that are not zero.

    Raises:
        UnknownTable: no table has this name.
        UnknownColumn: the table has no such column.
        InvalidValue: a column is named twice; a bad value for ``running``, ``unit``, ``where``, ``order`` or ``limit``.
    """
    from pfs._tables import frame

    found = frame.frame(name, columns, running=running, unit=unit, where=where, order=order, limit=limit)
    if found.empty:
        from pfs._outside.recorded import tell_where

        tell_where(str(name))
    return found


def describe(name: TableName | str | None = None) -> pd.DataFrame:
    """Describes the columns of a table: one row per column, with its SQL type, unit and description. Without a name it lists all
    tables: what each contains, its operations and its key.

    Raises:
        UnknownTable: no table has this name.
    """
    from pfs._tables import frame

    return frame.describe_all() if name is None else frame.describe(name)


def load_ipython_extension(shell: object) -> None:
    """Is called by ``%load_ext pfs``. It adds the magic ``%%pfs``, readable frames, and completion of names of tables."""
    from pfs._notebook import extension

    extension.load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Is called by ``%unload_ext pfs``."""
    from pfs._notebook import extension

    extension.unload(shell)


def ddl(name: TableName | str) -> str:
    """Returns the CREATE TABLE statement of a table.

    Raises:
        UnknownTable: no table has this name.
    """
    return _core.ddl(name)


def truncate(name: TableName | str) -> None:
    """Empties a table of events, or sets the counts of a summary to zero. It is exact while the program runs.

    Raises:
        UnknownTable: no table has this name.
        OperationNotAllowed: the table lists objects or settings and cannot be truncated.
    """
    _core.truncate(name)


def digest(
    statement: str | bytes, max_length: int = 1024, *, dialect: str = "sql", normalizer: str = "sql", rules: str = ""
) -> tuple[str, str] | tuple[None, None]:
    """Returns DIGEST and DIGEST_TEXT of a statement, as the statement tables show them. Statements of one form have one digest.

    >>> pfs.digest("select * from t where a in (1, -2) -- all")[1]
    'SELECT * FROM `t` WHERE `a` IN (...)'

    Literals, parameters (``?``, ``:name``, ``$1``, ``%s``) and NULL where a value stands become ``?``, lists of them ``?, ...``,
    rows ``(?)`` or ``(...)``, more rows of one kind ``(...) /* , ... */``. Names stand in backquotes, keywords in upper case, one
    blank between two tokens; comments and a ``;`` at the end are gone.

    Args:
        statement: any text. Nothing is rejected: text that is no SQL becomes tokens as well.
        max_length: bytes of tokens that count, as ``performance_schema_max_digest_length``: one or two for a keyword, two and its
            length for a name. Later tokens make no difference, and the text ends there.
        dialect: the language of the text. ``"mysql"`` has the rules of MySQL 8.4: the text is that of a server. In
            ``"postgresql"``, ``"sqlite"``, ``"tsql"``, ``"oracle"``, ``"duckdb"`` and ``"ansi"``, ``"text"`` is a name. ``"sql"``
            is for an unknown dialect: ``"text"`` is a literal there, unless a ``.`` is beside it.
        normalizer: the dialect of texts whose ``dialect`` is ``"sql"``. For all texts: ``"identity"``, the text as it is, or
            ``"regex"``.
        rules: of ``"regex"``: ``"pattern -> replacement"``, separated by ``;`` or line ends (``\\;`` is a ``;``). Each rule
            replaces its leftmost longest matches in the result of the previous rule. Rules see the first 4096 bytes. Patterns
            have ``. [a-z] [^a-z] \\d \\w \\s \\D \\W \\S \\t \\n \\r \\xHH ( ) (?: ) | * + ? {m} {m,} {m,n}``; at their start
            ``^`` or ``\\b``, at their end ``$`` or ``\\b``.

    Returns:
        SHA-256 of the tokens as 64 hexadecimal digits, and the text; ``(None, None)`` if there is no token.

    Raises:
        InvalidValue: ``max_length`` is not from 0 to 1048576; no such dialect or normalizer; a bad pattern.
    """
    if not 0 <= max_length <= 1048576:
        raise InvalidValue(f"bad value {max_length} for max_length: legal is a number from 0 to 1048576")
    found = _core.digest(statement, max_length, normalizer, rules, dialect)
    return (None, None) if found is None else (found[0], found[1].decode("utf-8", "replace"))


def configure(**options: bool | int | str) -> None:
    """Sets start-time options. It must be called before this process has recorded or read anything.

    Names are those of ``pfs.variables``, with or without ``performance_schema_`` in front. Presets of instruments and consumers:
    ``configure(instrument="wait/io/file/%=counted", consumer_events_waits_history="OFF")``.

    Raises:
        StateError: pfs has started already.
        UnknownName: no such option.
        InvalidValue: a bad value. Nothing was started or changed.
    """
    from pfs.setup import option_text

    _core.configure(option_text(options))


def get_include() -> str:
    """Returns the folder of ``perfschema/pfs.h`` and ``perfschema/pfs.hpp``, for ``-I``."""
    return os.path.join(os.path.dirname(__file__), "include")


def get_library_dir() -> str:
    """Returns the folder of the library, for ``-L`` and ``-Wl,-rpath``. Python itself uses the same library.

    A wheel holds no symbolic links: ``libperfschema.so`` is a linker script there, ``libperfschema.so.0.1`` the library.
    """
    return os.path.join(os.path.dirname(__file__), "lib")


def get_cmake_dir() -> str:
    """Returns the folder for ``-DPerfSchema_DIR=``, with which ``find_package(PerfSchema)`` finds this package."""
    return os.path.join(os.path.dirname(__file__), "lib", "cmake", "PerfSchema")
