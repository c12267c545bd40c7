"""The pandas type of a column: the one place that says what a kind of column is in every frame."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["TEXT", "category", "column_of", "fits_signed"]

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


def fits_signed(values: Any) -> bool:
    """Returns whether an array of uint64 has no value of 2**63 or more."""
    return len(values) == 0 or bool(values.view(np.int64).min() >= 0)
