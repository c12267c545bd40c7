"""Runs a statement: reads the tables that it names, once each, and gives them to DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from pfs import _core
from pfs._read.kinds import arrow_type
from pfs._read.nearest import hint
from pfs._sql.database import SCHEMA, Database
from pfs._sql.functions import MACROS, body_of, macros_named
from pfs._sql.names import EXPLAIN, Names, names_in
from pfs._sql.result import Result
from pfs._sql.units import without_units
from pfs._sql.views.declared import VIEWS
from pfs.errors import Error, InvalidValue, OperationNotAllowed, UnknownColumn, UnknownTable

if TYPE_CHECKING:
    import duckdb
    from sqlglot.expressions import Expression

    Dialect = Literal["duckdb", "mysql"]

__all__ = ["SYS", "Tables", "run"]

_SHOW = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+show\s+(?:(?P<tables>(?:all\s+)?tables(?:\s+like\s+(?P<like>'[^']*'))?\s*;?\s*$)|(?P<word>\w*).*)",
    re.IGNORECASE | re.DOTALL,
)
_OF_TEXTS = {"query", "json_execute_serialized_sql"}  # they run a statement whose names cannot be seen before
_WHERE_SET = "change settings with pfs.setup_instruments and the like, pfs.truncate(), or the commands pfs set and pfs truncate"


class Tables(Protocol):
    """Gives the tables that a statement names. ``x`` is a table of performance_schema, ``y.x`` of the schema y."""

    def names(self) -> Sequence[str]: ...
    def columns(self, table: str) -> Sequence[str]: ...
    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        """``any_order``: the statement cannot show the order of the rows."""

    def file(self, table: str) -> str | None:
        """Returns the Parquet file of a table that DuckDB reads itself, or None."""


SYS = {f"sys.{name}": view.sql for name, view in VIEWS.items()}


def run(
    statement: str | Expression,
    tables: Tables,
    dialect: Dialect = "duckdb",
    views: Mapping[str, str] = SYS,
    exact: bool = False,
) -> Result:
    """Answers one SELECT. See ``pfs.sql``.

    Args:
        statement: a tree of sqlglot is of MySQL.
        views: their SQL by full name, such as ``sys.version``.
        exact: quotients of exact numbers are decimal numbers, as in MySQL.
    """
    if dialect not in ("duckdb", "mysql"):
        raise InvalidValue(f"bad value {dialect!r} for dialect: legal are 'duckdb' and 'mysql'")
    if isinstance(statement, str) and (show := _SHOW.match(statement)) is not None:
        statement, dialect = _tables_like(show, [*tables.names(), *views]), "duckdb"
    database = Database()
    import duckdb

    tree: Expression | None = None
    if isinstance(statement, str) and dialect == "duckdb":
        text = without_units(statement)
    elif not isinstance(statement, str) and not hasattr(statement, "transform"):
        raise TypeError(f"a statement is text, not {type(statement).__name__}")
    else:
        from pfs._sql.mysql import parsed, translated

        trees = parsed(statement) if isinstance(statement, str) else [statement]
        if len(trees) == 1:
            [tree] = trees
        text = "; ".join(map(translated, trees))
    try:
        _check(database.connection, text)
        wanted = _Wanted(database.connection, tables, views, text)
    except duckdb.ParserException as error:
        raise InvalidValue(f"the statement is no SQL: {_plain(error)}") from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    if wanted.files:
        database = Database(wanted.files)
    connection = database.connection
    try:
        wanted.make(database)
        if tree is not None:
            text = _converted(tree, wanted, database, text, exact)
        if re.match(r"\s*explain\b", text, re.IGNORECASE):
            rows = connection.execute(text).fetchall()
            connection.execute(f"create table {database.answer} (explain_key varchar, explain_value varchar)")
            connection.executemany(f"insert into {database.answer} values (?, ?)", rows)
        else:
            connection.execute(f"create table {database.answer} as {text.strip().rstrip(';')}")
    except duckdb.BinderException as error:
        raise _unknown_column(error, wanted.tables, tables) or InvalidValue(_plain(error)) from None
    except duckdb.Error as error:
        raise InvalidValue(_plain(error)) from None
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # by a signal
            raise KeyboardInterrupt from None
        raise
    return Result(database, statement if isinstance(statement, str) else text)


def _tables_like(show: re.Match[str], names: list[str]) -> str:
    """Returns the SELECT that answers SHOW TABLES. DuckDB would take the word behind another SHOW for a table's name."""
    if show["tables"] is None:
        word = show["word"].lower()
        is_table = word in map(str.lower, names)
        legal = f"ask 'select * from {word}'" if is_table else "legal are SHOW TABLES [LIKE '...'] and DESCRIBE TABLE"
        raise InvalidValue(f"SHOW {word.upper()} has no answer here: {legal}; pfs serve answers each SHOW of MySQL")
    like = f" where name ilike {show['like']}" if show["like"] else ""
    return f"select name from (select unnest({names}) as name){like}"


