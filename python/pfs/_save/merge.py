"""``Snapshot.merge`` adds the snapshots of several processes up, by the rules in the declarations of the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pfs._read.kinds import ORIGIN_KINDS
from pfs._read.show import some
from pfs._save.averages import NOT_SAMPLED, timed
from pfs._save.columns import Column, united
from pfs._save.frames import ORIGIN, Origin, Reading, columns_of, has_sums
from pfs._save.held import Columns, Held, declared
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from pfs import _core
    from pfs._save.columns import Array

    Table = dict[str, Column]

__all__ = ["DIGESTS", "HISTOGRAM", "apart", "merge", "needed", "placed", "summed", "with_quantiles"]

DIGESTS = "events_statements_summary_by_digest"
HISTOGRAM = "events_statements_histogram_by_digest"
_QUANTILES = {"QUANTILE_95": 950, "QUANTILE_99": 990, "QUANTILE_999": 999}
_MOST = np.uint64(2**64 - 1)
_HALF = np.uint64(2**32 - 1)


def needed(table: str) -> list[str]:
    """Returns the tables that a merge reads for one: the quantiles of digests come from their histogram."""
    return [table, HISTOGRAM] if table == DIGESTS else [table]


def merge(given: Sequence[Reading], nodes: Sequence[str] | None = None) -> tuple[Held, list[Origin]]:
    """Adds up snapshots of several processes. Returns their tables, and the processes. See ``Snapshot.merge``."""
    if not given:
        raise InvalidValue("there is nothing to merge: give at least one snapshot")
    for each in given:
        if not isinstance(each, Reading):
            raise TypeError(f"merge needs snapshots, of pfs.snapshot() or pfs.read_snapshot(), not {type(each).__name__}")
    if nodes is not None and len(nodes) != len(given):
        raise InvalidValue(f"{some(len(nodes), 'node')} for {some(len(given), 'snapshot')}: give a name for each")
    first = [each.origins[0] for each in given]
    named = first if nodes is None else [origin._replace(NODE=node) for origin, node in zip(first, nodes, strict=True)]
    origins: set[Origin] = set()
    for number, each in enumerate(given):
        for origin in each.origins if nodes is None else [named[number]]:
            if origin in origins:
                raise InvalidValue(f"process {origin.PID} of {origin.NODE} is in two of the snapshots: it would count twice")
            origins.add(origin)
    lacks_buckets = any(each._lacks_buckets for each in given)
    tables: dict[str, Table] = {}
    for name in sorted(set().union(*given)):
        info = declared(name)
        found = zip(named, [columns_of(each, name) for each in given], strict=True)
        there = [(origin, columns) for origin, columns in found if columns is not None]
        if has_sums(info):
            tables[name] = _merged(info, _rows(info, [columns for _, columns in there]), lacks_buckets)
        else:
            tables[name] = _placed(info, there)
    _set_quantiles(tables)
    held = Held({name: _columns(declared(name), table) for name, table in tables.items()})
    return held, sorted(origins)


def apart(name: str, readings: Sequence[tuple[Origin, Columns]]) -> Columns:
    """Returns the rows of a table of several processes, with the columns NODE, PID and START in front. Rows of a summary in which
    nothing has been counted are left out."""
    info = declared(name)
    table = _placed(info, readings)
    sums = [table[column["name"]].values for column in info["columns"] if column["combine"] == "sum"]
    if sums:
        is_used = np.any([values != 0 for values in sums], axis=0)
        if not is_used.all():
            table = {column: values.taken(is_used) for column, values in table.items()}
    return _columns(info, table)


def summed(name: str, readings: Sequence[Columns]) -> Columns:
    """Returns the sums of a summary, as ``merge`` makes them. Quantiles of digests need ``with_quantiles``.

    `readings` may lack buckets of digests in which nothing was counted, and so may the sums.
    """
    info = declared(name)
    return _columns(info, _merged(info, _rows(info, readings), lacks_buckets=True))


def placed(name: str, readings: Sequence[tuple[Origin, Columns]]) -> Columns:
    """Returns the rows of a table of several processes, with the columns NODE, PID and START in front."""
    info = declared(name)
    return _columns(info, _placed(info, readings))


def with_quantiles(digests: Columns, buckets: Columns) -> Columns:
    """Returns sums of digests with the quantiles of sums of their histograms."""
    tables = {name: _rows(declared(name), [columns]) for name, columns in ((DIGESTS, digests), (HISTOGRAM, buckets))}
    _set_quantiles(tables)
    return _columns(declared(DIGESTS), tables[DIGESTS])


def _rows(info: _core.TableInfo, readings: Sequence[Columns], origin: bool = False) -> Table:
    """Returns all rows. `origin`: with the columns that merged rows have."""
    filled = [each for each in readings if each.rows]
    rows = [each.rows for each in filled]
    kinds = [(name, kind, False) for name, kind in ORIGIN_KINDS.items()] if origin else []
    kinds += [(column["name"], column["kind"], column["nullable"]) for column in info["columns"]]
    names = [name for name, _, _ in kinds]
    by_column: list[Sequence[_core.Part | None]]
    if filled and all(each.names() == names for each in filled):
        by_column = list(zip(*(each.parts for each in filled), strict=True))
    else:
        by_name = [{part[0]: part for part in each.parts} for each in filled]
        by_column = [[each.get(name) for each in by_name] for name in names]
    return {kind[0]: united(*kind, parts, rows) for kind, parts in zip(kinds, by_column, strict=True)}


def _columns(info: _core.TableInfo, table: Table) -> Columns:
    values = {column["name"]: column["values"] for column in info["columns"]}
    parts = [column.part(values.get(name, ())) for name, column in table.items()]
    return Columns(len(parts[0][3]), parts)


def _placed(info: _core.TableInfo, readings: Sequence[tuple[Origin, Columns]]) -> Table:
    """Returns all rows with their origins in front, in the order of the origins. The rows of one process keep their order."""
    old = [columns for _, columns in readings if columns.parts and columns.parts[0][0] == ORIGIN[0]]  # they were merged before
    new = [(origin, columns) for origin, columns in readings if not (columns.parts and columns.parts[0][0] == ORIGIN[0])]
    rows = [columns.rows for _, columns in new]
    nodes = sorted({origin.NODE for origin, _ in new})
    known = {node: place for place, node in enumerate(nodes)}
    places = np.repeat(np.array([known[origin.NODE] for origin, _ in new], dtype=np.int64), rows)
    table = {"NODE": Column("NODE", "text", False, places, None, nodes)}
    for name in ORIGIN[1:]:
        numbers = np.array([getattr(origin, name) for origin, _ in new], dtype=np.uint64)
        table[name] = Column(name, "uint64", False, np.repeat(numbers, rows), None)
    table |= _rows(info, [columns for _, columns in new])
    if old:
        table = _rows(info, [*old, _columns(info, table)], origin=True)
    order = np.lexsort([table[name].values for name in reversed(ORIGIN)])
    if np.array_equal(order, np.arange(len(order))):
        return table
    return {name: column.taken(order) for name, column in table.items()}


def _dense(ids: Array, space: int) -> tuple[Array, int]:
    """Returns ids without gaps, in the same order, and their count. `space`: more than the largest one."""
    if space > 4 * len(ids) + 1000:
        values, codes = np.unique(ids, return_inverse=True)
        return codes, len(values)
    is_there = np.zeros(space, dtype=bool)
    is_there[ids] = True
    places = np.cumsum(is_there) - 1
    return places[ids], int(is_there.sum())


class _Groups:
    """Holds the number of the key of each row. Keys are numbered in their order; NULL comes first."""

    def __init__(self, key: Sequence[Column], rows: int) -> None:
        ids, space = np.zeros(rows, dtype=np.int64), 1
        for column in key:
            ranks = column.ranks()
            count = int(ranks.max(initial=-1)) + 2
            if space * count >= 2**62:
                ids, space = _dense(ids, space)
            ids, space = ids * count + (ranks + 1), space * count
        self.ids, self.count = _dense(ids, space)

    def reduce(self, function: np.ufunc, values: Array, start: Any) -> Array:
        """Returns the result of a function for each key: of `start` and all its values."""
        result: Array = np.full(self.count, start, dtype=values.dtype)
        function.at(result, self.ids, values)
        return result

    def first(self) -> Array:
        """Returns the first row of each key."""
        return self.reduce(np.minimum, np.arange(len(self.ids)), len(self.ids))


def _sum(groups: _Groups, values: Array) -> Array:
    """Adds up. A sum that does not fit stays at the largest value."""
    if values.dtype != np.uint64 or int(values.max(initial=0)) * len(values) < 2**64:
        return groups.reduce(np.add, values, 0)
    low = groups.reduce(np.add, values & _HALF, 0)
    high = groups.reduce(np.add, values >> np.uint64(32), 0) + (low >> np.uint64(32))
    return np.where(high > _HALF, _MOST, (high << np.uint64(32)) | (low & _HALF))


def _least(groups: _Groups, values: Array) -> Array:
    """Returns the smallest values, in which 0 stands for nothing."""
    largest = np.iinfo(values.dtype).max
    found = groups.reduce(np.minimum, np.where(values == 0, largest, values).astype(values.dtype), largest)
    return np.where(found == largest, 0, found)


def _most(groups: _Groups, values: Array) -> Array:
    return groups.reduce(np.maximum, values, np.iinfo(values.dtype).min if values.dtype.kind in "iu" else -np.inf)


def _chosen(groups: _Groups, column: Column, latest: bool) -> Column:
    """Returns the smallest or largest value of each key that is not NULL."""
    values = column.values
    first, last = (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max) if values.dtype.kind in "iu" else (-np.inf, np.inf)
    function, start = (np.maximum, first) if latest else (np.minimum, last)
    if column.null is None:
        return column.of(groups.reduce(function, values, start))
    found = groups.reduce(function, np.where(column.null, start, values).astype(values.dtype), start)
    null = groups.reduce(np.logical_and, column.null, True)
    return column.of(np.where(null, 0, found), null)


def _sampled(groups: _Groups, columns: Sequence[Column]) -> Array:
    """Returns the row of each key with the longest sample. Equal times are decided by the other columns."""
    order = np.lexsort((*(column.ranks() for column in columns), groups.ids))
    last = np.append(np.flatnonzero(np.diff(groups.ids[order])), len(order) - 1) if len(order) else np.zeros(0, dtype=np.intp)
    found: Array = order[last]
    return found


_REDUCED: dict[str, Callable[[_Groups, Array], Array]] = {
    **dict.fromkeys(("sum", "gauge", "bound"), _sum),
    "least": _least,
    "most": _most,
    "derived": _most,  # it is computed below, where what it is computed from is there
}


def _merged(info: _core.TableInfo, table: Table, lacks_buckets: bool) -> Table:
    rows = len(next(iter(table.values())).values)
    groups = _Groups([table[name] for name in info["key"]], rows)
    # The last one decides: the time of the sample.
    of_sample = sorted(
        (column for column in info["columns"] if column["across"] == "sampled"),
        key=lambda column: column["unit"] == "picoseconds",
    )
    places = _sampled(groups, [table[column["name"]] for column in of_sample]) if of_sample else None
    first = groups.first()
    made: Table = {}
    count = ""
    counts = {NOT_SAMPLED: _REDUCED["sum"](groups, table[NOT_SAMPLED].numbers())} if NOT_SAMPLED in table else {}
    for each in info["columns"]:
        name, rule = each["name"], each["across"]
        column = table[name]
        if name in info["key"]:
            made[name] = column.taken(first)
        elif rule in _REDUCED:
            made[name] = column.of(_REDUCED[rule](groups, column.numbers()))
            if name.startswith("COUNT_"):
                count = name
                counts[name] = made[name].numbers()
        elif rule == "mean":
            total = made["SUM_" + name.removeprefix("AVG_")].numbers()
            made[name] = column.of(total // np.maximum(timed(counts, count), 1).astype(total.dtype))
        elif rule == "sampled" and places is not None:
            made[name] = column.taken(places)
        else:
            made[name] = _chosen(groups, column, rule == "last")
    if "BUCKET_QUANTILE" in made:
        whole_of = _Groups([made[name] for name in info["key"] if name != "BUCKET_NUMBER"], groups.count)
        until = made["COUNT_BUCKET_AND_LOWER"].values
        if lacks_buckets:
            until = _until(whole_of, made["COUNT_BUCKET"].values, until)
            made["COUNT_BUCKET_AND_LOWER"] = made["COUNT_BUCKET_AND_LOWER"].of(until)
        whole = _most(whole_of, until)[whole_of.ids].astype(np.float64)
        part = until.astype(np.float64)
        made["BUCKET_QUANTILE"] = made["BUCKET_QUANTILE"].of(np.divide(part, whole, out=np.zeros_like(part), where=whole != 0))
    return made


def _until(whole_of: _Groups, counts: Array, sums: Array) -> Array:
    """Returns the counts of each bucket and those below it, of rows in the order of buckets. The sums do not have them: a reading
    may lack a bucket in which it counted nothing, and with it the counts below.
    """
    if int(counts.max(initial=0)) * len(counts) >= 2**64:
        return sums
    until: Array = np.cumsum(counts, dtype=counts.dtype)
    until -= (until - counts)[whole_of.first()][whole_of.ids]
    return until


def _set_quantiles(tables: dict[str, Table]) -> None:
    """Computes the quantiles of digests from merged histograms: the end of the first bucket that is enough, as in the core."""
    digests, buckets = tables.get(DIGESTS), tables.get(HISTOGRAM)
    if digests is None or buckets is None or not len(buckets["DIGEST"].values):
        return
    rows = [len(table["DIGEST"].values) for table in (digests, buckets)]
    key = [
        united(name, "text", True, [table[name].part() for table in (digests, buckets)], rows)
        for name in ("SCHEMA_NAME", "DIGEST")
    ]
    groups = _Groups(key, sum(rows))
    of_digest, of_bucket = groups.ids[: rows[0]], groups.ids[rows[0] :]
    counts, ends = buckets["COUNT_BUCKET_AND_LOWER"].values, buckets["BUCKET_TIMER_HIGH"].values
    total = np.zeros(groups.count, dtype=np.uint64)
    np.maximum.at(total, of_bucket, counts)
    for name, per_mille in _QUANTILES.items():
        need = (total * np.uint64(per_mille) + np.uint64(999)) // np.uint64(1000)
        enough = (counts >= need[of_bucket]) & (total[of_bucket] > 0)
        found = np.full(groups.count, _MOST, dtype=np.uint64)
        np.minimum.at(found, of_bucket[enough], ends[enough])
        digests[name] = digests[name].of(np.where(total[of_digest] > 0, found[of_digest], np.uint64(0)))
