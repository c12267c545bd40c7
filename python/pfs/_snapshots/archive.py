"""Keeps a snapshot in one file: a zip of Arrow IPC files, compressed with zstd, for the tables that are not empty."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pfs import _core
from pfs._snapshots.parquet import as_read, need_pyarrow, storable
from pfs._tables.frame import TEXT
from pfs.errors import InvalidValue

__all__ = ["ArchiveTables", "read_archive", "read_archive_summary", "write_archive"]

_SUMMARY = "snapshot.json"
_TYPES = {"uint64": "int64", "int64": "int64", "uint32": "uint32", "int32": "int32", "double": "float64"}
_NULLABLE = {"uint64": "Int64", "int64": "Int64", "uint32": "UInt32", "int32": "Int32", "double": "float64"}


def write_archive(path: str | os.PathLike[str], summary: Mapping[str, object], tables: Mapping[str, pd.DataFrame]) -> None:
    """Writes the tables that have rows. Deflate shrinks their schemas. The file has its name only when it is complete."""
    need_pyarrow()
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    options = pa.ipc.IpcWriteOptions(compression="zstd")
    part = f"{os.fspath(path)}.part"
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_SUMMARY, json.dumps(summary, indent=1))
            for name, table in tables.items():
                if not len(table):
                    continue
                stored = pa.Table.from_pandas(storable(table), preserve_index=False)
                with (
                    archive.open(f"{name}.arrow", "w") as member,
                    pa.ipc.new_file(member, stored.schema, options=options) as writer,
                ):
                    writer.write_table(stored)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def read_archive_summary(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what the file says about its snapshot.

    Raises:
        InvalidValue: the file holds no snapshot.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found: dict[str, Any] = json.loads(archive.read(_SUMMARY))
            return found
    except FileNotFoundError:
        raise InvalidValue(f"{os.fspath(path)} holds no snapshot: there is no such file") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InvalidValue(f"{os.fspath(path)} holds no snapshot: {error}") from None


def _stored(path: str | os.PathLike[str], name: str) -> Any:
    """Returns a table of the file, or None if it had no rows."""
    need_pyarrow()
    import pyarrow as pa

    try:
        with zipfile.ZipFile(path) as archive:
            if f"{name}.arrow" not in archive.namelist():
                return None
            return pa.ipc.open_file(pa.BufferReader(archive.read(f"{name}.arrow"))).read_all()
    except (OSError, ValueError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise InvalidValue(f"{os.fspath(path)}: {name} cannot be read: {error}") from None


def _empty(name: str) -> pd.DataFrame:
    """Returns a table without rows, with the types that ``pfs.table`` gives it."""
    made = {}
    for column in _core.table_info(name)["columns"]:
        kind = column["kind"]
        dtype: Any = (_NULLABLE if column["nullable"] else _TYPES).get(kind, TEXT)
        made[column["name"]] = pd.Series([], dtype="datetime64[us]" if kind == "timestamp" else dtype)
    return as_read(name, pd.DataFrame(made))


def read_archive(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Returns the frames of the tables, with the types that they had."""
    tables = {}
    for name in names:
        stored = _stored(path, name)
        tables[name] = _empty(name) if stored is None else as_read(name, stored.to_pandas())
    return tables


class ArchiveTables:
    """Gives the tables of a file to a statement: only those that it names are read."""

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self._path = path
        self._names = names

    def names(self) -> Sequence[str]:
        return self._names

    def columns(self, table: str) -> Sequence[str]:
        return [column["name"] for column in _core.table_info(table)["columns"]]

    def arrow(self, table: str, columns: Sequence[str] | None) -> object:
        stored = _stored(self._path, table)
        if stored is None:
            from pfs._arrow.frames import arrow_of

            return arrow_of(_empty(table), columns)
        return stored if columns is None else stored.select(list(columns))

    def file(self, table: str) -> str | None:
        return None
