"""Runs a statement: reads the tables that it names, once each, and gives them to DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pfs._sql.functions import macros_in
from pfs._sql.names import Names, names_in
from pfs._sql.result import Result
from pfs._tables.nearest import nearest
from pfs._views.declared import VIEWS
from pfs.errors import Error, InvalidValue, OperationNotAllowed, UnknownColumn, UnknownTable

if TYPE_CHECKING:
    import duckdb

    Dialect = Literal["duckdb", "mysql"]

__all__ = ["Tables", "run"]

SCHEMA = "performance_schema"
_SETTINGS = ("set python_enable_replacements=false", "set enable_external_access=false", "set lock_configuration=true")
_WHERE_SET = "change settings with pfs.setup_instruments and its like, pfs.truncate(), or the commands pfs set and pfs truncate"


class Tables(Protocol):
    """Gives the tables that a statement names."""

    def names(self) -> Sequence[str]: ...
    def columns(self, table: str) -> Sequence[str]: ...
    def arrow(self, table: str, columns: Sequence[str] | None) -> object: ...
    def file(self, table: str) -> str | None:
        """Returns the Parquet file of a table that DuckDB reads itself, or None."""


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise Error("SQL needs duckdb: pip install 'perfschema[sql]'") from None
    return duckdb


def connected() -> duckdb.DuckDBPyConnection:
    """Returns a fresh connection with bounded threads and memory, and with the schemas that a statement may use."""
    connection: duckdb.DuckDBPyConnection = _duckdb().connect(":memory:", config={"threads": "2", "memory_limit": "2GB"})
    for statement in (f"create schema {SCHEMA}", "create schema sys"):
        connection.execute(statement)
    return connection


def run(statement: str, tables: Tables, dialect: Dialect = "duckdb") -> Result:
    """Answers one SELECT. See ``pfs.sql``."""
    duckdb = _duckdb()
    if dialect not in ("duckdb", "mysql"):
        raise InvalidValue(f"bad value {dialect!r} for dialect: legal are 'duckdb' and 'mysql'")
    connection = connected()
    if dialect == "mysql":
        from pfs._sql.mysql import translated

        text = translated(statement)
    else:
        text = statement
    try:
        _check(connection, text)
        names = names_in(connection, text)
    except duckdb.ParserException as error:
        raise InvalidValue(f"the statement is no SQL: {_plain(error)}") from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    known = _Reader(connection, tables)
    known.need(text, names)
    files = [path for path in known.files if path]
    if files:
        connection.execute(f"set allowed_paths={files!r}")
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.execute(f"use {SCHEMA}")
    try:
        if re.match(r"\s*explain\b", text, re.IGNORECASE):
            rows = connection.execute(text).fetchall()
            connection.execute("create table main.answer (explain_key varchar, explain_value varchar)")
            connection.executemany("insert into main.answer values (?, ?)", rows)
        else:
            connection.execute(f"create table main.answer as {text.strip().rstrip(';')}")
    except duckdb.BinderException as error:
        raise _unknown_column(error, known.read, tables) or InvalidValue(_plain(error)) from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    return Result(connection, statement)


def _plain(error: Exception) -> str:
    return str(error).partition("\n\nLINE")[0].strip()


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raises unless the text is one statement that only reads."""
    kinds = [each.type.name for each in connection.extract_statements(statement)]
    if len(kinds) != 1:
        raise InvalidValue(f"this is {len(kinds)} statements: give one")
    if kinds[0] not in ("SELECT", "EXPLAIN"):
        raise OperationNotAllowed(f"{kinds[0]} is not allowed: SQL only reads the tables; {_WHERE_SET}")


def _unknown_column(error: Exception, read: Iterable[str], tables: Tables) -> Error | None:
    said = re.search(r'"([^"]+)" not found|does not have a column named "([^"]+)"|column named "([^"]+)"', str(error))
    if said is None:
        return None
    name = next(group for group in said.groups() if group is not None)
    legal = [column for table in read for column in tables.columns(table)]
    near = nearest(name, legal)
    where = ", ".join(read) or "the statement"
    return UnknownColumn(f"{where} has no column '{name}'" + (f": the nearest is {near}" if near else ""))


class _Reader:
    """Makes the tables and views of one statement known to its connection. It reads each table once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables
        self._known = {name.lower(): name for name in tables.names()}
        self.read: list[str] = []
        self.files: list[str] = []

    def need(self, text: str, names: Names) -> None:
        wanted: dict[str, set[str] | None] = {}  # columns by table; None means all
        views: list[str] = []
        self._collect(names, wanted, views)
        for table, columns in wanted.items():
            self._add(table, columns)
        for macro in macros_in(" ".join([text, *(VIEWS[view].sql for view in views)])):
            self._connection.execute(macro)
        for view in views:
            self._connection.execute(f'create view sys."{view}" as {VIEWS[view].sql}')

    def _collect(self, names: Names, wanted: dict[str, set[str] | None], views: list[str]) -> None:
        for schema, name in names.tables:
            if schema == "sys":
                if name not in VIEWS:
                    raise UnknownTable(f"unknown view 'sys.{name}'{_nearest(name, VIEWS)}")
                if name not in views:
                    self._collect(names_in(self._connection, VIEWS[name].sql), wanted, views)
                    views.append(name)
                continue
            if schema not in ("", SCHEMA) or name not in self._known:
                legal = [*self._known, *(f"sys.{view}" for view in VIEWS)]
                raise UnknownTable(f"unknown table '{schema + '.' if schema else ''}{name}'{_nearest(name, legal)}")
            before = wanted.get(name, set())
            wanted[name] = None if names.is_of_all_columns or before is None else before | names.columns

    def _add(self, name: str, columns: set[str] | None) -> None:
        table = self._known[name]
        self.read.append(table)
        chosen = None
        if columns is not None:
            there = self._tables.columns(table)
            chosen = [column for column in there if column.lower() in columns] or list(there[:1])
        path = self._tables.file(table)
        if path is not None:
            self.files.append(path)
            source = "read_parquet('" + path.replace("'", "''") + "')"
        else:
            source = f'"read {name}"'
            self._connection.register(f"read {name}", self._tables.arrow(table, chosen))
        # A TIMESTAMP has no time zone in these tables: it is UTC.
        times = [
            f'make_timestamp(epoch_us("{column}")) as "{column}"'
            for column, kind in self._connection.execute(
                f"select column_name, column_type from (describe from {source})"
            ).fetchall()
            if kind.startswith("TIMESTAMP WITH")
        ]
        replaced = f" replace ({', '.join(times)})" if times else ""
        self._connection.execute(f'create view {SCHEMA}."{name}" as select *{replaced} from {source}')


def _nearest(name: str, legal: Iterable[str]) -> str:
    near = nearest(name, list(legal))
    return f": the nearest is '{near}'" if near else ""
