"""A snapshot as a source of rows: reports and findings read it as they read a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from datetime import datetime

    from pfs._save.snapshot import Snapshot

__all__ = ["SavedSource"]


class _Identity(NamedTuple):
    started: int
    command: bytes
    parent: int = 0  # a snapshot does not say it


class SavedSource:
    """Reads the tables of a snapshot. A table or a column that the snapshot lacks has no rows."""

    state = "dead"
    pid_here = 0

    def __init__(self, snapshot: Snapshot) -> None:
        if len(snapshot.origins) != 1:
            raise InvalidValue(f"this snapshot has the rows of {len(snapshot.origins)} processes; legal is a snapshot of one")
        process = snapshot.process
        self.pid, self.host = process.pid, process.host
        self._take(process.started, process.command, snapshot.time)
        self._held = snapshot._held

    def _take(self, started: int, command: str, time: datetime) -> None:
        self.identity = _Identity(started, command.encode("utf-8", "surrogateescape"))
        self._age = max(0, round(time.timestamp() * 1e6) - started) * 1_000_000

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> SavedSource:
        """Reads a saved snapshot.

        Raises:
            InvalidValue: it is not complete, or has the rows of several processes.
        """
        from pfs._save.snapshot import read_snapshot

        return cls(read_snapshot(path))

    def rows(
        self, table: str, columns: Sequence[str] | None, elapsed: bool = False, now: int | None = None
    ) -> list[tuple[Any, ...]]:
        if table not in self._held:
            return []
        held = self._held.columns(table)
        names = held.names() if columns is None else columns
        if not set(names) <= set(held.names()):
            return []
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

        return list(zip(*(column.to_pylist() for column in pa.table(held.arrow(names)).columns), strict=True))

    def now(self) -> int:
        """Returns when the tables were read, or the newest event of a dead process: picoseconds of its own time line."""
        times = [begin + wait for begin, wait in self.rows("running", ("TIMER_START", "TIMER_WAIT")) if begin and wait]
        for kind in ("waits", "stages", "statements", "transactions"):
            times += [end for (end,) in self.rows(f"events_{kind}_history_long", ("TIMER_END",)) if end]
        return max(times, default=self._age)
