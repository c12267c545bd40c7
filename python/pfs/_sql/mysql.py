"""Translates statements of MySQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

__all__ = ["parsed", "translated", "translated_tree"]


def parsed(statement: str) -> list[Expression]:
    """Returns the trees of statements of MySQL.

    Raises:
        Error: sqlglot is missing.
        InvalidValue: the statement is none of MySQL.
    """
    try:
        import sqlglot
    except ImportError:
        raise Error("dialect='mysql' needs sqlglot: pip install 'perfschema[sql]'") from None
    try:
        trees: list[Any] = sqlglot.parse(statement, read="mysql")
        return [tree for tree in trees if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InvalidValue(f"the statement is no SQL of MySQL: {str(error).splitlines()[0]}") from None


def translated_tree(tree: Expression) -> str:
    """Returns a statement of DuckDB that means the same. LIKE ignores case, as in MySQL."""
    from sqlglot import exp

    def changed(node: Any) -> Any:
        if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.CHARACTER_SET:
            return exp.DataType.build("text")  # CAST(... AS CHAR CHARACTER SET utf8mb4)
        if type(node) is not exp.Like:
            return node
        found = exp.ILike(this=node.this, expression=node.expression)
        has_escapes = isinstance(node.expression, exp.Literal) and "\\" in node.expression.name
        if has_escapes and not isinstance(node.parent, exp.Escape):
            return exp.Escape(this=found, expression=exp.Literal.string("\\"))  # MySQL has it without being told
        return found

    return str(tree.transform(changed).sql(dialect="duckdb", comments=False))


def translated(statement: str) -> str:
    """Returns statements of DuckDB that mean the same."""
    return "; ".join(translated_tree(tree) for tree in parsed(statement))
