"""Reads one table of all workers of a cluster: those that run, and those that left a segment on a host of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import dask.dataframe as dd
import pandas as pd

from pfs import _core
from pfs._many.dask.plugin import CLUSTER, NAME, WORKER
from pfs._process import processes
from pfs._process.attach import attach
from pfs._read.dtypes import TEXT, dtype_of
from pfs._read.frame import chosen, made
from pfs._read.kinds import listed
from pfs._save.archive import empty
from pfs._save.merge import needed
from pfs._save.snapshot import Snapshot, take
from pfs._sql.query import run
from pfs._sql.views.declared import question_of
from pfs.errors import AttachError, Error

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

    from pfs._read.units import Unit
    from pfs._sql.query import Dialect
    from pfs._sql.result import Result


__all__ = ["arrow", "merge", "sql", "table", "view", "workers"]


@dataclass(frozen=True)
class _Segment:
    """Describes the segment of a worker."""

    node: str
    path: str
    pid: int
    start: int
    state: processes.State
    worker: str
    readers: tuple[str, ...] = ()  # the workers on its host


def _there(cluster: str, dask_worker: Worker) -> list[_Segment] | str:
    """Returns the segments of a cluster on this host. It runs in a worker. A worker without the plugin returns its address."""
    if NAME not in dask_worker.plugins:
        return str(dask_worker.address)
    found = []
    for each in processes.scan_all(processes.with_users(processes.default_directory())):
        try:
            with attach(each.path) as schema:
                told = dict(schema._source.rows("global_variables", ["VARIABLE_NAME", "VARIABLE_VALUE"]))
        except (AttachError, OSError):
            continue  # its process removed it meanwhile
        if not each.doubt and told.get(CLUSTER) == cluster:
            who = each.identity
            node = f"{who.boot_id}/{who.pid_namespace}"
            found.append(_Segment(node, each.path, who.pid, who.process_start_ticks, each.state, str(told.get(WORKER))))
    return found


def _segments(client: Client) -> list[_Segment]:
    """Returns the segments of all workers: first those that run, in the order of their addresses.

    Raises:
        Error: there is no worker, or one without the plugin.
    """
    cluster = str(client.scheduler_info()["id"])
    answers: dict[str, Any] = client.run(_there, cluster, on_error="return")
    merged: dict[tuple[str, str], _Segment] = {}
    without = []
    for address, answer in sorted(answers.items()):
        if isinstance(answer, OSError):
            continue  # the worker died meanwhile: another one reads its segment
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            without.append(answer)
            continue
        for each in answer:
            known = merged.get((each.node, each.path), each)
            merged[each.node, each.path] = replace(known, readers=(*known.readers, address))
    if without:
        raise Error(f"{', '.join(without)} has no pfs.dask.Plugin: client.register_plugin(pfs.dask.Plugin()) sets pfs up")
    if not merged:
        raise Error("the cluster has no worker that could be read")

    def order(each: _Segment) -> tuple[bool, str, str, int, int]:
        return not processes.is_alive(each.state), each.worker, each.node, each.start, each.pid

    return sorted(merged.values(), key=order)


def _taken(segment: _Segment, names: list[str]) -> Snapshot:
    """Reads tables of a segment on its host."""
    with attach(segment.path) as schema:
        who = schema._source.identity
        if (who.pid, who.process_start_ticks) != (segment.pid, segment.start):
            raise AttachError(f"{segment.path} belongs to process {who.pid} by now, no longer to worker {segment.worker}")
        return take(schema._source, who, None, names)


def _fixed(frame: pd.DataFrame, worker: str, pid: int) -> pd.DataFrame:
    frame.insert(0, "WORKER", pd.Series([worker] * len(frame), dtype=TEXT))
    frame.insert(1, "PID", pd.Series([pid] * len(frame), dtype="uint64"))
    return frame


def _rows(segment: _Segment, asked: tuple[str, dict[str, Any]]) -> pd.DataFrame:
    """Returns a partition. Its types depend on the declarations only, never on its values."""
    name, choice = asked
    held = _taken(segment, [name])._held.columns(name)
    return chosen(_fixed(made(held.rows, 0, held.parts), segment.worker, segment.pid), name, **choice)


def _submit(client: Client, function: Callable[..., Any], segment: _Segment, argument: object) -> Future[Any]:
    """Runs a function on the host of a segment. Any worker there can read it, so the result survives the death of one."""
    return client.submit(function, segment, argument, workers=list(segment.readers), pure=False)


def workers(client: Client) -> pd.DataFrame:
    """Returns the workers that ``table`` and ``merge`` read, one row each. Dead workers come last.

    Returns:
        WORKER, its address; PID; STATE, ``alive`` or ``dead``; PATH, the segment on its host.

    Raises:
        Error: there is no worker, or one without the plugin.
    """
    there = _segments(client)
    return pd.DataFrame(
        {
            "WORKER": pd.array([each.worker for each in there], dtype=TEXT),
            "PID": pd.Series([each.pid for each in there], dtype="uint64"),
            "STATE": pd.Series([each.state for each in there], dtype=dtype_of("enum", members=processes.STATES)),
            "PATH": pd.array([each.path for each in there], dtype=TEXT),
        }
    )


def table(
    client: Client,
    name: str,
    columns: Iterable[str] | None = None,
    *,
    unit: Unit | None = None,
    where: str | Mapping[str, object] | None = None,
) -> Any:
    """Returns the rows of a table of all workers, as they are now, as a Dask DataFrame: a partition per worker, read there.

    The columns WORKER (its address) and PID stand in front. Workers that died, or were restarted, have a partition, too.

    Args:
        client: of a cluster with ``pfs.dask.Plugin``.
        name: one of ``pfs.tables()``.
        columns, unit, where: as for ``pfs.table``. They are applied where a worker's rows are read; ``sql`` orders all rows.

    Returns:
        The columns of ``pfs.table``. Numbers of an unsigned column are always uint64 or UInt64, so that partitions agree.

    Raises:
        UnknownTable: no table has this name.
        Error: there is no worker, or one without the plugin.
    """
    name = _core.table_info(str(name))["name"]
    choice: dict[str, Any] = {"columns": listed(columns), "unit": unit, "where": where}
    meta = chosen(_fixed(made(0, 0, empty(name).parts), "", 0), name, **choice)  # which finds mistakes before any worker works
    futures = [_submit(client, _rows, each, (name, choice)) for each in _segments(client)]
    return dd.from_delayed(futures, meta=meta, verify_meta=True)


def merge(client: Client, name: str) -> pd.DataFrame:
    """Returns one table of all workers, added up as ``Snapshot.merge`` does, with those that died or were restarted.

    A summary has a row for each key. A table with identities of one process keeps the rows apart, with NODE, PID and START.

    Args:
        client: of a cluster with ``pfs.dask.Plugin``.
        name: one of ``pfs.tables()``.

    Raises:
        UnknownTable: no table has this name.
        Error: there is no worker, or one without the plugin.
    """
    name = _core.table_info(str(name))["name"]
    return _Tables(client)._merged(name)


class _Tables:
    """Gives a statement the merged tables of all workers. A table that nobody names is not read."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def names(self) -> Sequence[str]:
        return _core.tables()

    def columns(self, table: str) -> Sequence[str]:
        return [str(name) for name in self._merged(table).columns]

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        return self._snapshot(table).arrow(table, columns)

    def file(self, table: str) -> str | None:
        return None

    def _merged(self, table: str) -> pd.DataFrame:
        return self._snapshot(table)[table]

    @cache  # noqa: B019  (it lives as long as one statement)
    def _snapshot(self, table: str) -> Snapshot:
        futures = [_submit(self._client, _taken, each, needed(table)) for each in _segments(self._client)]
        return Snapshot.merge(self._client.gather(futures))


def sql(client: Client, statement: str, dialect: Dialect = "duckdb") -> Result:
    """Answers a question in SQL about the merged tables of all workers: see ``pfs.sql`` and ``merge``."""
    return run(statement, _Tables(client), dialect)


def view(client: Client, name: str) -> pd.DataFrame:
    """Returns a view of the schema sys over the merged tables of all workers: see ``pfs.view``."""
    return sql(client, question_of(name)).df()


def arrow(client: Client, name: str, columns: Iterable[str] | None = None) -> _core.ArrowTable:
    """Returns the merged rows of a table of all workers for readers of Arrow: see ``pfs.arrow`` and ``merge``."""
    name = _core.table_info(str(name))["name"]
    return _Tables(client)._snapshot(name).arrow(name, columns)
