"""Answers EXPLAIN: which tables a statement reads. Each is read whole, because nothing here has an index."""

from __future__ import annotations

import json

from sqlglot import exp

from pfs._export.serve.answers import Answer, text_answer
from pfs._export.serve.wire import Column, Kind, Refusal

__all__ = ["plan_of"]

_TITLES = (
    "id",
    "select_type",
    "table",
    "partitions",
    "type",
    "possible_keys",
    "key",
    "key_len",
    "ref",
    "rows",
    "filtered",
    "Extra",
)
_FORMS = ("", "TRADITIONAL", "JSON", "TREE")
_UNKNOWN_FORM = 1791
_KINDS = {"id": Kind.LONGLONG, "rows": Kind.LONGLONG, "filtered": Kind.DOUBLE}


def plan_of(tree: exp.Describe) -> Answer:
    """Returns the plan in the form that the statement asks for.

    Raises:
        Refusal: there is no such form.
    """
    inner = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    tables = [table.alias_or_name for table in tree.find_all(exp.Table) if table.name.lower() not in {*inner, "dual"}]
    form = tree.args.get("format")
    kind = form.name.upper() if form is not None else ""
    if kind not in _FORMS:
        raise Refusal(_UNKNOWN_FORM, f"Unknown EXPLAIN format name: '{kind}'")
    if kind == "JSON":
        parts = [{"table": {"table_name": name, "access_type": "ALL", "filtered": "100.00"}} for name in tables]
        block = {"select_id": 1, **({"nested_loop": parts} if parts else {"message": "No tables used"})}
        return text_answer(["EXPLAIN"], [(json.dumps({"query_block": block}, indent=2),)])
    if kind == "TREE" or tree.text("style").upper() == "ANALYZE":
        lines = [f"-> Table scan on {name}" for name in tables] or ["-> Rows fetched before execution"]
        return text_answer(["EXPLAIN"], [("\n".join(lines) + "\n",)])
    columns = [Column(title, _KINDS.get(title, Kind.VAR_STRING), 256) for title in _TITLES]
    nothing = [None] * 5
    rows = [(1, "SIMPLE", name, None, "ALL", *nothing[:4], None, 100.0, None) for name in tables]
    return Answer(columns, rows or [(1, "SIMPLE", *nothing, *nothing[:4], "No tables used")])
