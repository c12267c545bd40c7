"""Gives each statement a DuckDB of its own. One that nobody uses stays, because DuckDB starts slower than it answers."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pfs.errors import Error

if TYPE_CHECKING:
    import duckdb

__all__ = ["SCHEMA", "Database", "connected"]

SCHEMA = "performance_schema"
_MEMORY = "2GB"
_MILLISECONDS = 300_000  # that a statement may take
# TIMESTAMP has no time zone in these tables: it is UTC. So is the clock of a statement, wherever the machine is.
_SETTINGS = (
    "set global TimeZone='UTC'",
    "set python_enable_replacements=false",
    "set enable_external_access=false",
    "set lock_configuration=true",
)
_MOST_IDLE = 2

_idle: list[tuple[int, duckdb.DuckDBPyConnection]] = []  # (PID, connection)
# A forked child leaves its parent's as they are: another thread of the parent may have been inside.
_inherited: list[duckdb.DuckDBPyConnection] = []


def connected() -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new DuckDB with bounded threads and memory, and with the schemas that a statement may use."""
    connection = _new({"threads": "2"})
    connection.execute(f"create schema {SCHEMA}; create schema sys")
    return connection


def _new(config: dict[str, str]) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise Error("SQL needs duckdb: pip install 'perfschema[sql]'") from None
    # Without a folder DuckDB writes no file: it would fill the disk of the working directory.
    chosen: dict[str, Any] = {
        "memory_limit": _MEMORY, "temp_directory": "", "max_execution_time": _MILLISECONDS, **config,
    }  # fmt: skip
    return duckdb.connect(":memory:", config=chosen)


def _locked(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """Takes the right to reach anything but these files away."""
    if files:
        quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
        connection.execute(f"set allowed_paths=[{quoted}]")
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def _free() -> duckdb.DuckDBPyConnection:
    """Returns a DuckDB that has no tables and that nobody else uses."""
    while _idle:
        try:
            pid, connection = _idle.pop()
        except IndexError:  # another thread was faster
            break
        if pid == os.getpid():
            return connection
        _inherited.append(connection)
    # The thread that asks does all the work: the program would see any other.
    return _locked(_new({"threads": "1", "async_threads": "0"}))


class Database:
    """Holds the tables and the answer of one statement. No other statement can see them, because none runs in the same DuckDB.

    Threads: external lock.

    Attributes:
        connection: finds what the statement names.
        answer: the full name of the table for the answer.
    """

    answer = "memory.main.answer"

    def __init__(self, files: Sequence[str] = ()) -> None:
        """``files``: what the statement may read; such a statement has two threads."""
        owner = _locked(_new({"threads": "2"}), files) if files else _free()
        self.connection = owner.cursor()
        self._undo = [f"drop table if exists {self.answer}"]
        # Readers of the answer may still stream it: they keep what they read.
        finalizer = weakref.finalize(self, _forget, None if files else owner, self.connection, self._undo, os.getpid())
        finalizer.atexit = False

    def make(self, schemas: Iterable[str], functions: Iterable[str], statements: Iterable[str]) -> None:
        """Executes statements that make views in these schemas, and functions with these names outside of them."""
        self._undo += [f'drop schema if exists "{schema}" cascade' for schema in schemas]
        self._undo += [f"drop macro if exists {function}" for function in functions]
        # One text, because DuckDB parses faster than it is called.
        self.connection.execute("; ".join([*(f'create schema "{schema}"' for schema in schemas), *statements]))


def _forget(owner: duckdb.DuckDBPyConnection | None, connection: duckdb.DuckDBPyConnection, undo: list[str], pid: int) -> None:
    if os.getpid() != pid:
        _inherited.extend(each for each in (owner, connection) if each is not None)
        return
    connection.close()  # with the tables that were registered
    if owner is None or len(_idle) >= _MOST_IDLE:
        return
    with contextlib.suppress(Exception):  # what cannot be emptied is not used again
        owner.execute("; ".join(undo))
        _idle.append((pid, owner))
