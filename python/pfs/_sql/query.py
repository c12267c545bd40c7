"""Runs a statement: reads the tables that it names, once each, and gives them to DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from pfs._sql.database import SCHEMA, SCHEMAS, Database, parser
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

_WHERE_SET = "change settings with pfs.setup_instruments and its like, pfs.truncate(), or the commands pfs set and pfs truncate"


class Tables(Protocol):
    """Gives the tables that a statement names. ``x`` is a table of performance_schema, ``y.x`` of the schema y."""

    def names(self) -> Sequence[str]: ...
    def columns(self, table: str) -> Sequence[str]: ...
    def arrow(self, table: str, columns: Sequence[str] | None) -> object: ...
    def file(self, table: str) -> str | None:
        """Returns the Parquet file of a table that DuckDB reads itself, or None."""


_SYS = {f"sys.{name}": view.sql for name, view in VIEWS.items()}


def run(statement: str, tables: Tables, dialect: Dialect = "duckdb", views: Mapping[str, str] = _SYS) -> Result:
    """Answers one SELECT. See ``pfs.sql``.

    Args:
        views: their SQL by full name, such as ``sys.version``.
    """
    if dialect not in ("duckdb", "mysql"):
        raise InvalidValue(f"bad value {dialect!r} for dialect: legal are 'duckdb' and 'mysql'")
    parsing = parser()
    import duckdb

    if dialect == "mysql":
        from pfs._sql.mysql import translated

        text = translated(statement)
    else:
        text = statement
    try:
        _check(parsing, text)
        wanted = _Wanted(parsing, tables, views, names_in(parsing, text))
    except duckdb.ParserException as error:
        raise InvalidValue(f"the statement is no SQL: {_plain(error)}") from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    database = Database(wanted.files)
    connection = database.connection
    wanted.make(connection, text)
    connection.execute(f"use {SCHEMA}")
    try:
        if re.match(r"\s*explain\b", text, re.IGNORECASE):
            rows = connection.execute(text).fetchall()
            connection.execute(f"create table {database.answer} (explain_key varchar, explain_value varchar)")
            connection.executemany(f"insert into {database.answer} values (?, ?)", rows)
        else:
            query = text.strip().rstrip(";")
            if not re.match(r"select\b|with\b|from\b", query, re.IGNORECASE):
                query = f"from ({query})"  # DuckDB 1.5 makes no table of DESCRIBE
            connection.execute(f"create table {database.answer} as {query}")
    except duckdb.BinderException as error:
        raise _unknown_column(error, wanted.tables, tables) or InvalidValue(_plain(error)) from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    return Result(database, statement)


def _plain(error: Exception) -> str:
    return str(error).partition("\n\nLINE")[0].strip()


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raises unless the text is one statement that only reads."""
    if not isinstance(statement, str):
        raise TypeError(f"a statement is a str, not {type(statement).__name__}")
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


class _Wanted:
    """Finds the tables and views that a statement needs, and makes them in its database. It reads each table once."""

    def __init__(self, parsing: duckdb.DuckDBPyConnection, tables: Tables, views: Mapping[str, str], names: Names) -> None:
        self._parsing = parsing
        self._source = tables
        self._known = {name.lower(): name for name in tables.names()}
        self._sql = views
        self._views: list[str] = []
        self._places: dict[str, tuple[str, str]] = {}  # schema and name in the database, by table
        self.tables: dict[str, set[str] | None] = {}  # columns by table; None means all
        self._collect(names)
        self.files = [path for table in self.tables if (path := tables.file(table)) is not None]

    def _collect(self, names: Names) -> None:
        for schema, name in names.tables:
            full = name if schema in ("", SCHEMA) else f"{schema}.{name}"
            if schema and full in self._sql:
                if full not in self._views:
                    self._collect(names_in(self._parsing, self._sql[full]))
                    self._views.append(full)
                continue
            if full not in self._known:
                legal = [*self._known, *self._sql]
                if schema == "sys":
                    views = [view.removeprefix("sys.") for view in self._sql if view.startswith("sys.")]
                    raise UnknownTable(f"unknown view '{full}'{_nearest(name, views)}")
                raise UnknownTable(f"unknown table '{schema + '.' if schema else ''}{name}'{_nearest(full, legal)}")
            table = self._known[full]
            self._places[table] = (schema, name) if full != name else (SCHEMA, name)
            before = self.tables.get(table, set())
            self.tables[table] = None if names.is_of_all_columns or before is None else before | names.columns

    def make(self, connection: duckdb.DuckDBPyConnection, text: str) -> None:
        schemas = {place[0] for place in self._places.values()} | {view.partition(".")[0] for view in self._views}
        for schema in schemas.difference(SCHEMAS):
            connection.execute(f'create schema if not exists "{schema}"')
        for table, columns in self.tables.items():
            self._make_table(connection, table, columns)
        for macro in macros_in(" ".join([text, *(self._sql[view] for view in self._views)])):
            connection.execute(macro)
        for view in self._views:
            schema, _, name = view.partition(".")
            connection.execute(f'create view "{schema}"."{name}" as {self._sql[view]}')

    def _make_table(self, connection: duckdb.DuckDBPyConnection, table: str, columns: set[str] | None) -> None:
        chosen = None
        if columns is not None:
            there = self._source.columns(table)
            chosen = [column for column in there if column.lower() in columns] or list(there[:1])
        path = self._source.file(table)
        if path is not None:
            source = "read_parquet('" + path.replace("'", "''") + "')"
        else:
            source = f'"read {table}"'
            connection.register(f"read {table}", self._source.arrow(table, chosen))
        # A TIMESTAMP has no time zone in these tables: it is UTC.
        read = connection.sql(f"from {source}")
        times = [
            f'make_timestamp(epoch_us("{column}")) as "{column}"'
            for column, kind in zip(read.columns, read.types, strict=True)
            if str(kind).startswith("TIMESTAMP WITH")
        ]
        replaced = f" replace ({', '.join(times)})" if times else ""
        schema, name = self._places[table]
        connection.execute(f'create view "{schema}"."{name}" as select *{replaced} from {source}')


def _nearest(name: str, legal: Iterable[str]) -> str:
    near = nearest(name, list(legal))
    return f": the nearest is '{near}'" if near else ""
