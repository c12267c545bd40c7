"""Makes a result of MySQL of a result of DuckDB: types, columns, and rows that the client takes when it wants them."""

from __future__ import annotations

import pickle
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pfs._export.serve.wire import BINARY_VALUE, IS_BLOB, UNSIGNED, Column, Kind, Refusal

if TYPE_CHECKING:
    from pfs._sql.result import Result

__all__ = ["MOST_OF_ROW", "MOST_ROWS", "MOST_WAITING", "Answer", "Rows", "Waiting", "answer_of", "text_answer"]

# By the type of DuckDB: how many characters a number has at most.
_INTEGERS = {
    "BOOLEAN": 1, "TINYINT": 4, "UTINYINT": 3, "SMALLINT": 6, "USMALLINT": 5, "INTEGER": 11, "UINTEGER": 10, "BIGINT": 20,
    "UBIGINT": 20,
}  # fmt: skip
_PLAIN = {
    "DATE": (Kind.DATE, 10, 0, 0), "TIME": (Kind.TIME, 15, 0, 6), "INTERVAL": (Kind.TIME, 17, 0, 6),
    "TIMESTAMP_S": (Kind.DATETIME, 19, 0, 0),
    "DOUBLE": (Kind.DOUBLE, 23, 0, 31), "FLOAT": (Kind.DOUBLE, 23, 0, 31), "HUGEINT": (Kind.NEWDECIMAL, 41, 0, 0),
    "UHUGEINT": (Kind.NEWDECIMAL, 41, 0, 0), "BLOB": (Kind.BLOB, 0xFFFFFFFF, BINARY_VALUE | IS_BLOB, 0),
}  # fmt: skip
_TEXT_LENGTH = 65532  # bytes: the longest VARCHAR of utf8mb4
MOST_OF_ROW = 4 << 20  # bytes of its texts
MOST_WAITING = 256 << 20  # bytes of all answers that clients have not taken
_IDLE = 2.0  # seconds in which a client has taken nothing
_BATCH, _BATCH_BYTES = 1000, 1 << 20  # rows that leave DuckDB at a time
_OF_VALUE = 16  # bytes without its text
MOST_ROWS = MOST_WAITING // _OF_VALUE  # of one column
_MOST_COLUMNS = 4096  # as in MySQL
_TOO_LARGE, _NO_MEMORY, _ROW_TOO_LONG, _TOO_MANY_COLUMNS = 1104, 1041, 1153, 1117


class Rows:
    """Gives the rows of an answer once, in batches. Threads: one at a time.

    Attributes:
        count: how many there are.
        size: bytes that the answer takes, about.
        touched: when its client has last taken rows.
    """

    def __init__(self, count: int, batches: Sequence[bytes]) -> None:
        """``batches``: pickled, for they take a quarter of the memory then."""
        self._batches = deque(batches)
        self._is_dropped = False
        self.count = count
        self.size = sum(map(len, batches))
        self.touched = time.monotonic()

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yields lists of rows.

        Raises:
            ConnectionResetError: `drop` was called.
        """
        while self._batches:
            yield pickle.loads(self._batches.popleft())
            self.touched = time.monotonic()
        if self._is_dropped:
            raise ConnectionResetError
        self.drop()

    def drop(self) -> None:
        """Lets go of the rows."""
        self._is_dropped = True
        self._batches.clear()
        self.size = 0


class Waiting:
    """Bounds what answers take that clients have not read yet. Threads: the event loop's."""

    def __init__(self) -> None:
        self._answers: weakref.WeakKeyDictionary[Rows, Callable[[], None]] = weakref.WeakKeyDictionary()

    def add(self, rows: Rows, hang_up: Callable[[], None]) -> None:
        """Takes one more answer. If they take too much, it hangs up on clients that have stopped reading, the idlest first.

        Raises:
            Refusal: all other clients read.
        """
        while sum(each.size for each in self._answers) + rows.size > MOST_WAITING:
            idlest = min((each for each in self._answers if each.size), key=lambda each: each.touched)
            if time.monotonic() - idlest.touched < _IDLE:
                raise Refusal(_NO_MEMORY, "other clients are reading large answers: try again")
            idlest.drop()
            self._answers.pop(idlest)()
        self._answers[rows] = hang_up


@dataclass
class Answer:
    """Is what a client gets. An answer without columns says that something is done.

    Attributes:
        changed: how many rows an UPDATE has found.
    """

    columns: Sequence[Column] = ()
    rows: Rows | list[tuple[Any, ...]] = field(default_factory=list)
    changed: int = 0

    @property
    def count(self) -> int:
        return len(self.rows) if isinstance(self.rows, list) else self.rows.count

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        return iter([self.rows] if self.rows else []) if isinstance(self.rows, list) else self.rows.batches()


