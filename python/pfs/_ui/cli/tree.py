"""Shows the processes of one ``pfs run``: ``pfs ps --tree``, and the tables of all of them: ``pfs show --tree``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pfs._process.processes import default_directory, runs, with_users
from pfs._process.run.tree import folder_of, tree, trees
from pfs._read.source import losses
from pfs._ui.cli.rows import Rows
from pfs.errors import AttachError, Error

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["frame_of_tables", "rows_of_tables", "rows_of_trees"]

_WAITS = "events_waits_summary_global_by_event_name"


def rows_of_trees(directory: str | None) -> Rows:
    """Returns one row per process of each run in a folder, or of the run whose folder it is; each parent before its children.

    COMMAND is indented by the depth in the tree. COUNT_STAR and SUM_TIMER_WAIT (picoseconds) are the sums of all waits but idle
    ones, LOST the events that were not recorded. They are NULL if the segment cannot be read.
    """
    rows: list[tuple[Any, ...]] = []
    folder = default_directory() if directory is None else directory
    # Without runs below it, the folder itself is that of a run.
    for one in [run for part in with_users(folder) for run in runs(part)] or [folder]:
        for node in tree(one):
            parent = None if node.parent is None else node.parent.found.identity.pid
            numbers = _counts(node.found.path)
            text = "  " * node.depth + node.found.command
            rows.append((node.found.identity.pid, parent, node.found.state, *numbers, text, node.found.path))
    names = ("PID", "PARENT_PID", "STATE", "COUNT_STAR", "SUM_TIMER_WAIT", "LOST", "COMMAND", "PATH")
    return Rows(names, rows, [name not in ("STATE", "COMMAND", "PATH") for name in names])


def _counts(path: str) -> tuple[int | None, int | None, int | None]:
    from pfs._process.attach import attach

    try:
        with attach(path) as schema:
            waits = schema._source.rows(_WAITS, ("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"))
            waits = [row for row in waits if row[0] != "idle"]
            return sum(row[1] for row in waits), sum(row[2] for row in waits), sum(losses(schema._source).values())
    except Error:
        return None, None, None


T = TypeVar("T")


def _of_each(process: int | str, read: Callable[[str], T]) -> list[tuple[int, T]]:
    """Returns what `read` returns for the segment of each process of a tree, with the process id."""
    folder, root = folder_of(process)
    found = []
    for node in trees(folder, root):
        with contextlib.suppress(AttachError):  # it has gone meanwhile
            found.append((node.found.identity.pid, read(node.found.path)))
    if not found:
        raise AttachError(f"there is no process of pfs run in {folder}")
    return found


def rows_of_tables(process: int | str, read: Callable[[str], Rows]) -> Rows:
    """Returns the rows of a table of all processes of a tree, with a column PID in front.

    Args:
        process: where the tree begins, or the folder of a run, or of several runs.
        read: returns the table of a process, by the path of its segment.

    Raises:
        AttachError: the process was not started by ``pfs run``, or no process of the tree can be read.
    """
    found = _of_each(process, read)
    first = found[0][1]
    return Rows(("PID", *first.names), [(pid, *row) for pid, rows in found for row in rows.rows], (True, *first.right))


def frame_of_tables(process: int | str, read: Callable[[str], DataFrame]) -> DataFrame:
    """Returns the same as a frame."""
    import pandas as pd

    frames = []
    for pid, frame in _of_each(process, read):
        frame.insert(0, "PID", pd.Series(pid, frame.index, dtype="UInt64"))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
