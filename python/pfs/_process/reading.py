"""Functions that read this process: its tables, what runs now, Arrow."""

from __future__ import annotations

from pfs import _core
from pfs._read.kinds import listed
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    import pandas as pd

    from pfs._names import TableName
    from pfs._process.questions import Asked
    from pfs._read.units import Unit

__all__ = ["arrow", "ddl", "describe", "digest", "now", "table", "tables", "truncate"]


def tables() -> list[str]:
    """Returns the names of all tables, sorted."""
    return _core.tables()


def table(
    name: TableName | str,
    columns: Iterable[str] | None = None,
    source: Asked = None,
    *,
    running: Literal["elapsed"] | None = None,
    unit: Unit | None = None,
    where: str | Mapping[str, object] | None = None,
    order: str | Sequence[str] | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """Returns the current rows of a table as a DataFrame.

        pfs.table("events_waits_history_long", where="TIMER_WAIT > 5ms", order="TIMER_WAIT desc", limit=10, unit="s")

    Args:
        name: one of ``pfs.tables()``.
        columns: the columns to read, in this order; None reads all. Case does not matter.
        source: where to look: None is this process; else as for `pfs.sql`.
        running: what an event that still runs shows as TIMER_END and TIMER_WAIT. None: NULL. "elapsed": ``pfs.now()``, and the
            time from TIMER_START to then, as MySQL 8 does. END_EVENT_ID stays NULL.
        unit: how times are written. None or "ps": whole picoseconds. "ns", "us", "ms", "s" or "min": floating point, with NaN for
            NULL. "timedelta": ``timedelta64[ns]``, rounded down, with NaT for NULL.
        where: the rows to read: comparisons of columns with numbers and 'texts' (``= <> < <= > >= like in between is null``)
            joined by ``and``, ``or``, ``not``. Times are in picoseconds or have a unit (``5ms``). ``=`` regards case, ``like``
            does not. A dict gives a pattern or value per column: ``{"EVENT_NAME": "wait/io/%"}``. Other rows are not copied.
        order: columns to sort by: ``"SUM_TIMER_WAIT desc, EVENT_NAME"``, or a list of such texts. NULL comes first, behind
            ``desc`` last. None is storage order: sort events by THREAD_ID and EVENT_ID, or by TIMER_END.
        limit: the most rows to return. Without `order` it is not said which.

    Returns:
        One row per row of the table. Whole numbers are int64, or the nullable Int64 where NULL is possible; a column that has a
        value of 2**63 or more is uint64 or UInt64. Text is ``string``; ENUM is ``category``; TIMESTAMP is ``datetime64[us]`` in
        UTC. No column has dtype object. TIMER_* and *_TIMER_* columns are times. ``attrs`` has the table, the unit, the pid, the
        time of the reading, and the counters of lost events and objects that are not zero.

    Raises:
        UnknownTable: no table has this name.
        UnknownColumn: the table has no such column.
        InvalidValue: a column is named twice; a bad value for ``running``, ``unit``, ``where``, ``order`` or ``limit``.
    """
    from pfs._read import frame

    if source is not None:
        from pfs._process.attach import Schema
        from pfs._process.questions import asked

        with asked(source) as place:
            if isinstance(place, Schema):
                return place.table(name, columns, running=running, unit=unit, where=where, order=order, limit=limit)
            return place.table(name, columns, unit=unit, where=where, order=order, limit=limit)
    found = frame.frame(name, columns, running=running, unit=unit, where=where, order=order, limit=limit)
    if found.empty:
        from pfs._process.recorded import tell_where

        tell_where(str(name))
    return found


def describe(name: TableName | str | None = None) -> pd.DataFrame:
    """Describes the columns of a table: one row per column, with its SQL type, unit and description. Without a name it lists all
    tables: what each contains, its operations and its key.

    Raises:
        UnknownTable: no table has this name.
    """
    from pfs._read import frame

    return frame.describe_all() if name is None else frame.describe(name)


def now() -> int:
    """Returns the present time on the time line of the events, in picoseconds since the start of pfs: what TIMER_START of an
    event that begins now would be. It is 0 if pfs is off."""
    return _core.now(None)


def arrow(name: TableName | str, columns: Iterable[str] | None = None, source: Asked = None) -> _core.ArrowTable:
    """Returns the current rows of a table for any reader of the Arrow C stream interface: DuckDB, polars, pyarrow, pandas 3.

        polars.DataFrame(pfs.arrow("file_summary_by_instance"))

    The result is a snapshot: it may be read again and again. It needs no package beside the reader.

    Args:
        name: one of ``pfs.tables()``.
        columns: the columns to read, in this order; None reads all. Case does not matter.
        source: where to look: None is this process; else as for `pfs.sql`.

    Returns:
        Integers as they are, TEXT and ENUM as dictionaries of strings, TIMESTAMP in microseconds UTC. A byte of a text that is no
        UTF-8 becomes ``\\xNN``.

    Raises:
        UnknownTable: no table has this name.
        UnknownColumn: the table has no such column.
        InvalidValue: a column is named twice.
    """
    if source is not None:
        from pfs._process.questions import asked

        with asked(source) as place:
            return place.arrow(name, columns)
    return _core.arrow(str(name), listed(columns), None)


def ddl(name: TableName | str) -> str:
    """Returns the CREATE TABLE statement of a table.

    Raises:
        UnknownTable: no table has this name.
    """
    return _core.ddl(name)


def truncate(name: TableName | str) -> None:
    """Empties a table of events, or sets the counts of a summary to zero. It is exact while the program runs.

    Raises:
        UnknownTable: no table has this name.
        OperationNotAllowed: the table lists objects or settings and cannot be truncated.
    """
    _core.truncate(name)


def digest(
    statement: str | bytes, max_length: int = 1024, *, dialect: str = "sql", normalizer: str = "sql"
) -> tuple[str, str] | tuple[None, None]:
    """Returns DIGEST and DIGEST_TEXT of a statement, as the statement tables show them. Statements of one form have one digest.

    >>> pfs.digest("select * from t where a in (1, -2) -- all")[1]
    'SELECT * FROM `t` WHERE `a` IN (...)'

    Literals, parameters (``?``, ``:name``, ``$1``, ``%s``) and NULL where a value stands become ``?``, lists of them ``?, ...``,
    rows ``(?)`` or ``(...)``, more rows of one kind ``(...) /* , ... */``. Names stand in backquotes, keywords in upper case, one
    blank between two tokens; comments and a ``;`` at the end are gone.

    Args:
        statement: any text. Nothing is rejected: text that is no SQL becomes tokens as well.
        max_length: bytes of tokens that count, as ``performance_schema_max_digest_length``: one or two for a keyword, two and its
            length for a name. Later tokens make no difference, and the text ends there.
        dialect: the language of the text. ``"mysql"`` has the rules of MySQL 8.4: the text is that of a server. In
            ``"postgresql"``, ``"sqlite"``, ``"tsql"``, ``"oracle"``, ``"duckdb"`` and ``"ansi"``, ``"text"`` is a name. ``"sql"``
            is for an unknown dialect: ``"text"`` is a literal there, unless a ``.`` is beside it.
        normalizer: the dialect of texts whose ``dialect`` is ``"sql"``; or ``"identity"``: every text as it is.

    Returns:
        SHA-256 of the tokens as 64 hexadecimal digits, and the text; ``(None, None)`` if there is no token.

    Raises:
        InvalidValue: ``max_length`` is not from 0 to 1048576; no such dialect or normalizer.
    """
    if not 0 <= max_length <= 1048576:
        raise InvalidValue(f"bad value {max_length} for max_length: legal is a number from 0 to 1048576")
    found = _core.digest(statement, max_length, normalizer, dialect)
    return (None, None) if found is None else (found[0], found[1].decode("utf-8", "replace"))
