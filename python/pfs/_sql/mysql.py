"""Translates statements of MySQL."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pfs._sql.units import mysql_tokens
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

__all__ = ["parsed", "translated"]

_MOST_ROWS = 2**63 - 1  # for DuckDB, and the largest number with a sign
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
    from sqlglot import exp

    made: Any = exp.Paren(this=_with_functions(tree))
    for node in reversed(list(made.walk())):  # what is inside comes first
        if (found := _translated(node)) is not node:
            node.replace(found)
    return str(made.this.sql(dialect="duckdb", comments=False))


def _with_functions(tree: Expression) -> Expression:
    """Returns a tree with the functions of DuckDB."""
    from sqlglot import exp

    from pfs._sql.mysql_functions import written

    made: Any = exp.Paren(this=tree.copy())
    kinds = (exp.Func, exp.JSONValue, exp.RegexpLike, exp.BitString, exp.Add, exp.Sub)
    for node in reversed(list(made.find_all(*kinds))):  # from the inside to the outside
        if isinstance(node, exp.Add | exp.Sub):
            if (found := _moved(node)) is not None:
                node.replace(found)
        elif isinstance(node, exp.RegexpLike):
            if node.args.get("flag") is None:
                node.set("flag", exp.Literal.string("i"))
        elif isinstance(node, exp.BitString):
            if not isinstance(node.parent, exp.Binary | exp.Func):
                digits = f"{int(node.name or '0', 2):x}"
                node.replace(exp.HexString(this=digits.zfill(len(digits) + len(digits) % 2)))
        elif (found := written(node)) is not node:
            node.replace(found)
    for node in list(made.find_all(exp.Paren)):
        is_item = isinstance(node.parent, exp.Select | exp.Alias) and node.arg_key != "having"
        if is_item and (form := node.meta.get("form")) is not None:  # a text that is selected stays one
            node.replace(exp.Anonymous(this="strftime", expressions=[node.copy(), exp.Literal.string(form)]))
    return made.this  # type: ignore[no-any-return]


def _moved(node: Any) -> Any:
    """Returns a time plus an interval, in any order; None for other sums."""
    from sqlglot import exp

    from pfs._sql.mysql_times import moved

    this, span = node.this, node.expression
    if isinstance(this, exp.Interval) and isinstance(node, exp.Add):
        # For sqlglot a text behind the sign is another interval.
        this, span = (span.this if isinstance(span, exp.Interval) and span.args.get("unit") is None else span), this
    if not isinstance(span, exp.Interval) or isinstance(this, exp.Interval) or span.args.get("unit") is None:
        return None
    return moved(this, span.this, span.text("unit").upper(), isinstance(node, exp.Sub))


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
    if isinstance(node, exp.Collate):
        return (
            node.this
            if not node.expression.name.lower().endswith("_ci")
            else exp.Collate(this=node.this, expression=exp.var("nocase"))
        )
    if isinstance(node, exp.Join) and (node.text("kind") + node.text("method")).upper() == "STRAIGHT_JOIN":
        node.set("method", None)
        node.set("kind", None if node.args.get("on") or node.args.get("using") else "CROSS")
    if isinstance(node, exp.Select):
        return _grouped(node)
    if isinstance(node, exp.IntDiv | exp.Mod) and not isinstance(node.expression, exp.Nullif):  # by 0: NULL, no error
        node.set("expression", exp.Nullif(this=node.expression, expression=exp.Literal.number(0)))
    if isinstance(node, exp.StrPosition) and not isinstance(node.this, exp.Lower):  # LOCATE() and INSTR() ignore case
        for part in ("this", "substr"):
            node.set(part, exp.Lower(this=node.args[part]))
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        is_unsigned = _MOST_ROWS < int(node.name) < 2**64 and not isinstance(node.parent, exp.Neg | exp.Limit | exp.Offset)
        return exp.cast(node.copy(), exp.DataType.build("ubigint", dialect="duckdb")) if is_unsigned else node
    if isinstance(node, exp.Limit | exp.Offset) and node.expression.name.isdecimal():
        node.expression.set("this", str(min(int(node.expression.name), _MOST_ROWS)))
    if isinstance(node, exp.BitwiseNot):  # numbers have no sign then
        return _complement(node.this)
    if type(node) is exp.Like:
        found = exp.ILike(**node.args)  # with its NOT
        has_escapes = isinstance(node.expression, exp.Literal) and "\\" in node.expression.name
        if has_escapes and not isinstance(node.parent, exp.Escape):
            return exp.Escape(this=found, expression=exp.Literal.string("\\"))  # MySQL has it without being told
        return found
    return node


def _complement(node: Any) -> Any:
    from sqlglot import exp, parse_one

    text = "(case when x >= 0 then 18446744073709551615::hugeint - x else -(x::hugeint) - 1 end)::ubigint"

    def change(part: Any) -> Any:
        return exp.paren(node.copy()) if isinstance(part, exp.Column) else part

    return exp.paren(parse_one(text, read="duckdb").transform(change))


def _grouped(select: Any) -> Any:
    """Returns a SELECT with ROLLUP, and with HAVING, as DuckDB has them."""
    from sqlglot import exp

    group, having = select.args.get("group"), select.args.get("having")
    if group is not None and any(not each.expressions for each in group.args.get("rollup") or ()):
        keys = group.expressions
        group.set("rollup", [exp.Rollup(expressions=keys)])
        group.set("expressions", [])
        if select.args.get("order") is None:  # MySQL has a sum behind its rows
            select.set("order", exp.Order(expressions=[exp.Ordered(this=key.copy(), nulls_first=False) for key in keys]))
    if having is not None and group is None and not any(part.find(exp.AggFunc) for part in (having, *select.expressions)):
        select.set("having", None)
        return select.where(having.this, copy=False)  # of rows: MySQL has no groups without GROUP BY
    return select


def _now(digits: object) -> Any:
    """Returns the time of the statement, which has no time zone in MySQL. It is of whole seconds if nobody asks for digits."""
    from sqlglot import exp

    now = exp.cast(exp.CurrentTimestamp(), "timestamp")
    return now if digits else exp.TimestampTrunc(this=now, unit=exp.var("SECOND"))
