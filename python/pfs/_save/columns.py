"""Puts the columns of many readings together, with one dictionary of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from pfs import _core

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Column", "united"]

_TYPES = {
    "uint64": np.uint64,
    "int64": np.int64,
    "uint32": np.uint32,
    "int32": np.int32,
    "double": np.float64,
    "timestamp": np.int64,
}
_FEW = 1 << 16  # fewer different numbers need not be counted
_NAT = np.iinfo(np.int64).min


@dataclass(slots=True)
class Column:
    """Holds one column of all rows.

    Attributes:
        values: numbers; for texts their places in `texts`, which are sorted.
        null: which rows are NULL; None if no row is.
    """

    name: str
    kind: str
    nullable: bool
    values: Array
    null: Array | None
    texts: list[str] | None = None

    def numbers(self) -> Array:
        """Returns the values, with 0 for NULL."""
        return self.values if self.null is None else np.where(self.null, 0, self.values).astype(self.values.dtype)

    def ranks(self) -> Array:
        """Returns numbers from 0 in the order of the values, and -1 for NULL."""
        is_small = self.values.dtype.kind == "u" and int(self.values.max(initial=0)) < _FEW
        if self.texts is not None or is_small:
            ranks: Array = self.values.astype(np.int64)
        else:
            ranks = np.unique(self.values, return_inverse=True)[1].astype(np.int64, copy=False)
        return ranks if self.null is None else np.where(self.null, -1, ranks)

    def taken(self, rows: Array) -> Column:
        """Returns the column of these rows."""
        return self.of(self.values[rows], None if self.null is None else self.null[rows])

    def of(self, values: Array, null: Array | None = None) -> Column:
        """Returns a column of the same kind with other values."""
        values = np.asarray(values).astype(self.values.dtype, copy=False)
        return Column(self.name, self.kind, self.nullable, values, None if null is None or not null.any() else null, self.texts)

    def part(self, enum: Sequence[str] = ()) -> _core.Part:
        """Returns the column as the core would read it. `enum`: the values of an ENUM."""
        if self.texts is not None:
            codes = self.values if self.null is None else np.where(self.null, -1, self.values)
            if self.kind != "enum":
                return self.name, self.kind, self.nullable, codes.astype(np.int32), None, np.array(self.texts, dtype=object)
            known = {text: place for place, text in enumerate(enum)}
            places = np.array([*(known.get(text, -1) for text in self.texts), -1], dtype=np.int16)
            return self.name, self.kind, self.nullable, places[codes], None, tuple(enum)
        values = self.values
        if self.kind in ("timestamp", "double"):
            empty = _NAT if self.kind == "timestamp" else np.nan
            values = values if self.null is None else np.where(self.null, empty, values)
            return self.name, self.kind, self.nullable, values, self.null, None
        null = self.null
        if self.nullable and null is None:
            null = np.zeros(len(values), dtype=bool)
        return self.name, self.kind, self.nullable, values, null, None


def united(name: str, kind: str, nullable: bool, parts: Sequence[_core.Part | None], rows: Sequence[int]) -> Column:
    """Returns the rows of all parts in one column. A part is None where a reading lacks the column: its rows are NULL or 0."""
    is_coded = kind in ("text", "set", "enum")
    dtype = np.dtype(np.int32 if is_coded else _TYPES[kind])
    if None in parts:
        empty = (name, kind, nullable, np.empty(0, dtype), None, ["0"] if is_coded else None)
        parts = [part if part is not None else _lacking(empty, count) for part, count in zip(parts, rows, strict=True)]
    found = cast("Sequence[_core.Part]", parts)
    if is_coded:
        return _united_texts(name, kind, nullable, found)
    pieces = [part[3] for part in found]
    values: Array = np.concatenate(pieces) if pieces else np.zeros(0, dtype)
    if values.dtype != dtype:
        # Integers with and without a sign have no common type but that of floating point.
        values = values.astype(dtype) if values.dtype.kind in "iu" else np.concatenate([piece.astype(dtype) for piece in pieces])
    null: Array | None = None
    if nullable and kind == "timestamp":
        null = values == _NAT
    elif nullable and kind == "double":
        null = np.isnan(values)
    elif nullable and any(part[4] is not None for part in found):
        null = np.concatenate([part[4] if part[4] is not None else np.zeros(len(part[3]), bool) for part in found])
    return Column(name, kind, nullable, values, null if null is not None and null.any() else None)


def _lacking(empty: _core.Part, rows: int) -> _core.Part:
    """Returns the column of a reading of another version, which has it not: NULL where that is legal, else 0."""
    name, kind, nullable, values, _, texts = empty
    if texts is not None:
        return name, kind, nullable, np.full(rows, -1 if nullable else 0, np.int32), None, texts
    nothing = {"timestamp": _NAT, "double": np.nan}.get(kind, 0) if nullable else 0
    return name, kind, nullable, np.full(rows, nothing, values.dtype), np.ones(rows, bool) if nullable else None, None


def _united_texts(name: str, kind: str, nullable: bool, parts: Sequence[_core.Part]) -> Column:
    """Numbers the texts of all parts once. The steps are of whole columns, because there may be thousands of small parts."""
    pieces = [part[3] if part[3] is not None else np.arange(len(part[5])) for part in parts]
    if not pieces:
        return Column(name, kind, nullable, np.zeros(0, np.int64), None, [])
    known: dict[str, int] = {}
    places = np.array([known.setdefault(text, len(known)) for part in parts for text in part[5]] or [0])
    begins = np.cumsum([0, *(len(part[5]) for part in parts[:-1])])
    codes = np.concatenate(pieces)
    null: Array | None = codes < 0
    texts = sorted(known)
    rank = np.empty(max(len(known), 1), dtype=np.int64)
    rank[[known[text] for text in texts]] = np.arange(len(known))
    at = np.maximum(codes, 0) + np.repeat(begins, [len(piece) for piece in pieces])
    values = rank[places][np.minimum(at, len(places) - 1)]  # a part whose rows are all NULL may have no texts
    if null is not None and null.any():
        values[null] = 0
    else:
        null = None
    return Column(name, kind, nullable, values, null, texts)
