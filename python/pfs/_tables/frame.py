"""Makes DataFrames of the columns that the core reads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._tables import at_exit  # noqa: F401  (before pandas)

# isort: split
import numpy as np
import pandas as pd

from pfs._source import OWN
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from pfs._source import Source

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


def frame(table: str, columns: Iterable[str] | None = None, source: Source = OWN, running: str | None = None) -> pd.DataFrame:
    """Reads a table of this process, or of an attached one. See ``pfs.table``."""
    if running not in (None, "elapsed"):
        raise InvalidValue(f"bad value {running!r} for running: legal is 'elapsed', or None")
    if isinstance(columns, str):
        columns = [columns]
    return made(*source.read(str(table), None if columns is None else list(columns), running is not None))


def made(rows: int, _skipped: int, parts: list[_core.Part]) -> pd.DataFrame:
    """Returns a frame of the columns that a source has read."""
    places = np.empty(rows, dtype=np.intp)  # take() wants indexes of this width, and would allocate them for each column of text
    data = {name: column_of(kind, nullable, values, mask, texts, places) for name, kind, nullable, values, mask, texts in parts}
    return pd.DataFrame(data, index=pd.RangeIndex(rows), copy=False)


def describe(table: str) -> pd.DataFrame:
    """Describes the columns of a table. See ``pfs.describe``."""
    columns = _core.table_info(str(table))["columns"]
    return pd.DataFrame(
        {
            "COLUMN_NAME": pd.array([column["name"] for column in columns], dtype=TEXT),
            "COLUMN_TYPE": pd.array([column["sql_type"] for column in columns], dtype=TEXT),
            "NULLABLE": np.array([column["nullable"] for column in columns], dtype=bool),
            "WRITABLE": np.array([column["writable"] for column in columns], dtype=bool),
            "UNIT": pd.array([column["unit"] for column in columns], dtype=TEXT),
            "DESCRIPTION": pd.array([column["doc"] for column in columns], dtype=TEXT),
        }
    )
