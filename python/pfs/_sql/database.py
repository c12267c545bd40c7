"""Gives each statement an empty database, in a DuckDB that stays: to make one takes longer than most statements."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pfs.errors import Error

if TYPE_CHECKING:
    import duckdb

__all__ = ["SCHEMA", "SCHEMAS", "Database", "connected", "parser"]

SCHEMA = "performance_schema"
SCHEMAS = (SCHEMA, "sys")  # of each database
_MEMORY = "2GB"
_SETTINGS = ("set python_enable_replacements=false", "set enable_external_access=false", "set lock_configuration=true")

_MAKE_SCHEMAS = ";".join(f"create schema {name}" for name in SCHEMAS)

_numbers = itertools.count(1)
# (PID, connection). A forked child leaves its parent's as they are.
_stays: list[tuple[int, duckdb.DuckDBPyConnection]] = []


def connected() -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new DuckDB with bounded threads and memory, and with the schemas that a statement may use."""
    connection = _new({"threads": "2"})
    connection.execute(_MAKE_SCHEMAS)
    return connection


def _new(config: dict[str, str]) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError:
        raise Error("SQL needs duckdb: pip install 'perfschema[sql]'") from None
    # Without a folder DuckDB writes no file: it would fill the disk of the working directory.
    chosen: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": "", **config}
    try:
        return duckdb.connect(":memory:", config=chosen)
    except duckdb.InvalidInputException:
        if "async_threads" not in chosen:
            raise
        return duckdb.connect(":memory:", config={name: value for name, value in chosen.items() if name != "async_threads"})


def parser() -> duckdb.DuckDBPyConnection:
    """Returns a connection that parses one statement, of the DuckDB that stays."""
    pid = os.getpid()
    for owner, connection in _stays:
        if owner == pid:
            return connection.cursor()
    # The thread that asks does all the work: the program would see any other.
    made = _new({"threads": "1", "async_threads": "0"})
    for setting in _SETTINGS:
        made.execute(setting)
    _stays.append((pid, made))
    return made.cursor()


class Database:
    """Is the empty database of one statement. Threads: external lock.

    Attributes:
        connection: finds the schemas ``performance_schema`` and ``sys`` without another name.
        answer: the full name of the table for the answer.
    """

    def __init__(self, files: Sequence[str]) -> None:
        """``files``: what the statement may read; such a statement has two threads."""
        name = f"statement_{next(_numbers)}"
        self.answer = f"{name}.main.answer"
        if files:
            self.connection = _new({"threads": "2"})
            self.connection.execute(f"set allowed_paths={list(files)!r}")
            for setting in _SETTINGS:
                self.connection.execute(setting)
        else:
            self.connection = parser()
        # One text, because DuckDB parses faster than it is called.
        self.connection.execute(f"attach ':memory:' as {name}; use {name}; {_MAKE_SCHEMAS}")
        # Readers of the answer may still stream it: they keep what they read.
        weakref.finalize(self, _forget, self.connection, name, os.getpid()).atexit = False


def _forget(connection: duckdb.DuckDBPyConnection, name: str, pid: int) -> None:
    if os.getpid() != pid:
        _stays.append((pid, connection))  # another thread of the parent may have been inside
        return
    connection.execute(f"use memory; detach {name}")
    connection.close()
