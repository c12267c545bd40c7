"""What the columns of a table hold, for every reader. Frames, Arrow, SQL and saved files have the same types."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pfs import _core
from pfs.errors import UnknownTable

__all__ = ["ORIGIN_KINDS", "arrow_type", "kinds", "listed", "literals_of", "sql_type"]

ORIGIN_KINDS = {"NODE": "text", "PID": "uint64", "START": "uint64"}  # the columns that pfs.Snapshot.merge adds
_SQL = {
    "uint64": "UBIGINT",
    "int64": "BIGINT",
    "uint32": "UINTEGER",
    "int32": "INTEGER",
    "double": "DOUBLE",
    "timestamp": "TIMESTAMP",
}


@cache
def kinds(table: str) -> dict[str, tuple[str, bool]]:
    """Returns what each column holds, and whether it may be NULL. It is empty if this version does not know the table."""
    try:
        declared = _core.table_info(table)["columns"]
    except UnknownTable:
        return {}
    origin = {name: (kind, False) for name, kind in ORIGIN_KINDS.items()}
    return origin | {column["name"]: (column["kind"], column["nullable"]) for column in declared}


@cache
def literals_of(table: str) -> frozenset[str]:
    """Returns the columns whose texts can hold values of the program. docs/howto/texts.md says who leaves them out."""
    return frozenset(column["name"] for column in _core.table_info(table)["columns"] if column["literals"])


def sql_type(kind: str) -> str:
    """Returns the type that DuckDB has for a kind of column."""
    return _SQL.get(kind, "VARCHAR")


def arrow_type(kind: str) -> str:
    """Returns the type that DuckDB sees in an ArrowTable, where a time has its zone."""
    return "TIMESTAMP WITH TIME ZONE" if kind == "timestamp" else sql_type(kind)


def listed(columns: str | Iterable[str] | None) -> list[str] | None:
    """Returns the columns that a user names: one, several, or None for all."""
    return [columns] if isinstance(columns, str) else None if columns is None else list(columns)
