"""Reads all processes of a host and writes a cut, again and again. A process that ends leaves its counts in the sums of the node.

What is known of earlier cuts is in the newest file of the node. So a collector that starts again, or that cron starts each time,
goes on where the last one ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfs import _core
from pfs._fleet import files
from pfs._fleet.cut import ENDED, FLEET, PROCESS, Cut, Identity, Member, identity_of, read_cut
from pfs._outside import processes
from pfs._outside.segment import SegmentSource
from pfs._snapshots.archive import empty, write_archive
from pfs._snapshots.held import Columns, Held, declared
from pfs._snapshots.merge import apart, merge
from pfs._snapshots.parquet import need_pyarrow
from pfs._snapshots.snapshot import Merged, Origin, Snapshot, columns_of, has_sums, take
from pfs.errors import Error, InvalidValue

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
            raise InvalidValue(f"there is no table '{pattern}': pfs tables lists them; % stands for any text")
        chosen += [name for name in found if name not in chosen]
    return chosen


class _Reading(NamedTuple):
    member: Member
    snapshot: Snapshot


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
        before, problems = self._newest(there)
        over_before = before.counted | {each.identity for each in before.processes if each.state in _OVER} if before else set()
        found = {identity_of(each.identity): each for each in self._find()}
        read, failed = self._read(found, over_before, problems)
        chosen, ended = _unlike(read, problems)
        kept = self._kept(before, failed)
        known = {each.member.identity for each in (*chosen, *kept, *ended)}
        carried = [each for each in before.processes if each.identity not in known] if before else []
        sums = self._ended(before, carried, [each.snapshot for each in ended])
        counted = (over_before & found.keys()) | ({each.member.identity for each in ended} & found.keys())
        path = self._write(there, before, [*chosen, *kept], frozenset(counted), sums, problems)
        for identity in [each for each in self._sources if each not in found or each in counted]:
            self._sources.pop(identity)[0].close()
        files.remove_old(self.folder, *self._retention)
        return read_cut(path)

    def _newest(self, there: Sequence[files.Named]) -> tuple[Cut | None, list[str]]:
        """Returns the newest cut that can be read."""
        problems: list[str] = []
        for named in reversed(there):
            try:
                return read_cut(named.path), problems
            except InvalidValue as error:
                problems.append(str(error))
        return None, problems

    def _read(
        self, found: dict[Identity, processes.Found], over: Iterable[Identity], problems: list[str]
    ) -> tuple[list[_Reading], list[Identity]]:
        """Reads the processes that are there, and for a last time those that have gone. Those that are over were read before."""
        read, failed = [], []
        is_over = frozenset(over)
        for identity, each in found.items():
            if identity in is_over:
                continue
            if each.doubt:
                problems.append(f"{each.path}: {each.doubt}")
                continue
            try:
                if identity not in self._sources:
                    self._sources[identity] = SegmentSource(_core.Segment(each.path), write=False), each.command
                snapshot = self._taken(self._sources[identity][0])
            except (Error, OSError) as error:  # of another version, or of another user
                failed.append(identity)
                problems.append(f"{each.path}: {error}")
                continue
            is_elsewhere = each.state == "unknown" and not processes.is_of_this_boot(each.identity)
            read.append(_Reading(Member(identity, each.command, "dead" if is_elsewhere else each.state), snapshot))
        for identity in self._sources.keys() - found.keys() - is_over:
            source, command = self._sources[identity]
            try:
                read.append(_Reading(Member(identity, command, "ended"), self._taken(source)))
            except (Error, OSError) as error:
                problems.append(f"{source.path}: {error}")
        return read, failed

    def _taken(self, source: SegmentSource) -> Snapshot:
        return take(source, source.identity, None, self._tables)

    def _kept(self, before: Cut | None, failed: Sequence[Identity]) -> list[_Reading]:
        """Returns the rows of the cut before for processes that run and cannot be read now."""
        if before is None or not failed:
            return []
        there = [each for each in before.processes if each.identity in failed]
        return [_Reading(each, self._rows(before, [each], self._tables)) for each in there]

    def _rows(self, cut: Cut, members: Sequence[Member], names: Sequence[str]) -> Snapshot:
        """Returns the rows of processes in an earlier cut."""
        origins = [_origin(self.node, each.identity) for each in members]
        places = {name: PROCESS + name if name in self._sums else name for name in names}
        stored = cut.stored(list(places.values()))
        held = Held({name: stored.get(place, empty(name)) for name, place in places.items()})
        chosen = {name: _of(held.columns(name), origins) for name in names}
        return Merged(Held(chosen), origins, pd.Timestamp(cut.time), 0.0)

    def _ended(self, before: Cut | None, carried: Sequence[Member], more: Sequence[Snapshot]) -> Snapshot:
        """Returns the sums of all processes that have ended and have no rows of their own in this cut."""
        when = pd.Timestamp(time.time_ns(), unit="ns").floor("us")
        parts: list[Snapshot] = [Merged(Held({name: empty(name) for name in self._sums}), [_origin(self.node)], when, 0.0)]
        if before is not None:
            stored = before.stored([ENDED + name for name in self._sums])
            tables = {name: stored[ENDED + name]() for name in self._sums if ENDED + name in stored}
            parts.append(Merged(Held(tables), [_origin(self.node)], when, 0.0))
            if carried:
                parts.append(self._rows(before, carried, self._sums))
        parts += more
        only = [_only(each, self._sums) for each in parts]
        merged = merge(only, [str(number) for number in range(len(only))])
        tables = {name: _without_gauges(name, columns_of(merged, name) or empty(name)) for name in self._sums}
        tables |= {name: empty(name) for name in self._tables if name not in tables}
        return Merged(Held(tables), [_origin(self.node)], when, 0.0)

    def _write(
        self,
        there: Sequence[files.Named],
        before: Cut | None,
        readings: Sequence[_Reading],
        counted: frozenset[Identity],
        ended: Snapshot,
        problems: list[str],
    ) -> str:
        snapshots = [ended, *(each.snapshot for each in readings)]
        merged = merge(snapshots, [self.node] * len(snapshots))
        now, boot, uptime = time.time(), processes.boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)
        seconds = None if before is None else uptime - before.uptime if before.boot == boot else uptime
        number = there[-1].number + 1 if there else 1
        path = os.path.join(self.folder, files.name_of(number, now))
        facts = Cut(
            path=path,
            node=self.node,
            number=number,
            time=merged.time.isoformat(),
            boot=boot,
            uptime=uptime,
            seconds=seconds,
            previous=0 if before is None else before.number,
            processes=[each.member for each in readings],
            counted=counted,
            problems=problems,
            tables=list(merged),
        )
        stored = {name: columns_of(merged, name) for name in merged}
        stored |= {ENDED + name: columns_of(ended, name) for name in self._sums}
        for name in self._sums:
            origins = [_origin(self.node, each.member.identity) for each in readings]
            rows = [columns_of(each.snapshot, name) or empty(name) for each in readings]
            stored[PROCESS + name] = apart(name, list(zip(origins, rows, strict=True)))
        filled = {name: columns for name, columns in stored.items() if columns is not None and columns.rows}
        if not self._sql_text:
            filled = {name: columns.without_literals(name.rpartition("/")[2]) for name, columns in filled.items()}
        try:
            write_archive(path, merged._summary(list(merged)) | {FLEET: facts.facts()}, filled, 0o666)  # the folder has the mode
        except OSError as error:
            error.filename = error.filename or path
            raise
        return path

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
    keys = [(origin.PID, origin.START) for origin in origins]
    there = pd.MultiIndex.from_arrays([parts["PID"], parts["START"]])
    chosen = np.asarray(there.isin(keys))
    rows = int(chosen.sum())
    return Columns(
        rows,
        [
            (name, kind, nullable, values[chosen], None if mask is None else mask[chosen], texts)
            for name, kind, nullable, values, mask, texts in columns.parts
        ],
        columns.attrs,
    )


def _only(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """Returns a snapshot with only these tables."""
    tables = {name: columns for name in names if (columns := columns_of(snapshot, name)) is not None}
    return Merged(Held(tables), snapshot.origins[:1] or [Origin("", 0, 0)], snapshot.time, snapshot.duration)


def _without_gauges(name: str, columns: Columns) -> Columns:
    """Returns the rows without amounts in use: a process that has ended uses nothing."""
    gauges = {column["name"] for column in declared(name)["columns"] if column["across"] in ("gauge", "bound")}
    parts = [(*part[:3], np.zeros_like(part[3]), *part[4:]) if part[0] in gauges else part for part in columns.parts]
    return Columns(columns.rows, parts, columns.attrs)
