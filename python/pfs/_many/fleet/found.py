"""Applies the rules of ``pfs.findings`` to each process of the cuts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pfs._process.findings.facts import Facts
from pfs._process.findings.find import Finding, find
from pfs._process.saved import SavedSource
from pfs._save.frames import ORIGIN

if TYPE_CHECKING:
    from pfs._many.fleet.cut import Cut, Member
    from pfs._many.fleet.tables import FleetTables

__all__ = ["FoundAt", "found_in"]

_Rows = Mapping[tuple[Any, ...], Sequence[tuple[Any, ...]]]  # by node, process and start


class FoundAt(NamedTuple):
    """A finding, and its node."""

    node: str
    finding: Finding

    def named(self) -> Finding:
        """Returns the finding with its node and process in the sentence."""
        return replace(self.finding, sentence=f"{self.node}, process {self.finding.pid}: {self.finding.sentence}")

    def as_json(self) -> dict[str, Any]:
        return {"node": self.node, **self.finding.as_json()}


class _Processes:
    """Reads each table once, for all processes."""

    def __init__(self, tables: FleetTables) -> None:
        self._tables = tables
        self._there = frozenset(tables.names())
        self._read: dict[tuple[str, tuple[str, ...]], _Rows] = {}

    def rows(self, table: str, columns: tuple[str, ...], process: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
        if (table, columns) not in self._read:
            self._read[table, columns] = self._of_all(table, columns)
        return self._read[table, columns].get(process, ())

    def _of_all(self, table: str, columns: tuple[str, ...]) -> _Rows:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

        result = defaultdict(list)
        name = f"process.{table}"
        if name in self._there and set(columns) <= set(self._tables.columns(name)):
            rows = pa.table(self._tables.arrow(name, columns)).select([*ORIGIN, *columns])
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                result[row[: len(ORIGIN)]].append(row[len(ORIGIN) :])
        return result


class _OfFleet(SavedSource):
    """A process of a cut as a source of rows."""

    def __init__(self, processes: _Processes, cut: Cut, member: Member) -> None:
        identity = member.identity
        self.pid, self.host = identity.pid, cut.node
        self._take(identity.started, member.command, datetime.fromisoformat(f"{cut.time}+00:00"))
        self._processes = processes
        self._process = (cut.node, identity.pid, identity.process_start_ticks)

    def rows(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> list[tuple[Any, ...]]:
        assert columns is not None
        return list(self._processes.rows(table, tuple(columns), self._process))


def found_in(cuts: Sequence[Cut], tables: FleetTables) -> list[FoundAt]:
    """Returns the findings of each process, those that take most first."""
    return sorted(_found_in(cuts, _Processes(tables)), key=lambda one: -one.finding.time)


def _found_in(cuts: Sequence[Cut], processes: _Processes) -> Iterator[FoundAt]:
    for cut in cuts:
        for member in cut.processes:
            facts = Facts()
            facts.add(_OfFleet(processes, cut, member))
            for one in find(facts):
                yield FoundAt(cut.node, one)
