"""Keeps a snapshot in one file: a zip of Arrow IPC streams, compressed with zstd, for the tables that are not empty."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pfs._base import paths
from pfs._read.arrow import plain_texts
from pfs._save.foreign import batches_of, check_sizes, foreign, members, rows_of
from pfs._save.held import Columns, declared
from pfs._save.parquet import array_of_numbers, columns_of_arrow, need_pyarrow
from pfs._save.places import SUMMARY
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

    from pfs import _core

__all__ = [
    "ArchiveTables",
    "ArchiveWriter",
    "Packed",
    "archive_writer",
    "empty",
    "read_archive",
    "read_archive_summary",
    "read_members",
    "unpacked",
    "write_archive",
]

_LARGE = 1 << 16
_MOST_SHARED = 20_000  # texts of a column; a process has 10,000 digests
_MEMBERS = "members"  # of SUMMARY
_ATTRS = b"PANDAS_ATTRS"  # pandas calls them so in Parquet files


class Packed:
    """Rows of a table, added in pieces, each of them compressed: a stream of Arrow in memory."""

    def __init__(self) -> None:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

        self._stream = pa.BufferOutputStream()
        self._writer: Any = None
        self._texts: dict[str, dict[str, int]] = {}  # those that a piece shares with the pieces before
        self.rows = 0
        self.is_large = False

    def add(self, columns: Columns) -> None:
        if not columns.rows:
            return
        import pyarrow as pa

        for known in self._texts.values():
            if len(known) > _MOST_SHARED:
                known.clear()
        batch = _batch(columns, self._texts)
        if self._writer is None:
            # Threads, and a frame of zstd for each column, cost more than small columns: these are left to deflate.
            self.is_large = batch.nbytes >= _LARGE
            compression = "zstd" if self.is_large else None
            options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False, emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_stream(self._stream, batch.schema, options=options)
        self._writer.write_batch(batch)
        self.rows += columns.rows

    def finish(self) -> Any:
        """Returns the stream. Nothing can be added any more."""
        if self._writer is not None:
            self._writer.close()
        return self._stream.getvalue()


def unpacked(name: str, stream: Any) -> Iterator[Columns]:
    """Yields the rows of a table that were packed, in their pieces."""
    import pyarrow as pa

    for batch in pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(use_threads=False)):  # see SavedParquet
        found = columns_of_arrow(name, batch, {})
        assert isinstance(found, Columns)
        yield found


class ArchiveWriter:
    """Writes tables to a file, one after the other, each in pieces: not more than a piece is in memory without compression."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def add(self, name: str, pieces: Iterable[Columns]) -> int:
        """Writes a table, unless it has no rows. Returns the number of its rows."""
        packed = Packed()
        for columns in pieces:
            packed.add(columns)
        if packed.rows:
            # Deflate shrinks the schemas of small tables.
            self._archive.writestr(f"{name}.arrow", packed.finish(), zipfile.ZIP_STORED if packed.is_large else None)
        return packed.rows

    def finish(self, summary: Mapping[str, object]) -> None:
        """Writes what the file says about its snapshot, and which members it has: one whose name is damaged would be no rows."""
        self._archive.writestr(SUMMARY, json.dumps({**summary, _MEMBERS: self._archive.namelist()}, indent=1))


@contextmanager
def archive_writer(path: str | os.PathLike[str], mode: int) -> Iterator[ArchiveWriter]:
    """Makes a file of tables. The file has its name only when it is complete."""
    need_pyarrow()
    with paths.replaced(path, mode) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        yield ArchiveWriter(archive)


def write_archive(path: str | os.PathLike[str], summary: Mapping[str, object], tables: Mapping[str, Columns], mode: int) -> None:
    """Writes the tables that have rows."""
    with archive_writer(path, mode) as writer:
        for name, columns in tables.items():
            writer.add(name, [columns])
        writer.finish(summary)


def _batch(columns: Columns, texts: dict[str, dict[str, int]]) -> Any:
    """Returns the columns as a batch of Arrow. Texts that are no UTF-8 are escaped.

    `texts`: those of the batches before, by column. A stream of Arrow adds to the texts of a column; many of them are replaced.
    """
    import pyarrow as pa

    arrays = [_array(part, texts.setdefault(part[0], {})) for part in columns.parts]
    metadata = {_ATTRS: json.dumps(columns.attrs)} if columns.attrs else None
    schema = pa.schema([pa.field(part[0], array.type) for part, array in zip(columns.parts, arrays, strict=True)], metadata)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(part: _core.Part, known: dict[str, int]) -> Any:
    import pyarrow as pa

    _, kind, _, values, mask, texts = part
    if texts is not None:
        values, texts = plain_texts(values, texts)
        if kind != "enum":
            places = np.array([known.setdefault(text, len(known)) for text in texts] or [0], np.int32)
            values, texts = np.where(values < 0, -1, places[values]).astype(np.int32), list(known)
        return pa.DictionaryArray.from_arrays(array_of_numbers(values, values < 0), _array_of_texts(texts))
    if kind == "timestamp":
        return array_of_numbers(values, values == np.iinfo(np.int64).min, pa.timestamp("us"))
    if kind == "double" and mask is not None:
        mask = np.isnan(values)
    return array_of_numbers(values, mask)


