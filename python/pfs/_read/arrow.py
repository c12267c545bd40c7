"""Makes an Arrow table of a DataFrame with the types that pfs gives its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pfs import _core
from pfs._read.show import storable
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

__all__ = ["arrow_of", "arrow_of_parts", "escaped", "parts_of", "plain_texts"]

_KINDS = {"uint64": "uint64", "int64": "int64", "uint32": "uint32", "int32": "int32", "float64": "double"}


def arrow_of(frame: pd.DataFrame, columns: Iterable[str] | None = None) -> _core.ArrowTable:
    """Returns the rows of a frame. `columns`: names of the frame; None means all.

    Raises:
        InvalidValue: a column has a type that no table of pfs has.
    """
    names = [str(name) for name in frame.columns] if columns is None else list(columns)
    return arrow_of_parts(len(frame), [_part(name, frame[name]) for name in names])


def arrow_of_parts(rows: int, parts: Iterable[_core.Part]) -> _core.ArrowTable:
    """Returns the rows of columns that the core has read, or ``parts_of``."""
    plain: list[_core.Part] = []
    for name, kind, nullable, values, mask, texts in parts:
        if texts is None:
            plain.append((name, kind, nullable, values, mask, None))
        else:
            codes, members = plain_texts(values, texts)
            null = codes < 0
            plain.append((name, "text", nullable, codes, null if null.any() else None, members))
    return _core.arrow_of(rows, plain)


def plain_texts(values: Any, texts: Iterable[str]) -> tuple[Any, list[str]]:
    """Returns the codes of a column, -1 for NULL, and its texts as UTF-8. `values`: codes; None: each row has its own text."""
    members = list(texts)
    codes = np.arange(len(members), dtype=np.int32) if values is None else values
    clean = escaped(members)
    if clean is None:
        return codes, members
    members = sorted(set(clean))  # texts that are equal now get one code, because a dictionary has each text once
    known = {text: place for place, text in enumerate(members)}
    return np.array([*(known[text] for text in clean), -1], dtype=np.int32)[codes], members


def escaped(texts: Sequence[str]) -> list[str] | None:
    """Returns texts that can be written as UTF-8, with any other byte as ``\\xNN``; None if these can be written."""
    try:
        "\0".join(texts).encode()
    except UnicodeEncodeError:
        return [storable(text) for text in texts]
    return None


def parts_of(frame: pd.DataFrame, declared: Mapping[str, tuple[str, bool]] | None = None) -> list[_core.Part]:
    """Returns the columns of a frame as the core would read them, except that ENUM and SET are texts.

    Args:
        declared: kinds of columns, and whether they may be NULL. A column whose values do not fit keeps the type that it has.

    Raises:
        InvalidValue: a column has a type that no table of pfs has.
    """
    parts = [_part(str(name), column) for name, column in frame.items()]
    return parts if declared is None else [_as_declared(part, *declared.get(part[0], ("", part[2]))) for part in parts]


def _as_declared(part: _core.Part, declared: str, nullable: bool) -> _core.Part:
    """Returns a column with the type of its declaration: `pfs.table` has int64 where uint64 is declared and all values fit."""
    name, kind, _, values, mask, texts = part
    if kind == "int64" and declared == "uint64" and (len(values) == 0 or values.min() >= 0):
        kind, values = declared, values.view(np.uint64)
    if kind == "double" and nullable:
        mask = np.isnan(values)
    return name, kind, nullable or (mask is not None and bool(mask.any())), values, mask, texts


def _part(name: str, column: pd.Series[Any]) -> _core.Part:
    import pandas as pd

    from pfs._read.dtypes import numbers

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
    return _with_nulls(name, kind, numbers(column), column.isna().to_numpy())


def _with_nulls(name: str, kind: str, values: Any, mask: Any, texts: list[str] | None = None) -> _core.Part:
    return name, kind, True, values, mask if mask.any() else None, texts
