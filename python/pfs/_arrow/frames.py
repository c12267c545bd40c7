"""Makes an Arrow table of a DataFrame with the types that pfs gives its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pfs import _core
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["arrow_of"]

_KINDS = {"uint64": "uint64", "int64": "int64", "uint32": "uint32", "int32": "int32", "float64": "double"}


def arrow_of(frame: pd.DataFrame, columns: Iterable[str] | None = None) -> _core.ArrowTable:
    """Returns the rows of a frame. `columns`: names of the frame; None means all.

    Raises:
        InvalidValue: a column has a type that no table of pfs has.
    """
    names = [str(name) for name in frame.columns] if columns is None else list(columns)
    return _core.arrow_of(len(frame), [_part(name, frame[name]) for name in names])


def _part(name: str, column: pd.Series[Any]) -> tuple[Any, ...]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return name, "text", True, column.cat.codes.to_numpy(), column.isna().to_numpy(), [str(t) for t in dtype.categories]
    if isinstance(dtype, pd.StringDtype) or dtype.name == "object":
        codes, texts = pd.factorize(column)
        return _with_nulls(name, "text", codes, codes < 0, [str(text) for text in texts])
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _with_nulls(name, "timestamp", column.to_numpy().astype("datetime64[us]").view("int64"), column.isna().to_numpy())
    kind = _KINDS.get(dtype.name.lower())
    if kind is None:
        raise InvalidValue(f"column {name} has the type {dtype}: legal are the types of the frames of pfs.table")
    if isinstance(dtype, np.dtype):
        return name, kind, False, column.to_numpy(), None, None
    mask = column.isna().to_numpy()
    return _with_nulls(name, kind, column.to_numpy(dtype=dtype.name.lower(), na_value=0), mask)


def _with_nulls(name: str, kind: str, values: Any, mask: Any, texts: list[str] | None = None) -> tuple[Any, ...]:
    return name, kind, True, values, mask if mask.any() else None, texts
