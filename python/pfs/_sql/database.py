"""Gives each statement a DuckDB of its own. One that nobody uses stays, because DuckDB starts slower than it answers."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pfs.errors import Error

if TYPE_CHECKING:
    import duckdb

__all__ = ["SCHEMA", "Database", "connected"]

SCHEMA = "performance_schema"
_MEMORY = "2GB"
_SETTINGS = ("set python_enable_replacements=false", "set enable_external_access=false", "set lock_configuration=true")
_MOST_IDLE = 2

_numbers = itertools.count(1)
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
    chosen: dict[str, Any] = {"memory_limit": _MEMORY, **config}
    try:
        return duckdb.connect(":memory:", config=chosen)
    except duckdb.InvalidInputException:
        if "async_threads" not in chosen:
            raise
        return duckdb.connect(":memory:", config={name: value for name, value in chosen.items() if name != "async_threads"})


def _locked(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """Takes the right to reach anything but these files away."""
    if files:
        connection.execute(f"set allowed_paths={list(files)!r}")
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

    def __init__(self, files: Sequence[str] = ()) -> None:
        """``files``: what the statement may read; such a statement has two threads."""
        owner = _locked(_new({"threads": "2"}), files) if files else _free()
        name = f"statement_{next(_numbers)}"
        self.answer = f"{name}.main.answer"
        self.connection = owner.cursor()
        self.connection.execute(f"attach ':memory:' as {name}; use {name}")
        # Readers of the answer may still stream it: they keep what they read.
        weakref.finalize(self, _forget, None if files else owner, self.connection, name, os.getpid()).atexit = False


def _forget(owner: duckdb.DuckDBPyConnection | None, connection: duckdb.DuckDBPyConnection, name: str, pid: int) -> None:
    if os.getpid() != pid:
        _inherited.extend(each for each in (owner, connection) if each is not None)
        return
    connection.execute(f"use memory; detach {name}")
    connection.close()
    if owner is not None and len(_idle) < _MOST_IDLE:
        _idle.append((pid, owner))
