"""Makes a result of MySQL of a result of DuckDB: types, columns, and rows that the client takes when it wants them."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mysql_mimic import ColumnType, ResultColumn, ResultSet
from mysql_mimic.errors import SQLSTATES, MysqlError

if TYPE_CHECKING:
    import duckdb

    from pfs._sql.result import Result

__all__ = ["MOST_OF_ROW", "MOST_ROWS", "MOST_WAITING", "Rows", "Waiting", "answer_of"]

_TYPES = (
    ("HUGEINT", ColumnType.NEWDECIMAL), ("UHUGEINT", ColumnType.NEWDECIMAL), ("DECIMAL", ColumnType.NEWDECIMAL),
    ("BOOLEAN", ColumnType.TINY), ("DOUBLE", ColumnType.DOUBLE), ("FLOAT", ColumnType.DOUBLE),
    ("TIMESTAMP", ColumnType.DATETIME), ("DATE", ColumnType.DATE), ("BLOB", ColumnType.BLOB),
)  # fmt: skip
MOST_OF_ROW = 4 << 20  # bytes of its texts: mysql-mimic writes no row of 16 MiB
MOST_WAITING = 256 << 20  # bytes of all answers that clients have not taken
_IDLE = 2.0  # seconds in which a client has taken nothing
_BATCH, _BATCH_BYTES = 1000, 1 << 20  # rows that leave DuckDB at a time
_IN_DUCKDB, _IN_PYTHON = 16, 64  # bytes of a value without its text
MOST_ROWS = MOST_WAITING // _IN_DUCKDB  # of one column
_DATABASE = 4 << 20  # bytes that DuckDB needs for an answer of any size
_TOO_LARGE, _NO_MEMORY, _ROW_TOO_LONG = 1104, 1041, 1153
SQLSTATES.update({_TOO_LARGE: b"42000", _NO_MEMORY: b"HY000", _ROW_TOO_LONG: b"08S01"})


class Rows:
    """Gives the rows of an answer once, in batches. Threads: one at a time.

    Attributes:
        size: bytes that the answer takes, about.
        touched: when its client has last taken rows.
    """

    def __init__(self, result: Result, chosen: str, count: int, most: int, text_bytes: int) -> None:
        """``most``: bytes of the texts of its longest row."""
        self._size_of_batch = max(1, min(_BATCH, _BATCH_BYTES // max(most, 1)))
        self._result: Result | None = result  # the rows stay in DuckDB, which needs a quarter of Python's memory
        self._cursor: duckdb.DuckDBPyConnection | None = result._select(chosen)
        self._ready: list[tuple[Any, ...]] = []
        self._is_dropped = False
        values = count * len(result.columns)
        self.size = _IN_DUCKDB * values + text_bytes + _DATABASE
        self.touched = time.monotonic()
        if count <= self._size_of_batch:
            self._ready = self._cursor.fetchall()
            self.size = _IN_PYTHON * values + text_bytes
            self._result = self._cursor = None

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yields lists of rows.

        Raises:
            ConnectionResetError: `drop` was called.
        """
        while batch := self._next():
            yield batch
            self.touched = time.monotonic()
        self.drop()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.batches():
            yield from batch

    def _next(self) -> list[tuple[Any, ...]]:
        if self._is_dropped:
            raise ConnectionResetError
        if self._cursor is not None:
            return self._cursor.fetchmany(self._size_of_batch)
        batch, self._ready = self._ready, []
        return batch

    def drop(self) -> None:
        """Lets go of the rows."""
        self._is_dropped = True
        self._ready = []
        self._result = self._cursor = None
        self.size = 0


class Waiting:
    """Bounds what answers take that clients have not read yet. Threads: the event loop's."""

    def __init__(self) -> None:
        self._answers: weakref.WeakKeyDictionary[Rows, Callable[[], None]] = weakref.WeakKeyDictionary()

    def add(self, rows: Rows, hang_up: Callable[[], None]) -> None:
        """Takes one more answer. If they take too much, it hangs up on clients that have stopped reading, the idlest first.

        Raises:
            MysqlError: the answer is too large; all other clients read.
        """
        if rows.size > MOST_WAITING:
            text = f"the answer takes {rows.size >> 20} MiB: at most {MOST_WAITING >> 20} are legal; add LIMIT, or name columns"
            raise MysqlError(text, _TOO_LARGE)
        while sum(each.size for each in self._answers) + rows.size > MOST_WAITING:
            idlest = min((each for each in self._answers if each.size), key=lambda each: each.touched)
            if time.monotonic() - idlest.touched < _IDLE:
                raise MysqlError("other clients are reading large answers: try again", _NO_MEMORY)
            idlest.drop()
            self._answers.pop(idlest)()
        self._answers[rows] = hang_up


def answer_of(result: Result) -> ResultSet:
    """Returns the columns, and the rows as `Rows`.

    Raises:
        MysqlError: a row is too long.
    """
    quoted = ['"' + name.replace('"', '""') + '"' for name in result.columns]
    columns = list(zip(quoted, result._types, strict=True))
    texts = [name if kind == "VARCHAR" else f"{name}::varchar" for name, kind in columns if _has_text(kind)]
    unsigned = [name for name, kind in columns if kind == "UBIGINT"]
    size = " + ".join(f"coalesce(strlen({text}), 0)" for text in texts) or "0"
    facts = ["count(*)", f"coalesce(max({size}), 0)", f"coalesce(sum({size}), 0)", *(f"max({name})" for name in unsigned)]
    ((count, most, text_bytes, *greatest),) = result._select(", ".join(facts)).fetchall()
    if most > MOST_OF_ROW:
        text = f"the answer has a row of {most} bytes: at most {MOST_OF_ROW} are legal"
        raise MysqlError(text, _ROW_TOO_LONG)
    # mysql-mimic has no unsigned columns: numbers beyond the signed ones go as decimals.
    large = {name for name, value in zip(unsigned, greatest, strict=True) if value is not None and value >= 2**63}
    made = [
        ResultColumn(title, ColumnType.NEWDECIMAL if name in large else _type(kind))
        for title, (name, kind) in zip(result.columns, columns, strict=True)
    ]
    chosen = ", ".join(f"{name}::varchar" if _type(kind) == ColumnType.VAR_STRING else name for name, kind in columns)
    return ResultSet(Rows(result, chosen, count, most, int(text_bytes)), made)


def _has_text(kind: str) -> bool:
    return _type(kind) in (ColumnType.VAR_STRING, ColumnType.BLOB)


def _type(kind: str) -> ColumnType:
    if kind.endswith("]"):
        return ColumnType.VAR_STRING  # a list
    if kind.endswith(("INT", "INTEGER")) and "HUGE" not in kind:
        return ColumnType.LONGLONG
    return next((mysql for duckdb, mysql in _TYPES if kind.startswith(duckdb)), ColumnType.VAR_STRING)
