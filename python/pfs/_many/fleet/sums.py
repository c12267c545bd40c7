"""Adds up the rows of a summary of many processes. Few of their rows are in memory without compression at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np

from pfs._save.archive import Packed, empty, unpacked
from pfs._save.held import Columns, declared
from pfs._save.merge import summed, with_quantiles

__all__ = ["MOST_ROWS", "Sum", "sums_with_quantiles", "taken"]

MOST_ROWS = 20_000  # that are put together at a time
_PARTS = 32


class Sum:
    """Adds up the rows of a summary, some processes at a time.

    If the processes have few rows in common, the rows are parted by the texts of their keys, and each part is added up alone.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[Columns] = []
        self._parts: list[list[Any]] | None = None  # of streams

    @property
    def is_parted(self) -> bool:
        return self._parts is not None

    def add(self, columns: Columns) -> None:
        if not columns.rows:
            return
        self._waiting.append(columns)
        first = 0 if self.is_parted else 1  # of those that are not sums
        if sum(each.rows for each in self._waiting[first:]) < MOST_ROWS:
            return
        if not self.is_parted:
            self._waiting = [summed(self._name, self._waiting)]
        if self.is_parted or self._waiting[0].rows >= MOST_ROWS:
            self.part()

    def add_all(self, other: Sum) -> None:
        """Adds the sums of another one of the same table, to which nothing is added any more."""
        if not other.is_parted:
            self._waiting += other._waiting
            return
        for mine, its in zip(self.part(), other.part(), strict=True):
            mine += its

    def part(self) -> list[list[Any]]:
        """Parts the rows that were added. Rows of the same texts are in the same part, also of another table with these keys."""
        if self._parts is None:
            self._parts = [[] for _ in range(_PARTS)]
        if self._waiting:
            columns = summed(self._name, self._waiting)
            of_row = _parts_of(self._name, columns)
            for number, part in enumerate(self._parts):
                if (is_here := of_row == number).any():
                    packed = Packed()
                    packed.add(taken(columns, is_here))
                    part.append(packed.finish())
        self._waiting = []
        return self._parts

    def pieces(self) -> Iterator[Columns]:
        """Yields the sums: a piece for each part."""
        if self._parts is None:
            self._waiting = [summed(self._name, self._waiting)] if self._waiting else []
            yield self._waiting[0] if self._waiting else empty(self._name)
            return
        for part in self.part():
            rows = [columns for stream in part for columns in unpacked(self._name, stream)]
            yield summed(self._name, rows) if rows else empty(self._name)


def sums_with_quantiles(digests: Sum, histograms: Sum) -> Iterator[Columns]:
    """Yields the sums of digests with the quantiles of the sums of their histograms."""
    if histograms.is_parted:
        digests.part()
        for piece, buckets in zip(digests.pieces(), histograms.pieces(), strict=True):
            yield with_quantiles(piece, buckets)
    else:
        [buckets] = histograms.pieces()
        for piece in digests.pieces():
            yield with_quantiles(piece, buckets)


def _parts_of(name: str, columns: Columns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the number of the part of each row."""
    found = np.zeros(columns.rows, np.int64)
    key = declared(name)["key"]
    for column, _, _, codes, _, texts in columns.parts:
        if column in key and texts is not None:
            places = [crc32(text.encode("utf-8", "surrogatepass")) % _PARTS for text in texts]
            found += np.array([*places, 0])[codes]  # NULL is -1
    return found % _PARTS


def taken(columns: Columns, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Columns:
    """Returns these rows, with the texts that they have."""
    parts = []
    for name, kind, nullable, values, mask, texts in columns.parts:
        chosen = values[rows]
        if texts is not None and kind != "enum":
            places, chosen = np.unique(chosen, return_inverse=True)
            is_null = int(len(places) > 0 and places[0] < 0)
            chosen, texts = (chosen - is_null).astype(values.dtype), np.asarray(texts, object)[places[is_null:]]
        parts.append((name, kind, nullable, chosen, None if mask is None else mask[rows], texts))
    return Columns(int(rows.sum()), parts, columns.attrs)
