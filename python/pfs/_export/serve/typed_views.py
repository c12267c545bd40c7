"""Gives the views of sys the types that they have in MySQL. There, a mean of rows is a decimal number; pandas has integers."""

from __future__ import annotations

from collections.abc import Mapping

from pfs._sql.views.declared import VIEWS

__all__ = ["typed"]

# By name of column, of a view that formats nothing if the name begins with x$: the type of DuckDB.
_TYPES = {
    **dict.fromkeys(("rows_sent_avg", "rows_examined_avg", "rows_affected_avg"), "decimal(21, 0)"),
    **dict.fromkeys(("avg_sort_merges", "avg_rows_sorted", "avg_tmp_tables_per_query"), "decimal(21, 0)"),
    **dict.fromkeys(("error_pct", "warning_pct", "no_index_used_pct", "write_pct"), "decimal(27, 4)"),
    **dict.fromkeys(("wait_age", "waiting_trx_age", "blocking_trx_age"), "interval"),
    **dict.fromkeys(("x$current_avg_alloc", "x$high_avg_alloc"), "decimal(24, 4)"),
    "progress": "decimal(26, 2)",
    "tmp_tables_to_disk_pct": "decimal(24, 0)",
}


def typed(views: Mapping[str, str]) -> dict[str, str]:
    """Returns the SQL of views by full name."""
    return {name: _typed(name.removeprefix("sys."), sql) for name, sql in views.items()}


def _typed(name: str, sql: str) -> str:
    columns = VIEWS[name].columns if name in VIEWS else ()
    kinds = {column: _TYPES.get(column) or (_TYPES.get(f"x${column}") if name[:2] == "x$" else None) for column in columns}
    casts = [f'cast("{column}" as {kind}) as "{column}"' for column, kind in kinds.items() if kind]
    return f"select * replace ({', '.join(casts)}) from ({sql})" if casts else sql
