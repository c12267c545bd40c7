"""Translates statements of MySQL."""

from __future__ import annotations

from typing import Any

from pfs.errors import Error, InvalidValue

__all__ = ["translated"]


def translated(statement: str) -> str:
    """Returns a statement of DuckDB that means the same. LIKE ignores case, as in MySQL.

    Raises:
        Error: sqlglot is missing.
        InvalidValue: the statement is none of MySQL.
    """
    try:
        import sqlglot
        from sqlglot import exp
    except ImportError:
        raise Error("dialect='mysql' needs sqlglot: pip install 'perfschema[sql]'") from None

    def ignoring_case(node: Any) -> Any:
        return exp.ILike(this=node.this, expression=node.expression) if type(node) is exp.Like else node

    try:
        parsed = [tree for tree in sqlglot.parse(statement, read="mysql") if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        raise InvalidValue(f"the statement is no SQL of MySQL: {str(error).splitlines()[0]}") from None
    return "; ".join(tree.transform(ignoring_case).sql(dialect="duckdb") for tree in parsed)
