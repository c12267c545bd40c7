"""A cut: what all processes of a node had counted at one moment, in one file.

The file is a snapshot of `pfs.merge`: ``pfs.read_snapshot`` reads the sums of the node. It also has the rows of each process
(``process/TABLE``), and the sums of the processes that have ended before (``ended/TABLE``), so that the next cut goes on from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pfs._snapshots.archive import read_archive_summary, read_members
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from pfs import _core

__all__ = ["ENDED", "FLEET", "PROCESS", "Cut", "Identity", "Member", "identity_of", "read_cut"]

FLEET = "fleet"  # the entry of snapshot.json
PROCESS, ENDED = "process/", "ended/"  # the beginnings of names of tables in the file
FORMAT = 1


class Identity(NamedTuple):
    """Identifies one run of one program."""

    boot_id: str
    pid_namespace: int
    pid: int
    process_start_ticks: int
    started: int


def identity_of(process: _core.Identity) -> Identity:
    return Identity(process.boot_id, process.pid_namespace, process.pid, process.process_start_ticks, process.started)


class Member(NamedTuple):
    """Describes a process of a cut."""

    identity: Identity
    command: str
    state: str


@dataclass(frozen=True)
class Cut:
    """Describes the file of a cut.

    Attributes:
        number: cuts of a node are numbered from 1. A clock may jump; the numbers do not.
        time: UTC, by the clock of the node.
        uptime: seconds since the boot of the node.
        seconds: since the cut before; None in the first one.
        previous: the number of the cut before, or 0.
        processes: those whose rows are here.
        counted: dead processes whose segments are still there, and whose counts are in ``ended/``.
        problems: segments that could not be read, with the reason.
        tables: the names of all tables, also of those that are empty.
    """

    path: str
    node: str
    number: int
    time: str
    boot: str
    uptime: float
    seconds: float | None
    previous: int
    processes: list[Member]
    counted: frozenset[Identity]
    problems: list[str]
    tables: list[str]

    def stored(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the readers of those of these tables that have rows, by name."""
        return read_members(self.path, names)

    def facts(self) -> dict[str, object]:
        """Returns the entry of snapshot.json."""
        return {
            "format": FORMAT,
            "node": self.node,
            "cut": self.number,
            "boot": self.boot,
            "uptime": self.uptime,
            "seconds": self.seconds,
            "previous": self.previous,
            "processes": [[*member.identity, member.command, member.state] for member in self.processes],
            "counted": sorted(self.counted),
            "problems": self.problems,
        }


def read_cut(path: str) -> Cut:
    """Reads what a file says about its cut, without its tables.

    Raises:
        InvalidValue: the file is damaged, or no cut.
    """
    summary = read_archive_summary(path)
    try:
        facts = summary[FLEET]
        if facts["format"] != FORMAT:
            raise InvalidValue(f"{path} is a cut of format {facts['format']}, this version reads {FORMAT}")
        return Cut(
            path=path,
            node=str(facts["node"]),
            number=int(facts["cut"]),
            time=str(summary["time"]),
            boot=str(facts["boot"]),
            uptime=float(facts["uptime"]),
            seconds=None if facts["seconds"] is None else float(facts["seconds"]),
            previous=int(facts["previous"]),
            processes=[Member(Identity(*each[:5]), str(each[5]), str(each[6])) for each in facts["processes"]],
            counted=frozenset(Identity(*each) for each in facts["counted"]),
            problems=[str(problem) for problem in facts["problems"]],
            tables=list(summary["rows"]),
        )
    except (KeyError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue(f"{path} is no cut of pfs collect: {json.dumps(str(error))}") from None
