"""``pfs.merge`` adds the snapshots of several processes up, by the rules in the declarations of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype

from pfs import _core
from pfs._snapshots.snapshot import ORIGIN, Merged, Origin, Snapshot, is_summary
from pfs._tables.frame import TEXT, as_declared, as_signed
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    _Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["merge"]

_HISTOGRAM = "events_statements_histogram_by_digest"
_QUANTILES = {"QUANTILE_95": 950, "QUANTILE_99": 990, "QUANTILE_999": 999}
_MOST = np.uint64(2**64 - 1)


def merge(snapshots: Iterable[Snapshot], nodes: Sequence[str] | None = None) -> Merged:
    """Adds up snapshots of several processes. The result is a snapshot, which can be merged again in any order.

    A summary without identities of one process has a row for each key: counts and sums add up, MIN_* and MAX_* are the extremes,
    AVG_* and quantiles are computed again. LOW_* and HIGH_* add up to a bound, because the extremes of two processes need not
    have been at one moment. A sum that does not fit into its type stays at the largest value. All other tables have the rows of
    all processes, with the columns NODE, PID and START (in clock ticks since the boot) in front.

    Args:
        snapshots: of different processes. What a process did before it ended is in a snapshot of its segment, too.
        nodes: names for NODE, one for each snapshot; None takes the boot id and the pid namespace of each process.

    Raises:
        InvalidValue: there is no snapshot; a process is in two of them; or `nodes` has another length.
        TypeError: an argument is no snapshot.
    """
    given = list(snapshots)
    if not given:
        raise InvalidValue("there is nothing to merge: give at least one snapshot")
    for each in given:
        if not isinstance(each, Snapshot):
            raise TypeError(f"merge needs snapshots, of pfs.snapshot() or pfs.read_snapshot(), not {type(each).__name__}")
    if nodes is not None and len(nodes) != len(given):
        raise InvalidValue(f"there are {len(nodes)} nodes for {len(given)} snapshots: give a name for each")
    first = [each.origins[0] for each in given]
    named = first if nodes is None else [origin._replace(NODE=node) for origin, node in zip(first, nodes, strict=True)]
    origins: list[Origin] = []
    for number, each in enumerate(given):
        for origin in each.origins if nodes is None else [named[number]]:
            if origin in origins:
                raise InvalidValue(f"process {origin.PID} of {origin.NODE} is in two of the snapshots: it would count twice")
            origins.append(origin)
    tables: dict[str, pd.DataFrame] = {}
    for name in sorted(set().union(*given)):
        info = _core.table_info(name)
        there = [(number, each[name]) for number, each in enumerate(given) if name in each]
        if is_summary(info) and not any(column["across"] == "local" for column in info["columns"]):
            tables[name] = _merged(info, _united(name, [frame for _, frame in there]))
        else:
            tables[name] = _in_order(_placed(name, [(named[number], frame) for number, frame in there]))
    _set_quantiles(tables)
    tables = {name: as_signed(table) for name, table in tables.items()}
    return Merged(tables, sorted(origins), max(each.time for each in given), max(each.duration for each in given))


def _placed(name: str, frames: Sequence[tuple[Origin, pd.DataFrame]]) -> pd.DataFrame:
    """Returns all rows with their origins in front. Rows that were merged before have them."""
    old = [frame for _, frame in frames if set(ORIGIN) <= set(frame.columns)]
    new = [(origin, frame) for origin, frame in frames if not set(ORIGIN) <= set(frame.columns)]
    if not new:
        return _united(name, old)
    rows = _united(name, [frame for _, frame in new])
    counts = [len(frame) for _, frame in new]
    where = {
        "NODE": pd.array([origin.NODE for origin, _ in new], dtype=TEXT).repeat(counts),
        "PID": np.repeat(np.array([origin.PID for origin, _ in new], dtype=np.uint64), counts),
        "START": np.repeat(np.array([origin.START for origin, _ in new], dtype=np.uint64), counts),
    }
    placed = pd.concat([pd.DataFrame(where), rows], axis=1)
    return _united(name, [*old, placed]) if old else placed


def _united(name: str, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Returns all rows with the declared types. It does the work once, because each step costs pandas a millisecond a frame."""
    filled = [frame for frame in frames if len(frame)] or [frames[0]]
    united = pd.concat(filled, ignore_index=True)
    whole = {column["name"] for column in _core.table_info(name)["columns"] if column["kind"] == "uint64"}
    if any(column in whole and not is_integer_dtype(dtype) for column, dtype in united.dtypes.items()):
        # Frames with and without numbers of 2**63 and more have two types, which have no common one.
        united = pd.concat([as_declared(name, frame) for frame in filled], ignore_index=True)
    united.attrs = {}  # pandas would copy them deeply at each step
    return as_declared(name, united)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Sorts rows by their origin. The rows of one process keep their order."""
    return frame.sort_values(list(ORIGIN), kind="stable", ignore_index=True)


class _Groups:
    """Holds the rows of a table by key: `order` puts the rows of one key together, which begin at `begins`."""

    def __init__(self, frame: pd.DataFrame, key: Sequence[str]) -> None:
        ids = np.zeros(len(frame), dtype=np.int64)
        for name in key:
            codes, values = pd.factorize(_plain(frame[name]), sort=True, use_na_sentinel=True)
            ids = ids * (len(values) + 1) + (codes + 1)
            ids = np.unique(ids, return_inverse=True)[1]
        self.order = np.argsort(ids, kind="stable")
        ordered = ids[self.order]
        self.begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ids) else np.zeros(0, dtype=np.intp)
        self.ids = ids

    def reduce(self, function: np.ufunc, values: _Array) -> _Array:
        if not len(self.begins):
            return values[:0]
        result: _Array = function.reduceat(values[self.order], self.begins)
        return result

    def first(self) -> _Array:
        return self.order[self.begins]


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(TEXT) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _numbers(column: pd.Series[Any]) -> _Array:
    name = column.dtype.name.lower()
    return np.asarray(
        column.to_numpy(dtype=name, na_value=0) if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) else column
    )


def _like(values: _Array, column: pd.Series[Any]) -> Any:
    """Returns numbers with the type of a column."""
    dtype = column.dtype
    return pd.Series(values).astype(dtype).array if isinstance(dtype, pd.api.extensions.ExtensionDtype) else values


def _sum(groups: _Groups, values: _Array) -> _Array:
    """Adds up. A sum that does not fit stays at the largest value."""
    if values.dtype != np.uint64:
        return groups.reduce(np.add, values)
    low = groups.reduce(np.add, values & np.uint64(0xFFFFFFFF))
    high = groups.reduce(np.add, values >> np.uint64(32)) + (low >> np.uint64(32))
    return np.where(high > np.uint64(0xFFFFFFFF), _MOST, (high << np.uint64(32)) | (low & np.uint64(0xFFFFFFFF)))


def _least(groups: _Groups, values: _Array) -> _Array:
    largest = np.iinfo(values.dtype).max
    found = groups.reduce(np.minimum, np.where(values == 0, largest, values).astype(values.dtype))
    return np.where(found == largest, 0, found).astype(values.dtype)


def _chosen(groups: _Groups, column: pd.Series[Any], latest: bool) -> Any:
    """Returns the smallest or largest value of each key that is not NULL."""
    codes, values = pd.factorize(_plain(column), sort=True)
    nothing = len(values)
    if latest:
        found = groups.reduce(np.maximum, codes)
    else:
        found = groups.reduce(np.minimum, np.where(codes < 0, nothing, codes))
        found = np.where(found == nothing, -1, found)
    taken = pd.Series(values).array.take(found, allow_fill=True) if nothing else pd.Series([None] * len(found)).array
    return pd.Series(taken).astype(column.dtype)


def _sampled(groups: _Groups, frame: pd.DataFrame, names: Sequence[str]) -> _Array:
    """Returns the row of each key with the longest sample. Equal times are decided by the other columns."""
    ranks = [pd.factorize(_plain(frame[name]), sort=True)[0] for name in names]
    order = np.lexsort((*ranks, groups.ids))
    last = np.append(np.flatnonzero(np.diff(groups.ids[order])), len(order) - 1) if len(order) else np.zeros(0, dtype=np.intp)
    found: _Array = order[last]
    return found


def _merged(info: _core.TableInfo, frame: pd.DataFrame) -> pd.DataFrame:
    groups = _Groups(frame, info["key"])
    # The last one decides: the time of the sample.
    of_sample = sorted(
        (column for column in info["columns"] if column["across"] == "sampled"),
        key=lambda column: column["unit"] == "picoseconds",
    )
    sampled = [column["name"] for column in of_sample]
    places = _sampled(groups, frame, sampled) if sampled else None
    rules: dict[str, Callable[[_Array], _Array]] = {
        **dict.fromkeys(("sum", "gauge", "bound"), lambda values: _sum(groups, values)),
        "least": lambda values: _least(groups, values),
        "most": lambda values: groups.reduce(np.maximum, values),
    }
    made: dict[str, Any] = {}
    count = ""
    for column in info["columns"]:
        name, rule = column["name"], column["across"]
        values = frame[name]
        if name in info["key"]:
            made[name] = values.iloc[groups.first()].reset_index(drop=True)
        elif rule in rules:
            made[name] = _like(rules[rule](_numbers(values)), values)
            if name.startswith("COUNT_"):
                count = name
        elif rule == "mean":
            total = np.asarray(_numbers(pd.Series(made["SUM_" + name.removeprefix("AVG_")])))
            n = np.maximum(np.asarray(_numbers(pd.Series(made[count]))), 1).astype(total.dtype)
            made[name] = _like(total // n, values)
        elif rule == "sampled" and places is not None:
            made[name] = values.iloc[places].reset_index(drop=True)
        elif rule in ("first", "same", "last"):
            made[name] = _chosen(groups, values, rule == "last")
        else:  # derived: it is computed below, where what it is computed from is there
            made[name] = _like(groups.reduce(np.maximum, _numbers(values)), values)
    result = pd.DataFrame(made)
    if "BUCKET_QUANTILE" in result:
        whole_of = _Groups(result, [name for name in info["key"] if name != "BUCKET_NUMBER"])
        whole = np.zeros(len(result), dtype=np.float64)
        whole[:] = whole_of.reduce(np.maximum, _numbers(result["COUNT_BUCKET_AND_LOWER"]))[whole_of.ids] if len(result) else 0
        part = _numbers(result["COUNT_BUCKET_AND_LOWER"]).astype(np.float64)
        result["BUCKET_QUANTILE"] = np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
    return result


def _set_quantiles(tables: dict[str, pd.DataFrame]) -> None:
    """Computes the quantiles of digests from merged histograms: the end of the first bucket that is enough, as in the core."""
    digests, buckets = tables.get("events_statements_summary_by_digest"), tables.get(_HISTOGRAM)
    if digests is None or buckets is None or not len(buckets) or not len(digests):
        return
    key = ["SCHEMA_NAME", "DIGEST"]
    ids = pd.concat([digests[key], buckets[key]], ignore_index=True).groupby(key, dropna=False, sort=False).ngroup().to_numpy()
    of_digest, of_bucket = ids[: len(digests)], ids[len(digests) :]
    counts = _numbers(buckets["COUNT_BUCKET_AND_LOWER"])
    ends = _numbers(buckets["BUCKET_TIMER_HIGH"])
    total = np.zeros(ids.max() + 1, dtype=np.uint64)
    np.maximum.at(total, of_bucket, counts)
    for name, per_mille in _QUANTILES.items():
        need = (total * np.uint64(per_mille) + np.uint64(999)) // np.uint64(1000)
        enough = (counts >= need[of_bucket]) & (total[of_bucket] > 0)
        found = np.full(len(total), _MOST, dtype=np.uint64)
        np.minimum.at(found, of_bucket[enough], ends[enough])
        digests[name] = np.where(total[of_digest] > 0, found[of_digest], np.uint64(0))