def _array_of_texts(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return pa.Array.from_buffers(pa.large_string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def read_archive_summary(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what the file says about its snapshot.

    Raises:
        InvalidValue: the file holds no snapshot.
    """
    with members(path, "holds no snapshot") as archive:
        found = json.loads(archive.read(SUMMARY))
        if not isinstance(found, dict):
            raise InvalidValue(f"{os.fspath(path)} holds no snapshot: {SUMMARY} is no object")
        for name in found.pop(_MEMBERS):
            if name not in archive:
                raise InvalidValue(f"{os.fspath(path)} cannot be read: there is no {name}")
        return found


class _Member:
    """Reads a table of the file when it is asked for. In the files of fleets a name may have a part in front: ``process/x``."""

    def __init__(self, path: str, name: str, data: bytes) -> None:
        self._path, self._name, self._data = path, name, data

    def arrow(self) -> Any:
        """Returns the table of Arrow."""
        import pyarrow as pa

        found = self._rows()
        return found if isinstance(found, pa.Table) else pa.Table.from_batches([found])

    def _rows(self) -> Any:
        return rows_of(f"{self._path}: {self._name}", self._data)

    def pieces(self) -> Iterator[Columns]:
        """Yields the rows in pieces, as they were written."""
        name = self._name.rpartition("/")[2]
        with foreign(f"{self._path}: {self._name}"):
            for piece in batches_of(f"{self._path}: {self._name}", self._data):
                found = columns_of_arrow(name, piece, {})
                if not isinstance(found, Columns):
                    raise InvalidValue(f"{self._path}: {self._name} has columns of other types")
                yield found

    def __call__(self) -> Columns | pd.DataFrame:
        stored = self._rows()
        with foreign(f"{self._path}: {self._name}"):
            attrs = dict(json.loads((stored.schema.metadata or {}).get(_ATTRS, b"{}")))
            return columns_of_arrow(self._name.rpartition("/")[2], stored, attrs)


def read_members(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, _Member]:
    """Returns the tables of the file that have rows. The file is read here.

    Raises:
        InvalidValue: the file cannot be read, or would take too much memory.
    """
    need_pyarrow()
    with members(path) as archive:
        datas = {name: archive.read(f"{name}.arrow") for name in names if f"{name}.arrow" in archive}
        check_sizes(os.fspath(path), datas)
    return {name: _Member(os.fspath(path), name, data) for name, data in datas.items()}


_NUMPY = {"text": np.int32, "set": np.int32, "enum": np.int8, "timestamp": np.int64, "double": np.float64}


@cache
def empty(name: str) -> Columns:
    """Returns a table without rows, with the types that ``pfs.table`` gives it. All snapshots share it."""
    parts: list[_core.Part] = []
    for column in declared(name)["columns"]:
        kind, is_coded = column["kind"], column["kind"] in ("text", "set", "enum")
        values = np.empty(0, _NUMPY.get(kind, kind))
        texts = None if not is_coded else column["values"] if kind == "enum" else np.empty(0, object)
        mask = None if is_coded or not column["nullable"] else np.empty(0, bool)
        parts.append((column["name"], kind, column["nullable"], values, mask, texts))
    return Columns(0, parts)


def read_archive(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Columns | _Member]:
    """Returns the tables. Those with rows are read from the file here, and decoded when they are asked for."""
    members = read_members(path, names)
    return {name: members.get(name) or empty(name) for name in names}


class ArchiveTables:
    """Gives the tables of a file to a statement: only those that it names are read."""

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self._path = path
        self._names = names

    def names(self) -> Sequence[str]:
        return self._names

    def columns(self, table: str) -> Sequence[str]:
        return [column["name"] for column in declared(table)["columns"]]

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        member = read_members(self._path, [table]).get(table)
        if member is None:
            return empty(table).arrow(columns)
        stored = member.arrow()
        return stored if columns is None else stored.select(list(columns))

    def file(self, table: str) -> str | None:
        return None
