"""Makes the changes that clients ask for: UPDATE of setup tables, and TRUNCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfs import _core
from pfs._sql.query import run
from pfs.errors import InvalidValue, OperationNotAllowed

if TYPE_CHECKING:
    from sqlglot import exp

    from pfs._export.serve.sources import Source
    from pfs._process.segment import SegmentSource

__all__ = ["truncate", "update"]


def _table_of(tree: exp.Table) -> str:
    """Returns the table of performance_schema that is meant."""
    if tree.text("db").lower() not in ("", "performance_schema"):
        raise OperationNotAllowed(f"{tree.text('db')}.{tree.name} cannot be changed: only tables of performance_schema can")
    name: str = _core.table_info(tree.name)["name"]
    return name


def update(tree: exp.Update, source: Source, writer: SegmentSource) -> int:
    """Sets columns of the rows that WHERE chooses. Returns how many rows were chosen."""
    from sqlglot import exp

    table = _table_of(tree.this)
    info = _core.table_info(table)
    values: list[tuple[str, str | None]] = []
    for assignment in tree.expressions:
        value = assignment.expression
        if not isinstance(assignment, exp.EQ) or not isinstance(value, exp.Literal | exp.Null):
            raise InvalidValue(f"{assignment.sql('mysql')}: UPDATE sets columns to texts and numbers only")
        values.append((assignment.this.name, None if isinstance(value, exp.Null) else value.name))
    if "UPDATE" not in info["operations"]:
        raise OperationNotAllowed(f"UPDATE is not allowed on {table}: it allows {', '.join(info['operations'])}")
    where = tree.args.get("where")
    chosen = exp.select(*(f'"{column}"' for column in info["key"])).from_(exp.table_(table))
    if where is not None:
        chosen = chosen.where(where.this)
    rows = run(chosen, source).rows()
    for row in rows:
        conditions = [(column, str(value), False) for column, value in zip(info["key"], row, strict=True)]
        writer.update(table, conditions, values)
    return len(rows)


def truncate(tree: exp.TruncateTable, writer: SegmentSource) -> None:
    """Empties tables."""
    for table in tree.expressions:
        writer.truncate(_table_of(table))
