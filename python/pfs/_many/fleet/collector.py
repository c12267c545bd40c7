"""Reads all processes of a host and writes a cut, again and again. A process that ends leaves its counts in the sums of the node.

What is known of earlier cuts is in the newest file of the node. So a collector that starts again, or that cron starts each time,
goes on where the last one ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from pfs import _core
from pfs._many.fleet import files
from pfs._many.fleet.cut import ENDED, FLEET, PROCESS, Cut, Identity, Member, identity_of, read_cut
from pfs._many.fleet.sums import MOST_ROWS, Sum, sums_with_quantiles, taken
from pfs._process import processes
from pfs._process.segment import SegmentSource
from pfs._save.archive import ArchiveWriter, archive_writer
from pfs._save.frames import NOBODY, Origin, has_sums, summary_of
from pfs._save.held import Columns, declared
from pfs._save.merge import DIGESTS, HISTOGRAM, apart, placed
from pfs._save.parquet import need_pyarrow
from pfs.errors import AttachError, Error, InvalidValue

__all__ = ["Collector", "Retention", "tables_of"]

_OVER = ("dead", "ended")  # states of processes that will count nothing more


class Retention(NamedTuple):
    """Says how many cuts of a node, and how many bytes, stay in the folder."""

    cuts: int = 1440
    bytes: int | None = None


def tables_of(also: Iterable[str] = ()) -> list[str]:
    """Returns the tables of a cut: those that add up over processes, and these: names, with % for any text.

    Raises:
        InvalidValue: there is no such table.
    """
    import fnmatch

    chosen = [name for name in _core.tables() if has_sums(declared(name))]
    for pattern in also:
        found = fnmatch.filter(_core.tables(), pattern.lower().replace("%", "*"))
        if not found:
            raise InvalidValue(f"there is no table '{pattern}': pfs describe lists them; % stands for any text")
        chosen += [name for name in found if name not in chosen]
    return chosen


class _Reading(NamedTuple):
    """A process of a cut. `columns` reads a table of it: not more than one table of some processes is in memory."""

    member: Member
    columns: Callable[[str], Columns]


class _Unreadable(Exception):
    """A process cannot be read to the end, so that nothing of it is in this cut."""

    def __init__(self, identity: Identity, problem: str) -> None:
        super().__init__(problem)
        self.identity = identity


class _Damaged(Exception):
    """The cut before cannot be read to the end, so that this cut goes on from an earlier one."""


class Collector:
    """Writes the cuts of one node."""

    def __init__(
        self,
        folder: str,
        node: str,
        find: Callable[[], Sequence[processes.Found]],
        tables: Sequence[str] | None = None,
        retention: Retention | None = None,
        sql_text: bool = False,
    ) -> None:
        """Prepares. `find` lists the segments. `sql_text`: cuts have texts that can hold literals of statements.

        Raises:
            InvalidValue: the node cannot be the name of a folder.
            Error: pyarrow is missing.
        """
        need_pyarrow()
        self.node = files.checked_node(node)
        self.folder = os.path.join(folder, node)
        self._find = find
        self._tables = list(tables_of() if tables is None else tables)
        self._sums = [name for name in self._tables if has_sums(declared(name))]
        self._retention = retention or Retention()
        self._sql_text = sql_text
        self._sources: dict[Identity, tuple[SegmentSource, str]] = {}  # with the command
        self._lock: int | None = None

    def cut(self) -> Cut:
        """Reads all processes and writes a file. If that fails, no file is left, and the next cut has what this one lacks.

        Raises:
            OSError: the folder cannot be written; the disk is full.
            StateError: another collector writes for this node.
        """
        if self._lock is None:
            self._lock = files.locked(self.folder)
            files.remove_parts(self.folder)
        there = files.cuts(self.folder)
        damaged: dict[str, str] = {}
        unreadable: dict[Identity, str] = {}
        while True:
            try:
                return self._next(there, damaged, unreadable)
            except _Unreadable as error:
                unreadable[error.identity] = str(error)

    def _next(self, there: Sequence[files.Named], damaged: dict[str, str], unreadable: Mapping[Identity, str]) -> Cut:
        """Writes a file. `damaged`: problems of earlier cuts, by path. `unreadable`: problems of processes."""
        before, problems = self._newest(there, damaged)
        over_before = before.counted | {each.identity for each in before.processes if each.state in _OVER} if before else set()
        found = {identity_of(each.identity): each for each in self._find()}
        read, failed = self._read(found, over_before, problems, unreadable)
        chosen, ended = _unlike(read, problems)
        kept = [each for each in before.processes if each.identity in failed] if before else []
        known = {each.identity for each in (*(each.member for each in (*chosen, *ended)), *kept)}
        carried = [each for each in before.processes if each.identity not in known] if before else []
        counted = (over_before & found.keys()) | ({each.member.identity for each in ended} & found.keys())
        try:
            path = self._write(there, before, chosen, kept, ended, carried, frozenset(counted), problems)
        except _Damaged as error:
            assert before is not None
            damaged[before.path] = str(error)
            return self._next(there, damaged, unreadable)
        for identity in [each for each in self._sources if each not in found or each in counted]:
            self._sources.pop(identity)[0].close()
        files.remove_old(self.folder, *self._retention)
        return read_cut(path)

    def _newest(self, there: Sequence[files.Named], damaged: Mapping[str, str]) -> tuple[Cut | None, list[str]]:
        """Returns the newest cut that can be read, and the problems of newer ones."""
        problems: list[str] = []
        for named in reversed(there):
            try:
                if named.path not in damaged:
                    return read_cut(named.path), problems
                problems.append(damaged[named.path])
            except InvalidValue as error:
                problems.append(str(error))
        return None, problems

    def _read(
        self,
        found: dict[Identity, processes.Found],
        over: Iterable[Identity],
        problems: list[str],
        unreadable: Mapping[Identity, str],
    ) -> tuple[list[_Reading], list[Identity]]:
        """Returns the processes that are there, and for a last time those that have gone. Those that are over were read before.
        Also returns those that cannot be read."""
        read, failed = [], []
        is_over = frozenset(over)
        for identity, each in found.items():
            if identity in is_over:
                continue
            if each.doubt:
                problems.append(f"{each.path}: {each.doubt}")
                continue
            try:
                if identity in unreadable:
                    raise AttachError(unreadable[identity])
                if identity not in self._sources:
                    self._sources[identity] = SegmentSource(_core.Segment(each.path), write=False), each.command
                columns = self._taken(self._sources[identity][0])
            except (Error, OSError) as error:  # of another version, or of another user
                failed.append(identity)
                problems.append(f"{each.path}: {error}")
                continue
            is_elsewhere = each.state == "unknown" and not processes.is_of_this_boot(each.identity)
            read.append(_Reading(Member(identity, each.command, "dead" if is_elsewhere else each.state), columns))
        for identity in self._sources.keys() - found.keys() - is_over:
            source, command = self._sources[identity]
            if identity in unreadable:
                problems.append(f"{source.path}: {unreadable[identity]}")
            else:
                read.append(_Reading(Member(identity, command, "ended"), self._taken(source)))
        return read, failed

    def _taken(self, source: SegmentSource) -> Callable[[str], Columns]:
        """Returns a function that reads a table of a process."""

        def columns(name: str) -> Columns:
            try:
                return Columns(*source.used(name))
            except (Error, OSError) as error:
                raise _Unreadable(identity_of(source.identity), str(error)) from None

        return columns

    def _write(
        self,
        there: Sequence[files.Named],
        before: Cut | None,
        chosen: Sequence[_Reading],
        kept: Sequence[Member],
        ended: Sequence[_Reading],
        carried: Sequence[Member],
        counted: frozenset[Identity],
        problems: list[str],
    ) -> str:
        """Writes the file, table by table."""
        begin = time.perf_counter()
        now, boot, uptime = time.time(), processes.boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)
        seconds = None if before is None else uptime - before.uptime if before.boot == boot else uptime
        number = there[-1].number + 1 if there else 1
        path = os.path.join(self.folder, files.name_of(number, now))
        members = [*(each.member for each in chosen), *kept]
        origins = sorted([_origin(self.node), *(_origin(self.node, each.identity) for each in members)])
        facts = Cut(
            path=path,
            node=self.node,
            number=number,
            time=datetime.fromtimestamp(now, UTC).replace(tzinfo=None).isoformat(),
            boot=boot,
            uptime=uptime,
            seconds=seconds,
            previous=0 if before is None else before.number,
            processes=members,
            counted=counted,
            problems=problems,
            tables=sorted(self._tables),
        )
        try:
            with archive_writer(path, 0o666) as archive:  # the folder has the mode
                rows = self._write_tables(archive, before, chosen, kept, ended, carried)
                duration = time.perf_counter() - begin
                said = summary_of(facts.time, duration, NOBODY, rows, lacks_buckets=True)
                archive.finish(said | {"origins": [list(origin) for origin in origins], FLEET: facts.facts()})
        except OSError as error:
            error.filename = error.filename or path
            raise
        return path

    def _write_tables(
        self,
        archive: ArchiveWriter,
        before: Cut | None,
        chosen: Sequence[_Reading],
        kept: Sequence[Member],
        ended: Sequence[_Reading],
        carried: Sequence[Member],
    ) -> dict[str, int]:
        """Writes the tables, and returns the numbers of their rows."""
        rows: dict[str, int] = {}
        histograms: dict[str, Sum] = {}  # of ENDED and of all
        for name in sorted(self._tables):  # the histogram comes before the digests, whose quantiles it has
            readings = self._readings(name, before, chosen, kept)
            if name not in self._sums:
                rows[name] = archive.add(name, (self._said(name, placed(name, each)) for each in _together(readings)))
                continue
            gone, total = Sum(name), Sum(name)
            if before is not None:
                for piece in _pieces(before, ENDED + name):
                    gone.add(piece)
                over_now = [_origin(self.node, each.identity) for each in carried]
                for piece in _pieces(before, PROCESS + name) if carried else ():
                    gone.add(_without_gauges(name, _of(piece, over_now)))
            for reading in ended:
                gone.add(_without_gauges(name, reading.columns(name)))
            total.add_all(gone)

            def apart_and_summed() -> Iterator[Columns]:
                for each in _together(readings):  # noqa: B023
                    for _, columns in each:
                        total.add(columns)  # noqa: B023
                    yield self._said(name, apart(name, each))  # noqa: B023

            archive.add(PROCESS + name, apart_and_summed())
            for begin, sums in ((ENDED, gone), ("", total)):
                if name == HISTOGRAM:
                    histograms[begin] = sums
                has_quantiles = name == DIGESTS and HISTOGRAM in self._sums
                pieces = sums_with_quantiles(sums, histograms[begin]) if has_quantiles else sums.pieces()
                rows[name] = archive.add(begin + name, (self._said(name, piece) for piece in pieces))
        return rows

    def _said(self, name: str, columns: Columns) -> Columns:
        return columns if self._sql_text else columns.without_literals(name)

    def _readings(
        self, name: str, before: Cut | None, chosen: Sequence[_Reading], kept: Sequence[Member]
    ) -> Iterator[tuple[Origin, Columns]]:
        """Yields the rows of each process, in their order. A process that cannot be read now has those of the cut before."""
        old = {} if before is None else dict(self._of_before(name, before, kept))
        new = {_origin(self.node, each.member.identity): each for each in chosen}
        for origin in sorted({*old, *new}):
            yield origin, old[origin] if origin in old else new[origin].columns(name)

    def _of_before(self, name: str, before: Cut, members: Sequence[Member]) -> Iterator[tuple[Origin, Columns]]:
        """Yields the rows of processes in an earlier cut."""
        origins = {_origin(self.node, each.identity) for each in members}
        found: dict[Origin, list[Columns]] = {origin: [] for origin in origins}
        for piece in _pieces(before, PROCESS + name if name in self._sums else name) if members else ():
            parts = {part[0]: part[3] for part in piece.parts}
            there = {Origin(self.node, *pair) for pair in zip(parts["PID"].tolist(), parts["START"].tolist(), strict=True)}
            for origin in origins & there:
                found[origin].append(_of(piece, [origin]))
        for origin, pieces in found.items():
            if pieces:
                yield origin, placed(name, [(origin, piece) for piece in pieces]) if len(pieces) > 1 else pieces[0]

    def close(self) -> None:
        """Lets go of the processes and of the folder."""
        for source, _ in self._sources.values():
            source.close()
        self._sources.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _origin(node: str, identity: Identity | None = None) -> Origin:
    """Returns the origin of a process, or of those that have ended."""
    return Origin(node, 0, 0) if identity is None else Origin(node, identity.pid, identity.process_start_ticks)


def _unlike(read: Iterable[_Reading], problems: list[str]) -> tuple[list[_Reading], list[_Reading]]:
    """Returns the readings with different origins, and those of programs that their process has replaced (exec)."""
    chosen: dict[tuple[int, int], _Reading] = {}
    ended = []
    for each in sorted(read, key=lambda each: (each.member.state in _OVER, each.member.identity)):
        identity = each.member.identity
        first = chosen.setdefault((identity.pid, identity.process_start_ticks), each)
        if first is each:
            continue
        if each.member.state in _OVER:
            ended.append(each)
        else:
            problems.append(f"process {identity.pid} has several segments, and only one of them is counted")
    return list(chosen.values()), ended


def _of(columns: Columns, origins: Sequence[Origin]) -> Columns:
    """Returns the rows of these processes."""
    parts = {part[0]: part[3] for part in columns.parts}
    if not columns.rows:
        return columns
    keys = {(origin.PID, origin.START) for origin in origins}
    pid, start = parts["PID"], parts["START"]
    begins = np.flatnonzero(np.append(True, (pid[1:] != pid[:-1]) | (start[1:] != start[:-1])))  # rows of a process are together
    is_of = [pair in keys for pair in zip(pid[begins].tolist(), start[begins].tolist(), strict=True)]
    if all(is_of):
        return columns
    return taken(columns, np.repeat(is_of, np.diff(np.append(begins, columns.rows))))


def _together(readings: Iterable[tuple[Origin, Columns]]) -> Iterator[list[tuple[Origin, Columns]]]:
    """Yields the rows of as many processes as may be in memory."""
    some: list[tuple[Origin, Columns]] = []
    for origin, columns in readings:
        some.append((origin, columns))
        if sum(each.rows for _, each in some) >= MOST_ROWS:
            yield some
            some = []
    if some:
        yield some


def _pieces(before: Cut, name: str) -> Iterator[Columns]:
    """Yields the rows of a table of an earlier cut, in pieces."""
    try:
        stored = before.stored([name]).get(name)
        if stored is not None:
            yield from stored.pieces()
    except InvalidValue as error:
        raise _Damaged(str(error)) from None


def _without_gauges(name: str, columns: Columns) -> Columns:
    """Returns the rows without amounts in use: a process that has ended uses nothing."""
    gauges = {column["name"] for column in declared(name)["columns"] if column["across"] in ("gauge", "bound")}
    parts = [(*part[:3], np.zeros_like(part[3]), *part[4:]) if part[0] in gauges else part for part in columns.parts]
    return Columns(columns.rows, parts, columns.attrs)
