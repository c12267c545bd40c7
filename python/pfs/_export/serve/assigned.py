"""Puts expressions in the places of variables that a SELECT sets and reads in the same row: ``@a := CASE ... END, @a``.

The catalog functions of ODBC do so. A variable that keeps its value from row to row is refused.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from pfs.errors import InvalidValue

__all__ = ["without_assignments"]

_MOST = 20_000  # parts of expressions that are put in
_Known = dict[str, Any]  # expressions by name; None: a value of another row


def without_assignments(tree: exp.Expression) -> exp.Expression:
    """Returns a tree without assignments to variables.

    Raises:
        InvalidValue: a variable keeps its value from row to row, or the result would be very large.
    """
    for select in list(tree.find_all(exp.Select)):
        names = {each.this.name.lower() for item in select.expressions for each in item.find_all(exp.PropertyEQ) if _is_set(each)}
        if names:
            row = _Row(names)
            select.set("expressions", [row.read(item) for item in select.expressions])
    return tree


def _is_set(node: Any) -> bool:
    return isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Parameter)


class _Row:
    """Follows the variables through the items of a SELECT, from left to right."""

    def __init__(self, names: set[str]) -> None:
        self._known: _Known = dict.fromkeys(names)
        self._left = _MOST

    def read(self, node: Any) -> Any:
        """Returns an expression without variables, and goes on with what it sets."""
        if _is_set(node):
            value = self.read(node.expression)
            self._known[node.this.name.lower()] = value
            return self._copy(value)
        if isinstance(node, exp.Parameter) and node.name.lower() in self._known:
            value = self._known[node.name.lower()]
            if value is None:
                raise InvalidValue(f"@{node.name} has a value of another row: legal are variables that the same row sets before")
            return exp.paren(self._copy(value), copy=False)
        if isinstance(node, exp.Case | exp.If):
            return self._branched(node)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                node.set(key, self.read(value))
            elif isinstance(value, list):
                node.set(key, [self.read(each) if isinstance(each, exp.Expression) else each for each in value])
        return node

    def _branched(self, node: Any) -> Any:
        """Reads CASE or IF: what a variable has behind it depends on the branch."""
        of_case = isinstance(node, exp.Case)
        if of_case and node.this:
            node.set("this", self.read(node.this))
        branches, last = (node.args["ifs"], "default") if of_case else ([node], "false")
        for branch in branches:
            branch.set("this", self.read(branch.this))
        before, behind = dict(self._known), []
        for holder, key in [*((branch, "true") for branch in branches), (node, last)]:
            self._known = dict(before)
            if holder.args.get(key) is not None:
                holder.set(key, self.read(holder.args[key]))
            behind.append(self._known)
        self._known = {name: self._merged(node, branches, of_case, [each[name] for each in behind]) for name in before}
        return node

    def _merged(self, node: Any, branches: list[Any], of_case: bool, values: list[Any]) -> Any:
        if all(value is values[0] for value in values):
            return values[0]
        if any(value is None for value in values):
            return None
        pairs = zip(branches, values[:-1], strict=True)
        ifs = [exp.If(this=self._copy(branch.this), true=self._copy(value)) for branch, value in pairs]
        operand = self._copy(node.this) if of_case and node.this else None
        return exp.Case(this=operand, ifs=ifs, default=self._copy(values[-1]))

    def _copy(self, value: Any) -> Any:
        self._left -= sum(1 for _ in value.walk())
        if self._left < 0:
            raise InvalidValue(f"variables would put more than {_MOST} parts of expressions into the statement")
        return value.copy()
