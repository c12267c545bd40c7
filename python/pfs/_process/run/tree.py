"""The tree of the processes of one ``pfs run``: those that run, and those that have ended or were killed.

A segment says who started its process. Between two processes that have segments may be some that have none: ``pfs run`` notes
all ancestors when a segment appears, in the file ``parents`` beside the segments (``watch``). A process that ends before that,
and whose parent has no segment, is at the top of the tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pfs._base import paths
from pfs._process import processes
from pfs.errors import AttachError

if TYPE_CHECKING:
    from pfs._process.processes import Found

__all__ = ["FILE", "Node", "ancestors", "folder_of", "tree", "trees"]

FILE = "parents"
_MOST_ANCESTORS = 64
_MOST_BYTES = 1 << 26  # of the file: a million processes

Key = tuple[int, int]  # a process id, and when the process started, in ticks since the boot


@dataclass(slots=True)
class Node:
    """A process of a tree. Its parent is the nearest ancestor that has a segment."""

    found: Found
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def walk(self) -> Iterator[Node]:
        """Yields this process and its descendants, each parent before its children."""
        yield self
        for child in self.children:
            yield from child.walk()


def folder_of(process: int | str) -> tuple[str, int | None]:
    """Returns the folder of a run, and the process at which the tree begins (None: the whole run).

    Args:
        process: a process id, the path of a segment, or the folder, which may also have the folders of several runs.

    Raises:
        AttachError: it does not belong to ``pfs run``.
    """
    if isinstance(process, str) and os.path.isdir(process):
        return os.path.normpath(process), None
    found = processes.find(process) if isinstance(process, int) else processes.look(process)
    if found is None:
        raise AttachError(f"{process} is no segment and no folder of segments")
    folder = os.path.dirname(found.path)
    if re.fullmatch(r"pfs-\d+", os.path.basename(folder)):  # of a process that has become another user
        folder = os.path.dirname(folder)
    if not os.path.basename(folder).startswith("run-"):
        raise AttachError(f"process {found.identity.pid} has no tree: it was not started by pfs run ({found.path})")
    return folder, found.identity.pid


def tree(folder: str, root: int | None = None) -> list[Node]:
    """Returns the processes of a run, each parent before its children, in the order of their starts.

    Args:
        root: a process id: only this process and its descendants.
    """
    # A forked child has the start of pfs from its parent: the start of the process itself counts.
    there = sorted(processes.scan_all(processes.with_users(folder)), key=_order)
    chains = _read(folder)
    nodes: dict[Key, Node] = {}
    latest: dict[int, tuple[Key]] = {}  # by process id, which may be used again
    tops: list[Node] = []
    for found in there:
        key, node = _key(found), Node(found)
        # A process that runs another program (exec) has a segment of each: the later ones are below the first.
        above = (key, *chains.get(key, latest.get(found.identity.parent, ())))
        node.parent = next((nodes[ancestor] for ancestor in above if ancestor in nodes), None)
        nodes.setdefault(key, node)
        latest[key[0]] = (key,)
        (tops if node.parent is None else node.parent.children).append(node)
    if root is not None:
        tops = [node for key, node in nodes.items() if key[0] == root][-1:]  # the latest, if the id was used again
        for node in tops:
            node.parent = None
    return [node for top in tops for node in top.walk()]


def trees(folder: str, root: int | None = None) -> list[Node]:
    """Returns the processes of a run, as `tree`, or of all runs in a folder, one run after the other."""
    if root is not None:
        return tree(folder, root)
    below = (run for part in processes.with_users(folder) for run in processes.runs(part))
    return [node for one in (folder, *below) for node in tree(one)]


def _order(found: Found) -> tuple[int, int, int]:
    pid, ticks = _key(found)
    return ticks, pid, found.identity.started


def _key(found: Found) -> Key:
    return found.identity.pid, found.identity.process_start_ticks


def _read(folder: str) -> dict[Key, list[Key]]:
    """Returns the ancestors of each process, the nearest first."""
    chains = {}
    try:
        whose = paths.readable_by(os.stat(folder, follow_symlinks=False))
        with paths.reading(os.path.join(folder, FILE), whose) as file:
            for line in file.read(_MOST_BYTES).split(b"\n"):
                keys = [(int(pid), int(ticks)) for pid, ticks in re.findall(rb"(\d{1,10}):(\d{1,20})", line)]
                if keys:
                    chains[keys[0]] = keys[1:]
    except OSError:
        pass
    return chains


def ancestors(pid: int) -> list[Key]:
    """Returns a process and its ancestors."""
    found: list[Key] = []
    while pid > 1 and len(found) < _MOST_ANCESTORS:
        try:
            fields = processes.stat_of(pid)
        except OSError:
            break
        found.append((pid, int(fields[19])))
        pid = int(fields[1])
    return found
