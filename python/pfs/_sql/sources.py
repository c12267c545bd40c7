"""Gives a statement its tables: of a process, or of the Parquet files of a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from pfs import _core
from pfs._base import paths

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["FolderTables", "ProcessTables"]


@cache
def _columns(table: str) -> list[str]:
    return [column["name"] for column in _core.table_info(table)["columns"]]


class ProcessTables:
    """Gives the tables of a process."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def names(self) -> Sequence[str]:
        return _core.tables()

    def columns(self, table: str) -> Sequence[str]:
        return _columns(table)

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        return self._source.arrow(table, columns, any_order)

    def file(self, table: str) -> str | None:
        return None


class FolderTables:
    """Gives the Parquet files of a saved snapshot, which DuckDB reads itself: only the columns and rows that it needs."""

    def __init__(self, folder: str, tables: Sequence[str]) -> None:
        self._folder = os.path.abspath(folder)
        self._tables = tables

    def names(self) -> Sequence[str]:
        return self._tables

    def columns(self, table: str) -> Sequence[str]:
        return _columns(table) if table in _core.tables() else []

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        raise NotImplementedError

    def file(self, table: str) -> str | None:
        path = os.path.join(self._folder, f"{os.path.basename(table)}.parquet")
        with suppress(FileNotFoundError):  # DuckDB says so
            os.close(paths.opened(path, follow=True))  # DuckDB would wait for a pipe
        return path
