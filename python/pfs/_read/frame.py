"""Makes DataFrames of the columns that the core reads."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._read import at_exit  # noqa: F401  (before pandas)

# isort: split
import numpy as np
import pandas as pd

from pfs._read.columns import ArrayColumn
from pfs._read.dtypes import TEXT, column_of, fits_signed, numbers, with_nulls_of
from pfs._read.kinds import listed
from pfs._read.nearest import hint
from pfs._read.places import readable
from pfs._read.source import OWN, losses
from pfs._read.units import UNITS
from pfs._read.where import Condition, order_of, places
from pfs.errors import InvalidValue, UnknownColumn

if TYPE_CHECKING:
    from pfs._read.source import Source


def moment(said: int | str) -> pd.Timestamp:
    """Returns a time of UTC, given as nanoseconds since 1970 or as a text, in microseconds.

    Raises:
        ValueError: the text is no time.
    """
    found = pd.Timestamp(said, unit="ns").floor("us") if isinstance(said, int) else pd.Timestamp(said)
    if not isinstance(found, pd.Timestamp):  # NaT
        raise ValueError("there is no time")
    return found


@pd.api.extensions.register_dataframe_accessor("pfs")
class Accessor:
    """What pfs adds to frames: ``frame.pfs``."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def readable(self, limit: int | None = None) -> pd.DataFrame:
        """Returns a frame of texts for people: times and bytes with units, long texts cut in the middle, statements at their end.

        The frame is of ``pfs.table``, or made from it: the names of the columns decide. ``%load_ext pfs`` shows all such frames
        like this. The numbers themselves stay in the original.

        Args:
            limit: the most rows to write; None writes all.
        """
        from pfs._read import readable

        return readable.readable(self._frame, limit)


