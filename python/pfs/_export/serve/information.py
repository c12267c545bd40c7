"""Makes the tables of information_schema, and the texts of SHOW CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._export.serve import replication
from pfs._export.serve.status import ADDED
from pfs._read.kinds import sql_type
from pfs._sql.database import connected
from pfs._sql.functions import MACROS
from pfs._sql.views.declared import VIEWS

if TYPE_CHECKING:
    import pandas as pd

    from pfs._export.serve.sources import Source

__all__ = ["Information"]

_Row = tuple[object, ...]
_TYPES = (
    ("UBIGINT", "bigint unsigned"), ("BIGINT", "bigint"), ("HUGEINT", "decimal(39,0)"), ("UHUGEINT", "decimal(39,0)"),
    ("UINTEGER", "int unsigned"), ("INTEGER", "int"), ("DOUBLE", "double"), ("FLOAT", "double"), ("BOOLEAN", "tinyint(1)"),
    ("TIMESTAMP", "timestamp(6)"), ("DECIMAL", "decimal"),
)  # fmt: skip
_EMPTY: dict[str, str] = {
    "check_constraints": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE",
    "events": "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME",
    "innodb_cmp": "PAGE_SIZE COMPRESS_OPS COMPRESS_OPS_OK COMPRESS_TIME UNCOMPRESS_OPS UNCOMPRESS_TIME",
    "innodb_cmpmem": "PAGE_SIZE BUFFER_POOL_INSTANCE PAGES_USED PAGES_FREE RELOCATION_OPS RELOCATION_TIME",
    "innodb_metrics": "NAME SUBSYSTEM COUNT MAX_COUNT MIN_COUNT AVG_COUNT COUNT_RESET MAX_COUNT_RESET MIN_COUNT_RESET"
    " AVG_COUNT_RESET TIME_ENABLED TIME_DISABLED TIME_ELAPSED TIME_RESET STATUS TYPE COMMENT",
    "innodb_trx": "TRX_ID TRX_STATE TRX_STARTED TRX_REQUESTED_LOCK_ID TRX_WAIT_STARTED TRX_WEIGHT TRX_MYSQL_THREAD_ID TRX_QUERY"
    " TRX_OPERATION_STATE TRX_TABLES_IN_USE TRX_TABLES_LOCKED TRX_LOCK_STRUCTS TRX_LOCK_MEMORY_BYTES TRX_ROWS_LOCKED"
    " TRX_ROWS_MODIFIED TRX_CONCURRENCY_TICKETS TRX_ISOLATION_LEVEL TRX_UNIQUE_CHECKS TRX_FOREIGN_KEY_CHECKS"
    " TRX_LAST_FOREIGN_KEY_ERROR TRX_ADAPTIVE_HASH_LATCHED TRX_ADAPTIVE_HASH_TIMEOUT TRX_IS_READ_ONLY"
    " TRX_AUTOCOMMIT_NON_LOCKING TRX_SCHEDULE_WEIGHT",
    "parameters": "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION PARAMETER_MODE PARAMETER_NAME DATA_TYPE"
    " CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_SCALE DATETIME_PRECISION CHARACTER_SET_NAME"
    " COLLATION_NAME DTD_IDENTIFIER ROUTINE_TYPE",
    "partitions": "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME PARTITION_ORDINAL_POSITION"
    " SUBPARTITION_ORDINAL_POSITION PARTITION_METHOD SUBPARTITION_METHOD PARTITION_EXPRESSION",
    "plugins": "PLUGIN_NAME PLUGIN_STATUS PLUGIN_TYPE PLUGIN_LIBRARY PLUGIN_LICENSE",
    "referential_constraints": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG"
    " UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE TABLE_NAME REFERENCED_TABLE_NAME",
    "routines": "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE CHARACTER_MAXIMUM_LENGTH"
    " CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_SCALE DATETIME_PRECISION CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER"
    " ROUTINE_BODY ROUTINE_DEFINITION EXTERNAL_NAME EXTERNAL_LANGUAGE PARAMETER_STYLE IS_DETERMINISTIC SQL_DATA_ACCESS SQL_PATH"
    " SECURITY_TYPE CREATED LAST_ALTERED SQL_MODE ROUTINE_COMMENT DEFINER CHARACTER_SET_CLIENT COLLATION_CONNECTION"
    " DATABASE_COLLATION",
    "schema_privileges": "GRANTEE TABLE_CATALOG TABLE_SCHEMA PRIVILEGE_TYPE IS_GRANTABLE",
    "table_privileges": "GRANTEE TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    "column_privileges": "GRANTEE TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    "user_privileges": "GRANTEE TABLE_CATALOG PRIVILEGE_TYPE IS_GRANTABLE",
    "triggers": "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_CATALOG EVENT_OBJECT_SCHEMA"
    " EVENT_OBJECT_TABLE ACTION_ORDER ACTION_STATEMENT ACTION_TIMING CREATED SQL_MODE DEFINER",
}
_COLLATION = "utf8mb4_0900_ai_ci"
_TIMES = ("CREATE_TIME", "UPDATE_TIME", "CHECK_TIME")
# Columns of numbers, also where each of them is NULL. Others are numbers if one of their values is.
_NUMBERS = {
    "AUTO_INCREMENT", "CARDINALITY", "CHARACTER_MAXIMUM_LENGTH", "CHARACTER_OCTET_LENGTH", "CHECKSUM", "DATETIME_PRECISION",
    "NUMERIC_PRECISION", "NUMERIC_SCALE", "ORDINAL_POSITION", "POSITION_IN_UNIQUE_CONSTRAINT", "SUB_PART",
}  # fmt: skip
_PRECISIONS = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19, "double": 22, "float": 12}
_TEXT_BYTES = {"text": 65_535, "longtext": 4_294_967_295}
SCHEMAS = ("information_schema", "performance_schema", "sys")


class Information:
    """Knows the tables, the views and their columns."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # The tables are as old as the program. Of several programs nobody knows: then it is the start of serving.
        self._began = datetime.now(UTC).replace(tzinfo=None, microsecond=0) - timedelta(seconds=source.uptime())
        self._made: dict[str, tuple[str, Callable[[], Iterator[_Row]]]] = {
            "schemata": (
                "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH",
                lambda: (("def", name, "utf8mb4", _COLLATION, None) for name in SCHEMAS),
            ),
            "tables": (
                "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE VERSION ROW_FORMAT TABLE_ROWS AVG_ROW_LENGTH DATA_LENGTH"
                " MAX_DATA_LENGTH INDEX_LENGTH DATA_FREE AUTO_INCREMENT CREATE_TIME UPDATE_TIME CHECK_TIME TABLE_COLLATION"
                " CHECKSUM CREATE_OPTIONS TABLE_COMMENT",
                self._tables,
            ),
            "views": (
                "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION CHECK_OPTION IS_UPDATABLE DEFINER SECURITY_TYPE"
                " CHARACTER_SET_CLIENT COLLATION_CONNECTION",
                lambda: (
                    ("def", "sys", name, view.sql, "NONE", "NO", "pfs", "INVOKER", "utf8mb4", _COLLATION)
                    for name, view in VIEWS.items()
                ),
            ),
            "columns": (
                "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION COLUMN_DEFAULT IS_NULLABLE DATA_TYPE"
                " CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_SCALE DATETIME_PRECISION"
                " CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE COLUMN_KEY EXTRA PRIVILEGES COLUMN_COMMENT GENERATION_EXPRESSION",
                self._columns,
            ),
            "engines": (
                "ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS",
                lambda: iter([("PERFORMANCE_SCHEMA", "DEFAULT", "Performance Schema", "NO", "NO", "NO")]),
            ),
            "character_sets": (
                "CHARACTER_SET_NAME DEFAULT_COLLATE_NAME DESCRIPTION MAXLEN",
                lambda: iter([("utf8mb4", _COLLATION, "UTF-8 Unicode", 4)]),
            ),
            "collations": (
                "COLLATION_NAME CHARACTER_SET_NAME ID IS_DEFAULT IS_COMPILED SORTLEN PAD_ATTRIBUTE",
                lambda: iter([(_COLLATION, "utf8mb4", 255, "Yes", "Yes", 0, "NO PAD")]),
            ),
            "statistics": (
                "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME NON_UNIQUE INDEX_SCHEMA INDEX_NAME SEQ_IN_INDEX COLUMN_NAME COLLATION"
                " CARDINALITY SUB_PART PACKED NULLABLE INDEX_TYPE COMMENT INDEX_COMMENT IS_VISIBLE EXPRESSION",
                lambda: (
                    (
                        "def",
                        schema,
                        table,
                        0,
                        schema,
                        "PRIMARY",
                        number,
                        column,
                        "A",
                        *[None] * 3,
                        "",
                        "HASH",
                        "",
                        "",
                        "YES",
                        None,
                    )
                    for schema, table, number, column in self._key_columns()
                ),
            ),
            "key_column_usage": (
                "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME"
                " ORDINAL_POSITION POSITION_IN_UNIQUE_CONSTRAINT"
                " REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
                lambda: (
                    ("def", schema, "PRIMARY", "def", schema, table, column, number, *[None] * 4)
                    for schema, table, number, column in self._key_columns()
                ),
            ),
            "table_constraints": (
                "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME CONSTRAINT_TYPE ENFORCED",
                lambda: (
                    ("def", schema, "PRIMARY", schema, table, "PRIMARY KEY", "YES")
                    for schema, table, number, _ in self._key_columns()
                    if number == 1
                ),
            ),
            "processlist": ("ID USER HOST DB COMMAND TIME STATE INFO", self._sessions),
            **{name: (columns, lambda: iter(())) for name, columns in _EMPTY.items()},
        }

    def names(self) -> list[str]:
        return sorted(self._made)

    def tables(self) -> list[str]:
        """Returns the tables of performance_schema."""
        return sorted({*self._source.names(), *ADDED, *replication.TABLES})

    def columns_of(self, table: str) -> list[str]:
        return self._made[table][0].split()

    def frame(self, table: str) -> pd.DataFrame:
        """Returns the rows of a table."""
        import pandas as pd

        from pfs._read.dtypes import dtype_of

        names, rows = self._made[table]
        made = list(rows())
        columns = {}
        for number, name in enumerate(names.split()):
            values: list[Any] = [row[number] for row in made]
            is_number = name in _NUMBERS or any(isinstance(value, int) for value in values)
            kind = "timestamp" if name in _TIMES else "int64" if is_number else "text"
            columns[name] = pd.Series(values, dtype=dtype_of(kind, nullable=True))
        return pd.DataFrame(columns)

    def types(self, schema: str, table: str) -> list[dict[str, Any]]:
        """Returns the columns of a table or view, as the declaration of a table has them. There are none if it does not exist."""
        if schema == "sys":
            return [{"name": n, "sql_type": t, "nullable": True, "doc": ""} for n, t in _types_of_views().get(table, ())]
        if schema == "performance_schema" and table in replication.TABLES:
            return replication.types(table)
        if schema == "performance_schema" and table in self.tables():
            info: Any = _core.table_info(table) if table in _core.tables() else {"columns": (), "key": ()}
            own = [{**column, "is_key": column["name"] in info["key"]} for column in info["columns"]]
            known = {column["name"] for column in own}
            there = [] if table in ADDED else self._source.columns(table)
            more = [name for name in there if name not in known]  # NODE, PID, START of several processes
            return [
                {"name": n, "sql_type": "varchar(64)" if n == "NODE" else "bigint unsigned", "nullable": False, "doc": ""}
                for n in more
            ] + own
        if schema == "information_schema" and table in self._made:
            return [{"name": name, "sql_type": "longtext", "nullable": True, "doc": ""} for name in self.columns_of(table)]
        return []

    def created(self, schema: str, table: str) -> tuple[list[tuple[str, ...]], list[str]]:
        """Returns the row and the titles of SHOW CREATE TABLE, which are others for a view."""
        if schema == "sys":
            text = f"CREATE VIEW `sys`.`{table}` AS {VIEWS[table].sql}"
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
        yield from (("sys", name, "VIEW") for name in VIEWS)

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
                    *(kind, "PRI" if column.get("is_key") else "", "", "select", column["doc"], ""),
                )

    def _sessions(self) -> Iterator[_Row]:
        return iter(self._source.rows("processlist", ["ID", "USER", "HOST", "DB", "COMMAND", "TIME", "STATE", "INFO"]))


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
    return next((mysql for duckdb, mysql in _TYPES if kind.startswith(duckdb)), "longtext")


@lru_cache(maxsize=1)
def _types_of_views() -> dict[str, list[tuple[str, str]]]:
    """Returns the columns of all views, with the types that DuckDB finds when it makes the views over empty tables."""
    import duckdb

    connection = connected()
    for table in _core.tables():
        columns = (f'"{column["name"]}" {sql_type(column["kind"])}' for column in _core.table_info(table)["columns"])
        connection.execute(f'create table performance_schema."{table}" ({", ".join(columns)})')
    for macro in MACROS.values():
        connection.execute(macro)
    todo = list(VIEWS)
    while todo:
        name = todo.pop(0)
        try:
            connection.execute(f'create view sys."{name}" as {VIEWS[name].sql}')
        except duckdb.CatalogException:
            todo.append(name)  # it needs another view
    found: dict[str, list[tuple[str, str]]] = {}
    columns_of_sys = "select table_name, column_name, data_type from duckdb_columns() where schema_name = 'sys'"
    for view, column, kind in connection.execute(columns_of_sys + " order by table_name, column_index").fetchall():
        found.setdefault(view, []).append((column, _sql_type(kind)))
    return found
