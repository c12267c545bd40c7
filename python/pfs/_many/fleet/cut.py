"""A cut: what all processes of a node had counted at one moment, in one file.

The file is a snapshot of `Snapshot.merge`: ``pfs.read_snapshot`` reads the sums of the node. It also has the rows of each process
(``process/TABLE``), and the sums of the processes that have ended before (``ended/TABLE``), so that the next cut goes on from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pfs import _core
from pfs._many.fleet import files
from pfs._save.archive import read_archive_summary, read_members
from pfs._save.foreign import foreign
from pfs.errors import InvalidValue

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
    with foreign(path, "is no cut of pfs collect"):
        facts = summary[FLEET]
        if facts["format"] != FORMAT:
            raise InvalidValue(f"{path} is a cut of format {facts['format']}, this version reads {FORMAT}")
        if facts["cut"] != files.number_of(path):
            raise ValueError(f"it says that it is cut {facts['cut']!r}")
        known = frozenset(_core.tables())
        return Cut(
            path=path,
            node=_node(facts["node"]),
            number=_count(facts["cut"]),
            time=datetime.fromisoformat(summary["time"]).replace(tzinfo=None).isoformat(),
            boot=str(facts["boot"]),
            uptime=float(facts["uptime"]),
            seconds=None if facts["seconds"] is None else float(facts["seconds"]),
            previous=_count(facts["previous"]),
            processes=[Member(_identity(each[:5]), str(each[5]), str(each[6])) for each in facts["processes"]],
            counted=frozenset(_identity(each) for each in facts["counted"]),
            problems=[str(problem) for problem in facts["problems"]],
            tables=[name for name in summary["rows"] if name in known],
        )


def _node(value: object) -> str:
    if not files.is_node(value):
        raise ValueError(f"{value!r} is no name of a node")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


def _identity(values: Sequence[Any]) -> Identity:
    boot, *numbers = values
    return Identity(str(boot), *map(_count, numbers))
