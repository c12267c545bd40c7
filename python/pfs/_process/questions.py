"""``pfs.sql`` and ``pfs.view`` answer questions about this process, another one, or a saved snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pfs._process.attach import Schema, attach
from pfs._process.history.store import folders_of
from pfs._process.history.tables import VIEWS, HistoryTables
from pfs._process.recorded import tell_where
from pfs._read.source import OWN
from pfs._save.snapshot import Snapshot, read_snapshot, saved_tables
from pfs._sql.query import Tables, run
from pfs._sql.sources import ProcessTables
from pfs._sql.views.declared import question_of

if TYPE_CHECKING:
    import pandas as pd

    from pfs._sql.query import Dialect
    from pfs._sql.result import Result

    Source = Schema | Snapshot | int | str | os.PathLike[str]
    Asked = Source | None

__all__ = ["asked", "sql", "tables_of", "view"]


def sql(statement: str, source: Asked = None, dialect: Dialect = "duckdb") -> Result:
    """Answers a question in SQL.

        pfs.sql("select EVENT_NAME, sum(TIMER_WAIT) from events_waits_history_long group by all order by 2 desc").df()

    It reads exactly the tables that the statement names, each once, one after the other: two tables are not of one instant.
    Tables are named ``threads`` or ``performance_schema.threads``; ``sys.statement_analysis`` is a view (`pfs.view`). The
    statement sees no file and no variable of Python, and cannot change anything.

    Args:
        statement: one SELECT in the dialect of DuckDB. Names of tables and columns ignore case.
        source: where to look: None is this process; else a `Schema`, a `Snapshot`, a process id, or the path of a segment, of the
            folder of a snapshot, of its file, or of samples, which are the table ``active_session_history``.
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
    if not isinstance(source, Schema | Snapshot) and (folders := folders_of(source)):
        return run(statement, HistoryTables(folders), dialect, VIEWS)
    if not isinstance(source, Schema | Snapshot) and (tables := tables_of(source)) is not None:
        return run(statement, tables, dialect)  # DuckDB reads the files itself
    with asked(source) as found:
        return found.sql(statement, dialect)


@contextmanager
def asked(source: Source) -> Iterator[Schema | Snapshot]:
    """Opens what a user asks: see ``sql``. REQUIRES: it is not None, which is this process."""
    if isinstance(source, Schema | Snapshot):
        yield source
    elif is_saved(source):
        assert not isinstance(source, int)
        yield read_snapshot(source)
    else:
        with attach(source) as schema:
            yield schema


def tables_of(source: int | str | os.PathLike[str]) -> Tables | None:
    """Returns the tables of a saved snapshot, or None if the source is a process."""
    return None if isinstance(source, int) or not is_saved(source) else saved_tables(Path(source))


def is_saved(source: int | str | os.PathLike[str]) -> bool:
    """Returns whether a source is a saved snapshot: a folder, or a file whose name ends in .zip."""
    return not isinstance(source, int) and (Path(source).is_dir() or Path(source).suffix == ".zip")


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
    found = sql(question_of(name), source).df()
    found.attrs = {"table": f"sys.{name.lower().removeprefix('sys.')}", "read_at": datetime.now(UTC).isoformat()}
    return found
