"""Is what pfs.fleet offers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pfs._many.fleet import files
from pfs._many.fleet.cut import Cut, read_cut
from pfs._many.fleet.tables import FleetTables
from pfs._many.fleet.views import FleetViews
from pfs._process.history.store import folders_of
from pfs._process.history.tables import VIEWS as HISTORY
from pfs._process.history.tables import HistoryTables
from pfs._read.kinds import listed
from pfs._read.show import some
from pfs._sql.query import run
from pfs._sql.views.declared import question_of
from pfs.errors import InvalidValue, UnknownTable

if TYPE_CHECKING:
    import pandas as pd

    from pfs._many.fleet.found import FoundAt
    from pfs._read.units import Unit
    from pfs._save.snapshot import Merged
    from pfs._sql.query import Dialect
    from pfs._sql.result import Result

__all__ = ["Fleet", "read"]


class Fleet:
    """Gives access to the cuts of many nodes. ``pfs.fleet.read`` returns it. It stays as it is when new cuts come.

    Attributes:
        problems: sentences: files that are damaged, and segments that a node could not read. A table in a file may turn out to
            be damaged when a statement names it: rows of that node are missing then.
    """

    __module__ = "pfs.fleet"  # where users find it

    def __init__(
        self, cuts: list[Cut], before: dict[str, Cut], problems: list[str], samples: HistoryTables | None = None
    ) -> None:
        """Is not for users: see ``pfs.fleet.read``."""
        self._cuts = cuts
        self.problems = problems + [f"{cut.node}: {problem}" for cut in cuts for problem in cut.problems]
        self._tables = FleetTables(cuts, before, self.problems, samples)
        self._views = FleetViews(sorted(set[str]().union(*(cut.tables for cut in cuts))), HISTORY if samples else {})

    @property
    def nodes(self) -> pd.DataFrame:
        """The nodes, sorted: NODE; CUT, the number of its cut; TIME of the cut, UTC by the node's clock; SECONDS since the cut
        before; PROCESSES; PROBLEMS, the segments that could not be read; PATH of the file. In SQL it is ``fleet.nodes``."""
        return self.sql("from fleet.nodes order by NODE").df()

    @property
    def processes(self) -> pd.DataFrame:
        """The processes of the cuts: NODE; PID; START, in clock ticks since the boot; STATE; STARTED, UTC; COMMAND. STATE is
        ``alive``, ``dead`` (its segment is there), ``ended`` (and is not) or ``unknown`` (in a container). A process that is dead
        or has ended is in one cut; later it is in the sums of its node only. In SQL it is ``fleet.processes``."""
        return self.sql("from fleet.processes order by NODE, PID, START").df()

    def sql(self, statement: str, dialect: Dialect = "duckdb") -> Result:
        """Answers a question in SQL, as ``pfs.sql``.

        ``x`` or ``performance_schema.x`` has the merged rows of each node, with NODE in front. ``process.x`` has the
        rows of each process, with NODE, PID and START. ``rates.x`` has what a process counted per second between the last two
        cuts of its node: rows in which something happened. ``sys.x`` is a view for each node, or for each process if its tables
        have identities of one process. ``active_session_history``, ``active_session_totals`` and ``sys.ash_x`` are the samples
        of ``pfs collect --sample``, with NODE and PID in front.

        Raises:
            UnknownTable: there is no such table, or the cuts do not have it.
            UnknownColumn: a table has no such column.
            InvalidValue: the statement is no SQL; a file was removed since ``read``.
            OperationNotAllowed: the statement would change something.
        """
        try:
            return run(statement, self._tables, dialect, self._views)
        except UnknownTable as error:
            raise UnknownTable(f"{error}; with pfs collect --also TABLE cuts have more tables") from None

    def view(self, name: str) -> pd.DataFrame:
        """Returns a view of the schema sys with NODE in front: see ``sql``. The rows are sorted by node, or by process.

        Raises:
            UnknownTable: there is no such view, or the cuts have no table that it needs.
        """
        return self.sql(question_of(name) + " order by NODE").df()

    def table(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        *,
        unit: Unit | None = None,
        where: str | Mapping[str, object] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Returns rows of a table, as ``pfs.table`` does for this process. It is one of ``sql``: ``threads`` has the merged rows
        of each node, ``process.threads`` and ``rates.threads`` those of each process.

        Raises:
            UnknownTable, UnknownColumn: as for ``sql``.
            InvalidValue: a bad value for ``unit``, ``where``, ``order`` or ``limit``.
        """
        from pfs._read.frame import chosen

        short = name.rpartition(".")[2]
        return chosen(self.sql(_question(name)).df(), short, columns, unit=unit, where=where, order=order, limit=limit)

    def arrow(self, name: str, columns: Iterable[str] | None = None) -> Any:
        """Returns the rows of a table of ``sql`` for readers of Arrow: see ``pfs.arrow``."""
        return self.sql(_question(name, columns)).arrow

    def findings(self) -> pd.DataFrame:
        """Says what to mend in each process of the cuts, as ``pfs.findings``: its rows, with NODE in front, the largest first.

        Cuts have sums. Rules that read the last events find more in cuts of ``pfs collect --also 'events_%_history_long'``.
        """
        from pfs._process.findings.ask import frame_of

        found = self._found()
        frame = frame_of([one.finding for one in found])
        frame.insert(0, "NODE", [one.node for one in found])
        return frame.astype({"NODE": "string"})

    def _found(self) -> list[FoundAt]:
        from pfs._many.fleet.found import found_in

        return found_in(self._cuts, self._tables)

    def merged(self) -> Merged:
        """Returns the sums of all nodes, as ``Snapshot.merge`` makes them."""
        from pfs._save.snapshot import Snapshot, read_snapshot

        return Snapshot.merge([read_snapshot(cut.path) for cut in self._cuts])

    def __len__(self) -> int:
        """Returns the number of nodes."""
        return len(self._cuts)

    def __repr__(self) -> str:
        processes = sum(len(cut.processes) for cut in self._cuts)
        return f"<Fleet of {some(len(self._cuts), 'node')} with {some(processes, 'process')}>"