def text_answer(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> Answer:
    """Returns an answer of texts."""
    return Answer([_column(name, "VARCHAR") for name in names], [tuple(map(str, row)) for row in rows])


def answer_of(result: Result, titles: Sequence[str | None] | None) -> tuple[tuple[Sequence[Column], int], Iterator[bytes]]:
    """Returns the columns, how many rows there are, and the rows for `Rows`.

    Args:
        titles: of what was selected, None for a star; None if DuckDB's names are right.

    Raises:
        Refusal: a row is too long, or has too many columns, or the answer is too large.
    """
    quoted = ['"' + name.replace('"', '""') + '"' for name in result.columns]
    columns = list(zip(quoted, result._types, strict=True))
    if len(columns) > _MOST_COLUMNS:
        raise Refusal(_TOO_MANY_COLUMNS, f"Too many columns: {len(columns)}; at most {_MOST_COLUMNS} are legal")
    texts = [name if kind == "VARCHAR" else f"{name}::varchar" for name, kind in columns if _has_text(kind)]
    sizes = [f"coalesce(strlen({text}), 0)" for text in texts]
    of_row = " + ".join(sizes) or "0"
    facts = [
        "count(*)",
        f"coalesce(max({of_row}), 0)",
        f"coalesce(sum({of_row}), 0)",
        *(f"coalesce(max({each}), 0)" for each in sizes),
    ]
    ((count, most, text_bytes, *longest),) = result._select(", ".join(facts)).fetchall()
    if most > MOST_OF_ROW:
        text = f"the answer has a row of {most} bytes: at most {MOST_OF_ROW} are legal"
        raise Refusal(_ROW_TOO_LONG, text)
    names = _titled(titles, result.columns) if titles is not None else result.columns
    rest = iter(longest)
    made = [_column(title, kind, next(rest) if _has_text(kind) else 0) for title, (_, kind) in zip(names, columns, strict=True)]
    size = _OF_VALUE * count * len(columns) + int(text_bytes)
    if size > MOST_WAITING:
        text = f"the answer takes {size >> 20} MiB: at most {MOST_WAITING >> 20} are legal; add LIMIT, or name columns"
        raise Refusal(_TOO_LARGE, text)
    return (made, count), _batches(result, ", ".join(map(_chosen, columns)), max(1, min(_BATCH, _BATCH_BYTES // max(most, 1))))


def _batches(result: Result, chosen: str, size: int) -> Iterator[bytes]:
    cursor = result._select(chosen)
    while batch := cursor.fetchmany(size):
        yield pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)


def _chosen(column: tuple[str, str]) -> str:
    """Returns an expression for the values of a column that clients understand."""
    name, kind = column
    if kind.startswith("TIMESTAMP WITH"):
        return f"make_timestamp(epoch_us({name}))"  # MySQL's times have no zone
    if kind in ("DOUBLE", "FLOAT"):
        return f"case when isfinite({name}) then {name} end"  # MySQL has no other numbers
    return f"{name}::varchar" if kind != "BLOB" and _has_text(kind) else name


def _titled(titles: Sequence[str | None], names: Sequence[str]) -> list[str]:
    """Returns a title for each column. Names stand where a star is; between two stars nobody knows whose they are."""
    if None not in titles:
        return [title or "" for title in titles] if len(titles) == len(names) else list(names)
    before = titles.index(None)
    after = len(titles) - 1 - max(place for place, title in enumerate(titles) if title is None)
    begin = [title or "" for title in titles[:before]]
    end = [title or "" for title in titles[len(titles) - after :]]
    known = [name.lower() for name in names]
    between = []
    for place in range(before, len(names) - after):
        name, _, number = names[place].rpartition("_")  # DuckDB numbers names that are there twice
        between.append(name if number.isdecimal() and name.lower() in known[:place] else names[place])
    return [*begin, *between, *end]


def _has_text(kind: str) -> bool:
    return _column("", kind).kind in (Kind.VAR_STRING, Kind.BLOB)


def _column(name: str, kind: str, longest: int = 0) -> Column:
    """Returns the column of MySQL for one of DuckDB. ``longest``: bytes of its longest text."""
    if kind in _INTEGERS:
        return Column(name, Kind.LONGLONG, _INTEGERS[kind], UNSIGNED if kind.startswith("U") else 0)
    if kind in _PLAIN:
        known, length, flags, decimals = _PLAIN[kind]
        return Column(name, known, length, flags, decimals)
    if kind.startswith("TIMESTAMP") and not kind.endswith("]"):
        return Column(name, Kind.DATETIME, 26, 0, 6)
    if kind.startswith("DECIMAL") and not kind.endswith("]"):
        digits, places = (int(part) for part in kind[len("DECIMAL(") : -1].split(","))
        return Column(name, Kind.NEWDECIMAL, digits + 2, 0, places)
    if longest > _TEXT_LENGTH:
        return Column(name, Kind.BLOB, 0xFFFFFFFF, IS_BLOB)
    return Column(name, Kind.VAR_STRING, _TEXT_LENGTH)
