"""Finds quotients and means of exact numbers: they are decimal numbers in MySQL, with four more digits than what is divided.

DuckDB divides as double.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

__all__ = ["make_exact"]

_MORE_DIGITS = 4  # MySQL's div_precision_increment
_MOST_DIGITS = 30
_INNER = (exp.Paren, exp.Neg, exp.Sum, exp.Min, exp.Max, exp.Abs, exp.Window)
_BETWEEN = (exp.Add, exp.Sub, exp.Mod)


def make_exact(tree: Any) -> None:
    """Makes decimal numbers of selected quotients and means of exact numbers. REQUIRES: types are annotated."""
    exact = _Exact(tree)
    for select in tree.find_all(exp.Select):
        for item in select.expressions:
            if isinstance(item, exp.Alias):
                exact.wrap(item.this)
            elif _is_outer(select):  # an inner column without an alias would lose its name
                exact.wrap(item)


def _is_outer(select: Any) -> bool:
    while isinstance(select.parent, exp.SetOperation) and select.arg_key in ("this", "expression"):
        select = select.parent
    return select.parent is None


class _Exact:
    """Knows the digits of the expressions of a statement."""

    def __init__(self, tree: Any) -> None:
        self._aliases = {each.alias.lower(): each.this for each in tree.find_all(exp.Alias)}

    def wrap(self, node: Any) -> None:
        """Works at the largest parts of an expression that are exact."""
        if isinstance(node, exp.Query | exp.Column | exp.Literal):
            return
        digits = self._digits(node)
        if digits is None:
            for child in list(node.iter_expressions()):
                self.wrap(child)
        elif isinstance(node, exp.Ceil | exp.Floor) and not node.find(exp.Sum, exp.Cast):
            node.replace(exp.cast(node.copy(), "bigint"))
        elif node.find(exp.Div, exp.Avg):
            node.replace(exp.cast(node.copy(), f"decimal(38, {min(digits, _MOST_DIGITS)})"))

    def _digits(self, node: Any) -> int | None:
        """Returns how many digits a number has behind its point; None if it is not exact."""
        if isinstance(node, exp.Literal):
            digits: int | None = None if node.is_string or "e" in node.name.lower() else len(node.name.partition(".")[2])
            return digits
        if isinstance(node, _INNER):
            return self._digits(node.this)
        if isinstance(node, exp.Avg):
            found = self._digits(node.this)
            return None if found is None else found + _MORE_DIGITS
        if isinstance(node, exp.Round):
            places = node.args.get("decimals")
            if self._digits(node.this) is None or not (places is None or places.is_int):
                return None
            return 0 if places is None else max(0, int(places.sql()))
        if isinstance(node, exp.Ceil | exp.Floor | exp.IntDiv):
            return None if self._digits(node.this) is None else 0
        if isinstance(node, (*_BETWEEN, exp.Mul, exp.Div)):
            left, right = self._digits(node.this), self._digits(node.expression)
            if left is None or right is None:
                return None
            if isinstance(node, exp.Div):
                return left + _MORE_DIGITS
            return left + right if isinstance(node, exp.Mul) else max(left, right)
        if isinstance(node, exp.Nullif):
            return self._digits(node.this)
        if isinstance(node, exp.Coalesce):
            return self._most([node.this, *node.expressions])
        if isinstance(node, exp.If):
            return self._most([node.args["true"], node.args.get("false")])
        if isinstance(node, exp.Case):
            return self._most([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")])
        return self._digits_of_type(node)

    def _digits_of_type(self, node: Any) -> int | None:
        kind = node.type
        if kind is not None and kind.this in exp.DataType.INTEGER_TYPES:
            return 0
        if kind is not None and kind.this == exp.DataType.Type.DECIMAL and kind.expressions:
            return int(kind.expressions[1].name) if len(kind.expressions) > 1 else 0
        name = node.name.lower() if isinstance(node, exp.Column) else ""
        if name not in self._aliases:
            return None
        made = self._aliases.pop(name)  # an alias may stand for an expression that has a column of its name
        found = self._digits(made)
        self._aliases[name] = made
        return found

    def _most(self, nodes: list[Any]) -> int | None:
        """Returns the most digits of values that may be NULL; None if one is not exact."""
        found = [self._digits(node) for node in nodes if node is not None and not isinstance(node, exp.Null)]
        return None if None in found else max((each for each in found if each is not None), default=None)
