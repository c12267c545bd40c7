"""``pfs.sql`` and ``pfs.view`` answer questions about this process, another one, or a saved snapshot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pfs._outside.attach import Schema, attach
from pfs._outside.recorded import tell_where
from pfs._snapshots.snapshot import Snapshot, saved_tables
from pfs._source import OWN
from pfs._sql.query import Tables, run
from pfs._sql.sources import ProcessTables
from pfs._views.declared import VIEWS
from pfs.errors import UnknownTable

if TYPE_CHECKING:
    import pandas as pd

    from pfs._sql.query import Dialect
    from pfs._sql.result import Result

    Asked = Schema | Snapshot | int | str | os.PathLike[str] | None

__all__ = ["sql", "tables_of", "view"]


def sql(statement: str, source: Asked = None, dialect: Dialect = "duckdb") -> Result:
    """Answers a question in SQL.

        pfs.sql("select EVENT_NAME, sum(TIMER_WAIT) from events_waits_history_long group by all order by 2 desc").df()

    It reads exactly the tables that the statement names, each once, one after the other: two tables are not of one instant.
    Tables are named ``threads`` or ``performance_schema.threads``; ``sys.statement_analysis`` is a view (`pfs.view`). The
    statement sees no file and no variable of Python, and cannot change anything.

    Args:
        statement: one SELECT in the dialect of DuckDB. Names of tables and columns ignore case.
        source: where to look: None is this process; else a `Schema`, a `Snapshot`, a process id, or the path of a segment, of the
            folder of a snapshot, or of its file.
        dialect: ``"mysql"`` accepts MySQL's syntax: backquotes, LIKE that ignores case, IFNULL, ``LIMIT 5, 10``.

    Returns:
        The rows: ``.rows()``, ``.df()``, ``.arrow``.

    Raises:
        InvalidValue: the statement is no SQL, or fails.
        OperationNotAllowed: the statement is no SELECT.
        UnknownTable, UnknownColumn: with the nearest name.
        Error: duckdb is missing: ``pip install 'perfschema[sql]'``.
    """
    if source is None:
        result = run(statement, ProcessTables(OWN), dialect)
        if len(result) == 0:
            tell_where("the answer")
        return result
    if isinstance(source, Schema):
        return run(statement, ProcessTables(source._source), dialect)
    if isinstance(source, Snapshot):
        return source.sql(statement, dialect)
    tables = tables_of(source)
    if tables is not None:
        return run(statement, tables, dialect)
    with attach(source) as schema:
        return run(statement, ProcessTables(schema._source), dialect)


def tables_of(source: int | str | os.PathLike[str]) -> Tables | None:
    """Returns the tables of a saved snapshot, or None if the source is a process."""
    if isinstance(source, int):
        return None
    path = Path(source)
    return saved_tables(path) if path.is_dir() or path.suffix == ".zip" else None


def view(name: str, source: Asked = None) -> pd.DataFrame:
    """Returns a view of the schema sys as a DataFrame: ``pfs.view("statement_analysis")``.

    A view formats times and sizes; ``x$statement_analysis`` has them as numbers. docs/reference/views.md lists all views.

    Args:
        name: the view, with or without ``sys.`` in front.
        source: as for `pfs.sql`.

    Raises:
        UnknownTable: no view has this name.
        Error: duckdb is missing: ``pip install 'perfschema[sql]'``.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a view is a str, not {type(name).__name__}")
    short = name.lower().removeprefix("sys.")
    if short not in VIEWS:
        from pfs._tables.nearest import hint

        raise UnknownTable(f"unknown view '{name}'{hint(short, list(VIEWS))}")
    return sql(f'select * from sys."{short}"', source).df()
