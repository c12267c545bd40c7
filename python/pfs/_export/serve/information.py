"""Makes the tables of information_schema, and the texts of SHOW CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._export.serve import replication
from pfs._export.serve.declared import INFORMATION, SQL_TYPES, columns, names
from pfs._export.serve.status import ADDED
from pfs._export.serve.typed_views import typed
from pfs._process.history import tables as history
from pfs._process.history.names import SAMPLES, TOTALS
from pfs._read.kinds import sql_type
from pfs._sql.database import connected
from pfs._sql.functions import MACROS
from pfs._sql.query import SYS

if TYPE_CHECKING:
    import pandas as pd

    from pfs._export.serve.sources import Source

__all__ = ["Information"]

_Row = tuple[object, ...]
_TYPES = (
    ("UBIGINT", "bigint unsigned"), ("BIGINT", "bigint"), ("HUGEINT", "decimal(39,0)"), ("UHUGEINT", "decimal(39,0)"),
    ("UINTEGER", "int unsigned"), ("INTEGER", "int"), ("DOUBLE", "double"), ("FLOAT", "double"), ("BOOLEAN", "tinyint(1)"),
    ("TIMESTAMP", "timestamp(6)"), ("INTERVAL", "time"),
)  # fmt: skip
_COLLATION = "utf8mb4_0900_ai_ci"
_PRECISIONS = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19, "double": 22, "float": 12}
_TEXT_BYTES = {"text": 65_535, "longtext": 4_294_967_295}
SCHEMAS = ("information_schema", "performance_schema", "sys")


class Information:
    """Knows the tables, the views and their columns."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._views = {name.removeprefix("sys."): sql for name, sql in source.views.items()}
        # The tables are as old as the program. Of several programs nobody knows: then it is the start of serving.
        self._began = datetime.now(UTC).replace(tzinfo=None, microsecond=0) - timedelta(seconds=source.uptime())
        self._rows: dict[str, Callable[[], Iterator[_Row]]] = {
            "schemata": lambda: (("def", name, "utf8mb4", _COLLATION, None, "NO") for name in SCHEMAS),
            "tables": self._tables,
            "views": lambda: (
                ("def", "sys", name, sql, "NONE", "NO", "pfs", "INVOKER", "utf8mb4", _COLLATION)
                for name, sql in self._views.items()
            ),
            "columns": self._columns,
            "engines": lambda: iter([("PERFORMANCE_SCHEMA", "DEFAULT", "Performance Schema", "NO", "NO", "NO")]),
            "character_sets": lambda: iter([("utf8mb4", _COLLATION, "UTF-8 Unicode", 4)]),
            "collation_character_set_applicability": lambda: iter([(_COLLATION, "utf8mb4")]),
            "collations": lambda: iter([(_COLLATION, "utf8mb4", 255, "Yes", "Yes", 0, "NO PAD")]),
            "statistics": lambda: (
                ("def", schema, table, 0, schema, "PRIMARY", number, column, "A", *[None] * 3, "", "HASH", "", "", "YES", None)
                for schema, table, number, column in self._key_columns()
            ),
            "key_column_usage": lambda: (
                ("def", schema, "PRIMARY", "def", schema, table, column, number, *[None] * 4)
                for schema, table, number, column in self._key_columns()
            ),
            "table_constraints": lambda: (
                ("def", schema, "PRIMARY", schema, table, "PRIMARY KEY", "YES")
                for schema, table, number, _ in self._key_columns()
                if number == 1
            ),
            "processlist": self._threads,
        }

    def names(self) -> list[str]:
        return list(INFORMATION)

    def tables(self) -> list[str]:
        """Returns the tables of performance_schema."""
        return sorted({*self._source.names(), *ADDED, *replication.TABLES})

    def columns_of(self, table: str) -> list[str]:
        return names(INFORMATION[table])

    def frame(self, table: str) -> pd.DataFrame:
        """Returns the rows of a table."""
        import pandas as pd

        from pfs._read.dtypes import dtype_of

        rows = list(self._rows[table]()) if table in self._rows else []
        found = {
            name: pd.Series([row[number] for row in rows], dtype=dtype_of(kind, nullable=True))
            for number, (name, kind) in enumerate(columns(INFORMATION[table]))
        }
        return pd.DataFrame(found)

    def types(self, schema: str, table: str) -> list[dict[str, Any]]:
        """Returns the columns of a table or view, as the declaration of a table has them. There are none if it does not exist."""
        if schema == "sys":
            found = _types_of_views().get(table, ()) if table in self._views else ()
            return [{"name": name, "sql_type": kind, "nullable": True, "doc": ""} for name, kind in found]
        if schema == "performance_schema" and table in replication.TABLES:
            return replication.types(table)
        if schema == "performance_schema" and table in self.tables():
            if sampled := history.columns_of(table):
                return [*sampled]
            info: Any = _core.table_info(table) if table in _core.tables() else {"columns": (), "key": ()}
            own = [{**column, "is_key": column["name"] in info["key"]} for column in info["columns"]]
            known = {column["name"] for column in own}
            there = [] if table in ADDED else self._source.columns(table)
            more = [name for name in there if name not in known]  # NODE, PID, START of several processes
            return [
                {"name": n, "sql_type": "varchar(64)" if n == "NODE" else "bigint unsigned", "nullable": False, "doc": ""}
                for n in more
            ] + own
        if schema == "information_schema" and table in INFORMATION:
            declared = columns(INFORMATION[table])
            return [{"name": name, "sql_type": SQL_TYPES[kind], "nullable": True, "doc": ""} for name, kind in declared]
        return []

    def created(self, schema: str, table: str) -> tuple[list[tuple[str, ...]], list[str]]:
        """Returns the row and the titles of SHOW CREATE TABLE, which are others for a view."""
        if schema == "sys":
            text = f"CREATE VIEW `sys`.`{table}` AS {self._views[table]}"
            return [(table, text, "utf8mb4", _COLLATION)], ["View", "Create View", "character_set_client", "collation_connection"]
        return [(table, self.ddl(schema, table))], ["Table", "Create Table"]

    def ddl(self, schema: str, table: str) -> str:
        """Returns the CREATE TABLE statement, in the form that clients parse."""
        columns = self.types(schema, table)
        lines = [
            f"  `{column['name']}` {column['sql_type']}{'' if column['nullable'] else ' NOT NULL'}"
            + (f" COMMENT '{_quoted(column['doc'])}'" if column["doc"] else "")
            for column in columns
        ]
        if key := [f"`{name}`" for name in _primary_key(columns)]:
            lines.append(f"  PRIMARY KEY ({','.join(key)})")
        return f"CREATE TABLE `{table}` (\n" + ",\n".join(lines) + "\n) ENGINE=PERFORMANCE_SCHEMA DEFAULT CHARSET=utf8mb4"

    def all_tables(self) -> Iterator[tuple[str, str, str]]:
        """Yields (schema, name, type)."""
        yield from (("information_schema", name, "SYSTEM VIEW") for name in self.names())
        yield from (("performance_schema", name, "BASE TABLE") for name in self.tables())
        yield from (("sys", name, "VIEW") for name in self._views)

    def _tables(self) -> Iterator[_Row]:
        for schema, name, kind in self.all_tables():
            comment = _core.table_info(name)["doc"] if schema == "performance_schema" and name in _core.tables() else ""
            engine = "PERFORMANCE_SCHEMA" if kind == "BASE TABLE" else None
            sizes = [0] * 6 if engine else [None] * 6  # zeros, as MySQL has them for performance_schema
            yield (
                *("def", schema, name, kind, engine, 10, "Dynamic", *sizes, None, self._began, None, None),
                *(_COLLATION, None, "", comment),
            )

    def _key_columns(self) -> Iterator[tuple[str, str, int, str]]:
        """Yields the columns of primary keys: (schema, table, number from 1, column)."""
        for schema, table, kind in self.all_tables():
            if kind == "BASE TABLE":
                for number, column in enumerate(_primary_key(self.types(schema, table)), 1):
                    yield schema, table, number, column

    def _columns(self) -> Iterator[_Row]:
        for schema, table, _ in self.all_tables():
            for number, column in enumerate(self.types(schema, table), 1):
                kind = column["sql_type"]
                plain = re.split(r"[ (]", kind)[0]
                is_text = plain in ("char", "varchar", "text", "longtext", "enum", "set")
                yield (
                    *("def", schema, table, column["name"], number, None, "YES" if column["nullable"] else "NO", plain),
                    *_sizes(kind, plain),
                    *(("utf8mb4", _COLLATION) if is_text else (None, None)),
                    *(kind, "PRI" if column.get("is_key") else "", "", "select", column["doc"], "", None),
                )

    def threads(self) -> set[int]:
        """Returns the Ids of SHOW PROCESSLIST."""
        return {int(str(row[0])) for row in self._threads()}

    def _threads(self) -> Iterator[_Row]:
        """Yields the threads that there are: a server has only sessions of clients, a program mostly threads of its own."""
        known = self._source.columns("threads")
        of = [name for name in ("NODE", "PID", "START", "THREAD_ID") if name in known]
        waits = {
            tuple(key): (event, int(waited or 0) // 10**12, holder)
            for event, waited, holder, *key in self._source.rows("blocked", ["EVENT_NAME", "TIMER_WAIT", "HOLDER_THREAD_ID", *of])
        }
        listed = [f"PROCESSLIST_{what}" for what in ("ID", "USER", "HOST", "DB", "COMMAND", "TIME", "STATE", "INFO")]
        for number, user, host, database, command, seconds, state, info, name, *key in self._source.rows(
            "threads", [*listed, "NAME", *of]
        ):
            event, waited, holder = waits.get(tuple(key), (None, None, None))
            held = f" held by {holder}" if holder is not None else ""
            yield (
                key[-1] if number is None else number,
                name.removeprefix("thread/") if user is None else user,
                host or "",
                database,
                command or "Daemon",
                waited if seconds is None else seconds,
                f"{event}{held}" if event is not None else state,
                info,
            )


def _primary_key(columns: list[dict[str, Any]]) -> list[str]:
    """Returns the names of its columns. MySQL has no key with a column that may be NULL."""
    key = [column for column in columns if column.get("is_key")]
    return [] if any(column["nullable"] for column in key) else [column["name"] for column in key]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def _sizes(kind: str, plain: str) -> tuple[int | None, ...]:
    """Returns the characters and bytes of a text, the digits of a number and those behind its point, the digits of a second."""
    numbers = [int(number) for number in re.findall(r"\d+", kind.partition("(")[2])]
    if plain in ("char", "varchar"):
        return numbers[0], numbers[0] * 4, None, None, None
    if plain in ("enum", "set"):
        members = re.findall(r"'([^']*)'", kind)
        longest = max(map(len, members), default=0) if plain == "enum" else len(",".join(members))
        return longest, longest * 4, None, None, None
    if plain in _TEXT_BYTES:
        return _TEXT_BYTES[plain], _TEXT_BYTES[plain], None, None, None
    if plain in ("timestamp", "datetime", "time"):
        return None, None, None, None, (numbers or [0])[0]
    if plain == "decimal":
        return None, None, (numbers or [10])[0], ([*numbers, 0, 0])[1], None
    digits = _PRECISIONS.get(plain)
    is_whole = plain.endswith("int")
    return None, None, 20 if kind == "bigint unsigned" else digits, 0 if is_whole else None, None


def _sql_type(kind: str) -> str:
    if kind.startswith("DECIMAL("):
        return kind.lower()
    return next((mysql for duckdb, mysql in _TYPES if kind.startswith(duckdb)), "longtext")


@lru_cache(maxsize=1)
def _types_of_views() -> dict[str, list[tuple[str, str]]]:
    """Returns the columns of all views, with the types that DuckDB finds when it makes the views over empty tables."""
    import duckdb

    connection = connected()
    declared: dict[str, Iterable[Any]] = {name: _core.table_info(name)["columns"] for name in _core.tables()}
    declared.update({name: history.columns_of(name) for name in (SAMPLES, TOTALS)})
    for table, of_table in declared.items():
        columns = (f'"{column["name"]}" {sql_type(column["kind"])}' for column in of_table)
        connection.execute(f'create table performance_schema."{table}" ({", ".join(columns)})')
    for macro in MACROS.values():
        connection.execute(macro)
    views = typed({**SYS, **history.VIEWS})
    todo = list(views)
    while todo:
        name = todo.pop(0)
        try:
            connection.execute(f'create view sys."{name.removeprefix("sys.")}" as {views[name]}')
        except duckdb.CatalogException:
            todo.append(name)  # it needs another view
    found: dict[str, list[tuple[str, str]]] = {}
    columns_of_sys = "select table_name, column_name, data_type from duckdb_columns() where schema_name = 'sys'"
    for view, column, kind in connection.execute(columns_of_sys + " order by table_name, column_index").fetchall():
        found.setdefault(view, []).append((column, _sql_type(kind)))
    return found
