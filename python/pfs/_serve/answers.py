"""Makes a result of MySQL of a result of DuckDB: types, columns, rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mysql_mimic import ColumnType, ResultColumn, ResultSet

if TYPE_CHECKING:
    from pfs._sql.result import Result

__all__ = ["answer_of"]

_TYPES = (
    ("HUGEINT", ColumnType.NEWDECIMAL), ("UHUGEINT", ColumnType.NEWDECIMAL), ("DECIMAL", ColumnType.NEWDECIMAL),
    ("BOOLEAN", ColumnType.TINY), ("DOUBLE", ColumnType.DOUBLE), ("FLOAT", ColumnType.DOUBLE),
    ("TIMESTAMP", ColumnType.DATETIME), ("DATE", ColumnType.DATE), ("BLOB", ColumnType.BLOB),
)  # fmt: skip


def answer_of(result: Result) -> ResultSet:
    rows = result.rows()
    columns = []
    for number, (name, kind) in enumerate(zip(result.columns, result._types, strict=True)):
        columns.append(ResultColumn(name, _type(kind, rows, number)))
    kept = {int, float, str, bytes, bool, type(None)}
    others = [number for number, column in enumerate(columns) if column.type == ColumnType.VAR_STRING]
    if others and any(type(row[number]) not in kept for row in rows for number in others):
        rows = [tuple(v if n not in others or v is None else str(v) for n, v in enumerate(row)) for row in rows]
    return ResultSet(rows, columns)


def _type(kind: str, rows: list[tuple[Any, ...]], number: int) -> ColumnType:
    if kind.endswith(("INT", "INTEGER")):
        if "HUGE" in kind:
            return ColumnType.NEWDECIMAL
        # mysql-mimic has no unsigned columns: numbers beyond the signed ones go as decimals.
        is_large = kind == "UBIGINT" and any(row[number] is not None and row[number] >= 2**63 for row in rows)
        return ColumnType.NEWDECIMAL if is_large else ColumnType.LONGLONG
    return next((mysql for duckdb, mysql in _TYPES if kind.startswith(duckdb)), ColumnType.VAR_STRING)
