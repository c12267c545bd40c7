"""Translates statements of MySQL."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pfs._sql.units import mysql_tokens
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

__all__ = ["parsed", "translated"]

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # without a handler, Python prints its warnings


def parsed(statement: str) -> list[Expression]:
    """Returns the trees of statements of MySQL.

    Raises:
        Error: sqlglot is missing.
        InvalidValue: the statement is not MySQL's.
    """
    try:
        import sqlglot
        from sqlglot.dialects import MySQL
    except ImportError:
        raise Error("dialect='mysql' needs sqlglot: pip install 'perfschema[sql]'") from None
    try:
        trees: list[Any] = MySQL().parser().parse(mysql_tokens(statement), statement)
        return [tree for tree in trees if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InvalidValue(f"the statement is no SQL of MySQL: {str(error).splitlines()[0]}") from None


def translated(tree: Expression) -> str:
    """Returns a statement of DuckDB that means the same. LIKE ignores case, as in MySQL."""
    return str(tree.transform(_translated).sql(dialect="duckdb", comments=False))


def _translated(node: Any) -> Any:
    from sqlglot import exp

    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.CHARACTER_SET:
        return exp.DataType.build("text")  # CAST(... AS CHAR CHARACTER SET utf8mb4)
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("NOW", "SYSDATE"):
        return _now(node.expressions)
    if isinstance(node, exp.CurrentTimestamp | exp.UtcTimestamp | exp.Localtime | exp.Localtimestamp):
        return _now(node.this)
    if isinstance(node, exp.UtcDate):
        return exp.CurrentDate()
    if isinstance(node, exp.UtcTime | exp.CurrentTime):
        return exp.cast(exp.CurrentTime(), "time")
    if type(node) is exp.Like:
        found = exp.ILike(this=node.this, expression=node.expression)
        has_escapes = isinstance(node.expression, exp.Literal) and "\\" in node.expression.name
        if has_escapes and not isinstance(node.parent, exp.Escape):
            return exp.Escape(this=found, expression=exp.Literal.string("\\"))  # MySQL has it without being told
        return found
    return node


def _now(digits: object) -> Any:
    """Returns the time of the statement, which has no time zone in MySQL. It is of whole seconds if nobody asks for digits."""
    from sqlglot import exp

    now = exp.cast(exp.CurrentTimestamp(), "timestamp")
    return now if digits else exp.TimestampTrunc(this=now, unit=exp.var("SECOND"))
