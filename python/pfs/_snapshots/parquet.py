"""Prepares frames for Parquet, which needs pyarrow and UTF-8, and restores the types of columns that were read."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pfs import _core, _paths
from pfs._arrow.frames import escaped
from pfs._snapshots.foreign import foreign
from pfs._snapshots.held import Columns, declared
from pfs._tables.frame import TEXT, category
from pfs._tables.kinds import ORIGIN_KINDS, kinds
from pfs.errors import Error

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["SavedParquet", "columns_of_arrow", "need_pyarrow", "storable"]


def need_pyarrow() -> None:
    """Raises Error if pyarrow is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        raise Error("Parquet files need pyarrow: pip install 'perfschema[parquet]'") from None


def storable(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a frame whose texts can be written as UTF-8."""
    changed = {}
    for name in table.columns:
        if not isinstance(table[name].dtype, pd.StringDtype):
            continue
        texts = table[name].dropna().unique().tolist()
        clean = escaped(texts)
        if clean is not None:
            changed[name] = table[name].map(dict(zip(texts, clean, strict=True)).__getitem__, na_action="ignore").astype(TEXT)
    return table.assign(**changed) if changed else table


def _as_read(name: str, stored: pd.DataFrame) -> pd.DataFrame:
    """Restores the types of the columns that this version knows. Parquet keeps only some of them."""
    types: dict[str, Any] = {}
    if kinds(name):
        for column in declared(name)["columns"]:
            if column["name"] not in stored:
                continue
            if column["kind"] == "enum":
                types[column["name"]] = category(column["values"])
            elif column["kind"] in ("text", "set"):
                types[column["name"]] = TEXT
    return stored.astype(types)


@cache
def _declared(name: str) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    """Returns what each column holds. It is made once, because a thousand files may have a hundred tables each."""
    found = {column["name"]: (column["kind"], column["nullable"], column["values"]) for column in declared(name)["columns"]}
    return {origin: (kind, False, ()) for origin, kind in ORIGIN_KINDS.items()} | found


def columns_of_arrow(name: str, stored: Any, attrs: dict[Hashable, Any]) -> Columns | pd.DataFrame:
    """Returns the columns of a saved table. It is a frame if this version does not know the table, or if a type is another.

    `stored`: a table of Arrow, or a batch of rows.
    """
    known = _declared(name) if kinds(name) else {}
    parts = []
    for column, values in zip(stored.schema.names, stored.columns, strict=True):
        part = _part(column, *known[column], values) if column in known else None
        if part is None:
            return _as_read(name, stored.to_pandas(use_threads=False))
        parts.append(part)
    return Columns(stored.num_rows, parts, attrs)


_NO_TEXTS: np.ndarray[Any, np.dtype[Any]] = np.zeros(0, dtype=object)


def _part(name: str, kind: str, nullable: bool, members: tuple[str, ...], array: Any) -> _core.Part | None:
    """Returns a column in the form in which the core reads it; None if it is of another type."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], array.type)])
    stored = array.type
    if kind in ("text", "set", "enum"):
        if not pa.types.is_dictionary(stored):
            array = array.dictionary_encode()
            stored = array.type
        if not (pa.types.is_large_string(stored.value_type) or pa.types.is_string(stored.value_type)):
            return None
        codes, texts = array.indices, array.dictionary.to_pylist()
        codes = (codes.fill_null(-1) if codes.null_count else codes).to_numpy()
        if kind != "enum":
            return name, kind, nullable, codes.astype(np.int32, copy=False), None, np.array(texts, object) if texts else _NO_TEXTS
        places = np.array([*(members.index(text) if text in members else -1 for text in texts), -1], dtype=np.int16)
        return name, kind, nullable, places[codes], None, members
    if kind == "timestamp":
        if not pa.types.is_timestamp(stored):
            return None
        times = array.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).astype("datetime64[us]")
        return name, kind, nullable, times.view(np.int64), np.isnat(times), None
    if kind == "double":
        if not pa.types.is_floating(stored):
            return None
        doubles = array.fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return name, kind, nullable, doubles, np.isnan(doubles) if nullable else None, None
    if not pa.types.is_integer(stored):
        return None
    mask = None
    if array.null_count:
        mask = array.is_null().to_numpy(zero_copy_only=False) if nullable else None
        array = array.fill_null(0)
    elif nullable:
        mask = np.zeros(len(array), dtype=bool)
    return name, kind, nullable, array.to_numpy().astype(kind, copy=False), mask, None


class SavedParquet:
    """Reads a table of a saved folder when it is asked for. A file that is no Parquet is an error at once."""

    def __init__(self, folder: os.PathLike[str], name: str) -> None:
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

        self._name = name
        self._path = os.path.join(folder, f"{os.path.basename(name)}.parquet")
        with foreign(self._path):
            with _paths.reading(self._path, follow=True) as file:
                self._bytes = file.read()
            if self._bytes[:4] != b"PAR1":
                raise ValueError("it is no Parquet file")
            pq.read_metadata(_buffer(self._bytes))

    def __call__(self) -> Columns | pd.DataFrame:
        import pyarrow.parquet as pq

        with foreign(self._path):
            # A thread of Arrow that lets go of these bytes while Python ends would end the process with SIGABRT.
            stored = pq.ParquetFile(_buffer(self._bytes)).read(use_threads=False)
            stored.validate(full=True)
            attrs = dict(json.loads((stored.schema.metadata or {}).get(b"PANDAS_ATTRS", b"{}")))
            return columns_of_arrow(self._name, stored, attrs)


def _buffer(data: bytes) -> Any:
    import pyarrow as pa

    return pa.BufferReader(data)
