"""Finds the tables and columns that a SELECT names: a client learns them with each column of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from pfs._export.serve.wire import Column, Origin

__all__ = ["origins_of", "set_origins"]

_MOST_COLUMNS = 4096  # as in MySQL
Origins = list[tuple[str, Origin | None]] | None  # names, and where they come from; None: nobody knows
ColumnsOf = Callable[[str, str], Sequence[str] | None]  # of schema and table


@dataclass(slots=True)
class _Table:
    """A table behind FROM. ``merged``: columns that an unqualified star shows once, at a table before it."""

    name: str
    schema: str
    columns: Origins
    merged: frozenset[str] = frozenset()


def origins_of(tree: exp.Expression, database: str, columns_of: ColumnsOf) -> Origins:
    """Returns the columns of a query with their origins. An expression, and a column of UNION, has none.

    Args:
        tree: of the statement, as the client wrote it.
        database: of tables without one.
    """
    try:
        return _Reader(database, columns_of).columns(tree, {})
    except RecursionError:  # queries in queries in queries
        return None


def set_origins(columns: Sequence[Column], found: Origins) -> None:
    """Gives the columns of an answer their origins, if those are of the same columns."""
    if found is None or len(found) != len(columns):
        return
    for column, (name, origin) in zip(columns, found, strict=True):
        if origin is not None and column.name.lower() == name.lower():
            column.origin = origin


class _Reader:
    def __init__(self, database: str, columns_of: ColumnsOf) -> None:
        self._database = database
        self._columns_of = columns_of

    def columns(self, query: Any, outer: Mapping[str, Origins]) -> Origins:
        """Returns the columns of a query. ``outer``: those of the tables that a WITH around it names."""
        inner, is_union = dict(outer), False
        while True:
            if (names := query.args.get("with_")) is not None:
                for each in names.expressions:
                    inner[each.alias.lower()] = _renamed(self.columns(each.this, inner), each.args["alias"].columns)
            if not isinstance(query, exp.SetOperation | exp.Subquery):
                break
            is_union = is_union or isinstance(query, exp.SetOperation)
            query = query.this
        found = self._selected(query, inner) if isinstance(query, exp.Select) else None
        return [(name, None) for name, _ in found] if is_union and found is not None else found

    def _selected(self, select: exp.Select, inner: Mapping[str, Origins]) -> Origins:
        tables = self._tables(select, inner)
        found: list[tuple[str, Origin | None]] = []
        for item in select.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                for table in _named(tables, item):
                    if table.columns is None or len(found) > _MOST_COLUMNS:
                        return None
                    hidden = frozenset[str]() if isinstance(item, exp.Column) else table.merged
                    found += [column for column in table.columns if column[0].lower() not in hidden]
            else:
                what = item.unalias()
                found.append((item.alias_or_name, _found(tables, what) if isinstance(what, exp.Column) else None))
        return found

    def _tables(self, select: exp.Select, inner: Mapping[str, Origins]) -> list[_Table]:
        begin = select.args.get("from_")
        return [] if begin is None else self._joined([], begin.this, select.args.get("joins") or [], inner)

    def _joined(self, before: list[_Table], first: Any, joins: Sequence[Any], inner: Mapping[str, Origins]) -> list[_Table]:
        """Returns tables that are joined, behind those before them."""
        found = before + self._behind(first, inner)
        for join in joins:
            more = self._behind(join.this, inner)
            if join.args.get("method") == "NATURAL":
                merged = _names(found) & _names(more)
            else:
                merged = frozenset(name.name.lower() for name in join.args.get("using") or [])
            found += [replace(table, merged=table.merged | merged) for table in more]
        return found

    def _behind(self, node: Any, inner: Mapping[str, Origins]) -> list[_Table]:
        """Returns the tables that stand at one place behind FROM or JOIN."""
        joins = node.args.get("joins") or []
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
            return self._joined([], node.this, joins, inner)
        if joins:
            alone = node.copy()
            alone.set("joins", None)
            return self._joined([], alone, joins, inner)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return [] if node.name.lower() == "dual" and not node.db else [self._table(node, inner)]
        renamed = node.args["alias"].columns if node.args.get("alias") is not None else []
        columns = self.columns(node, inner) if isinstance(node, exp.Subquery) else None
        return [_derived(node.alias, _renamed(columns, renamed))]

    def _table(self, node: exp.Table, inner: Mapping[str, Origins]) -> _Table:
        if not node.db and node.name.lower() in inner:
            return _derived(node.alias_or_name, inner[node.name.lower()])
        schema, table = (node.db or self._database).lower(), node.name.lower()
        names = self._columns_of(schema, table)
        shown = table.upper() if schema == "information_schema" else table  # as in MySQL
        origins = [Origin(schema, node.alias_or_name, shown, name) for name in names or ()]
        return _Table(node.alias_or_name.lower(), schema, None if names is None else [(each.org_name, each) for each in origins])


def _derived(name: str, columns: Origins) -> _Table:
    """Returns a table that a query makes. Its columns have its name, and else those of the table that the query reads."""
    if columns is not None:
        columns = [
            (title, Origin("", name, "", title) if origin is None else replace(origin, table=name)) for title, origin in columns
        ]
    return _Table(name.lower(), "", columns)


def _renamed(columns: Origins, names: Sequence[exp.Expression]) -> Origins:
    """Returns columns with the names behind that of their table, if there are any."""
    if columns is None or not names:
        return columns
    return [(name.name, origin) for name, (_, origin) in zip(names, columns, strict=False)]


def _names(tables: Sequence[_Table]) -> frozenset[str]:
    return frozenset(name.lower() for table in tables for name, _ in table.columns or ())


def _named(tables: Sequence[_Table], column: Any) -> list[_Table]:
    """Returns the tables of which a column, or a star, may be."""
    table, schema = column.text("table").lower(), column.text("db").lower()
    return [each for each in tables if table in ("", each.name) and schema in ("", each.schema)]


def _found(tables: Sequence[_Table], column: exp.Column) -> Origin | None:
    wanted = column.name.lower()
    for table in _named(tables, column):
        for name, origin in table.columns or ():
            if name.lower() == wanted:
                return origin
    return None
