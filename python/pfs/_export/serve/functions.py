"""Puts what a session knows into a statement: who asks and when, variables, and what its last answer had."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from pfs._export.serve.variables import CHARSETS, Session, Value, codec_of
from pfs._export.serve.wire import Refusal

__all__ = ["NOT_IN_GROUP", "is_not_in_group", "replaced", "with_any_values", "without_case"]

_COLLATION = re.compile(f"({'|'.join(CHARSETS)})(_[a-z0-9_]+)?|nocase", re.IGNORECASE)  # its name begins with its character set
_UNKNOWN_COLLATION = 1273
_WITHOUT_PARENTHESES = ("UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP")  # functions that the parser takes for columns


def replaced(
    tree: exp.Expression, session: Session, users: Mapping[str, Value | None], facts: Mapping[str, Value | None]
) -> exp.Expression:
    """Returns a tree with values instead of @@name, @name, and functions without arguments.

    Args:
        users: the variables of the client, whose names begin with @.
        facts: values of functions, by name.

    Raises:
        Refusal: a variable, a character set or a collation is unknown.
    """
    calls = _times(session)

    def change(node: Any) -> Any:
        if isinstance(node, exp.SessionParameter):
            return _titled(node, _literal(session.read(node.name, node.text("kind").lower() == "global")))
        if isinstance(node, exp.Parameter):
            return _titled(node, _literal(users.get(node.name.lower())))
        if isinstance(node, exp.Collate) and not _COLLATION.fullmatch(node.expression.name):
            raise Refusal(_UNKNOWN_COLLATION, f"Unknown collation: '{node.expression.name}'")
        if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.CHARACTER_SET:
            codec_of(node.text("kind"))
            return node
        if isinstance(node, exp.Column) and node.sql().upper() in _WITHOUT_PARENTHESES:
            return _titled(node, calls[name := node.name.upper()](exp.Anonymous(this=name)))
        if not isinstance(node, exp.Func):
            return node
        name = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql_name()
        if name in facts:
            return _titled(node, _literal(facts[name]))
        return _titled(node, calls[name](node)) if name in calls else node

    made: Any = tree.transform(change, copy=False)
    return made  # type: ignore[no-any-return]


def without_case(tree: exp.Expression, database: str) -> exp.Expression:
    """Returns a tree that compares columns of information_schema with texts as MySQL does: without regard to case."""
    schemas = {(table.text("db") or database).lower() for table in tree.find_all(exp.Table)}
    if schemas != {"information_schema"}:
        return tree
    tree = tree.copy()
    for node in list(tree.find_all(exp.EQ)):
        column, text = node.this, node.expression
        if isinstance(column, exp.Column) and isinstance(text, exp.Literal) and text.is_string:
            node.set("this", exp.Lower(this=column.copy()))
            node.set("expression", exp.Literal.string(text.name.lower()))
    return tree


NOT_IN_GROUP = "must appear in the GROUP BY clause"  # DuckDB's words


def is_not_in_group(error: Exception) -> bool:
    """Returns whether DuckDB refuses a column for which a group has several values."""
    return NOT_IN_GROUP in str(error)


def with_any_values(tree: exp.Expression) -> exp.Expression:
    """Returns a tree that takes some value of a group, as MySQL does without ONLY_FULL_GROUP_BY."""
    made: Any = tree.copy()
    for select in list(made.find_all(exp.Select)):
        group = select.args.get("group")
        if group is None and not any(item.find(exp.AggFunc) for item in select.expressions):
            continue
        keys = {key.sql().lower() for key in (group.expressions if group is not None else ())}
        keys |= {item.sql().lower() for place, item in enumerate(select.expressions, 1) if str(place) in keys}
        names = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        select.set("expressions", [_any_value(item, keys, set(), is_item=True) for item in select.expressions])
        for part in ("having", "order"):
            if (there := select.args.get(part)) is not None:
                select.set(part, _any_value(there, keys, names))
    return made  # type: ignore[no-any-return]


def _any_value(node: Any, keys: set[str], names: set[str], is_item: bool = False) -> Any:
    """``names``: of columns that the statement itself makes."""

    def change(part: Any) -> Any:
        if isinstance(part, exp.AggFunc | exp.Query) or part.sql().lower() in keys:
            return None
        if not isinstance(part, exp.Column) or part.sql().lower() in names or isinstance(part.this, exp.Star):
            return part
        return exp.AnyValue(this=part.copy())

    def walk(part: Any) -> Any:
        made = change(part)
        if made is None or made is not part:
            return part if made is None else made
        for key, value in list(part.args.items()):
            if isinstance(value, exp.Expression):
                part.set(key, walk(value))
            elif isinstance(value, list):
                part.set(key, [walk(each) if isinstance(each, exp.Expression) else each for each in value])
        return part

    found = walk(node)
    return exp.alias_(found, node.name) if is_item and isinstance(found, exp.AnyValue) else found


def _literal(value: Value | None) -> exp.Expression:
    if value is None:
        return exp.cast(exp.null(), "varchar")  # a variable has a type
    if isinstance(value, float):
        return exp.cast(exp.Literal.number(str(value)), "double")
    return exp.Literal.number(int(value)) if isinstance(value, int) else exp.Literal.string(value)


def _titled(node: Any, made: Any) -> Any:
    """Keeps the name that the outer part of a statement has for a column of an inner one."""
    is_item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    return exp.alias_(made, node.sql(dialect="mysql"), quoted=True) if is_item else made


def _times(session: Session) -> dict[str, Callable[[Any], exp.Expression]]:
    here, utc = session.now(), datetime.now(UTC).replace(tzinfo=None)

    def moment(time: datetime) -> Callable[[exp.Expression], exp.Expression]:
        return lambda node: (
            _cast(str(time), "TIMESTAMP") if _digits(node) else _cast(str(time.replace(microsecond=0)), "TIMESTAMP_S")
        )

    def day(time: datetime) -> Callable[[exp.Expression], exp.Expression]:
        return lambda _: _cast(str(time.date()), "DATE")

    def clock(time: datetime) -> Callable[[exp.Expression], exp.Expression]:
        return lambda node: _cast(str((time if _digits(node) else time.replace(microsecond=0)).time()), "TIME")

    return {
        **dict.fromkeys(("NOW", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "SYSDATE"), moment(here)),
        **dict.fromkeys(("CURDATE", "CURRENT_DATE"), day(here)),
        **dict.fromkeys(("CURTIME", "CURRENT_TIME"), clock(here)),
        "UTC_TIMESTAMP": moment(utc),
        "UTC_DATE": day(utc),
        "UTC_TIME": clock(utc),
    }


def _digits(node: exp.Expression) -> str:
    """Returns the argument of a function: how many digits of a second it gives."""
    given = node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
    return given.name.strip("0") if isinstance(given, exp.Expression) else ""


def _cast(text: str, kind: str) -> Any:
    made: Any = exp.cast(exp.Literal.string(text), exp.DataType.build(kind, dialect="duckdb"))
    return made