def _converted(tree: Expression, wanted: _Wanted, database: Database, text: str, exact: bool) -> str:
    """Returns the text of a statement of MySQL in which texts and numbers meet as they do there."""
    from pfs._sql.conversions import MACROS as CONVERSIONS
    from pfs._sql.conversions import converted
    from pfs._sql.mysql import translated

    changed = converted(tree, wanted.types(database.connection), exact)
    if changed == tree:
        return text
    made = translated(changed)
    used = [name for name in CONVERSIONS if name in made.lower()]
    if used:
        database.make((), used, [CONVERSIONS[name] for name in used])
    return made


def _plain(error: Exception) -> str:
    return str(error).partition("\n\nLINE")[0].partition("\n\tCandidate functions")[0].strip()


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raises unless the text is one statement that only reads."""
    if not isinstance(statement, str):
        raise TypeError(f"a statement is a str, not {type(statement).__name__}")
    kind = _kind(connection, statement)
    if kind == "EXPLAIN":  # planning alone may reach for files
        kind = _kind(connection, EXPLAIN.sub("", statement))
    if kind != "SELECT":
        raise OperationNotAllowed(f"{kind} is not allowed: SQL only reads the tables; {_WHERE_SET}")


def _kind(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """Returns the kind of the one statement that a text is."""
    found = connection.extract_statements(statement)
    if len(found) != 1:
        raise InvalidValue(f"this is {len(found)} statements: give one")
    try:
        return found[0].type.name
    except ValueError:  # DuckDB for Python has no name for some kinds
        return "this statement"


def _unknown_column(error: Exception, read: Iterable[str], tables: Tables) -> Error | None:
    said = re.search(r'"([^"]+)" (?:was )?not found|does not have a column named "([^"]+)"|column named "([^"]+)"', str(error))
    if said is None:
        return None
    name = next(group for group in said.groups() if group is not None)
    legal = [column for table in read for column in tables.columns(table)]
    return UnknownColumn(f"{', '.join(read) or 'the statement'} has no column '{name}'{hint(name, legal)}")


class _Wanted:
    """Finds the tables, functions and views that a statement needs, and makes them in its database. It reads each table once."""

    def __init__(self, parsing: duckdb.DuckDBPyConnection, tables: Tables, views: Mapping[str, str], statement: str) -> None:
        self._parsing = parsing
        self._source = tables
        self._known = {name.lower(): name for name in tables.names()}
        self._sql = views
        self._views: list[str] = []
        self._macros: list[str] = []
        self._places: dict[str, tuple[str, str]] = {}  # schema and name by table; "" if the statement names no schema
        self.tables: dict[str, set[str] | None] = {}  # columns by table; None means all
        names = names_in(parsing, statement)
        self._collect(names)
        self._any_order = names.is_free_of_order and not self._views  # a view may show the order of its tables
        self.files = [path for table in self.tables if (path := tables.file(table)) is not None]

    def _collect(self, names: Names) -> None:
        for function in sorted(names.functions):
            if "sleep" in function or function in _OF_TEXTS:  # no limit of time ends a sleep
                raise OperationNotAllowed(f"{function}() is not allowed: SQL only reads the tables")
        for macro in macros_named(names.functions):
            if macro not in self._macros:
                self._macros.append(macro)
                if body := body_of(macro):
                    self._collect(names_in(self._parsing, f"select {body}"))
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
                    raise UnknownTable(f"unknown view '{full}'{hint(name, views)}")
                raise UnknownTable(f"unknown table '{schema + '.' if schema else ''}{name}'{hint(full, legal)}")
            table = self._known[full]
            self._places[table] = (schema or self._places.get(table, ("",))[0], name)
            before = self.tables.get(table, set())
            self.tables[table] = None if names.is_of_all_columns or before is None else before | names.columns

    def make(self, database: Database) -> None:
        tables = self.tables.items()
        made = [made for table, columns in tables if (made := self._table(database.connection, table, columns))]
        made += [MACROS[macro] for macro in self._macros]
        for view in self._views:
            schema, _, name = view.partition(".")
            made.append(f'create view "{schema}"."{name}" as {self._sql[view]}')
        if made:
            schemas = {SCHEMA, "sys", *(place[0] for place in self._places.values())} - {""}
            schemas.update(view.partition(".")[0] for view in self._views)
            outside = [name for macro in self._macros if "." not in (name := macro.partition("(")[0])]
            database.make(schemas, outside, [*made, f"use {SCHEMA}"])

    def types(self, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        """Returns the types of the columns that the statement may name, in lower case. It leaves out a name with two types."""
        found: dict[str, set[str]] = {}
        names = [*self._places.values(), *(tuple(view.split(".", 1)) for view in self._views)]
        for place in (f'"{schema}"."{name}"' if schema else f'"{name}"' for schema, name in names):
            for column, kind, *_ in connection.execute(f"describe {place}").fetchall():
                found.setdefault(column.lower(), set()).add(kind)
        return {column: kinds.pop() for column, kinds in found.items() if len(kinds) == 1}

    def _table(self, connection: duckdb.DuckDBPyConnection, table: str, columns: set[str] | None) -> str:
        """Gives DuckDB the rows of a table. Returns the statement that makes its view; "" if it has its name already."""
        chosen = None
        if columns is not None:
            there = self._source.columns(table)
            chosen = [column for column in there if column.lower() in columns] or list(there[:1])
        schema, name = self._places[table]
        path = self._source.file(table)
        if path is not None:
            source = "read_parquet('" + path.replace("'", "''") + "')"
            changed = _changed(connection, source)
        else:
            source = f'"read {table}"'
            held = self._source.arrow(table, chosen, self._any_order)
            if isinstance(held, _core.ArrowTable):  # its types need no question
                columns_of = zip(held.columns, map(arrow_type, held.kinds), strict=True)
                changed = [change for column, kind in columns_of if (change := _without_zone(column, kind))]
                if not changed and not schema:
                    connection.register(name, held)
                    return ""
                connection.register(f"read {table}", held)
            else:
                connection.register(f"read {table}", held)
                changed = _changed(connection, source)
        replaced = f" replace ({', '.join(changed)})" if changed else ""
        return f'create view "{schema or SCHEMA}"."{name}" as select *{replaced} from {source}'


def _changed(connection: duckdb.DuckDBPyConnection, source: str) -> list[str]:
    """Returns expressions for the columns that have a time zone."""
    read = connection.sql(f"from {source}")
    columns = zip(read.columns, map(str, read.types), strict=True)
    return [change for column, kind in columns if (change := _without_zone(column, kind))]


def _without_zone(column: str, kind: str) -> str:
    """Returns an expression that gives a time its declared type; "" for other columns. A TIMESTAMP of these tables is UTC."""
    return f'make_timestamp(epoch_us("{column}")) as "{column}"' if kind.startswith("TIMESTAMP WITH") else ""
