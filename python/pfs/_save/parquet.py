"""Prepares frames for Parquet, which needs pyarrow and UTF-8, and restores the types of columns that were read."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pfs import _core
from pfs._base import paths
from pfs._read.arrow import escaped
from pfs._read.kinds import ORIGIN_KINDS, kinds
from pfs._save.foreign import check_total, check_types, foreign
from pfs._save.held import Columns, declared
from pfs._save.pages import chunks_of, pages_of
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pandas as pd

    _Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["SavedParquet", "array_of_numbers", "columns_of_arrow", "need_pyarrow", "saved_folder", "storable"]

_CELL = 8  # bytes of a value of a row in memory; of a text, its place


def need_pyarrow() -> None:
    """Raises Error if pyarrow is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        raise Error("Parquet files need pyarrow: pip install 'perfschema[parquet]'") from None


def storable(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a frame whose texts can be written as UTF-8."""
    import pandas as pd

    from pfs._read.dtypes import TEXT

    changed = {}
    for name in table.columns:
        if not isinstance(table[name].dtype, pd.StringDtype):
            continue
        texts = table[name].dropna().unique().tolist()
        clean = escaped(texts)
        if clean is not None:
            changed[name] = table[name].map(dict(zip(texts, clean, strict=True)).__getitem__, na_action="ignore").astype(TEXT)
    return table.assign(**changed) if changed else table


def _as_read(name: str, stored: Any, texts: Sequence[str]) -> pd.DataFrame:
    """Restores the types of the columns that this version knows. Parquet keeps only some of them."""
    from pfs._read.dtypes import column_of, dtype_of

    found: pd.DataFrame = stored.drop_columns(list(texts)).to_pandas(use_threads=False)
    for position, column in enumerate(stored.schema.names):
        if column in texts:
            part = _part(column, "text", True, (), stored.column(position))
            assert part is not None
            found.insert(position, column, column_of("text", True, *part[3:]))
    types: dict[str, Any] = {}
    if kinds(name):
        for column in declared(name)["columns"]:
            if column["name"] in found and column["kind"] in ("enum", "text", "set"):
                types[column["name"]] = dtype_of(column["kind"], members=column["values"])
    return found.astype(types)


@cache
def _declared(name: str) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    """Returns what each column holds. It is made once, because a thousand files may have a hundred tables each."""
    found = {column["name"]: (column["kind"], column["nullable"], column["values"]) for column in declared(name)["columns"]}
    return {origin: (kind, False, ()) for origin, kind in ORIGIN_KINDS.items()} | found


def columns_of_arrow(name: str, stored: Any, attrs: dict[Hashable, Any], texts: Sequence[str] = ()) -> Columns | pd.DataFrame:
    """Returns the columns of a saved table. It is a frame if this version does not know the table, or if a type is another.

    Args:
        stored: a table of Arrow, or a batch of rows.
        texts: columns that are texts in a frame, although they are dictionaries in `stored`.
    """
    known = _declared(name) if kinds(name) else {}
    parts = []
    for column, values in zip(stored.schema.names, stored.columns, strict=True):
        part = _part(column, *known[column], values) if column in known else None
        if part is None:
            return _as_read(name, stored, texts)
        parts.append(part)
    return Columns(stored.num_rows, parts, attrs)


_NO_TEXTS: _Array = np.zeros(0, dtype=object)
_NAT = np.iinfo(np.int64).min


def _part(name: str, kind: str, nullable: bool, members: tuple[str, ...], array: Any) -> _core.Part | None:
    """Returns a column in the form in which the core reads it; None if it is of another type."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [_no_rows(array.type)])
    types, stored = pa.types, array.type
    if kind in ("text", "set", "enum"):
        if not types.is_dictionary(stored):
            array = array.dictionary_encode()
            stored = array.type
        if not (types.is_large_string(stored.value_type) or types.is_string(stored.value_type)):
            return None
        codes, null = _numbers_of_array(array.indices, "int32")
        codes = codes if null is None else np.where(null, np.int32(-1), codes)
        texts = array.dictionary.to_pylist()
        if kind != "enum":
            return name, kind, nullable, codes, None, np.array(texts, object) if texts else _NO_TEXTS
        places = np.array([*(members.index(text) if text in members else -1 for text in texts), -1], dtype=np.int16)
        return name, kind, nullable, places[codes], None, members
    if kind == "timestamp":
        if not types.is_timestamp(stored):
            return None
        times, null = _numbers_of_array(array, "timestamp[us]")
        times = times if null is None else np.where(null, _NAT, times)
        return name, kind, nullable, times, times == _NAT, None
    if kind == "double":
        if not types.is_floating(stored):
            return None
        doubles, null = _numbers_of_array(array, kind)
        doubles = doubles if null is None else np.where(null, np.nan, doubles)
        return name, kind, nullable, doubles, np.isnan(doubles) if nullable else None, None
    if not types.is_integer(stored):
        return None
    values, null = _numbers_of_array(array, kind)
    values = values if null is None else np.where(null, 0, values).astype(values.dtype, copy=False)
    if nullable and null is None:
        null = np.zeros(len(values), dtype=bool)
    return name, kind, nullable, values, null if nullable else None, None


# The functions of pyarrow for arrays of numpy import pandas, which is half of the memory of pfs collect.


def array_of_numbers(values: _Array, null: _Array | None, kind: Any = None) -> Any:
    """Returns an array of Arrow that shares the memory of the numbers. `kind`: its type, if it is not that of the numbers."""
    import pyarrow as pa

    valid = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def _numbers_of_array(array: Any, kind: str) -> tuple[_Array, _Array | None]:
    """Returns the numbers of an array, which share its memory if they are of this type, and which of them are NULL."""
    wanted, dtype = _types()[kind]
    if array.type != wanted:
        array = array.cast(wanted, safe=False)
    rows, begin = len(array), array.offset
    if not rows:
        return np.zeros(0, dtype), None
    valid, data = array.buffers()
    values = np.frombuffer(data, dtype, rows, begin * dtype.itemsize)
    if not array.null_count:
        return values, None
    bits = np.frombuffer(valid, np.uint8, (begin % 8 + rows + 7) // 8, begin // 8)
    return values, np.unpackbits(bits, count=begin % 8 + rows, bitorder="little")[begin % 8 :] == 0


@cache
def _types() -> dict[str, tuple[Any, np.dtype[Any]]]:
    """Returns the types of Arrow and numpy by kinds of columns."""
    import pyarrow as pa

    kinds = {kind: kind for kind in ("uint64", "int64", "uint32", "int32")} | {"double": "float64", "timestamp[us]": "int64"}
    return {kind: (pa.type_for_alias(kind), np.dtype(name)) for kind, name in kinds.items()}


def _no_rows(kind: Any) -> Any:
    import pyarrow as pa

    return pa.nulls(0, kind)


class SavedParquet:
    """Reads a table of a saved folder when it is asked for. A file that is no Parquet is an error at once.

    Attributes:
        stored: bytes of the file.
        claimed: bytes of memory that its rows take, as the end of the file says.
    """

    def __init__(self, folder: os.PathLike[str], name: str) -> None:
        self._name = name
        self._path = os.path.join(folder, f"{os.path.basename(name)}.parquet")
        with foreign(self._path):
            with paths.reading(self._path, follow=True) as file:
                self._bytes = file.read()
            self._chunks = chunks_of(self._bytes)
            self.stored = len(self._bytes)
            self.claimed = self.stored + sum(
                max(chunk.num_rows, chunk.num_values) * _CELL + max(0, chunk.total_uncompressed_size) for chunk in self._chunks
            )

    def __call__(self) -> Columns | pd.DataFrame:
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

        with foreign(self._path):
            texts = self._texts()
            # A thread of Arrow that lets go of these bytes while Python ends would end the process with SIGABRT.
            stored = pq.ParquetFile(_buffer(self._bytes), read_dictionary=texts).read(use_threads=False)
            stored.validate(full=True)
            attrs = dict(json.loads((stored.schema.metadata or {}).get(b"PANDAS_ATTRS", b"{}")))
            return columns_of_arrow(self._name, stored, attrs, texts)

    def _texts(self) -> list[str]:
        """Returns the columns of texts, each of which is read once: the rows of a column would repeat them.

        Raises:
            InvalidValue: a column is longer than the end of the file says, or has a type that pfs does not write.
        """
        import pyarrow.parquet as pq

        for chunk in self._chunks:
            if sum(pages_of(self._bytes, chunk)) > chunk.total_uncompressed_size:
                raise InvalidValue(f"{self._path} cannot be read: {chunk.path_in_schema} is longer than it says")
        file = pq.ParquetFile(_buffer(self._bytes))
        check_types(self._path, file.schema_arrow)
        return [field.name for field in file.schema_arrow if str(field.type) in ("string", "large_string")]


def saved_folder(folder: os.PathLike[str], names: Iterable[str]) -> dict[str, SavedParquet]:
    """Returns the tables of a saved folder.

    Raises:
        InvalidValue: a file cannot be read; together they would take too much memory.
    """
    found = {name: SavedParquet(folder, name) for name in names}
    tables = found.values()
    check_total(os.fspath(folder), sum(table.stored for table in tables), sum(table.claimed for table in tables))
    return found


def _buffer(data: bytes) -> Any:
    import pyarrow as pa

    return pa.BufferReader(data)
