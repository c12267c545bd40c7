"""Finds the tables, columns and functions that a statement names, so that only these are read and made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

__all__ = ["EXPLAIN", "Names", "names_in"]

EXPLAIN = re.compile(r"^\s*explain\s+(analyze\s+)?(\([^)]*\)\s*)?", re.IGNORECASE)


@dataclass(slots=True)
class Names:
    """Holds what one statement names, in lower case."""

    tables: list[tuple[str, str]] = field(default_factory=list)  # (schema or "", table)
    columns: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    is_of_all_columns: bool = False  # the statement may need columns that it does not name
    is_free_of_order: bool = False  # its answer is the same for any order of the rows


_MOST_KNOWN, _LONG = 256, 4096
_AGGREGATES = {"count", "count_star", "sum", "min", "max", "avg"}
_PLAIN = {"round", "~~", "!~~"}  # the latter are LIKE and NOT LIKE
_EXPRESSIONS = {"COLUMN_REF", "FUNCTION", "CONSTANT", "COMPARISON", "CONJUNCTION", "BETWEEN", "OPERATOR", "CASE", "CAST"}
_PARTS = {"None", "SELECT_NODE", "BASE_TABLE", "ORDER_MODIFIER", "LIMIT_MODIFIER", "ASCENDING", "DESCENDING", "ORDER_DEFAULT"}
_known: dict[str, Names] = {}


def names_in(connection: duckdb.DuckDBPyConnection, statement: str) -> Names:
    """Returns what a statement names, which nobody changes. The statement parses.

    It is kept: a view is asked again and again, and so is a statement of a dashboard.
    """
    if (found := _known.get(statement)) is None:
        found = _found(connection, statement)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        if len(statement) <= _LONG:
            _known[statement] = found
    return found


def _found(connection: duckdb.DuckDBPyConnection, statement: str) -> Names:
    found = Names()
    text = EXPLAIN.sub("", statement).replace("'", "''")
    tree = json.loads(connection.execute(f"select json_serialize_sql('{text}')").fetchall()[0][0])
    nodes = list(_nodes(tree))
    if tree["error"] or any(node.get("type") in ("SHOW_REF", "PIVOT") for node in nodes):
        # The parser gives no tree of these statements, but knows their tables.
        for name in connection.get_table_names(statement, qualified=True):
            schema, _, table = name.lower().replace('"', "").rpartition(".")
            _add(found, schema, table)
        found.functions = _called(statement)
        found.is_of_all_columns = True
        return found
    inner = {str(entry["key"]).lower() for node in nodes for entry in (node.get("cte_map") or {"map": ()})["map"]}
    relations: set[str] = set()
    alone: set[str] = set()
    for node in nodes:
        kind = node.get("type")
        if kind == "BASE_TABLE":
            schema, table = str(node["schema_name"]).lower(), str(node["table_name"]).lower()
            relations |= {table, str(node["alias"]).lower()}
            found.is_of_all_columns |= bool(node["column_name_alias"])
            if schema or table not in inner:
                _add(found, schema, table)
        elif kind == "STAR":
            found.is_of_all_columns = True
        elif kind == "JOIN":
            found.is_of_all_columns |= node["ref_type"] in ("NATURAL", "POSITIONAL")
            found.columns.update(str(name).lower() for name in node["using_columns"])
        elif kind == "COLUMN_REF":
            parts = [str(name).lower() for name in node["column_names"]]
            found.columns.update(parts)
            alone.update(parts[:1] if len(parts) == 1 else ())
        elif kind == "FUNCTION":
            found.functions.add(str(node["function_name"]).lower())
    found.is_of_all_columns |= not relations.isdisjoint(alone)  # a table as a value has all its columns
    found.is_free_of_order = _is_free_of_order(nodes)
    return found


def _called(statement: str) -> set[str]:
    """Returns the names before a parenthesis, as DuckDB divides the text: a name may be quoted, and a comment may follow it."""
    import duckdb

    text = statement.encode()
    tokens = duckdb.tokenize(statement)
    ends = [*(at for at, _ in tokens[1:]), len(text)]
    words = [text[at:end].strip() for (at, kind), end in zip(tokens, ends, strict=True) if kind != duckdb.token_type.comment]
    return {name.decode().strip('"').lower() for name, after in pairwise(words) if after.startswith(b"(")}


def _is_free_of_order(nodes: Sequence[dict[str, Any]]) -> bool:
    """Returns whether the statement is one SELECT from a table that only counts, adds and compares. All else counts as not free.

    SQL says nothing about the order of groups, nor which of two equal ones comes before a LIMIT.
    """
    functions = {str(node["function_name"]) for node in nodes if node.get("type") == "FUNCTION" and not node["is_operator"]}
    return (
        all(node.get("class") in _EXPRESSIONS or str(node.get("type")) in _PARTS for node in nodes)
        and sum(node.get("type") == "SELECT_NODE" for node in nodes) == 1
        and not functions.isdisjoint(_AGGREGATES)
        and functions <= _AGGREGATES | _PLAIN
    )


def _add(found: Names, schema: str, table: str) -> None:
    if (schema, table) not in found.tables:
        found.tables.append((schema, table))


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            yield node
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
