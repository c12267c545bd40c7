"""Follows processes from one reading to the next: those that come, those that stay, and those that have gone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from pfs import _core
from pfs._process import processes
from pfs.errors import Error

__all__ = ["Followed", "Follower", "all_processes", "one_process"]

Find = Callable[[], Sequence[processes.Found]]
Identity = tuple[object, ...]


def all_processes(directory: str | os.PathLike[str] | None = None, all_users: bool = False) -> Find:
    """Returns a function that lists the segments that may be trusted."""
    return lambda: [found for found in processes.listed(directory, all_users) if not found.doubt]


def one_process(path: str, identity: _core.Identity) -> Find:
    """Returns a function that lists one segment, or nothing when it has gone or a later process has its name."""

    def look() -> Sequence[processes.Found]:
        found = processes.look(path) if processes.is_of(path, identity) else None
        return [] if found is None else [found]

    return look


def _identity(found: processes.Found) -> Identity:
    process = found.identity
    # The path is a part of it: a process with two copies of the library has two segments.
    return found.path, process.boot_id, process.pid_namespace, process.pid, process.process_start_ticks, process.started


class Followed(Protocol):
    """An attached process. It stays readable when its file has gone."""

    def read(self, found: processes.Found | None) -> None: ...  # None: its file has gone. A dead process is read once
    def close(self) -> None: ...  # may be called again


F = TypeVar("F", bound=Followed)


class Follower(Generic[F]):
    """Reads each process that `find` lists. `attach` opens a process that is new."""

    def __init__(self, find: Find, attach: Callable[[processes.Found], F]) -> None:
        self._find = find
        self._attach = attach
        self.known: dict[Identity, F] = {}

    def read(self, ended: Callable[[F], None]) -> Counter[str]:
        """Reads the processes that are there, and for a last time those that have gone: `ended` gets each before it is closed.

        Returns how many are in each state.
        """
        there = {_identity(found): found for found in self._find()}
        states = Counter[str]({"alive": 0})
        for identity in [identity for identity in self.known if identity not in there]:
            process = self.known.pop(identity)
            process.read(None)
            ended(process)
            process.close()
        for identity, found in there.items():
            try:
                if identity not in self.known:
                    self.known[identity] = self._attach(found)
                self.known[identity].read(found)
                if found.state == "dead":  # a process may map some 65,000 regions, those of 1,800 segments
                    self.known[identity].close()
            except (Error, OSError):  # of another version, or of another user
                states["unreadable"] += 1
            else:
                states[found.state.partition(" ")[0]] += 1  # a container's are alive, too
        return states

    def close(self) -> None:
        for process in self.known.values():
            process.close()
        self.known.clear()
