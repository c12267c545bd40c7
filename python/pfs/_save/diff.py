"""``Snapshot.diff`` shows what happened between two snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from pfs import _core
from pfs._read.dtypes import TEXT, category, dtype_of, numbers
from pfs._read.frame import as_declared, as_signed
from pfs._save.averages import timed
from pfs._save.frames import Frames, Reading
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    _Places = np.ndarray[Any, np.dtype[Any]]

__all__ = ["EVENT", "Diff", "diff", "table_diff"]

_CHANGES = ("changed", "new", "gone", "reset")


class _OnDemand(Mapping[str, pd.DataFrame]):
    """Makes each frame when somebody asks for it, and keeps it. Most frames are never asked for, and a hundred take two seconds.

    Thread-safe: two threads may make the same frame twice.
    """

    def __init__(self, names: Sequence[str], make: Callable[[str], pd.DataFrame]) -> None:
        self._made: dict[str, pd.DataFrame | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> pd.DataFrame:
        frame = self._made[name]
        if frame is None:
            frame = self._made[name] = self._make(name)
        return frame

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class Diff(Frames):
    """Maps names of tables to DataFrames of what happened between two snapshots. ``Snapshot.diff`` returns it.

    Attributes:
        before, after: times of the snapshots, UTC.
        seconds: between them.
        pid: the process.
    """

    __module__ = "pfs"  # where users find it

    def __init__(
        self, names: Sequence[str], make: Callable[[str], pd.DataFrame], changed: Sequence[str], before: Reading, after: Reading
    ) -> None:
        """Is not for users: see ``Snapshot.diff``. `make` returns the frame of a table; those not in `changed` have no rows."""
        self._tables = _OnDemand(names, make)
        self._changed = changed
        self._snapshots = before, after
        self.before, self.after, self.pid = before.time, after.time, after.pid

    @property
    def seconds(self) -> float:
        return (self.after - self.before).total_seconds()

    @property
    def truncated(self) -> list[str]:
        """The tables with rows that were reset in between (CHANGE is ``reset``)."""
        tables = ((name, self[name]) for name in self._changed)
        return [name for name, table in tables if "CHANGE" in table and (table["CHANGE"] == "reset").any()]

    def rates(self) -> Self:
        """Returns the difference per second: sums as Float64, the other columns unchanged.

        Raises:
            InvalidValue: the snapshots were taken at the same time.
        """
        if self.seconds <= 0:
            raise InvalidValue("the snapshots were taken at the same time: there is no rate")
        return type(self)(list(self), self._rate, self._changed, *self._snapshots)

    def _rate(self, name: str) -> pd.DataFrame:
        table = self[name]
        sums = [c["name"] for c in _core.table_info(name)["columns"] if c["combine"] == "sum" and c["name"] in table]
        return table.assign(**{c: table[c].astype("Float64") / self.seconds for c in sums})

    def _rows(self) -> list[tuple[str, int]]:
        return [(name, len(self[name])) for name in self._changed if len(self[name])]

    def _title(self) -> str:
        reset = f"; TRUNCATE in between: {', '.join(self.truncated)}" if self.truncated else ""
        return f"Process {self.pid} in {self.seconds:.3f} s{reset}"


def diff(before: Reading, after: Reading) -> Diff:
    """Compares two snapshots. See ``Snapshot.diff``."""
    for which, given in (("before", before), ("after", after)):
        if not isinstance(given, Reading):
            raise TypeError(f"{which} must be a Snapshot, of pfs.snapshot() or pfs.read_snapshot(), not {type(given).__name__}")
    one, two = before.process, after.process
    if one.pid != two.pid:
        raise InvalidValue(f"these are snapshots of two processes: {one.pid} and {two.pid}")
    if one != two:
        raise InvalidValue(f"process {one.pid} of the second snapshot is a later run with the same process id")
    if after.time < before.time:
        raise InvalidValue(
            f"the second snapshot is the earlier one: {before.time} and {after.time}; give them in the order of time"
        )
    names = [name for name in _core.tables() if name in before and name in after]
    changed = [name for name in names if not before[name].equals(after[name])]
    return Diff(names, partial(_of_table, before, after), changed, before, after)


def _of_table(before: Reading, after: Reading, name: str) -> pd.DataFrame:
    return table_diff(_core.table_info(name), before[name], after[name])


_MOST_PICOSECONDS = 2**64 - 1  # the largest sum of times
EVENT = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID")  # a table of events has these columns; the first two identify an event


def table_diff(table: _core.TableInfo, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    name, attributes = table["name"], after.attrs
    before, after = as_declared(name, before), as_declared(name, after)
    before.attrs = after.attrs = {}  # pandas would copy them deeply, with each column that is read
    result = as_signed(_table_diff(table, before, after))
    result.attrs = attributes
    return result


def _table_diff(table: _core.TableInfo, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    columns = [column for column in table["columns"] if column["name"] in before and column["name"] in after]
    names = [column["name"] for column in columns]
    if set(EVENT) <= set(names):
        old = _positions(before, after, list(EVENT[:2]))[1]
        return after[old < 0].reset_index(drop=True)
    key = list(table["key"])
    if not key or not set(key) <= set(names):
        # Without a declared key, the first column is the key if it is unique, else all columns are.
        key = names[:1] if not (before[names[0]].duplicated().any() or after[names[0]].duplicated().any()) else names
    there, old = _positions(before, after, key)
    gone = np.flatnonzero(~there)
    if any(column["combine"] == "sum" for column in columns):
        return _summary_diff(columns, key, before, after, old, gone)
    return _plain_diff(columns, key, before, after, old, gone)


def _positions(before: pd.DataFrame, after: pd.DataFrame, key: list[str]) -> tuple[_Places, _Places]:
    """Returns whether each row of `before` is in `after`, and where each row of `after` is in `before` (-1: nowhere)."""
    if len(before) == len(after) and all(_is_same(before[name], after[name]) for name in key):
        return np.ones(len(before), dtype=bool), np.arange(len(after))
    both = pd.concat([_joinable(before[key]), _joinable(after[key])], ignore_index=True)
    ids = both.groupby(key, dropna=False, sort=False).ngroup().to_numpy()
    first, second = ids[: len(before)], ids[len(before) :]
    place = np.full(len(both) + 1, -1, dtype=np.intp)
    place[first] = np.arange(len(before))
    return np.isin(first, second), place[second]


def _is_same(one: pd.Series[Any], two: pd.Series[Any]) -> bool:
    """Returns whether two columns have the same values in the same order."""
    return one.dtype == two.dtype and bool(one.array.equals(two.array))


def _joinable(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({name: TEXT for name in frame.columns if isinstance(frame[name].dtype, pd.CategoricalDtype)})


def _nullable(column: pd.Series[Any]) -> pd.Series[Any]:
    name = column.dtype.name
    return column.astype(dtype_of(name, nullable=True)) if name in ("uint64", "int64", "uint32", "int32") else column


def _taken(column: pd.Series[Any], places: _Places) -> pd.Series[Any]:
    """Returns the values at places, with NULL at -1."""
    return pd.Series(_nullable(column).array.take(places, allow_fill=True))


def _differs(one: pd.Series[Any], two: pd.Series[Any]) -> _Places:
    """Returns where two columns differ. NULL equals NULL."""
    if isinstance(one.dtype, pd.CategoricalDtype):
        one, two = one.astype(TEXT), two.astype(TEXT)
    one, two = _nullable(one).reset_index(drop=True), _nullable(two).reset_index(drop=True)
    both_null = one.isna().to_numpy() & two.isna().to_numpy()
    return (one != two).astype("boolean").to_numpy(dtype=bool, na_value=True) & ~both_null


def _summary_diff(
    columns: Sequence[_core.ColumnInfo],
    key: Sequence[str],
    before: pd.DataFrame,
    after: pd.DataFrame,
    old: _Places,
    gone: _Places,
) -> pd.DataFrame:
    known = old >= 0
    sums: dict[str, tuple[_Places, _Places]] = {}  # now and then
    less = np.zeros(len(after), dtype=bool)
    happened = np.zeros(len(after), dtype=bool)
    for column in columns:
        name, how = column["name"], column["combine"]
        if how == "sum" or (how in ("least", "most") and column["unit"] == "picoseconds"):
            now = numbers(after[name])
            then = np.zeros_like(now)
            then[known] = numbers(before[name])[old[known]]
            if how == "sum":
                sums[name] = now, then
                happened |= now != then
                less |= now < then
            elif how == "most":
                less |= now < then
            else:
                less |= (then != 0) & (now > then)  # 0: nothing was timed
        elif how == "" and name not in key:
            happened |= known & _differs(after[name], _taken(before[name], old))
    less &= known
    kept = np.flatnonzero(happened | less)
    gone = gone[np.any([numbers(before[name])[gone] != 0 for name in sums], axis=0)] if len(gone) else gone
    is_gone = np.arange(len(kept) + len(gone)) >= len(kept)
    difference = {
        name: np.append(np.where(less, now, now - then)[kept], np.zeros(len(gone), now.dtype))
        for name, (now, then) in sums.items()
    }
    if "COUNT_BUCKET_AND_LOWER" in difference:  # cuts have no empty buckets, in which the counts below were
        of = [name for name in key if name != "BUCKET_NUMBER"]
        counts = pd.Series(difference["COUNT_BUCKET"][: len(kept)])
        whole_of = after.iloc[kept].groupby(of, dropna=False, sort=False).ngroup().to_numpy() if of else np.zeros(len(kept))
        difference["COUNT_BUCKET_AND_LOWER"][: len(kept)] = counts.groupby(whole_of).cumsum().to_numpy()

    def is_full(column: _core.ColumnInfo) -> _Places:
        """Returns where a sum of times is at its largest value: later times are not known."""
        is_time = column["unit"] == "picoseconds"
        return np.append(is_time & (sums[column["name"]][0] == _MOST_PICOSECONDS)[kept], np.zeros(len(gone), dtype=bool))

    codes = np.append(np.select([less, ~known], [3, 1], 0)[kept], np.full(len(gone), 2))
    made: dict[str, Any] = {"CHANGE": pd.Categorical.from_codes(codes, dtype=category(_CHANGES))}
    count = ""
    for column in columns:
        name, how = column["name"], column["combine"]
        if how == "sum":
            made[name] = pd.arrays.IntegerArray(difference[name], is_gone | is_full(column))
            if name.startswith("COUNT_"):
                count = name
        elif how == "mean":
            total = "SUM_" + name.removeprefix("AVG_")
            if total in difference and count:
                n = timed(difference, count)
                mean = difference[total] // np.maximum(n, 1).astype(n.dtype)
                made[name] = pd.arrays.IntegerArray(mean, made[total].isna())
        elif how == "":
            made[name] = pd.concat([after[name].iloc[kept], before[name].iloc[gone]], ignore_index=True)
    return pd.DataFrame(made)


def _plain_diff(
    columns: Sequence[_core.ColumnInfo],
    key: Sequence[str],
    before: pd.DataFrame,
    after: pd.DataFrame,
    old: _Places,
    gone: _Places,
) -> pd.DataFrame:
    columns = [column for column in columns if column["combine"] != "derived"]  # the reader measures these
    known = old >= 0
    then = {column["name"]: _taken(before[column["name"]], old) for column in columns if column["name"] not in key}
    differs = {name: known & _differs(after[name], values) for name, values in then.items()}
    kept = np.flatnonzero(np.any([~known, *differs.values()], axis=0))
    codes = np.append(np.where(known, 0, 1)[kept], np.full(len(gone), 2))
    made: dict[str, Any] = {"CHANGE": pd.Categorical.from_codes(codes, dtype=category(_CHANGES))}
    nothing = np.full(len(gone), -1)
    for column in columns:
        name = column["name"]
        made[name] = pd.concat([after[name].iloc[kept], before[name].iloc[gone]], ignore_index=True)
        if name in differs and differs[name].any():
            made[f"{name}_BEFORE"] = _taken(before[name], np.append(old[kept], nothing))
    return pd.DataFrame(made)
