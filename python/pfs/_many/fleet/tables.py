"""Gives a statement the tables of many nodes: each file is read once, and of it only the tables and columns that are needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pfs._many.fleet.cut import PROCESS, Cut
from pfs._save.foreign import foreign
from pfs._save.frames import ORIGIN, has_sums
from pfs._save.held import Columns, declared
from pfs._save.merge import apart
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    from pfs._sql.query import Tables

__all__ = ["BEFORE", "NODES", "PROCESSES", "FleetTables"]

_PROCESS = "process."  # beginnings of full names: schemas
BEFORE = "before."
NODES, PROCESSES = "fleet.nodes", "fleet.processes"
_TEXT, _COUNT, _TIME = "string", "uint64", "timestamp[us]"
_READERS = 2  # threads that decompress


class FleetTables:
    """Gives the tables of a fleet.

    ``x`` has the sums of each node, with NODE in front; ``process.x`` the rows of each process, with NODE, PID and START. A table
    that does not add up has these rows under both names. ``before.x`` is ``process.x`` in the cuts before.
    """

    def __init__(
        self, cuts: Sequence[Cut], before: Mapping[str, Cut], problems: list[str], samples: Tables | None = None
    ) -> None:
        """Takes a cut of each node, and by node the cut before it. Tables that are damaged are left out, and are problems.
        ``samples``: the tables of what ``pfs collect --sample`` has kept."""
        self._problems = problems
        self._samples = dict.fromkeys(samples.names(), samples) if samples else {}
        self._cuts = cuts
        self._before = before
        self._stored = sorted(set[str]().union(*(cut.tables for cut in cuts)))

    def names(self) -> Sequence[str]:
        schemas = ("", _PROCESS, BEFORE)
        return [NODES, PROCESSES, *self._samples, *(schema + name for schema in schemas for name in self._stored)]

    def columns(self, table: str) -> Sequence[str]:
        if table in self._samples:
            return self._samples[table].columns(table)
        if table in (NODES, PROCESSES):
            return list(self._facts(table).column_names)
        schema, _, name = table.rpartition(".")
        own = [column["name"] for column in declared(name)["columns"]]
        return [*(ORIGIN[:1] if not schema and has_sums(declared(name)) else ORIGIN), *own]

    def file(self, table: str) -> str | None:
        return None

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        """Returns the rows of all nodes. Columns of the origin are always there."""
        if table in self._samples:
            return self._samples[table].arrow(table, columns, any_order)
        if table in (NODES, PROCESSES):
            return self._facts(table)
        schema, _, name = table.rpartition(".")
        by_node = not schema and has_sums(declared(name))
        member = name if not has_sums(declared(name)) or by_node else PROCESS + name
        front = ORIGIN[:1] if by_node else ORIGIN
        wanted = [column for column in self.columns(table) if columns is None or column in columns or column in front]
        cuts = self._cuts if schema + "." != BEFORE else list(self._before.values())
        with ThreadPoolExecutor(_READERS) as pool:
            nothing = _nothing(name, by_node, wanted)
            found = pool.map(lambda cut: self._rows(cut, member, by_node, nothing), cuts)
            return _together([nothing, *(rows for rows in found if rows is not None)])

    def _rows(self, cut: Cut, member: str, by_node: bool, nothing: pa.Table) -> pa.Table | None:
        try:
            return _rows(cut, member, by_node, nothing.schema)
        except InvalidValue as error:
            if not os.path.exists(cut.path):  # it was removed since Fleet was made
                raise
            problem = f"{cut.node}: {error}"
            if problem not in self._problems:
                self._problems.append(problem)
            return None

    def _facts(self, table: str) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]

        if table == NODES:
            of_cut = [(cut.node, cut.number, cut.time, len(cut.processes), len(cut.problems), cut.path) for cut in self._cuts]
            names = ["NODE", "CUT", "TIME", "PROCESSES", "PROBLEMS", "PATH"]
            made = pa.table(_arrays(of_cut, (_TEXT, _COUNT, _TEXT, _COUNT, _COUNT, _TEXT)), names=names)
            seconds = [cut.seconds if cut.node in self._before else None for cut in self._cuts]
            made = made.set_column(2, "TIME", pc.cast(made.column("TIME"), pa.timestamp("us")))
            return made.add_column(3, "SECONDS", pa.array(seconds, pa.float64()))
        of_process = [
            (cut.node, each.identity.pid, each.identity.process_start_ticks, each.state, each.identity.started, each.command)
            for cut in self._cuts
            for each in cut.processes
        ]
        names = [*ORIGIN, "STATE", "STARTED", "COMMAND"]
        return pa.table(_arrays(of_process, (_TEXT, _COUNT, _COUNT, _TEXT, _TIME, _TEXT)), names=names)


def _arrays(rows: Sequence[tuple[object, ...]], types: Sequence[str]) -> list[Any]:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return [pa.array(column, pa.type_for_alias(kind)) for column, kind in zip(columns, types, strict=True)]


def _rows(cut: Cut, member: str, by_node: bool, wanted: pa.Schema) -> pa.Table | None:
    """Returns the rows of one node.

    Raises:
        InvalidValue: the table is damaged, or has other columns than pfs writes.
    """
    import pyarrow as pa

    stored = cut.stored([member]).get(member)
    if stored is None:
        return None
    table = stored.arrow()
    if by_node:
        node = pa.DictionaryArray.from_arrays(
            pa.nulls(len(table), pa.int32()).fill_null(0), pa.array([cut.node], pa.large_string())
        )
        table = table.add_column(0, "NODE", node)
    with foreign(f"{cut.path}: {member}"):
        table = table.select([column for column in wanted.names if column in table.column_names])
        fields = [_kept(each, wanted.field(each.name)) for each in table.schema]
        return table.cast(pa.schema(fields))


def _kept(there: pa.Field, wanted: pa.Field) -> pa.Field:
    """Returns the field that a column of a file gets: texts stay as they are, other types become those of this version."""
    import pyarrow as pa

    return there if pa.types.is_dictionary(there.type) and pa.types.is_dictionary(wanted.type) else wanted


def _nothing(name: str, by_node: bool, wanted: Sequence[str]) -> pa.Table:
    """Returns a table without rows, so that there are columns even if no node has rows."""
    import pyarrow as pa

    columns: Columns = apart(name, [])
    return pa.table(columns.arrow(wanted))


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    """Returns the rows of all tables. Files of other versions may have other columns and types."""
    import pyarrow as pa

    nothing, *found = tables
    try:
        return pa.concat_tables(found, promote_options="default") if found else nothing
    except pa.ArrowException:
        plain = [_without_dictionaries(table) for table in found]
        return pa.concat_tables(plain, promote_options="permissive")


def _without_dictionaries(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    fields = [pa.field(each.name, each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in table.schema]
    return table.cast(pa.schema(fields))