def frame(
    table: str,
    columns: Iterable[str] | None = None,
    source: Source = OWN,
    *,
    running: str | None = None,
    unit: str | None = None,
    where: str | Mapping[str, object] | None = None,
    order: str | Sequence[str] | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """Reads a table of this process, or of an attached one. See ``pfs.table``."""
    if running not in (None, "elapsed"):
        raise InvalidValue(f"bad value {running!r} for running: legal is 'elapsed', or None")
    if isinstance(columns, str):
        columns = [columns]
    table = str(table)
    check(unit, limit)
    names = _names_of(table, columns)
    choice = Choice(table, where, order, limit)
    rows, _, parts = source.read(table, [*names, *(name for name in choice.columns if name not in names)], running is not None)
    if not choice.is_all:
        # The arrays of a part are views of the core's memory: only the chosen rows are copied.
        chosen = choice.rows(rows, parts)
        rows, parts = len(chosen), [_taken(part, chosen) for part in parts[: len(names)]]
    if table.lower() in readable.TABLES:
        words = readable.Readable(source)
        parts = [_in_words(part, words) for part in parts]
    result = made(rows, 0, parts, is_signed=True, cells=cells_of_notebook() if source.pid == os.getpid() else None)
    if unit is not None:
        to_unit(result, table, unit)
    result.attrs = {"table": _core.table_info(table)["name"], "unit": unit or "ps", **reading(source)}
    if choice.ordered_by:
        result.attrs["order"] = choice.ordered_by
    return result


def _names_of(table: str, columns: Iterable[str] | None) -> list[str]:
    """Returns names of columns as the declaration spells them. Names that it lacks stay as they are: the core refuses them."""
    known = {column["name"].lower(): column["name"] for column in _core.table_info(table)["columns"]}
    return list(known.values()) if columns is None else [known.get(name.lower(), name) for name in columns]


def _in_words(part: _core.Part, words: readable.Readable) -> _core.Part:
    name, kind, nullable, values, mask, texts = part
    if (readable_text := words.of_column(name)) is None or texts is None:
        return part
    return name, kind, nullable, values, mask, [text if text is None else readable_text(text) for text in texts]


def _taken(part: _core.Part, rows: Any) -> _core.Part:
    name, kind, nullable, values, mask, texts = part
    if values is None:
        return name, kind, nullable, None, mask, np.asarray(texts, dtype=object)[rows]
    return name, kind, nullable, values[rows], None if mask is None else mask[rows], texts


def reading(source: Source) -> dict[Hashable, Any]:
    """Returns what frames know about their reading: whose tables, when, and what was lost until then.

    All values fit JSON, because Parquet files keep them.
    """
    lost = {name: count for name, count in losses(source).items() if count}
    return {"pid": source.pid, "read_at": datetime.now(UTC).isoformat(timespec="microseconds"), "lost": lost}


class Choice:
    """Chooses rows of a table: a condition, an order, and how many."""

    def __init__(
        self, table: str, where: str | Mapping[str, object] | None, order: str | Sequence[str] | None, limit: int | None
    ) -> None:
        known = [column["name"] for column in _core.table_info(table)["columns"]]
        self._where = Condition(table, known, where) if where else None
        self._order = order_of(table, known, order) if order else []
        self._limit = limit
        self.ordered_by = [name for name, _ in self._order]
        self.is_all = self._where is None and not self._order and limit is None
        used = [*(self._where.columns if self._where is not None else ()), *(name for name, _ in self._order)]
        self.columns = list(dict.fromkeys(used))

    def rows(self, rows: int, parts: list[_core.Part]) -> Any:
        """Returns the numbers of the chosen rows, in order. NULL comes first, as in MySQL; behind `desc` last."""
        columns = {part[0]: ArrayColumn(part, rows) for part in parts}
        chosen = np.arange(rows) if self._where is None else np.flatnonzero(self._where.rows(columns))
        for name, is_descending in reversed(self._order):  # a stable sort by the last column first
            column = columns[name]
            keys, null = column.sort_keys()[chosen], column.null[chosen]
            found = np.argsort(keys[::-1] if is_descending else keys, kind="stable")
            if is_descending:
                found = (len(chosen) - 1 - found)[::-1]
            nulls = null[found]
            found = np.concatenate([found[~nulls], found[nulls]] if is_descending else [found[nulls], found[~nulls]])
            chosen = chosen[found]
        return chosen if self._limit is None else chosen[: self._limit]


def chosen(
    table_frame: pd.DataFrame,
    table: str,
    columns: Iterable[str] | None = None,
    *,
    unit: str | None = None,
    where: str | Mapping[str, object] | None = None,
    order: str | Sequence[str] | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """Returns rows and columns of a frame that was read before. Arguments and errors are those of ``pfs.table``."""
    known = [str(name) for name in table_frame.columns]
    spelled = {name.lower(): name for name in known}
    wanted = listed(columns)
    for name in wanted or ():
        if name.lower() not in spelled:
            raise UnknownColumn(
                f"{table} has no column '{name}'{hint(name, known, is_listed=True)}; legal are {', '.join(known)}"
            )
    check(unit, limit)
    condition = Condition(table, known, where) if where else None
    orders = order_of(table, known, order) if order else []
    result = table_frame
    if condition is not None or orders:
        used = {*(condition.columns if condition is not None else ()), *(name for name, _ in orders)}
        plain = {
            name: [None if null else value for value, null in zip(result[name].tolist(), result[name].isna(), strict=True)]
            for name in used
        }
        result = result.iloc[places(plain, len(result), condition, orders)]
    names = known if wanted is None else [spelled[name.lower()] for name in wanted]
    result = result[names].iloc[: len(result) if limit is None else limit].reset_index(drop=True)
    if unit is not None:
        to_unit(result, table, unit)
    result.attrs = {**table_frame.attrs, "unit": unit or "ps"}
    return result


def check(unit: str | None, limit: int | None) -> None:
    if unit is not None and unit not in (legal := (*UNITS, "timedelta")):
        raise InvalidValue(f"bad unit {unit!r}: legal are None, {', '.join(map(repr, legal))}")
    if limit is not None and limit < 0:
        raise InvalidValue(f"bad limit {limit!r}: legal is a number of rows from 0")


def to_unit(table_frame: pd.DataFrame, table: str, unit: str) -> None:
    """Changes the columns of times: floating point of a unit, or timedelta64[ns]. NULL becomes NaN or NaT."""
    if unit == "ps":
        return
    for column in _core.table_info(table)["columns"]:
        name = column["name"]
        if column["unit"] != "picoseconds" or name not in table_frame:
            continue
        values = table_frame[name]
        null = values.isna().to_numpy()
        whole = values.to_numpy(dtype=values.dtype.name.lower(), na_value=0) if null.any() else values.to_numpy()
        if unit == "timedelta":
            times = (whole // UNITS["ns"]).astype("int64").view("timedelta64[ns]")
            times[null] = np.timedelta64("NaT", "ns")
        else:
            times = whole / UNITS[unit]
            times[null] = np.nan
        table_frame[name] = times


def cells_of_notebook() -> dict[str, str] | None:
    """Returns the cells of this notebook by the names of files that Python gave them; None without a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    files = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return {os.path.basename(name): f"In [{number}]" for name, number in files.items()} if files else None


def text_in_cells(text: str) -> str:
    """Returns a text with ``In [2]:6`` for the line 6 of a cell of this notebook, whose file has a number for a name."""
    cells = cells_of_notebook() or {}
    return re.sub(r"\b(\d+\.py)(?=:\d)", lambda match: cells.get(match[1], match[1]), text) if cells else text


def _in_cells(texts: Any, cells: dict[str, str]) -> list[Any]:
    def shown(text: Any) -> Any:
        name, colon, line = str(text).rpartition(":")
        return cells[name] + colon + line if name in cells else text

    return [shown(text) for text in texts]


def as_signed(table_frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the frame with int64 and Int64 in the place of uint64 and UInt64, where all values fit, as ``pfs.table`` does."""
    changed: dict[str, Any] = {}
    for name, column in table_frame.items():
        if column.dtype.name.lower() == "uint64" and fits_signed(whole := numbers(column)):
            changed[str(name)] = with_nulls_of(column, whole.view(np.int64))
    return _with(table_frame, changed) if changed else table_frame


def as_declared(table: str, table_frame: pd.DataFrame) -> pd.DataFrame:
    """Returns a new frame with the unsigned types that the table declares, in which frames of several readings are alike."""
    changed: dict[str, Any] = {}
    for column in _core.table_info(table)["columns"]:
        name = column["name"]
        if column["kind"] != "uint64" or name not in table_frame:
            continue
        values = table_frame[name]
        if values.dtype.name.lower() != "int64":
            continue
        whole = numbers(values)
        if len(whole) and whole.min() < 0:
            continue  # somebody has written other values
        changed[name] = with_nulls_of(values, whole.view(np.uint64))
    return _with(table_frame, changed)


def _with(table_frame: pd.DataFrame, changed: dict[str, Any]) -> pd.DataFrame:
    """Returns a new frame with these columns in place of its own. It is much faster than assign() and astype()."""
    data = {name: changed.get(str(name), column.array) for name, column in table_frame.items()}
    result = pd.DataFrame(data, index=table_frame.index, copy=False)
    result.attrs = table_frame.attrs
    return result


def made(
    rows: int, _skipped: int, parts: list[_core.Part], *, is_signed: bool = False, cells: dict[str, str] | None = None
) -> pd.DataFrame:
    """Returns a frame of the columns that a source has read. `is_signed`: uint64 whose values all fit becomes int64."""
    places = np.empty(rows, dtype=np.intp)  # take() wants indexes of this width, and would allocate them for each column of text
    data = {}
    for name, kind, nullable, values, mask, texts in parts:
        if is_signed and kind == "uint64" and fits_signed(values):
            values = values.view(np.int64)
        if cells and name.endswith("SOURCE"):
            texts = _in_cells(texts, cells)
        data[name] = column_of(kind, nullable, values, mask, texts, places)
    return pd.DataFrame(data, index=pd.RangeIndex(rows), copy=False)


def describe(table: str) -> pd.DataFrame:
    """Describes the columns of a table. See ``pfs.describe``."""
    columns = _core.table_info(str(table))["columns"]
    return pd.DataFrame(
        {
            "COLUMN_NAME": pd.array([column["name"] for column in columns], dtype=TEXT),
            "COLUMN_TYPE": pd.array([column["sql_type"] for column in columns], dtype=TEXT),
            "NULLABLE": np.array([column["nullable"] for column in columns], dtype=bool),
            "WRITABLE": np.array([column["writable"] for column in columns], dtype=bool),
            "UNIT": pd.array([column["unit"] for column in columns], dtype=TEXT),
            "DESCRIPTION": pd.array([column["doc"] for column in columns], dtype=TEXT),
        }
    )


def describe_all() -> pd.DataFrame:
    """Describes all tables. See ``pfs.describe``."""
    tables = [_core.table_info(name) for name in _core.tables()]
    return pd.DataFrame(
        {
            "TABLE_NAME": pd.array([table["name"] for table in tables], dtype=TEXT),
            "DESCRIPTION": pd.array([table["doc"] for table in tables], dtype=TEXT),
            "OPERATIONS": pd.array([", ".join(table["operations"]) for table in tables], dtype=TEXT),
            "KEY": pd.array([", ".join(table["key"]) for table in tables], dtype=TEXT),
        }
    )
