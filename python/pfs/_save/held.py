"""Holds the tables of a snapshot as they were read. A frame is made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._read.arrow import arrow_of_parts, parts_of
from pfs._read.kinds import kinds, literals_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd

__all__ = ["Columns", "Held", "HeldTables", "declared"]


@cache
def declared(name: str) -> _core.TableInfo:
    """Returns the declaration of a table. It is made once, because a snapshot asks for a hundred."""
    return _core.table_info(name)


@dataclass(frozen=True, slots=True)
class Columns:
    """Holds the columns of a table, in the form in which the core reads them."""

    rows: int
    parts: list[_core.Part]
    attrs: dict[Hashable, Any] = field(default_factory=dict)

    def frame(self, cells: dict[str, str] | None = None) -> pd.DataFrame:
        from pfs._read.frame import made

        frame = made(self.rows, 0, self.parts, is_signed=True, cells=cells)
        frame.attrs = dict(self.attrs)
        return frame

    def names(self) -> list[str]:
        return [part[0] for part in self.parts]

    def without_literals(self, table: str) -> Columns:
        """Returns the rows with NULL in place of each text that can hold values of the program; "" where NULL is not legal."""
        left_out = literals_of(table)
        if not left_out:
            return self
        import numpy as np

        def empty(part: _core.Part) -> _core.Part:
            name, kind, nullable, _, mask, _ = part
            codes = np.full(self.rows, -1 if nullable else 0, np.int32)
            return name, kind, nullable, codes, mask, np.array([] if nullable else [""], dtype=object)

        return Columns(self.rows, [empty(part) if part[0] in left_out else part for part in self.parts], self.attrs)

    def arrow(self, columns: Sequence[str] | None = None) -> _core.ArrowTable:
        """Returns the rows for readers of Arrow."""
        parts = {part[0]: part for part in self.parts}
        return arrow_of_parts(self.rows, self.parts if columns is None else [parts[name] for name in columns])


class Held(Mapping[str, "pd.DataFrame"]):
    """Maps names of tables to frames. A frame that was given away replaces its columns, because its owner may change it."""

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame | Columns | Callable[[], pd.DataFrame | Columns]],
        counts: Mapping[str, int] | None = None,
        cells: dict[str, str] | None = None,
    ) -> None:
        """Keeps the tables: frames, columns, or functions that read a saved table.

        Args:
            tables: a function belongs to a module, so that it can be pickled.
            counts: numbers of rows of saved tables.
            cells: the names of files of a notebook's cells, for SOURCE.
        """
        self._kept = dict(tables)
        self._counts = dict(counts or {})
        self._cells = cells

    def _read(self, name: str) -> pd.DataFrame | Columns:
        kept = self._kept[name]
        if callable(kept):
            kept = self._kept[name] = kept()
        return kept

    def __getitem__(self, name: str) -> pd.DataFrame:
        kept = self._read(name)
        if isinstance(kept, Columns):
            kept = self._kept[name] = kept.frame(self._cells)
        return kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def columns(self, name: str) -> Columns:
        """Returns the columns of a table without a frame, if nobody has asked for its frame."""
        kept = self._read(name)
        return kept if isinstance(kept, Columns) else Columns(len(kept), parts_of(kept, kinds(name)), dict(kept.attrs))

    def count(self, name: str) -> int:
        """Returns the number of rows."""
        kept = self._kept[name]
        if callable(kept) and name in self._counts:
            return self._counts[name]
        kept = self._read(name)
        return kept.rows if isinstance(kept, Columns) else len(kept)


class HeldTables:
    """Gives a statement of SQL the tables of a snapshot in memory."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def names(self) -> Sequence[str]:
        return list(self._held)

    def columns(self, table: str) -> Sequence[str]:
        return self._held.columns(table).names()

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        return self._held.columns(table).arrow(columns)

    def file(self, table: str) -> str | None:
        return None
