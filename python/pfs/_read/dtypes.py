"""The pandas type of a column: the one place that says what a kind of column is in every frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["TEXT", "category", "column_of", "dtype_of", "fits_signed", "numbers", "with_nulls_of"]

TEXT = pd.StringDtype(storage="python")


@lru_cache(maxsize=256)
def category(values: tuple[str, ...]) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(list(values), ordered=False)


def column_of(kind: str, nullable: bool, values: Any, mask: Any, texts: Any, places: Any = None) -> Any:
    """Returns a column of a frame. `places` is a buffer with an index for each row; it is reused for all columns of text."""
    if kind in ("text", "set"):
        known = pd.array(np.asarray(texts, dtype=object), dtype=TEXT, copy=False)
        if values is None:
            return known
        if places is None:
            return known.take(values, allow_fill=True)
        places[:] = values
        return known.take(places, allow_fill=True)
    if kind == "enum":
        return pd.Categorical.from_codes(values, dtype=category(tuple(texts)), validate=False)
    if kind == "timestamp":
        return values.view("datetime64[us]")
    if nullable and kind != "double":
        return pd.arrays.IntegerArray(values, mask)
    return values


_NULLABLE = {"uint64": "UInt64", "int64": "Int64", "uint32": "UInt32", "int32": "Int32"}


def dtype_of(kind: str, nullable: bool = False, members: Sequence[str] = ()) -> Any:
    """Returns the pandas type of a kind of column. `members`: of an enum."""
    if kind in ("text", "set"):
        return TEXT
    if kind == "enum":
        return category(tuple(members))
    if kind == "timestamp":
        return "datetime64[us]"
    return "float64" if kind == "double" else _NULLABLE[kind] if nullable else kind


def numbers(column: pd.Series[Any]) -> Any:
    """Returns a column as plain numbers, with 0 for NULL."""
    name = column.dtype.name
    return column.to_numpy(dtype=name.lower(), na_value=0) if name in _NULLABLE.values() else column.to_numpy()


def with_nulls_of(column: pd.Series[Any], whole: Any) -> Any:
    """Returns whole numbers that are NULL where a column of whole numbers is."""
    return pd.arrays.IntegerArray(whole, column.isna().to_numpy()) if column.dtype.name in _NULLABLE.values() else whole


def fits_signed(values: Any) -> bool:
    """Returns whether an array of uint64 has no value of 2**63 or more."""
    return len(values) == 0 or bool(values.view(np.int64).min() >= 0)
