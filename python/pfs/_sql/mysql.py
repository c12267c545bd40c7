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
    return str(_with_functions(tree).transform(_translated).sql(dialect="duckdb", comments=False))


def _with_functions(tree: Expression) -> Expression:
    """Returns a tree with the functions of DuckDB."""
    from sqlglot import exp

    from pfs._sql.mysql_functions import written

    made: Any = exp.Paren(this=tree.copy())
    for node in reversed(list(made.find_all(exp.Func, exp.RegexpLike, exp.BitString))):  # from the inside to the outside
        if isinstance(node, exp.RegexpLike):
            if node.args.get("flag") is None:
                node.set("flag", exp.Literal.string("i"))
        elif isinstance(node, exp.BitString):
            if not isinstance(node.parent, exp.Binary | exp.Func):
                digits = f"{int(node.name or '0', 2):x}"
                node.replace(exp.HexString(this=digits.zfill(len(digits) + len(digits) % 2)))
        elif (found := written(node)) is not node:
            node.replace(found)
    return made.this  # type: ignore[no-any-return]


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
