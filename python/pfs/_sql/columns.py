"""Makes the columns of a frame from what DuckDB returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pfs._read.dtypes import TEXT, category, fits_signed

__all__ = ["column_of"]


def column_of(kind: str, values: Any) -> Any:
    """Returns a column of a type that ``pfs.table`` uses. `values`: an array, or a masked array if there are NULLs."""
    mask = np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if kind in ("HUGEINT", "UHUGEINT"):
        numbers = [None if is_null else int(text) for text, is_null in zip(plain, mask, strict=True)]
        whole = [number or 0 for number in numbers]
        least, most = min(whole, default=0), max(whole, default=0)
        if least < -(2**63) or most >= (2**63 if least < 0 else 2**64):
            return pd.Series(numbers, dtype=object)
        plain = np.array(whole, dtype=np.int64 if most < 2**63 else np.uint64)
    elif kind == "UBIGINT" and fits_signed(plain := np.where(mask, np.uint64(0), plain)):
        plain = plain.view(np.int64)
    if kind == "VARCHAR":
        return pd.array([None if is_null else text for text, is_null in zip(plain, mask, strict=True)], dtype=TEXT)
    if kind.startswith("ENUM("):
        texts = [None if is_null else str(text) for text, is_null in zip(plain, mask, strict=True)]
        return pd.Categorical(texts, dtype=category(tuple(sorted({text for text in texts if text is not None}))))
    if isinstance(plain.dtype, np.dtype) and plain.dtype.kind in "iu" and mask.any():
        return pd.arrays.IntegerArray(plain.copy(), mask.copy())
    if plain.dtype.kind == "b" and mask.any():
        return pd.arrays.BooleanArray(plain.copy(), mask.copy())
    if plain.dtype.kind == "M":
        return np.where(mask, np.datetime64("NaT", "us"), plain).astype("datetime64[us]")
    if plain.dtype.kind == "f":
        return np.where(mask, np.nan, plain)
    return plain