def _question(name: str, columns: Iterable[str] | None = None) -> str:
    chosen = listed(columns)
    wanted = "*" if chosen is None else ", ".join(map(_quoted, chosen))
    return f"select {wanted} from {'.'.join(map(_quoted, name.split('.')))}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _readable(there: Sequence[files.Named], problems: list[str]) -> Iterator[Cut]:
    """Yields the cuts, the newest first, without those that are damaged or were removed meanwhile."""
    for named in reversed(there):
        try:
            yield read_cut(named.path)
        except InvalidValue as error:
            problems.append(str(error))


def read(path: str | os.PathLike[str], back: int = 0) -> Fleet:
    """Reads the newest cut of each node of a folder that ``pfs collect --to`` writes.

    Only what the files say about themselves is read here. Tables are read when a statement names them.

    Args:
        path: a folder with a folder for each node.
        back: 0 is the newest cut, 1 the one before, and so on. Nodes without such a cut are left out. The order is that of the
            numbers of the cuts: a clock that jumps changes nothing.

    Raises:
        InvalidValue: there is no such folder, or no cut in it.
    """
    if back < 0:
        raise InvalidValue(f"bad value {back} for back: legal are 0, the newest cut, and more")
    place = os.fspath(path)
    chosen: list[Cut] = []
    before: dict[str, Cut] = {}
    problems: list[str] = []
    for node in files.nodes(place):
        there = files.cuts(os.path.join(place, node))
        readable = _readable(there[: len(there) - back], problems)
        cut = next(readable, None)
        if cut is None:
            continue
        chosen.append(cut)
        if cut.node != node:  # the folder was renamed, or the file is another's
            problems.append(f"{cut.path} counts for node {cut.node}: that is what it says")
        earlier = next((named for named in there if named.number == cut.previous), None)
        older = None if earlier is None else next(_readable([earlier], problems), None)
        if older is not None:
            before[cut.node] = older
    if not chosen:
        said = "".join(f"; {problem}" for problem in problems[:3])
        raise InvalidValue(f"{place} has no cut that can be read: pfs collect --to writes them{said}")
    folders = folders_of(place)
    return Fleet(chosen, before, problems, HistoryTables(folders) if folders else None)
